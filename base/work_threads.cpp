#include "base/work_threads.h"

#include "base/stop_check.h"
#include "base/thread_start.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace pipescope {
WorkThreads::WorkThreads(std::string purpose, int threads, std::function<bool(double)> progress)
    : purpose_(std::move(purpose)),
      threads_(threads > 0 ? static_cast<unsigned>(threads) : std::max(1U, std::thread::hardware_concurrency())),
      progress_(std::move(progress)) {}

void WorkThreads::run(std::size_t count, const std::function<void(std::size_t)>& work, double share,
                      const std::function<double()>& share_done) {
    std::mutex mutex;  // of what follows, but `next`
    std::condition_variable changed;
    std::size_t left = count;
    std::size_t first_failed = count;
    std::exception_ptr failure;
    std::atomic<std::size_t> next = 0;
    const auto fail_at = [&](std::size_t place) {  // with what is being handled
        const std::scoped_lock lock(mutex);
        if (place <= first_failed) {
            first_failed = place;
            failure = std::current_exception();
        }
        stop_ = true;
    };
    const auto run_some = [&] {
        const StopCheck check([this] { return !stop_; });
        for (std::size_t k = next++; k < count; k = next++) {
            try {
                if (!stop_) {
                    work(k);
                }
            } catch (const ComputationStopped&) {
            } catch (...) {
                fail_at(k);
            }
            const std::scoped_lock lock(mutex);
            --left;
            changed.notify_one();
        }
    };
    {
        std::vector<std::jthread> workers;
        try {
            while (workers.size() < std::min<std::size_t>(threads_, count)) {
                workers.push_back(start_thread(purpose_, run_some, [&] { fail_at(count); }));
            }
            std::unique_lock lock(mutex);
            constexpr std::chrono::milliseconds kBetweenReports{20};
            while (!changed.wait_for(lock, kBetweenReports, [&] { return left == 0 || stop_; })) {
                lock.unlock();
                check_stop();
                report(done_ + share * std::clamp(share_done(), 0.0, 1.0));
                lock.lock();
            }
        } catch (...) {
            stop_ = true;
            throw;
        }
    }  // joins
    if (failure) {
        std::rethrow_exception(failure);
    }
    done_ += share;
    report(std::min(1.0, done_));
}

void WorkThreads::report(double done) {
    if (!stop_ && progress_ && !progress_(done)) {
        cancelled_ = true;
        stop_ = true;
    }
}
}  // namespace pipescope
