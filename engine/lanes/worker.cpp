#include "engine/lanes/worker.h"

#include "engine/lanes/process_end.h"
#include "engine/lanes/task_ranges.h"

#include <pthread.h>
#include <unistd.h>

#include <utility>

namespace pipescope {
Worker::Worker(const std::string& name, Job at_start) : process_(::getpid()), running_(std::make_unique<Running>()) {
    running_->thread = std::thread([running = running_.get(), name, at_start = std::move(at_start)] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        name_thread_for_profilers(name);
        at_start();
        running->run();
    });
}

Worker::~Worker() {
    if (!is_here()) {
        // A thread that nobody can wake may hold its lock or wait for its condition.
        static_cast<void>(running_.release());
        return;
    }
    {
        const std::lock_guard lock(running_->mutex);
        if (is_thread_in_exit() && running_->is_busy) {
            static_cast<void>(running_.release());
            return;
        }
        running_->ending = true;
    }
    running_->posted.notify_one();
    running_->thread.join();
}

bool Worker::is_here() const {
    return ::getpid() == process_;
}

void Worker::post(Job job) {
    {
        const std::lock_guard lock(running_->mutex);
        running_->jobs.push_back(std::move(job));
    }
    running_->posted.notify_one();
}

void Worker::Running::run() {
    while (true) {
        std::unique_lock lock(mutex);
        posted.wait(lock, [this] { return ending || !jobs.empty(); });
        if (jobs.empty()) {
            return;
        }
        const Job job = std::move(jobs.front());
        jobs.pop_front();
        is_busy = true;
        lock.unlock();
        job();
        lock.lock();
        is_busy = false;
    }
}
}  // namespace pipescope
