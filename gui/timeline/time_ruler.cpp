#include "gui/timeline/time_ruler.h"

#include "gui/style/number_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace pipescope {
namespace {
// Labels after more steps than this become "base + rest".
constexpr std::int64_t kMostStepsInALabel = 100'000;
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kWholeSeconds = 1000 * kSecond;  // something so long is told from others by its second
constexpr std::int64_t kStepsInALength = 100;           // a pixel in one that has three digits

struct Division {
    std::int64_t labelled = 1;
    std::int64_t minor = 1;
};

Division divide(double smallest) {
    std::int64_t power = 1;
    while (true) {
        for (const std::int64_t factor : std::array<std::int64_t, 3>{1, 2, 5}) {
            if (static_cast<double>(factor * power) >= smallest) {
                const std::int64_t labelled = factor * power;
                const std::int64_t parts = factor == 2 ? 4 : 5;
                return {labelled, labelled % parts == 0 ? labelled / parts : labelled};
            }
        }
        power *= 10;
    }
}

std::int64_t floorTo(std::int64_t value, std::int64_t step) {
    const std::int64_t rest = value % step;
    return value - (rest < 0 ? rest + step : rest);
}
}  // namespace

QString cursorTime(const TimeWindow& window, double width, std::int64_t origin, std::int64_t cursor, RulerTimes times) {
    const std::int64_t exact = divide(window.length / std::max(1.0, width)).labelled;
    if (times == RulerTimes::clock) {
        return formatClock(cursor - origin, exact * kStepsInALength);
    }
    const std::int64_t left = window.start - origin;
    const std::int64_t right = left + static_cast<std::int64_t>(std::ceil(window.length)) + 1;
    return formatTime(cursor - origin, exact, std::max(std::abs(left), std::abs(right)));
}

Ruler makeRuler(const TimeWindow& window, double width, std::int64_t origin, double label_spacing, RulerTimes times) {
    Ruler ruler;
    if (width <= 0) {
        return ruler;
    }
    const Division division = divide(window.length / width * label_spacing);
    ruler.step = division.labelled;
    const std::int64_t left = window.start - origin;
    const std::int64_t right = left + static_cast<std::int64_t>(std::ceil(window.length)) + 1;
    std::int64_t base = 0;
    if (times == RulerTimes::clock) {
        base = floorTo(left, std::max(kSecond, division.labelled));
        ruler.base = formatClock(base, kWholeSeconds);
    } else if (std::abs(left) / division.labelled > kMostStepsInALabel) {
        base = floorTo(left, division.labelled * 1000);
        ruler.base = formatTime(base, division.labelled * 1000, base);
    }
    const std::int64_t largest = std::max(std::abs(left - base), std::abs(right - base));
    for (std::int64_t time = floorTo(left, division.minor); time <= right; time += division.minor) {
        RulerTick tick;
        tick.x = pixelOf(window, width, time + origin);
        if (floorTo(time, division.labelled) == time) {
            tick.label =
                (base != 0 ? QStringLiteral("+") : QString()) + formatTime(time - base, division.labelled, largest);
        }
        ruler.ticks.push_back(tick);
    }
    return ruler;
}

double labelSpacing(const QFontMetricsF& metrics) {
    return metrics.horizontalAdvance(QStringLiteral("+888.888 ms   "));
}

std::vector<RulerLabel> placedLabels(const Ruler& ruler, const QFontMetricsF& metrics, const QRectF& area,
                                     std::span<const QRectF> plates) {
    std::vector<RulerLabel> labels;
    double free = area.left();
    for (const RulerTick& tick : ruler.ticks) {
        const double left = std::floor(area.left() + tick.x) + 3.5;
        const double width = std::ceil(metrics.horizontalAdvance(tick.label)) + 1;
        // Part of a number reads as another number: omits labels that an edge, a neighbour or a plate would cut.
        const QRectF rect(left, area.top(), width, area.height());
        const bool isCovered = std::ranges::any_of(plates, [&](const QRectF& plate) { return rect.intersects(plate); });
        if (!tick.label.isEmpty() && left >= free && left + width <= area.right() && !isCovered) {
            labels.push_back({rect, tick.label});
            free = left + width;
        }
    }
    return labels;
}
}  // namespace pipescope
