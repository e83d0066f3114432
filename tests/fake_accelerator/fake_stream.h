#pragma once

#include "tests/fake_accelerator/fake_races.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace pipescope::fake_accelerator {
/// Delays and faults of the fake accelerator, for all streams of the process.
struct Behaviour {
    std::atomic<std::int64_t> kernel_delay_us = 0;  ///< before each kernel
    std::atomic<std::int64_t> copy_delay_us = 0;    ///< before each copy between devices or from and to the host
    std::atomic<bool> holds_kernels = false;        ///< until release(): none ends; copies between memories apart
    std::atomic<bool> holds_copies = false;         ///< until release(): no copy between memories ends
    std::atomic<bool> copies_late = false;          ///< to the host: each when it is waited for, and no earlier
    std::atomic<bool> ignores_waits = false;        ///< streams do not wait for events: shows that a test would notice
    std::atomic<bool> ranks_share_devices = false;  ///< fake messages: fake:0 is one device in all ranks
    /// Index of the next wait to omit, from 0; -1: none. Copy waits: those of a copy stream for a lane's stream, and
    /// the reverse. Host waits: those of a thread for the event of a copy.
    std::atomic<std::int64_t> left_out_copy_wait = -1;
    std::atomic<std::int64_t> left_out_host_wait = -1;

    /// Restores the initial behaviour.
    void reset();
};
Behaviour& behaviour();

/// Releases everything that was held.
void release();

/// Number of such waits since the last reset(), including omitted ones.
std::int64_t copy_waits();
std::int64_t host_waits();

/// Assumed role of a stream. A program uses the devices' default streams, lanes compute on ordinary ones, and copies
/// run on those of high priority.
enum class Role { caller, lane, copies };

/// True once somebody waits for a kernel that runs late.
using Demand = std::shared_ptr<std::atomic<bool>>;

/// A point in a stream: passed once the stream has reached it.
class Moment {
public:
    Moment(Role role, const Clock& clock, std::vector<Demand> late)
        : role_(role), clock_(clock), late_(std::move(late)) {}

    void pass();
    bool passed();
    void wait();
    /// Time at which it passed. Precondition: passed().
    std::chrono::steady_clock::time_point time();

    Role role() const noexcept { return role_; }
    const Clock& clock() const noexcept { return clock_; }

private:
    const Role role_;
    const Clock clock_;
    const std::vector<Demand> late_;  // kernels before it that wait until somebody waits for them
    std::mutex mutex_;
    std::condition_variable rung_;
    bool passed_ = false;  // guarded by mutex_
    std::chrono::steady_clock::time_point time_;
};

/// A queue of kernels that one thread runs in order, like a stream of a real accelerator; enqueuing does not block.
/// Never destroyed, like the streams of torch's pools. Errors: a kernel that throws ends the process, since nobody
/// could be told.
class Stream {
public:
    using Kernel = std::function<void()>;
    /// Device memory used by a kernel, as contexts of its data pointers.
    struct Uses {
        std::vector<void*> reads;
        std::vector<void*> writes;
    };

    Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    std::size_t number() const noexcept { return number_; }
    void set_role(Role role) { role_ = role; }

    /// `knows_too`: additional progress that the kernel may rely on.
    void launch(const std::string& name, const Uses& uses, Kernel kernel, const Clock& knows_too = {});
    /// Like launch(), but the kernel runs only when somebody waits for something after it.
    void launch_late(const std::string& name, const Uses& uses, Kernel kernel);
    /// The point after everything enqueued so far.
    std::shared_ptr<Moment> record();
    void wait_for(const std::shared_ptr<Moment>& moment);
    /// Blocks the caller until everything enqueued so far has run.
    void synchronize();
    bool is_idle();

private:
    void enqueue(Kernel kernel);
    [[noreturn]] void run();

    const std::size_t number_;
    Role role_ = Role::caller;
    std::mutex mutex_;
    std::condition_variable enqueued_;
    std::deque<Kernel> kernels_;  // guarded by mutex_
    std::vector<Demand> late_;    // guarded by mutex_: kernels that run late
    bool running_ = false;        // guarded by mutex_: a kernel was taken and has not ended
    Clock knows_;                 // guarded by mutex_: what the next kernel starts after
};

/// Blocks the calling thread, unless this wait is to be omitted.
void wait_on_host(Moment& moment);
}  // namespace pipescope::fake_accelerator
