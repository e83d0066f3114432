#pragma once

#include "base/ids.h"
#include "base/thread_primitives.h"
#include "schedule/core_queue.h"

#include <pthread.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace pipescope {
/// Makes lanes on the host take turns if they outnumber the cores: a lane with work gets a core to itself for one task,
/// in the order of CoreQueue.
///
/// Why: the operating system's time slices are as long as a task, so a lane may wait for another while a core idles.
/// With turns, steps are shorter, tasks take as long as with few lanes, and the simulator can follow the same rule
/// (SharedResources). A lane's thread is pinned to its core.
/// Threading: each method from any thread; a lane's wait() from one thread at a time. Precondition of wait(), call()
/// and leave(): the lane takes part.
class CoreScheduler {
public:
    /// For the lanes on the host (by lane) and GPipeOptions::host_cores; null if each of them has its own core. Throws
    /// UsageError for a negative number.
    static std::unique_ptr<CoreScheduler> for_lanes(const std::vector<bool>& on_host, int host_cores);

    /// `takes_part`: by lane; the other lanes are left alone.
    /// `patience`: a lane that waits this long for its turn (at most twice as long) ends the turns, and the operating
    /// system shares the cores, since layers that wait for one another must not hang. Prints a warning on standard
    /// error.
    /// Precondition: cores is not empty.
    CoreScheduler(const std::vector<bool>& takes_part, std::vector<int> cores,
                  std::chrono::nanoseconds patience = std::chrono::seconds(5));

    bool takes_part(LaneId lane) const noexcept { return lanes_[lane.index()] != nullptr; }

    /// Frees the lane's core, unless it may keep it, and blocks until `ready()` holds and the lane has a core.
    /// `ready` is called under a lock, here and in call(): it must be quick. Whoever makes it true calls call().
    void wait(LaneId lane, const std::function<bool()>& ready);
    /// Call after the lane's `ready` may have become true: if so, the lane queues for a core.
    void call(LaneId lane);
    /// Frees the lane's core; the lane has no more work.
    void leave(LaneId lane);

private:
    struct Lane {
        const std::function<bool()>* ready = nullptr;  ///< while the lane waits and is not queued
        std::optional<pthread_t> thread;
        Condition its_turn;
    };

    /// Unlocks before it wakes a lane. A lane that wakes on its waker's core and finds the lock held sleeps again,
    /// which doubled the time of a change of lanes.
    void hand_out(std::unique_lock<Mutex>& lock);
    void give_up();  ///< with mutex_ held

    const std::vector<int> cores_;
    const std::vector<int> usable_;  ///< by the thread that called the constructor
    const std::chrono::nanoseconds patience_;
    Mutex mutex_;
    std::vector<std::unique_ptr<Lane>> lanes_;  // null for a lane that takes no part
    bool given_up_ = false;
    CoreQueue queue_;  // of cores_, by position
};
}  // namespace pipescope
