#include "gui/timeline/time_window.h"

#include <algorithm>
#include <cmath>

namespace pipescope {
namespace {
TimeWindow movedBy(const TimeWindow& window, double ns) {
    const double edge = window.fraction + ns;
    const double whole = std::floor(edge);
    return {window.start + static_cast<std::int64_t>(whole), edge - whole, window.length};
}
}  // namespace

TimeWindow windowOf(const TimeRange& range) {
    return {range.start, 0, std::max(static_cast<double>(range.length()), kShortestWindow)};
}

TimeRange shownRange(const TimeWindow& window) {
    return {window.start, window.start + static_cast<std::int64_t>(std::ceil(window.fraction + window.length))};
}

double pixelOf(const TimeWindow& window, double width, std::int64_t time) {
    return (static_cast<double>(time - window.start) - window.fraction) / window.length * width;
}

std::int64_t timeAt(const TimeWindow& window, double width, double pixel) {
    return window.start + static_cast<std::int64_t>(std::floor(window.fraction + pixel / width * window.length));
}

TimeWindow zoomed(const TimeWindow& window, double anchor, double factor) {
    const double length = window.length * factor;
    TimeWindow result = movedBy(window, anchor * (window.length - length));
    result.length = length;
    return result;
}

TimeWindow panned(const TimeWindow& window, double ratio) {
    return movedBy(window, ratio * window.length);
}

TimeWindow shifted(const TimeWindow& window, std::int64_t by) {
    return {window.start + by, window.fraction, window.length};
}

TimeWindow clamped(const TimeWindow& window, const TimeRange& total) {
    const TimeWindow all = windowOf(total);
    TimeWindow result = window;
    result.length = std::clamp(window.length, std::min(kShortestWindow, all.length), all.length);
    const double past_end = static_cast<double>(result.start - total.end) + result.fraction + result.length;
    if (past_end > 0) {
        result = movedBy(result, -past_end);
    }
    if (result.start < total.start) {
        result.start = total.start;
        result.fraction = 0;
    }
    return result;
}
}  // namespace pipescope
