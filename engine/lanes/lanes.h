#pragma once

#include "base/ids.h"
#include "base/thread_primitives.h"
#include "engine/lanes/worker.h"

#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
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

    /// Jobs of one caller: each lane runs them in the order of post(), without waiting for the other lanes. Other
    /// callers wait until it is destroyed. Threading: one thread.
    class Jobs {
    public:
        /// Throws as run() does.
        explicit Jobs(Lanes& lanes);
        /// Waits for all jobs.
        ~Jobs();
        Jobs(const Jobs&) = delete;
        Jobs& operator=(const Jobs&) = delete;

        /// Calls `job` once on every lane, in parallel.
        void post(std::function<void(LaneId)> job);
        /// Returns once the oldest job that was not waited for has ended on all lanes; throws what it threw first on
        /// one of them. Precondition: there is one.
        /// Meanwhile calls `while_waiting`, unless it is empty, every kPatience; it must not throw.
        void wait_for_oldest(const std::function<void()>& while_waiting = {});

        static constexpr std::chrono::milliseconds kPatience{20};

    private:
        /// A std::latch has no wait with a time limit.
        class Ended {
        public:
            explicit Ended(std::size_t lanes) : lanes_(lanes) {}
            void count_down(std::exception_ptr thrown);
            void wait(const std::function<void()>& while_waiting);
            /// Once wait() has returned.
            const std::exception_ptr& thrown() const noexcept { return thrown_; }

        private:
            Mutex mutex_;
            Condition all_ended_;
            std::size_t lanes_;  // guarded by mutex_
            std::exception_ptr thrown_;
        };
        struct Job {
            Job(std::function<void(LaneId)> job, std::size_t lanes) : run(std::move(job)), ended(lanes) {}
            std::function<void(LaneId)> run;
            Ended ended;
        };
        Lanes& lanes_;
        std::unique_lock<Mutex> turn_;
        std::deque<Job> jobs_;  // posted and not waited for
    };

    /// Calls `job` once on every lane in parallel and returns when the last has ended. Throws what `job` does.
    /// `while_waiting`: as for Jobs::wait_for_oldest().
    void run(const std::function<void(LaneId)>& job, const std::function<void()>& while_waiting = {});
    /// Gives the lane a new thread; returns when it has started. Call from outside the lanes.
    void renew(LaneId lane);
    /// False in a forked process, which has no such threads.
    bool are_here() const { return workers_.empty() || workers_.begin()->second->is_here(); }

private:
    std::unique_ptr<Worker> make_worker(LaneId lane);
    std::unique_lock<Mutex> take_turn();

    std::function<void()> at_start_;
    Mutex turn_;  // two callers' jobs interleaved on two lanes could deadlock
    std::map<LaneId, std::unique_ptr<Worker>> workers_;
};
}  // namespace pipescope
