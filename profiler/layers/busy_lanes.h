#pragma once

#include "profiler/layers/layer_chain.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace pipescope {
/// A micro-batch of one measured size, and the model's segments at that size.
struct MeasuredSize {
    Activation start;
    Tensors target;
    std::vector<std::size_t> segments;
};

/// Lanes that run their own copies of the model repeatedly. The measured lane thus gets the caches, memory bandwidth
/// and clock rate of a lane among busy lanes. All are busy from the start. Threading: all calls from one thread; the
/// sizes must outlive the object.
class BusyLanes {
public:
    using Moment = std::chrono::steady_clock::time_point;

    BusyLanes(const ModelSpec& model, const std::vector<MeasuredSize>& sizes, std::uint64_t seed, int count);
    ~BusyLanes();  // the threads stop within a layer
    BusyLanes(const BusyLanes&) = delete;
    BusyLanes& operator=(const BusyLanes&) = delete;

    int count() const noexcept { return static_cast<int>(lanes_.size()); }
    /// Sets the size that the lanes run from their next pass on.
    void set_size(std::size_t index);
    /// Lets only the first `count` lanes continue; returns when the others have finished their pass. (Aborting passes
    /// would lose long passes more often than short ones, and the others' mean would be too small.)
    ///
    /// Until then, runs `meanwhile` again and again to keep this thread's core busy: passes beside an idle core would
    /// be too quick. It returns early once its token is stopped.
    void set_busy(int count, const std::function<void(const std::stop_token&)>& meanwhile);
    /// Rethrows a lane's exception.
    void check();
    /// Mean time in ns of each lane's passes at that size, without its first pass and standstills. Omits lanes with too
    /// few passes.
    std::vector<double> mean_passes(std::size_t size) const;
    /// Relative time of the other lanes' passes at that size during that interval. Averages the complete passes that
    /// overlap it, each divided by its lane's own mean so that different lanes can be combined. NaN if there is none.
    double pass_over_mean(Moment start, Moment end, std::size_t size) const;

private:
    struct Pass {
        Moment start;
        Moment end;
        std::size_t size = 0;
        double ns = 0;  // sum over the layers
    };
    struct Lane {
        std::unique_ptr<LayerChain> chain;
        bool runs = false;         // this and `passes` are guarded by mutex_
        std::vector<Pass> passes;  // complete ones, in order
    };

    void work(std::size_t lane);
    void leave_pass(std::size_t lane);
    void fail(std::size_t lane);
    void end();
    bool others_stopped() const;  // under mutex_

    const std::vector<MeasuredSize>& sizes_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::size_t size_ = 0;  // this and the next three are guarded by mutex_
    std::size_t busy_ = 0;
    bool is_over_ = false;
    std::exception_ptr failure_;
    std::stop_source pass_;     // aborts passes that run at the end; also guarded, as the next
    std::stop_source drained_;  // stopped once the lanes that should not continue have stopped
    std::vector<Lane> lanes_;
    std::vector<std::jthread> threads_;
};
}  // namespace pipescope
