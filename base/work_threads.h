#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>

namespace pipescope {
/// Runs pieces of work on several threads, while the calling thread reports progress.
class WorkThreads {
public:
    /// `purpose`: for messages, such as "the plan". `threads`: 0: one per core. `progress` gets the share that is done,
    /// 0 to 1, every 20 ms and after each run(). It returns false to cancel, and may be empty.
    WorkThreads(std::string purpose, int threads, std::function<bool(double done)> progress);

    /// Runs work(0) to work(count - 1), which begin in this order. They are so large a share of the whole, 0 to 1, of
    /// which share_done() is done. Once the whole is cancelled, runs none. Each thread has a StopCheck, so that work()
    /// ends early. Throws what the first failed piece threw, except for ComputationStopped, what `progress` throws, and
    /// ComputationStopped if the calling thread's StopCheck wants it.
    void run(
        std::size_t count, const std::function<void(std::size_t)>& work, double share = 1,
        const std::function<double()>& share_done = [] { return 0.0; });

    /// True if pieces should end. Any thread may ask.
    bool is_stopped() const { return stop_; }
    bool is_cancelled() const { return cancelled_; }

private:
    void report(double done);

    std::string purpose_;
    unsigned threads_;
    std::function<bool(double)> progress_;
    std::atomic<bool> stop_ = false;
    bool cancelled_ = false;  // used by the calling thread only, as is done_
    double done_ = 0;
};
}  // namespace pipescope
