#include "engine/core_turns.h"

#include "engine/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace pipescope {
namespace {
/// Best effort: a lane that may not run there runs where the system puts it.
void set_affinity(pthread_t thread, const std::vector<int>& cores) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores) {
        CPU_SET(core, &set);
    }
    pthread_setaffinity_np(thread, sizeof(set), &set);
}
}  // namespace

CoreTurns::CoreTurns(const std::vector<bool>& takes_part, std::vector<int> cores, std::chrono::nanoseconds patience)
    : cores_(std::move(cores)), usable_(usable_core_numbers()), patience_(patience), free_(cores_.size()) {
    for (const bool takes : takes_part) {
        lanes_.push_back(takes ? std::make_unique<Lane>() : nullptr);
    }
    std::iota(free_.begin(), free_.end(), 0);
}

void CoreTurns::wait(LaneId id, const std::function<bool()>& ready) {
    std::unique_lock lock(mutex_);
    Lane& lane = *lanes_[id.index()];
    lane.thread = pthread_self();
    give_back(lane);
    if (ready()) {
        queue(id);
    } else {
        lane.ready = &ready;
    }
    hand_out();
    // Patience counts from when there is work: a lane may wait for that as long as it takes.
    for (bool was_queued = false; !lane.its_turn.wait_for(lock, patience_, [&] { return lane.may_run; });
         was_queued = lane.is_queued) {
        if (was_queued) {
            go_without(id);
        }
    }
}

void CoreTurns::call(LaneId id) {
    const std::lock_guard lock(mutex_);
    Lane& lane = *lanes_[id.index()];
    if (lane.ready != nullptr && (*lane.ready)()) {
        lane.ready = nullptr;
        queue(id);
        hand_out();
    }
}

void CoreTurns::leave(LaneId id) {
    const std::lock_guard lock(mutex_);
    give_back(*lanes_[id.index()]);
    hand_out();
}

void CoreTurns::queue(LaneId lane) {
    lanes_[lane.index()]->is_queued = true;
    queue_.push_back(lane);
}

void CoreTurns::give_back(Lane& lane) {
    lane.may_run = false;
    if (lane.core) {
        free_.push_back(*lane.core);
        lane.core.reset();
    }
}

void CoreTurns::hand_out() {
    while (!free_.empty() && !queue_.empty()) {
        Lane& lane = *lanes_[queue_.front().index()];
        queue_.pop_front();
        // Its last core may still hold its data; else the one that became free last, whose lane is on its way to sleep.
        auto core = lane.last_core ? std::find(free_.begin(), free_.end(), *lane.last_core) : free_.end();
        core = core == free_.end() ? core - 1 : core;
        lane.core = *core;
        free_.erase(core);
        pin(lane, *lane.core);
        lane.is_queued = false;
        lane.may_run = true;
        lane.its_turn.notify_one();
    }
}

void CoreTurns::go_without(LaneId id) {
    Lane& lane = *lanes_[id.index()];
    queue_.erase(std::find(queue_.begin(), queue_.end(), id));
    lane.is_queued = false;
    lane.may_run = true;
    set_affinity(lane.thread, usable_);
    lane.last_core.reset();
}

void CoreTurns::pin(Lane& lane, std::size_t core) {
    if (lane.last_core != core) {
        set_affinity(lane.thread, {cores_[core]});
        lane.last_core = core;
    }
}
}  // namespace pipescope
