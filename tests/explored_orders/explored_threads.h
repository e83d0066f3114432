#pragma once

#include "tests/explored_orders/order_explorer.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

// The names of base/thread_primitives.h for explored programs: the interfaces of std, as far as the engine and the
// tests use them.

#define PIPESCOPE_THREAD_LOCAL(type, name) explored::ExploredThreadLocal<type> name

namespace pipescope::explored {
class ExploredMutex {
public:
    ExploredMutex() = default;
    ~ExploredMutex() { destroy(this); }
    ExploredMutex(const ExploredMutex&) = delete;
    ExploredMutex& operator=(const ExploredMutex&) = delete;

    void lock() {
        point();
        while (is_held_) {
            block_on(this, "a mutex");
        }
        is_held_ = true;
    }
    bool try_lock() {
        point();
        return !std::exchange(is_held_, true);
    }
    void unlock() {
        is_held_ = false;
        wake_all(this);
    }

private:
    bool is_held_ = false;
};

class ExploredCondition {
public:
    ExploredCondition() = default;
    ~ExploredCondition() { destroy(this); }
    ExploredCondition(const ExploredCondition&) = delete;
    ExploredCondition& operator=(const ExploredCondition&) = delete;

    void notify_one() {
        point();
        wake_one(this);
    }
    void notify_all() {
        point();
        wake_all(this);
    }
    template <class Ready>
    void wait(std::unique_lock<ExploredMutex>& lock, Ready ready) {
        while (!ready()) {
            point();
            lock.unlock();
            block_on(this, "a condition");
            lock.lock();
        }
    }
    template <class Ready>
    bool wait_for(std::unique_lock<ExploredMutex>& lock, std::chrono::nanoseconds /*patience*/, Ready ready) {
        while (!ready()) {
            point();
            lock.unlock();
            const bool was_woken = block_on_for_a_time(this, "a condition");
            lock.lock();
            if (!was_woken) {
                return ready();
            }
        }
        return true;
    }

private:
    char address_ = 0;  // no two conditions are at one address
};

template <class T>
class ExploredAtomic {
public:
    ExploredAtomic(T value = {}) : value_(value) {}
    ExploredAtomic(const ExploredAtomic&) = delete;
    ExploredAtomic& operator=(const ExploredAtomic&) = delete;

    T load(std::memory_order /*order*/ = std::memory_order_seq_cst) const {
        point();
        return value_;
    }
    void store(T value, std::memory_order /*order*/ = std::memory_order_seq_cst) {
        point();
        value_ = value;
    }
    T fetch_sub(T by, std::memory_order /*order*/ = std::memory_order_seq_cst) {
        point();
        return std::exchange(value_, value_ - by);
    }
    operator T() const { return load(); }
    T operator=(T value) {
        store(value);
        return value;
    }

private:
    T value_;
};

class ExploredThreadHandle {
public:
    ExploredThreadHandle() = default;
    explicit ExploredThreadHandle(std::function<void()> work) : number_(start(std::move(work))) {}
    ExploredThreadHandle(ExploredThreadHandle&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    ExploredThreadHandle& operator=(ExploredThreadHandle&& other) noexcept {
        end();
        number_ = std::exchange(other.number_, -1);
        return *this;
    }
    ~ExploredThreadHandle() { end(); }

    void join() { explored::join(std::exchange(number_, -1)); }

private:
    void end() {
        if (number_ >= 0) {
            join();
        }
    }
    int number_ = -1;
};

class ExploredLatch {
public:
    explicit ExploredLatch(int count) : count_(count) {}
    ~ExploredLatch() { destroy(this); }
    void count_down() {
        point();
        if (--count_ == 0) {
            wake_all(this);
        }
    }
    void wait() {
        point();
        if (count_ > 0) {
            block_on(this, "a latch");
        }
    }

private:
    int count_;
};

/// A value of each thread of an order; threads of later orders begin anew.
template <class T>
class ExploredThreadLocal {
public:
    operator T() { return own(); }
    T operator=(T value) { return own() = value; }

private:
    T& own() {
        if (std::exchange(order_, order_number()) != order_number()) {
            values_.clear();
        }
        return values_[this_thread()];
    }
    long order_ = -1;
    std::map<int, T> values_;
};

/// Time passes at every point: a slice of a core lasts a few.
struct ExploredClock {
    using time_point = std::chrono::steady_clock::time_point;
    static time_point now() { return time_point(std::chrono::microseconds(100) * points()); }
};
}  // namespace pipescope::explored

namespace pipescope {
using Mutex = explored::ExploredMutex;
using Condition = explored::ExploredCondition;
template <class T>
using Atomic = explored::ExploredAtomic<T>;
using Thread = explored::ExploredThreadHandle;
using Latch = explored::ExploredLatch;
using ThreadClock = explored::ExploredClock;
}  // namespace pipescope
