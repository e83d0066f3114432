#include "profiler/recorder/clock_map.h"

#include <algorithm>

namespace pipescope {
void ClockMap::add(const ClockRecord& clocks) {
    // If the wall clock was set back, times before and after cannot be distinguished: newer tuples win.
    while (!tuples_.empty() && tuples_.back().realtime >= clocks.realtime) {
        tuples_.pop_back();
    }
    tuples_.push_back(clocks);
}

std::int64_t ClockMap::monotonic_of(std::int64_t realtime) const {
    const auto after =
        std::upper_bound(tuples_.begin(), tuples_.end(), realtime,
                         [](std::int64_t time, const ClockRecord& clocks) { return time < clocks.realtime; });
    if (after == tuples_.begin() || after == tuples_.end()) {
        const ClockRecord& nearest = after == tuples_.begin() ? tuples_.front() : tuples_.back();
        return realtime - nearest.realtime + nearest.monotonic;
    }
    const ClockRecord& before = *(after - 1);
    const double slope = static_cast<double>(after->monotonic - before.monotonic) /
                         static_cast<double>(after->realtime - before.realtime);
    return before.monotonic + static_cast<std::int64_t>(slope * static_cast<double>(realtime - before.realtime));
}
}  // namespace pipescope
