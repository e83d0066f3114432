#include "gui/timeline/timeline_marks.h"

#include "base/error.h"
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>

namespace pipescope {
namespace {
bool isDarkGround(const TimelineColors& colors) {
    return colors.bubble.lightness() < 128;
}

QColor mixed(const QColor& ground, const QColor& color, double share) {
    const auto channel = [&](int a, int b) { return static_cast<int>(a + (b - a) * share); };
    return QColor(channel(ground.red(), color.red()), channel(ground.green(), color.green()),
                  channel(ground.blue(), color.blue()));
}

constexpr std::array kModes{std::pair{CompareMode::side_by_side, "side-by-side"},
                            std::pair{CompareMode::overlay, "overlay"},
                            std::pair{CompareMode::difference, "difference"}};
constexpr std::array kAlignments{std::pair{Alignment::first_task, "first-task"}, std::pair{Alignment::step, "step"},
                                 std::pair{Alignment::task, "task"}};

template <class Names, class Value>
QString nameIn(const Names& names, Value value) {
    for (const auto& [each, name] : names) {
        if (each == value) {
            return QString::fromLatin1(name);
        }
    }
    return {};
}

template <class Names>
auto parseIn(const Names& names, const QString& text, const std::string& what) {
    std::string all;
    for (const auto& [each, name] : names) {
        if (text == QLatin1String(name)) {
            return each;
        }
        all += all.empty() ? name : std::string(", ") + name;
    }
    throw UsageError(what + " is '" + text.toStdString() + "', which is not known; choose one of " + all);
}
}  // namespace

QColor tierColor(int tier) {
    constexpr std::array kColors{okabe_ito::kGreen, okabe_ito::kPurple, okabe_ito::kVermillion, okabe_ito::kBlack};
    const auto last = static_cast<int>(kColors.size()) - 1;
    return QColor::fromRgb(kColors[static_cast<std::size_t>(std::clamp(tier, 0, last))]);
}

QBrush brushOf(BubbleCause cause, const TimelineColors& colors) {
    struct Style {
        QRgb color;
        Qt::BrushStyle pattern;
    };
    // Okabe and Ito's colours as lines on the bubble's background, so that the bars stay prominent.
    static constexpr std::array<Style, kNumBubbleCauses> kStyles{{{okabe_ito::kOrange, Qt::BDiagPattern},
                                                                  {okabe_ito::kBlue, Qt::FDiagPattern},
                                                                  {okabe_ito::kVermillion, Qt::DiagCrossPattern},
                                                                  {okabe_ito::kPurple, Qt::VerPattern},
                                                                  {okabe_ito::kGreen, Qt::HorPattern},
                                                                  {okabe_ito::kSky, Qt::CrossPattern},
                                                                  {okabe_ito::kGrey, Qt::SolidPattern},
                                                                  {okabe_ito::kYellow, Qt::Dense5Pattern},
                                                                  {okabe_ito::kYellow, Qt::Dense6Pattern},
                                                                  {okabe_ito::kPurple, Qt::Dense4Pattern},
                                                                  {okabe_ito::kGreen, Qt::Dense3Pattern},
                                                                  {okabe_ito::kOrange, Qt::Dense2Pattern},
                                                                  {okabe_ito::kBlue, Qt::Dense1Pattern}}};
    const Style& style = kStyles.at(static_cast<std::size_t>(cause));
    if (style.pattern == Qt::SolidPattern) {  // plain, because gaps of steps without causes have dots
        return mixed(colors.bubble, QColor::fromRgb(style.color), 0.25);
    }
    const QColor ground = isDarkGround(colors) ? mixed(colors.bubble, QColor::fromRgb(style.color), 0.85)
                                               : mixed(colors.bubble, QColor::fromRgb(style.color), 0.7);
    return {ground, style.pattern};
}

QString nameOf(BubbleCause cause) {
    return QString::fromUtf8(describe(cause).data());
}

QString nameOf(RootCause cause) {
    return QString::fromUtf8(describe(cause).data());
}

Lateness latenessOf(std::int64_t ns, std::int64_t scale) {
    if (std::abs(ns) * 10 <= scale) {
        return Lateness::as_simulated;
    }
    const bool very = std::abs(ns) * 2 >= scale;
    return ns < 0 ? (very ? Lateness::very_early : Lateness::early) : (very ? Lateness::very_late : Lateness::late);
}

LatenessStyle styleOf(Lateness lateness, const TimelineColors& colors) {
    const QRgb grey = okabe_ito::tint(okabe_ito::kBlack, isDarkGround(colors) ? 0.48 : 0.7);
    switch (lateness) {
        case Lateness::very_early: return {QColor::fromRgb(okabe_ito::kBlue), Qt::HorPattern};
        case Lateness::early: return {QColor::fromRgb(okabe_ito::kLightSky), Qt::FDiagPattern};
        case Lateness::as_simulated: return {QColor::fromRgb(grey), Qt::SolidPattern};
        case Lateness::late: return {QColor::fromRgb(okabe_ito::kLightOrange), Qt::BDiagPattern};
        case Lateness::very_late: return {QColor::fromRgb(okabe_ito::kVermillion), Qt::VerPattern};
    }
    return {};
}

QColor veilOf(const TimelineColors& colors) {
    QColor veil = colors.lane;
    veil.setAlphaF(0.8F);
    return veil;
}

QString describe(Lateness lateness, std::int64_t scale, bool twoRuns) {
    const auto round = [](std::int64_t ns) { return formatTime(ns, ns, ns); };  // "5 ms", not "5.000 ms"
    const QString small = round(scale / 10);
    const QString large = round(scale / 2);
    const QString other = twoRuns ? translated("the run before") : translated("the simulation");
    switch (lateness) {
        case Lateness::very_early: return translated("early by %1 or more").arg(large);
        case Lateness::early: return translated("early by %1 to %2").arg(small, large);
        case Lateness::as_simulated:
            return scale == 0 ? translated("no difference") : translated("ends within %1 of %2").arg(small, other);
        case Lateness::late: return translated("late by %1 to %2").arg(small, large);
        case Lateness::very_late: return translated("late by %1 or more").arg(large);
    }
    return {};
}

QString explainLateness(bool twoRuns) {
    return twoRuns ? translated(
                         "Late: the task ended later in the step than in the run before. In tables, a difference "
                         "is after minus before, so late is positive.")
                   : translated(
                         "Late: the measured task ended later in the step than the simulated one. In tables, a "
                         "difference is simulated minus measured, so late is negative.");
}

QString latenessText(std::int64_t endChange) {
    const QString time = formatDuration(std::abs(endChange));
    return endChange == 0 ? time : endChange > 0 ? translated("%1 late").arg(time) : translated("%1 early").arg(time);
}

std::bitset<kNumLateness> latenessIn(const std::vector<TaskPair>& pairs, std::int64_t scale) {
    std::bitset<kNumLateness> occurs;
    for (const TaskPair& pair : pairs) {
        occurs.set(static_cast<std::size_t>(latenessOf(pair.end_change, scale)));
    }
    return occurs;
}

std::int64_t differenceScaleOf(const std::vector<TaskPair>& pairs, std::int64_t onTime) {
    std::int64_t most = 0;
    for (const TaskPair& pair : pairs) {
        most = std::max(most, std::abs(pair.end_change));
    }
    if (most == 0) {
        return 0;
    }
    most = std::max(most, 10 * onTime);
    for (std::int64_t power = 10;; power *= 10) {  // a tenth of it is 1 ns or more
        for (const std::int64_t factor : {1, 2, 5}) {
            if (factor * power >= most || power > most) {
                return factor * power;
            }
        }
    }
}

QString nameOf(CompareMode mode) {
    return nameIn(kModes, mode);
}

CompareMode parseCompareMode(const QString& name) {
    return parseIn(kModes, name, "--mode");
}

QString nameOf(Alignment alignment) {
    return nameIn(kAlignments, alignment);
}

Alignment parseAlignment(const QString& name) {
    return parseIn(std::span(kAlignments).first(2), name, "--align");  // on the command line no task is selected
}
}  // namespace pipescope
