#include "simulator/lane_ledger.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace pipescope {
Bytes LaneLedger::total(const Categories& categories) {
    return std::accumulate(categories.begin(), categories.end(), Bytes{0});
}

Bytes LaneLedger::held() const {
    return total(held_);
}

void LaneLedger::add(MemoryCategory category, Bytes bytes, Nanoseconds now) {
    held_[static_cast<std::size_t>(category)] += bytes;
    look(now);
}

void LaneLedger::start_work(const WorkPeak& work, MemoryCategory gradient, Nanoseconds now) {
    Categories more{};
    more[static_cast<std::size_t>(MemoryCategory::boundary)] = work.boundary;
    more[static_cast<std::size_t>(MemoryCategory::saved)] = work.saved;
    more[static_cast<std::size_t>(gradient)] += work.gradient;
    more[static_cast<std::size_t>(MemoryCategory::transient)] = work.transient;
    more[static_cast<std::size_t>(MemoryCategory::skip)] = work.skip;
    work_ = more;
    look(now);
}

/// The running task's peak may be at any instant of it, so it counts with everything that arrives meanwhile.
void LaneLedger::look(Nanoseconds now) {
    Categories here = held_;
    if (work_ && total(*work_) > 0) {
        std::transform(held_.begin(), held_.end(), work_->begin(), here.begin(), std::plus<>());
    }
    const Bytes bytes = total(here);
    peak_since_sample_ = std::max(peak_since_sample_, bytes);
    if (bytes > peak_bytes_) {
        peak_bytes_ = bytes;
        peak_ = here;
        peak_time_ = now;
    }
}

MemoryBreakdown LaneLedger::composition() const {
    MemoryBreakdown breakdown;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        breakdown[static_cast<MemoryCategory>(k)] = held_[k];
    }
    return breakdown;
}

Bytes LaneLedger::take_peak() {
    return std::exchange(peak_since_sample_, held());
}

LaneMemoryUse LaneLedger::use() const {
    LaneMemoryUse use{std::max<Bytes>(peak_bytes_, 0), peak_time_, {}};
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        use.peak[std::string(to_string(static_cast<MemoryCategory>(k)))] = peak_[k];
    }
    return use;
}
}  // namespace pipescope
