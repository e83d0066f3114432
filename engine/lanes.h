#pragma once

#include "engine/worker.h"
#include "schedule/ids.h"

#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <vector>

namespace pipescope {
/// The workers of a model, one for each lane, named "lane 0", "lane 1", ...
/// Threading: run() may be called from any thread; calls take turns. From inside a lane of the same model it throws
/// EngineError, since the lane would wait for itself; and in a process forked from that which made them, since threads
/// do not live on there. Once exit() runs, run() does not return to any thread but that of exit().
class Lanes {
public:
    /// `at_start` runs first on each lane's thread; the constructor returns when all have done so.
    Lanes(int count, std::function<void()> at_start);

    int count() const noexcept { return static_cast<int>(workers_.size()); }
    /// Calls `job` once on every lane, side by side, and returns when the last has ended. `job` must not throw.
    void run(const std::function<void(LaneId)>& job);
    /// Gives the lane a new thread; returns when it has started. From outside the lanes.
    void renew(LaneId lane);
    /// Whether the threads live in this process.
    bool are_here() const { return workers_.empty() || workers_.front()->is_here(); }

private:
    std::unique_ptr<Worker> make_worker(int lane, std::latch& started);
    std::unique_lock<std::mutex> take_turn();

    std::function<void()> at_start_;
    std::mutex turn_;  // two callers' jobs interleaved on two lanes could wait for each other for ever
    std::vector<std::unique_ptr<Worker>> workers_;
};
}  // namespace pipescope
