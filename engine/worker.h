#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace pipescope {
/// A named thread that runs what it is handed, one job after the other, in the order of post().
/// Threading: post() may be called from any thread but the worker's own destructor's. Jobs must not throw.
/// Ownership: the destructor runs what is still queued, then joins. In a process forked from the worker's own there is
/// no such thread: there the destructor leaves everything as it is; so it does with a worker that was stopped in the
/// midst of a job when the process ended.
class Worker {
public:
    using Job = std::function<void()>;

    /// `name` is what debuggers and profilers show; the system keeps its first 15 characters. `at_start` runs first, on
    /// the new thread.
    Worker(const std::string& name, Job at_start);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    void post(Job job);
    /// Whether the thread lives in this process.
    bool is_here() const;

private:
    struct Running {
        std::mutex mutex;
        std::condition_variable posted;
        std::deque<Job> jobs;  // guarded by mutex
        bool ending = false;   // guarded by mutex
        bool is_busy = false;  // guarded by mutex
        std::thread thread = {};

        void run();
    };
    const pid_t process_;
    std::unique_ptr<Running> running_;
};
}  // namespace pipescope
