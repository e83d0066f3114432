#include "engine/cores/core_scheduler.h"

#include "base/error.h"
#include "engine/cores/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

namespace pipescope {
namespace {
double now_ns() {
    return std::chrono::duration<double, std::nano>(ThreadClock::now().time_since_epoch()).count();
}

/// Best effort: without permission the thread runs wherever the system puts it.
void set_affinity(pthread_t thread, const std::vector<int>& cores) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores) {
        CPU_SET(core, &set);
    }
    pthread_setaffinity_np(thread, sizeof(set), &set);
}
}  // namespace

std::unique_ptr<CoreScheduler> CoreScheduler::for_lanes(const std::vector<bool>& on_host, int host_cores) {
    if (host_cores < 0) {
        throw UsageError("host_cores is " + std::to_string(host_cores) +
                         "; it counts cores; use 0 for those that this process may use");
    }
    const std::vector<int> usable = usable_core_numbers();
    const auto count = host_cores == 0 ? usable.size() : static_cast<std::size_t>(host_cores);
    if (static_cast<std::size_t>(std::count(on_host.begin(), on_host.end(), true)) <= count) {
        return nullptr;
    }
    std::vector<int> cores;
    for (std::size_t k = 0; k < count; ++k) {
        cores.push_back(usable[k % usable.size()]);  // more cores may be requested than exist
    }
    return std::make_unique<CoreScheduler>(on_host, std::move(cores));
}

CoreScheduler::CoreScheduler(const std::vector<bool>& takes_part, std::vector<int> cores,
                             std::chrono::nanoseconds patience)
    : cores_(std::move(cores)),
      usable_(usable_core_numbers()),
      patience_(patience),
      queue_(takes_part.size(), cores_.size()) {
    for (const bool takes : takes_part) {
        lanes_.push_back(takes ? std::make_unique<Lane>() : nullptr);
    }
}

void CoreScheduler::wait(LaneId id, const std::function<bool()>& ready) {
    std::unique_lock lock(mutex_);
    Lane& lane = *lanes_[id.index()];
    lane.thread = pthread_self();
    if (given_up_) {
        lane.its_turn.wait(lock, ready);
        return;
    }
    const bool has_work = ready();
    if (has_work && queue_.may_keep(id.index(), now_ns())) {
        return;
    }
    queue_.give_back(id.index());
    if (has_work) {
        queue_.ask(id.index());
    } else {
        lane.ready = &ready;
    }
    hand_out(lock);
    lock.lock();
    // Patience starts with work: a lane may wait for work as long as it takes.
    const auto may_go = [&] { return queue_.holds_core(id.index()) || (given_up_ && ready()); };
    for (bool asked = false; !lane.its_turn.wait_for(lock, patience_, may_go); asked = queue_.asks(id.index())) {
        if (asked) {
            give_up();
        }
    }
    lane.ready = nullptr;
}

void CoreScheduler::call(LaneId id) {
    std::unique_lock lock(mutex_);
    Lane& lane = *lanes_[id.index()];
    if (given_up_) {
        lane.its_turn.notify_one();
    } else if (lane.ready != nullptr && (*lane.ready)()) {
        lane.ready = nullptr;
        queue_.ask(id.index());
        hand_out(lock);
    }
}

void CoreScheduler::leave(LaneId id) {
    std::unique_lock lock(mutex_);
    queue_.give_back(id.index());
    hand_out(lock);
}

void CoreScheduler::hand_out(std::unique_lock<Mutex>& lock) {
    std::vector<Lane*> granted;
    if (!given_up_) {
        while (const auto grant = queue_.grant(now_ns())) {
            granted.push_back(lanes_[grant->lane].get());
            if (grant->moves) {
                set_affinity(*granted.back()->thread, {cores_[grant->core]});
            }
        }
    }
    lock.unlock();
    for (Lane* const lane : granted) {
        lane->its_turn.notify_one();
    }
}

void CoreScheduler::give_up() {
    given_up_ = true;
    std::fprintf(
        stderr,
        "pipescope: a lane waited longer than %g s for a core; layers hold the cores of this machine (%zu) while "
        "they sleep, wait for one another or take very long; the operating system shares the cores from now "
        "on; set GPipeOptions::host_cores or --cores to the number of lanes where layers wait\n",
        std::chrono::duration<double>(patience_).count(), cores_.size());
    for (const auto& lane : lanes_) {
        if (lane && lane->thread) {
            set_affinity(*lane->thread, usable_);
            lane->its_turn.notify_one();
        }
    }
}
}  // namespace pipescope
