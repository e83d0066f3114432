#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace pipescope {
/// A named thread that runs what it is handed, one job after the other, in the order of post().
/// Threading: post() may be called from any thread but the worker's own destructor's. Jobs must not throw.
/// Ownership: the destructor runs what is still queued, then joins.
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

private:
    void run();

    std::mutex mutex_;
    std::condition_variable posted_;
    std::deque<Job> jobs_;  // guarded by mutex_
    bool ending_ = false;   // guarded by mutex_
    std::thread thread_;    // last: it uses all of the above
};
}  // namespace pipescope
