#pragma once

#include "base/thread_primitives.h"

#include <sys/types.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace pipescope {
/// A named thread that runs posted jobs one at a time, in order.
/// Threading: call post() from any thread, but not during destruction. Jobs must not throw: one that does ends the
/// process, with a message.
/// Ownership: the destructor runs the jobs still queued, then joins, or keeps the thread (keep_threads()). Exceptions,
/// in which it leaves everything as it is: in a forked process, which has no such thread, and for a worker that was
/// stopped within a job when the process ended.
class Worker {
public:
    using Job = std::function<void()>;

    /// `name` appears in debuggers and profilers; the system keeps its first 15 characters. `at_start` runs first on
    /// the new thread. Returns once it has; throws what it throws.
    Worker(const std::string& name, Job at_start);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    void post(Job job);
    /// False in a forked process, which has no such thread.
    bool is_here() const;
    /// The thread ends with this worker, whatever keep_threads() says.
    void end_thread() { ends_thread_ = true; }

    /// From now on a thread whose worker is destroyed waits for the next worker of this process, and never ends. For
    /// programs in which a thread must not end, since others crash then: torch.compile leaves such threads.
    static void keep_threads();

private:
    struct Running {
        Mutex mutex;
        Condition posted;
        Condition drained;
        std::deque<Job> jobs;  // guarded by mutex
        bool ending = false;   // guarded by mutex
        bool is_busy = false;  // guarded by mutex
        Thread thread = {};

        void run();
        void end();
    };
    struct Kept;
    static Kept& kept();
    static std::unique_ptr<Running> running(const std::string& name);
    void run_first(const Job& job);

    const pid_t process_;
    std::unique_ptr<Running> running_;
    bool ends_thread_ = false;
};
}  // namespace pipescope
