#include "engine/core_turns.h"

#include "engine/usable_cores.h"

#include <sched.h>

#include <utility>

namespace pipescope {
namespace {
using Clock = std::chrono::steady_clock;

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
    : cores_(std::move(cores)),
      usable_(usable_core_numbers()),
      patience_(patience),
      queue_(takes_part.size(), cores_.size()) {
    for (const bool takes : takes_part) {
        lanes_.push_back(takes ? std::make_unique<Lane>() : nullptr);
    }
}

void CoreTurns::wait(LaneId id, const std::function<bool()>& ready) {
    std::unique_lock lock(mutex_);
    Lane& lane = *lanes_[id.index()];
    lane.thread = pthread_self();
    if (given_up_) {
        lane.its_turn.wait(lock, ready);
        return;
    }
    const bool has_work = ready();
    if (has_work && queue_.holds_core(id.index()) && Clock::now() - lane.granted < kCoreSlice) {
        return;
    }
    give_back(id);
    if (has_work) {
        queue(id);
    } else {
        lane.ready = &ready;
    }
    hand_out();
    // Patience counts from when there is work: a lane may wait for that as long as it takes.
    const auto may_go = [&] { return lane.may_run || (given_up_ && ready()); };
    for (bool was_queued = false; !lane.its_turn.wait_for(lock, patience_, may_go); was_queued = lane.is_queued) {
        if (was_queued) {
            give_up();
        }
    }
    lane.ready = nullptr;
}

void CoreTurns::call(LaneId id) {
    const std::lock_guard lock(mutex_);
    Lane& lane = *lanes_[id.index()];
    if (given_up_) {
        lane.its_turn.notify_one();
    } else if (lane.ready != nullptr && (*lane.ready)()) {
        lane.ready = nullptr;
        queue(id);
        hand_out();
    }
}

void CoreTurns::leave(LaneId id) {
    const std::lock_guard lock(mutex_);
    give_back(id);
    hand_out();
}

void CoreTurns::queue(LaneId lane) {
    lanes_[lane.index()]->is_queued = true;
    queue_.ask(lane.index());
}

void CoreTurns::give_back(LaneId lane) {
    lanes_[lane.index()]->may_run = false;
    queue_.give_back(lane.index());
}

void CoreTurns::hand_out() {
    if (given_up_) {
        return;
    }
    while (const auto grant = queue_.grant()) {
        Lane& lane = *lanes_[grant->lane];
        if (grant->moves) {
            set_affinity(*lane.thread, {cores_[grant->core]});
        }
        lane.is_queued = false;
        lane.may_run = true;
        lane.granted = Clock::now();
        lane.its_turn.notify_one();
    }
}

void CoreTurns::give_up() {
    given_up_ = true;
    for (const auto& lane : lanes_) {
        if (lane && lane->thread) {
            set_affinity(*lane->thread, usable_);
            lane->its_turn.notify_one();
        }
    }
}
}  // namespace pipescope
