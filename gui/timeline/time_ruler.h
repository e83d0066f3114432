#pragma once

#include "gui/timeline/time_window.h"

#include <QString>

#include <cstdint>
#include <vector>

namespace pipescope {
struct RulerTick {
    double x = 0;   ///< pixels from the left edge
    QString label;  ///< empty for a minor tick
};

/// Ticks at 1, 2 or 5 times a power of ten ns. Where the labels' common part would be longer than what differs, it
/// moves to `base`, shown once, and the labels count from there: "1.234 s" and "+5 µs".
struct Ruler {
    std::int64_t step = 0;  ///< ns between labelled ticks
    QString base;           ///< empty if labels are complete
    std::vector<RulerTick> ticks;
};

/// The cursor's time as a ruler with this origin tells it, in the unit of its labels, as exactly as a pixel
/// of the window can.
QString cursorTime(const TimeWindow& window, double width, std::int64_t origin, std::int64_t cursor);

/// `origin` is time zero; labels stand `label_spacing` pixels apart or more.
Ruler makeRuler(const TimeWindow& window, double width, std::int64_t origin, double label_spacing);
}  // namespace pipescope
