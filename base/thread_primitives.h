#pragma once

// What threads meet at: the names of std, for classes whose orders tests explore. Such tests compile the same classes
// with a header of their own (tests/explored_orders), in which a scheduler chooses who goes on.

#if defined(PIPESCOPE_EXPLORED_THREADS)
#include PIPESCOPE_EXPLORED_THREADS
#else
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <thread>

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
