#pragma once

// Mutexes, conditions, atomics, threads and the clock for classes whose orders tests explore. Here they are those of
// std. Such tests compile the same classes with a header of their own (tests/explored_orders), where a scheduler
// chooses who goes on.

#if defined(PIPESCOPE_EXPLORED_THREADS)
#include PIPESCOPE_EXPLORED_THREADS
#else
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <thread>

/// Declares a variable that each thread has, with its usual value at first.
#define PIPESCOPE_THREAD_LOCAL(type, name) thread_local type name = {}

namespace pipescope {
using Mutex = std::mutex;
using Condition = std::condition_variable;
template <class T>
using Atomic = std::atomic<T>;
using Thread = std::jthread;
using Latch = std::latch;
using ThreadClock = std::chrono::steady_clock;
}  // namespace pipescope
#endif
