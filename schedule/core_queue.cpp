#include "schedule/core_queue.h"

#include <algorithm>

namespace pipescope {
CoreQueue::CoreQueue(std::size_t num_lanes, std::size_t num_cores)
    : num_cores_(num_cores), held_(num_lanes), last_(num_lanes), granted_(num_lanes) {
    asking_.reserve(num_lanes);
    free_.reserve(num_cores);
    reset();
}

void CoreQueue::reset() {
    asking_.clear();
    free_.clear();
    for (std::size_t core = num_cores_; core > 0; --core) {
        free_.push_back(core - 1);
    }
    std::fill(held_.begin(), held_.end(), kNone);
    std::fill(last_.begin(), last_.end(), kNone);
}

void CoreQueue::ask(std::size_t lane) {
    asking_.push_back(lane);
}

bool CoreQueue::asks(std::size_t lane) const {
    return std::find(asking_.begin(), asking_.end(), lane) != asking_.end();
}

bool CoreQueue::may_keep(std::size_t lane, double now) const {
    constexpr double kSlice = std::chrono::duration<double, std::nano>(kCoreSlice).count();
    return holds_core(lane) && now - granted_[lane] < kSlice;
}

void CoreQueue::give_back(std::size_t lane) {
    if (held_[lane] != kNone) {
        free_.push_back(held_[lane]);
        held_[lane] = kNone;
    }
}

bool CoreQueue::is_free(std::size_t core) const {
    return std::find(free_.begin(), free_.end(), core) != free_.end();
}

std::optional<CoreQueue::Grant> CoreQueue::grant(double now) {
    if (free_.empty() || asking_.empty()) {
        return std::nullopt;
    }
    auto next = std::find_if(asking_.begin(), asking_.end(), [this](std::size_t lane) { return is_free(last_[lane]); });
    const bool moves = next == asking_.end();
    next = moves ? asking_.begin() : next;
    const std::size_t lane = *next;
    asking_.erase(next);
    // Prefers the core freed last: the lane that held it goes to sleep there.
    const std::size_t core = moves ? free_.back() : last_[lane];
    free_.erase(std::find(free_.begin(), free_.end(), core));
    held_[lane] = last_[lane] = core;
    granted_[lane] = now;
    return Grant{lane, core, moves};
}
}  // namespace pipescope
