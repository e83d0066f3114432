#include "profiler/recorder/fork_lock.h"

#include <pthread.h>

#include <array>
#include <memory>
#include <vector>

namespace pipescope {
namespace {
/// Its own lock is taken first, so that the lists do not change during a fork.
struct Held {
    std::mutex mutex;
    std::array<std::vector<std::mutex*>, 2> by_rank;
};

/// Global, since a fork has no context; never destroyed.
Held& held() {
    static Held& one = *std::make_unique<Held>().release();
    return one;
}

void take_all() {
    held().mutex.lock();
    for (const auto& rank : held().by_rank) {
        for (std::mutex* mutex : rank) {
            mutex->lock();
        }
    }
}

void give_all_back() {
    for (const auto& rank : held().by_rank) {
        for (std::mutex* mutex : rank) {
            mutex->unlock();
        }
    }
    held().mutex.unlock();
}
}  // namespace

void hold_across_forks(std::mutex& mutex, LockRank rank) {
    static const int registered = pthread_atfork(take_all, give_all_back, give_all_back);
    static_cast<void>(registered);
    const std::scoped_lock lock(held().mutex);
    held().by_rank[static_cast<std::size_t>(rank)].push_back(&mutex);
}
}  // namespace pipescope
