#include "engine/lanes/worker.h"

#include "base/thread_start.h"
#include "engine/lanes/process_end.h"
#include "engine/lanes/task_ranges.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr std::chrono::seconds kPatienceInExit{1};

std::atomic<bool> keeps_threads = false;

/// With the exception that is being handled, which a job has thrown that nobody waits for.
[[noreturn]] void end_for_failed_job() {
    try {
        throw;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "pipescope: a thread of the engine cannot go on (%s)", error.what());
    } catch (...) {
        std::fprintf(stderr, "pipescope: a thread of the engine cannot go on");
    }
    std::fprintf(stderr, "; the process ends; if it lacks memory, use fewer lanes or smaller micro-batches\n");
    std::_Exit(1);
}
}  // namespace

/// Threads without a worker.
struct Worker::Kept {
    const pid_t process = ::getpid();
    Mutex mutex;
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

/// A kept thread, or a new one.
std::unique_ptr<Worker::Running> Worker::running(const std::string& name) {
    if (keeps_threads) {
        const std::lock_guard lock(kept().mutex);
        if (!kept().threads.empty()) {
            std::unique_ptr<Running> found = std::move(kept().threads.back());
            kept().threads.pop_back();
            return found;
        }
    }
    auto made = std::make_unique<Running>();
    made->thread = start_thread<Thread>(
        "'" + name + "'", [running = made.get()] { running->run(); }, &end_for_failed_job);
    return made;
}

Worker::Worker(const std::string& name, Job at_start) : process_(::getpid()), running_(running(name)) {
    try {
        run_first([&] {
            pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
            name_thread_for_profilers(name);
            at_start();
        });
    } catch (...) {
        running_->end();
        throw;
    }
}

void Worker::run_first(const Job& job) {
    std::exception_ptr failure;
    Latch done(1);
    post([&] {
        try {
            job();
        } catch (...) {
            failure = std::current_exception();
        }
        done.count_down();
    });
    done.wait();
    if (failure) {
        std::rethrow_exception(failure);
    }
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
    }
    running_->end();
}

/// Joins the thread.
void Worker::Running::end() {
    {
        const std::lock_guard lock(mutex);
        ending = true;
    }
    posted.notify_one();
    thread.join();
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
