#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace pipescope::fake_accelerator {
/// How badly the fake accelerator behaves; for every stream of the process.
struct Behaviour {
    std::atomic<std::int64_t> kernel_delay_us = 0;  ///< before each kernel
    std::atomic<std::int64_t> copy_delay_us = 0;    ///< before each copy between devices or from and to the host
    std::atomic<bool> ignores_waits = false;        ///< streams do not wait for events: shows that a test would notice
};
Behaviour& behaviour();

/// A moment in a stream: passed once the stream has got there. Copyable; threads may share it.
class Moment {
public:
    void pass();
    bool passed();
    void wait();

private:
    std::mutex mutex_;
    std::condition_variable rung_;
    bool passed_ = false;  // guarded by mutex_
};

/// A queue of kernels that one thread runs in order, like a stream of a real accelerator: whoever enqueues goes on at
/// once. Never destroyed, as the streams of torch's pools are not.
/// Errors: a kernel that throws ends the process, since nobody could be told.
class Stream {
public:
    using Kernel = std::function<void()>;

    Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    void enqueue(Kernel kernel);
    /// The moment after all that is enqueued so far.
    std::shared_ptr<Moment> record();
    void wait_for(std::shared_ptr<Moment> moment);
    /// Blocks the caller until all that is enqueued so far has run.
    void synchronize() { record()->wait(); }
    bool is_idle();

private:
    [[noreturn]] void run();

    std::mutex mutex_;
    std::condition_variable enqueued_;
    std::deque<Kernel> kernels_;  // guarded by mutex_
    bool running_ = false;        // guarded by mutex_: a kernel was taken and has not ended
};
}  // namespace pipescope::fake_accelerator
