#include "profiler/layers/lane_slowdown.h"

#include "base/sample_statistics.h"

#include <algorithm>

namespace pipescope {
void LaneSlowdown::add(double some_ns, double all_ns) {
    if (some_ns > 0 && all_ns > 0) {
        ratios_[added_ % ratios_.size()].push_back(some_ns / all_ns);
    }
    ++added_;
}

PerLane LaneSlowdown::slowdown() const {
    if (ratios_.empty() || ratios_.front().empty()) {
        return {};
    }
    const double one = median(ratios_.front());
    PerLane result{1};
    std::size_t last = 0;  // the last known entry
    for (std::size_t k = 1; k <= ratios_.size(); ++k) {
        const bool is_all = k == ratios_.size();
        if (!is_all && ratios_[k].empty()) {
            continue;
        }
        const double measured = (is_all ? 1 : median(ratios_[k])) / one;
        const double here = std::max(measured, result.back());
        const double step = (here - result.back()) / static_cast<double>(k - last);
        while (result.size() < k) {
            result.push_back(result.back() + step);
        }
        result.push_back(here);
        last = k;
    }
    return result;
}
}  // namespace pipescope
