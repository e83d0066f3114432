#include "engine/lanes/worker.h"

#include "engine/lanes/process_end.h"
#include "engine/lanes/task_ranges.h"
#include "schedule/thread_start.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr std::chrono::seconds kPatienceInExit{1};

std::atomic<bool> keeps_threads = false;
}  // namespace

/// Threads without a worker.
struct Worker::Kept {
    const pid_t process = ::getpid();
    std::mutex mutex;
    std::vector<std::unique_ptr<Running>> threads = {};  // guarded by mutex
};

/// Those of this process: a fork takes no threads along, and may have been made while another thread held the lock.
Worker::Kept& Worker::kept() {
    static std::atomic<Kept*> current = nullptr;
    Kept* found = current.load();
    while (found == nullptr || found->process != ::getpid()) {
        auto made = std::make_unique<Kept>();
        if (current.compare_exchange_strong(found, made.get())) {
            found = made.release();
        }
    }
    return *found;
}

void Worker::keep_threads() {
    keeps_threads = true;
}

Worker::Worker(const std::string& name, Job at_start) : process_(::getpid()) {
    Job begin = [name, at_start = std::move(at_start)] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        name_thread_for_profilers(name);
        at_start();
    };
    if (keeps_threads) {
        const std::lock_guard lock(kept().mutex);
        if (!kept().threads.empty()) {
            running_ = std::move(kept().threads.back());
            kept().threads.pop_back();
        }
    }
    if (running_) {
        post(std::move(begin));
        return;
    }
    running_ = std::make_unique<Running>();
    running_->thread = start_thread("'" + name + "'", [&] {
        return std::thread([running = running_.get(), begin = std::move(begin)] {
            begin();
            running->run();
        });
    });
}

Worker::~Worker() {
    if (!is_here()) {
        // A thread that nobody can wake may hold its lock or wait for its condition.
        static_cast<void>(running_.release());
        return;
    }
    {
        std::unique_lock lock(running_->mutex);
        // A job that was stopped for good never ends, and one that only runs must not outlive what it uses.
        const auto is_idle = [this] { return !running_->is_busy; };
        if (is_thread_in_exit() && !running_->drained.wait_for(lock, kPatienceInExit, is_idle)) {
            static_cast<void>(running_.release());
            return;
        }
        if (keeps_threads && !ends_thread_) {
            running_->drained.wait(lock, [this] { return running_->jobs.empty() && !running_->is_busy; });
            lock.unlock();
            const std::lock_guard lock_of_kept(kept().mutex);
            kept().threads.push_back(std::move(running_));
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
        Job job = std::move(jobs.front());
        jobs.pop_front();
        is_busy = true;
        lock.unlock();
        job();
        job = nullptr;
        lock.lock();
        is_busy = false;
        drained.notify_one();
    }
}
}  // namespace pipescope
