#pragma once

// Mutexes, conditions, atomics and the clock for classes whose orders tests explore. Here they are those of std. Such
// tests compile the same classes with a header of their own (tests/explored_orders), where a scheduler chooses who goes
// on.

#if defined(PIPESCOPE_EXPLORED_THREADS)
#include PIPESCOPE_EXPLORED_THREADS
#else
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace pipescope {
using Mutex = std::mutex;
using Condition = std::condition_variable;
template <class T>
using Atomic = std::atomic<T>;
using ThreadClock = std::chrono::steady_clock;
}  // namespace pipescope
#endif
