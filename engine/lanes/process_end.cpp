#include "engine/lanes/process_end.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <thread>

namespace pipescope {
namespace {
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kPatience = 5s;        // for a running task
constexpr auto kRecent = 1s;          // a thread that was at work this recently is expected back
constexpr auto kPatienceFor = 200ms;  // for a thread that is expected back

/// Trivially destructible, so that it exists until the process is gone.
struct Process {
    std::atomic<pid_t> id = 0;  // a fork takes no threads along
    std::atomic<unsigned> prepared = 0;
    std::atomic<bool> ending = false;
    std::atomic<int> at_work = 0;
    std::atomic<int> stopped = 0;
    std::atomic<Clock::rep> last_left = 0;
    std::atomic<pid_t> last_left_by = 0;
};
Process process;

thread_local int depth = 0;  // of AtWork scopes
thread_local bool in_exit = false;

pid_t this_thread() {
    thread_local const pid_t id = ::gettid();
    return id;
}

bool lives(pid_t thread) {
    return ::syscall(SYS_tgkill, ::getpid(), thread, 0) == 0;
}

bool must_stop() {
    return process.ending.load() && !in_exit;
}

[[noreturn]] void stop_for_good() {
    ++process.stopped;
    while (true) {
        ::pause();
    }
}

void begin_work() {
    ++process.at_work;
    if (must_stop()) {
        --process.at_work;
        stop_for_good();
    }
}

void end_work() {
    --process.at_work;
    if (must_stop()) {
        stop_for_good();
    }
}

template <class Condition>
bool wait_until(Clock::duration patience, const Condition& condition) {
    const Clock::time_point end = Clock::now() + patience;
    while (!condition()) {
        if (Clock::now() > end) {
            return false;
        }
        std::this_thread::sleep_for(1ms);
    }
    return true;
}

/// True between two calls of a model: a training thread is about to call it again.
bool expects_a_thread_back() {
    const Clock::time_point left{Clock::duration(process.last_left.load())};
    const pid_t by = process.last_left_by.load();
    return by != 0 && by != this_thread() && Clock::now() - left < kRecent && lives(by);
}

/// Returns false if a task goes on.
bool end_threads() {
    if (process.id.load() != ::getpid() || in_exit) {
        return true;
    }
    in_exit = true;
    const bool expects_one = expects_a_thread_back();
    const int stopped_before = process.stopped.load();
    process.ending.store(true);
    const int own = depth > 0 ? 1 : 0;  // a layer may call exit()
    const bool all_stopped = wait_until(kPatience, [own] { return process.at_work.load() == own; });
    if (all_stopped && expects_one) {
        wait_until(kPatienceFor, [=] { return process.stopped.load() > stopped_before; });
    }
    return all_stopped;
}

void end_threads_in_exit(int status, void* /*argument*/) {
    if (!end_threads()) {
        std::fflush(nullptr);
        ::_exit(status);
    }
}
}  // namespace

bool end_other_threads() {
    return end_threads();
}

void prepare_process_end() {
    const pid_t here = ::getpid();
    if (process.id.exchange(here) != here) {
        process.at_work = depth > 0 ? 1 : 0;
        process.last_left_by = 0;
    }
    if (std::has_single_bit(++process.prepared)) {  // registrations are permanent, so not on every call
        ::on_exit(end_threads_in_exit, nullptr);
    }
}

void stop_if_ending() {
    if (depth == 0 && must_stop()) {
        stop_for_good();
    }
}

bool is_thread_in_exit() {
    return in_exit;
}

AtWork::AtWork(Thread thread) : thread_(thread) {
    if (depth++ == 0) {
        begin_work();
    }
}
AtWork::~AtWork() {
    if (--depth == 0) {
        if (thread_ == Thread::caller) {
            process.last_left = Clock::now().time_since_epoch().count();
            process.last_left_by = this_thread();
        }
        end_work();
    }
}

AtRest::AtRest() : depth_(depth) {
    if (depth_ > 0) {
        depth = 0;
        --process.at_work;
    }
}
AtRest::~AtRest() {
    if (depth_ > 0) {
        depth = depth_;
        begin_work();
    }
}

OnBehalf::OnBehalf(bool of_exit) : before_(in_exit) {
    in_exit = in_exit || of_exit;
}
OnBehalf::~OnBehalf() {
    in_exit = before_;
}
}  // namespace pipescope
