#include "engine/worker.h"

#include "engine/task_ranges.h"

#include <pthread.h>

#include <utility>

namespace pipescope {
Worker::Worker(const std::string& name, Job at_start)
    : thread_([this, name, at_start = std::move(at_start)] {
          pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
          name_thread_for_profilers(name);
          at_start();
          run();
      }) {}

Worker::~Worker() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    posted_.notify_one();
    thread_.join();
}

void Worker::post(Job job) {
    {
        const std::lock_guard lock(mutex_);
        jobs_.push_back(std::move(job));
    }
    posted_.notify_one();
}

void Worker::run() {
    while (true) {
        std::unique_lock lock(mutex_);
        posted_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
        if (jobs_.empty()) {
            return;
        }
        const Job job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        job();
    }
}
}  // namespace pipescope
