#include "gui/timeline/lane_raster.h"

#include <algorithm>
#include <cstring>

namespace pipescope {
namespace {
// A short slice alone in its column would fade into the ground without this.
constexpr float kFaintest = 0.25F;
constexpr float kSolid = 0.9F;
constexpr int kHatchWidth = 2;
// Reading the slices beats the pyramid while there are only a few of them in a column.
constexpr std::size_t kSlicesPerColumnToRead = 4;

QRgb mix(QRgb ground, QRgb color, float share) {
    const int part = static_cast<int>(share * 256);
    const auto channel = [&](int a, int b) { return a + (((b - a) * part) >> 8); };
    return qRgb(channel(qRed(ground), qRed(color)), channel(qGreen(ground), qGreen(color)),
                channel(qBlue(ground), qBlue(color)));
}

std::size_t slicesIn(const StoredRow& row, const TimeWindow& window) {
    const std::int64_t end = window.start + static_cast<std::int64_t>(std::ceil(window.fraction + window.length));
    const auto first = std::upper_bound(row.end.begin(), row.end.end(), window.start) - row.end.begin();
    const auto last = std::lower_bound(row.start.begin(), row.start.end(), end) - row.start.begin();
    return last > first ? static_cast<std::size_t>(last - first) : 0;
}
}  // namespace

LaneRaster::LaneRaster(const TimelineColors& colors) : colors_(colors) {
    for (int k = 0; k < kNumTaskKinds; ++k) {
        const KindStyle& style = styleOf(static_cast<TaskKind>(k));
        kindColor_[static_cast<std::size_t>(k)] = style.color.rgb();
        kindPattern_[static_cast<std::size_t>(k)] = style.pattern;
    }
}

void LaneRaster::draw(const TimelineStore& store, const TimeWindow& window, const RasterBand& band, QImage& image) {
    const int top = std::max(0, band.top);
    const int bottom = std::min(image.height(), band.top + band.height);
    const int columns = image.width();
    if (bottom <= top || columns == 0) {
        return;
    }
    const StoredRow& row = store.rows().at(band.row);
    groundOf(store, window, !row.copies, columns);
    const bool read = !row.pyramid || !row.pyramid->resolves(window.length / columns) ||
                      slicesIn(row, window) < kSlicesPerColumnToRead * static_cast<std::size_t>(columns);
    if (read) {
        static constexpr auto kAll = [] {
            std::array<TaskKind, kNumTaskKinds> kinds{};
            for (int k = 0; k < kNumTaskKinds; ++k) {
                kinds[static_cast<std::size_t>(k)] = static_cast<TaskKind>(k);
            }
            return kinds;
        }();
        shares_.reset(row.pyramid ? row.pyramid->kinds() : std::span<const TaskKind>(kAll), columns);
        addShares(row.columns(), window, columns, shares_);
    } else {
        shares_.reset(row.pyramid->kinds(), columns);
        row.pyramid->addShares(window, columns, shares_);
    }
    mixColumns(columns);

    const auto bytes = static_cast<std::size_t>(columns) * sizeof(QRgb);
    // The first kPatternPeriod lines are computed, the others are copies of them.
    for (int y = top; y < bottom; ++y) {
        auto* target = reinterpret_cast<QRgb*>(image.scanLine(y));
        if (y - top >= kPatternPeriod) {
            std::memcpy(target, image.constScanLine(y - kPatternPeriod), bytes);
        } else {
            std::memcpy(target, line_.data(), bytes);
            addPattern(target, columns, y - band.top);
        }
    }
}

void LaneRaster::groundOf(const TimelineStore& store, const TimeWindow& window, bool shadeBubble, int columns) {
    const auto size = static_cast<std::size_t>(columns);
    inStep_.assign(size, 0);
    line_.assign(size, colors_.lane.rgb());
    if (!shadeBubble) {
        return;
    }
    const auto first = std::partition_point(store.steps().begin(), store.steps().end(),
                                            [&](const StepSpan& step) { return step.range().end < window.start; });
    for (auto step = first; step != store.steps().end(); ++step) {
        const double from = pixelOf(window, columns, step->range().start);
        const double to = pixelOf(window, columns, step->range().end);
        if (from >= columns) {
            break;
        }
        const auto begin = static_cast<std::ptrdiff_t>(std::clamp(std::round(from), 0.0, double(columns)));
        const auto end = static_cast<std::ptrdiff_t>(std::clamp(std::round(to), 0.0, double(columns)));
        std::fill(inStep_.begin() + begin, inStep_.begin() + std::max(begin, end), std::uint8_t{1});
        std::fill(line_.begin() + begin, line_.begin() + std::max(begin, end), colors_.bubble.rgb());
    }
}

void LaneRaster::mixColumns(int columns) {
    dominant_.assign(static_cast<std::size_t>(columns), -1);
    pattern_.assign(static_cast<std::size_t>(columns), Pattern::plain);
    std::array<const float*, kNumTaskKinds> share{};
    for (std::size_t k = 0; k < shares_.kinds.size(); ++k) {
        share[k] = shares_.of[static_cast<std::size_t>(shares_.kinds[k])].data();
    }
    for (std::size_t x = 0; x < static_cast<std::size_t>(columns); ++x) {
        float busy = 0;
        float most = 0;
        for (std::size_t k = 0; k < shares_.kinds.size(); ++k) {
            busy += share[k][x];
            if (share[k][x] > most) {
                most = share[k][x];
                dominant_[x] = static_cast<std::int8_t>(shares_.kinds[k]);
            }
        }
        if (dominant_[x] < 0) {
            pattern_[x] = inStep_[x] != 0 ? Pattern::dotted : Pattern::plain;
            continue;
        }
        const auto kind = static_cast<std::size_t>(static_cast<unsigned char>(dominant_[x]));
        line_[x] = mix(line_[x], kindColor_[kind], std::clamp(busy, kFaintest, 1.0F));
        pattern_[x] = busy >= kSolid ? kindPattern_[kind] : Pattern::plain;
    }
}

void LaneRaster::addPattern(QRgb* target, int columns, int line) const {
    constexpr int kDotPeriod = kPatternPeriod / 2;
    for (int first = -(line % kPatternPeriod); first < columns; first += kPatternPeriod) {
        for (int x = std::max(0, first); x < std::min(columns, first + kHatchWidth); ++x) {
            if (pattern_[static_cast<std::size_t>(x)] == Pattern::hatched) {
                target[x] = mix(line_[static_cast<std::size_t>(x)], colors_.hatch.rgb(), 0.75F);
            }
        }
    }
    for (int x = 1; x < columns && line % kDotPeriod == 1; x += kDotPeriod) {
        if (pattern_[static_cast<std::size_t>(x)] == Pattern::dotted) {
            target[x] = dominant_[static_cast<std::size_t>(x)] < 0 ? colors_.bubbleDot.rgb() : colors_.border.rgb();
        }
    }
}
}  // namespace pipescope
