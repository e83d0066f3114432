#pragma once

#include "profiler/layers/layer_chain.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace pipescope {
/// What layers are measured at: a micro-batch of each size, and how the model is cut at that size.
struct MeasuredSize {
    Activation start;
    Tensors target;
    std::vector<std::size_t> segments;
};

/// Lanes that run their own copies of the model over and over, so that the measured one has the caches, the memory
/// bandwidth and the clock rate of a lane among busy lanes. All are busy from the start.
/// Threading: everything from one thread; the sizes must outlive the object.
class BusyLanes {
public:
    using Moment = std::chrono::steady_clock::time_point;

    BusyLanes(const ModelSpec& model, const std::vector<MeasuredSize>& sizes, std::uint64_t seed, int count);
    ~BusyLanes();  // the threads stop within a layer
    BusyLanes(const BusyLanes&) = delete;
    BusyLanes& operator=(const BusyLanes&) = delete;

    int count() const noexcept { return static_cast<int>(lanes_.size()); }
    /// The size the lanes run from their next pass on.
    void set_size(std::size_t index);
    /// Only the first `count` lanes go on; returns when the others have finished their pass. (Broken off, a long pass
    /// would be lost more often than a short one, and the mean of the others too small.)
    void set_busy(int count);
    /// Throws what a lane failed with.
    void check();
    /// Mean time in ns of each lane's passes at that size, without its first and standstills. Lanes with too few passes
    /// are left out.
    std::vector<double> mean_passes(std::size_t size) const;
    /// What a pass of the other lanes took in that time, at that size: the mean of the whole passes that overlap it,
    /// each over its lane's own mean, so that lanes that differ can be put together. NaN if there is none.
    double pass_over_mean(Moment start, Moment end, std::size_t size) const;

private:
    struct Pass {
        Moment start;
        Moment end;
        std::size_t size = 0;
        double ns = 0;  // of the layers
    };
    struct Lane {
        std::unique_ptr<LayerChain> chain;
        bool runs = false;         // these two guarded by mutex_
        std::vector<Pass> passes;  // whole ones, in their order
    };

    void work(std::size_t lane);
    bool others_stopped() const;  // under mutex_

    const std::vector<MeasuredSize>& sizes_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t size_ = 0;  // these four guarded by mutex_
    std::size_t busy_ = 0;
    bool is_over_ = false;
    std::exception_ptr failure_;
    std::stop_source pass_;  // breaks off the passes that run at the end; guarded too
    std::vector<Lane> lanes_;
    std::vector<std::jthread> threads_;
};
}  // namespace pipescope
