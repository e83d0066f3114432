#include "profiler/recorder/fork_lock.h"

#include <pthread.h>

#include <memory>
#include <vector>

namespace pipescope {
namespace {
/// Its own lock is taken first, so that the lists do not change during a fork.
struct Held {
    std::mutex mutex;
    std::vector<std::mutex*> mutexes;
};

/// Global, since a fork has no context; never destroyed.
Held& held() {
    static Held& one = *std::make_unique<Held>().release();
    return one;
}

void take_all() {
    held().mutex.lock();
    for (std::mutex* mutex : held().mutexes) {
        mutex->lock();
    }
}

void give_all_back() {
    for (std::mutex* mutex : held().mutexes) {
        mutex->unlock();
    }
    held().mutex.unlock();
}
}  // namespace

void hold_across_forks(std::mutex& mutex) {
    static const int registered = pthread_atfork(take_all, give_all_back, give_all_back);
    static_cast<void>(registered);
    const std::scoped_lock lock(held().mutex);
    held().mutexes.push_back(&mutex);
}
}  // namespace pipescope
