#pragma once

#include "schedule/core_queue.h"
#include "schedule/ids.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace pipescope {
/// Lets lanes on the host take cores in turns where there are more lanes than cores: a lane that has work gets a core
/// to itself for one task, in the order of CoreQueue.
///
/// Why: the operating system would share the cores in slices as long as a task, and keep a lane waiting behind another
/// while a core idles. So steps are shorter, tasks take as long as with few lanes, and the simulator can do the same
/// (SharedResources). A lane's thread is pinned to the core that it is given.
/// Threading: each method from any thread; a lane's wait() from one thread at a time. Precondition of wait(), call()
/// and leave(): the lane takes part.
class CoreTurns {
public:
    /// `takes_part`: by lane; those that do not are left alone.
    /// `patience`: once a lane has waited longer for its turn, up to twice as long, there are no more turns, and the
    /// operating system shares the cores: layers that wait for one another must not hang. A warning on standard error
    /// says so. Precondition: cores is not empty.
    CoreTurns(const std::vector<bool>& takes_part, std::vector<int> cores,
              std::chrono::nanoseconds patience = std::chrono::seconds(5));

    bool takes_part(LaneId lane) const noexcept { return lanes_[lane.index()] != nullptr; }

    /// Gives back the lane's core, unless it may keep it, and blocks until `ready()` holds and it has one. `ready` is
    /// called under a lock, here and in call(): it must be quick, and what makes it true must be followed by a call().
    void wait(LaneId lane, const std::function<bool()>& ready);
    /// What the lane waits for may have come: if so it queues for a core.
    void call(LaneId lane);
    /// The lane has nothing more to do: gives its core back.
    void leave(LaneId lane);

private:
    struct Lane {
        const std::function<bool()>* ready = nullptr;  ///< while the lane waits and is not queued
        std::optional<pthread_t> thread;
        std::condition_variable its_turn;
    };

    /// Unlocks before it wakes anybody: a lane that wakes on the core of the one that wakes it, and finds the lock
    /// held, goes to sleep again, which made a change of lanes twice as long.
    void hand_out(std::unique_lock<std::mutex>& lock);
    void give_up();  ///< with mutex_ held

    const std::vector<int> cores_;
    const std::vector<int> usable_;  ///< by the maker's thread
    const std::chrono::nanoseconds patience_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Lane>> lanes_;  // none for a lane that takes no part
    bool given_up_ = false;
    CoreQueue queue_;  // of cores_, by position
};
}  // namespace pipescope
