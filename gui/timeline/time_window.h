#pragma once

#include <cstdint>

namespace pipescope {
/// Half-open range of times in ns.
struct TimeRange {
    std::int64_t start = 0;
    std::int64_t end = 0;

    std::int64_t length() const { return end - start; }
    friend bool operator==(const TimeRange&, const TimeRange&) = default;
};

/// The visible part of the time axis. The left edge is a whole ns plus a fraction, so that pixels stay in place even
/// after hours of recording; a double alone would jump by several ns.
struct TimeWindow {
    std::int64_t start = 0;  ///< ns; whole part of the left edge
    double fraction = 0;     ///< of a ns, in [0, 1)
    double length = 1;       ///< ns shown; positive

    friend bool operator==(const TimeWindow&, const TimeWindow&) = default;
};

/// The shortest window. One pixel is then far below the clock's resolution.
inline constexpr double kShortestWindow = 100;

TimeWindow windowOf(const TimeRange& range);
/// Position of `time` in pixels from the left edge of a view of `width` pixels. May be outside the view.
double pixelOf(const TimeWindow& window, double width, std::int64_t time);
/// The time at a pixel, rounded down to ns.
std::int64_t timeAt(const TimeWindow& window, double width, double pixel);
/// The window `factor` times as long. The time at `anchor` (0 left edge, 1 right edge) keeps its place.
TimeWindow zoomed(const TimeWindow& window, double anchor, double factor);
TimeWindow panned(const TimeWindow& window, double ratio);
TimeWindow shifted(const TimeWindow& window, std::int64_t by);
/// The nearest window inside `total` that is not shorter than kShortestWindow.
TimeWindow clamped(const TimeWindow& window, const TimeRange& total);
}  // namespace pipescope
