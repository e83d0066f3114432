#pragma once

#include "engine/lanes/worker.h"
#include "schedule/ids.h"

#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace pipescope {
/// The workers of a model, one for each of its lanes in this process, named "lane 0", "lane 1", ...
/// Threading: run() may be called from any thread; calls take turns. It throws EngineError from inside a lane of the
/// same model, which would wait for itself, and in a forked process, which does not inherit the threads. Once exit()
/// runs, run() only returns to the thread of exit().
class Lanes {
public:
    /// `at_start` runs first on each lane's thread; the constructor returns once all have run it.
    Lanes(const std::vector<LaneId>& lanes, std::function<void()> at_start);

    /// Calls `job` once on every lane in parallel and returns when the last has ended. `job` must not throw.
    void run(const std::function<void(LaneId)>& job);
    /// Gives the lane a new thread; returns when it has started. Call from outside the lanes.
    void renew(LaneId lane);
    /// False in a forked process, which has no such threads.
    bool are_here() const { return workers_.empty() || workers_.begin()->second->is_here(); }

private:
    std::unique_ptr<Worker> make_worker(LaneId lane, std::latch& started);
    std::unique_lock<std::mutex> take_turn();

    std::function<void()> at_start_;
    std::mutex turn_;  // two callers' jobs interleaved on two lanes could deadlock
    std::map<LaneId, std::unique_ptr<Worker>> workers_;
};
}  // namespace pipescope
