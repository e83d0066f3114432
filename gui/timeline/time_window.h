#pragma once

#include "analysis/time_range.h"

#include <cstdint>

namespace pipescope {
/// The visible part of the time axis. The left edge is a whole ns plus a fraction, so that a pixel stays in place even
/// after hours of recording. A double alone would jump by several ns.
struct TimeWindow {
    std::int64_t start = 0;  ///< ns; whole part of the left edge
    double fraction = 0;     ///< of a ns, in [0, 1)
    double length = 1;       ///< ns shown; positive

    friend bool operator==(const TimeWindow&, const TimeWindow&) = default;
};

/// The shortest window: a pixel is then well below the clock's resolution.
inline constexpr double kShortestWindow = 100;

TimeWindow windowOf(const TimeRange& range);
/// From the left edge to the right one, rounded to whole ns outwards.
TimeRange shownRange(const TimeWindow& window);
/// Position of `time` in pixels from the left edge of a view of `width` pixels; may be outside.
double pixelOf(const TimeWindow& window, double width, std::int64_t time);
/// The time at a pixel, rounded down to ns.
std::int64_t timeAt(const TimeWindow& window, double width, double pixel);
/// The window scaled by `factor`. The time at `anchor` (0 left edge, 1 right edge) stays in place.
TimeWindow zoomed(const TimeWindow& window, double anchor, double factor);
/// The window moved right by `ratio` of its length.
TimeWindow panned(const TimeWindow& window, double ratio);
TimeWindow shifted(const TimeWindow& window, std::int64_t by);
/// The nearest window inside `total` that is neither longer than it nor shorter than kShortestWindow.
TimeWindow clamped(const TimeWindow& window, const TimeRange& total);
}  // namespace pipescope
