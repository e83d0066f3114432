#include "profiler/layers/busy_lanes.h"

#include "base/thread_start.h"
#include "profiler/layers/repeats.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace pipescope {
BusyLanes::BusyLanes(const ModelSpec& model, const std::vector<MeasuredSize>& sizes, std::uint64_t seed, int count)
    : sizes_(sizes), busy_(static_cast<std::size_t>(count)) {
    for (int lane = 0; lane < count; ++lane) {
        const std::uint64_t lane_seed = seed + 1 + static_cast<std::uint64_t>(lane);
        lanes_.push_back({std::make_unique<LayerChain>(model, lane_seed), false, {}});
    }
    try {
        for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
            threads_.push_back(start_thread(
                "a busy lane", [this, lane] { work(lane); }, [this, lane] { fail(lane); }));
        }
    } catch (...) {
        end();  // the threads that run
        throw;
    }
}

BusyLanes::~BusyLanes() {
    end();
}

void BusyLanes::end() {
    {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
        pass_.request_stop();
    }
    changed_.notify_all();
}

void BusyLanes::work(std::size_t lane) {
    run_on_one_thread();
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [&] { return is_over_ || lane < busy_; });
        if (is_over_) {
            return;
        }
        lanes_[lane].runs = true;
        const std::size_t index = size_;
        const MeasuredSize& size = sizes_[index];
        const std::stop_token stop = pass_.get_token();
        lock.unlock();
        Pass pass{std::chrono::steady_clock::now(), {}, index, 0};
        pass.ns = lanes_[lane].chain->run(size.start, size.target, size.segments, stop).total();
        pass.end = std::chrono::steady_clock::now();
        lock.lock();
        if (!stop.stop_requested()) {
            lanes_[lane].passes.push_back(pass);
        }
        leave_pass(lane);
    }
}

/// Under mutex_.
void BusyLanes::leave_pass(std::size_t lane) {
    lanes_[lane].runs = false;
    if (others_stopped()) {
        drained_.request_stop();
    }
    changed_.notify_all();
}

/// Keeps the exception that ends the lane's thread.
void BusyLanes::fail(std::size_t lane) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    leave_pass(lane);
}

void BusyLanes::set_size(std::size_t index) {
    const std::lock_guard lock(mutex_);
    size_ = index;
}

void BusyLanes::set_busy(int count, const std::function<void(const std::stop_token&)>& meanwhile) {
    std::unique_lock lock(mutex_);
    busy_ = static_cast<std::size_t>(count);
    drained_ = std::stop_source();
    changed_.notify_all();
    while (!others_stopped()) {
        const std::stop_token stop = drained_.get_token();
        lock.unlock();
        meanwhile(stop);
        lock.lock();
    }
}

bool BusyLanes::others_stopped() const {
    return std::none_of(lanes_.begin() + static_cast<std::ptrdiff_t>(std::min(busy_, lanes_.size())), lanes_.end(),
                        [](const Lane& lane) { return lane.runs; });
}

std::vector<double> BusyLanes::mean_passes(std::size_t size) const {
    constexpr std::size_t kFewest = 5;
    const std::lock_guard lock(mutex_);
    std::vector<double> means;
    for (const Lane& lane : lanes_) {
        std::vector<double> times;
        for (const Pass& pass : lane.passes) {
            if (pass.size == size) {
                times.push_back(pass.ns);
            }
        }
        Repeats repeats;
        for (std::size_t k = 1; k < times.size(); ++k) {  // the first is a warm-up
            repeats.add({times[k]});
        }
        repeats.drop(standstills(repeats.sums()));
        if (repeats.rounds() >= kFewest) {
            means.push_back(repeats.mean(0));
        }
    }
    return means;
}

double BusyLanes::pass_over_mean(Moment start, Moment end, std::size_t size) const {
    const std::lock_guard lock(mutex_);
    double sum = 0;
    int count = 0;
    for (const Lane& lane : lanes_) {
        double all = 0;
        double overlapping = 0;
        int num_all = 0;
        int num_overlapping = 0;
        for (const Pass& pass : lane.passes) {
            if (pass.size != size) {
                continue;
            }
            all += pass.ns;
            ++num_all;
            if (pass.start < end && start < pass.end) {
                overlapping += pass.ns;
                ++num_overlapping;
            }
        }
        if (num_overlapping > 0 && all > 0) {
            sum += (overlapping / num_overlapping) / (all / num_all);
            ++count;
        }
    }
    return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

void BusyLanes::check() {
    const std::lock_guard lock(mutex_);
    if (failure_) {
        std::rethrow_exception(failure_);
    }
}
}  // namespace pipescope
