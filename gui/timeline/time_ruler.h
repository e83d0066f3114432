#pragma once

#include "gui/timeline/time_window.h"

#include <QFontMetricsF>
#include <QRectF>
#include <QString>

#include <cstdint>
#include <span>
#include <vector>

namespace pipescope {
struct RulerTick {
    double x = 0;   ///< pixels from the left edge
    QString label;  ///< empty for a minor tick
};

/// Ticks at 1, 2 or 5 times a power of ten ns. If the common part of the labels is longer than their differences, it
/// moves to `base`, which is shown once, and labels count from there: "1.234 s" and "+5 µs".
struct Ruler {
    std::int64_t step = 0;  ///< ns between labelled ticks
    QString base;           ///< empty if labels are complete
    std::vector<RulerTick> ticks;
};

/// How a ruler writes times since its origin.
enum class RulerTimes {
    durations,
    clock,  ///< the origin is 1970 in UTC: the base is a second of the day
};

/// The cursor's time on a ruler with this origin, in the unit of its labels, to the precision of a pixel.
QString cursorTime(const TimeWindow& window, double width, std::int64_t origin, std::int64_t cursor,
                   RulerTimes times = RulerTimes::durations);

/// `origin` is time zero. Labels are at least `label_spacing` pixels apart.
Ruler makeRuler(const TimeWindow& window, double width, std::int64_t origin, double label_spacing,
                RulerTimes times = RulerTimes::durations);

/// Pixels between labels of any time.
double labelSpacing(const QFontMetricsF& metrics);

struct RulerLabel {
    QRectF rect;
    QString text;
};

/// The labels that `area`, whose left edge is that of the window, can hold: complete, apart, and not below a plate.
std::vector<RulerLabel> placedLabels(const Ruler& ruler, const QFontMetricsF& metrics, const QRectF& area,
                                     std::span<const QRectF> plates = {});
}  // namespace pipescope
