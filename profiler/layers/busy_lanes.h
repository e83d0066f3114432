#pragma once

#include "profiler/layers/layer_chain.h"

#include <atomic>
#include <exception>
#include <mutex>
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
/// bandwidth and the clock rate of a lane among busy lanes.
/// Threading: start and stop from one thread; the sizes must outlive the object.
class BusyLanes {
public:
    BusyLanes(const ModelSpec& model, const std::vector<MeasuredSize>& sizes, std::uint64_t seed, int count);
    ~BusyLanes() = default;  // the threads stop within a layer
    BusyLanes(const BusyLanes&) = delete;
    BusyLanes& operator=(const BusyLanes&) = delete;

    /// The size the lanes run from their next pass on.
    void set_size(std::size_t index) { size_ = index; }
    /// Throws what a lane failed with.
    void check();

private:
    void work(const std::stop_token& stop, LayerChain& chain);

    const std::vector<MeasuredSize>& sizes_;
    std::atomic<std::size_t> size_{0};
    std::mutex mutex_;
    std::exception_ptr failure_;
    std::vector<std::unique_ptr<LayerChain>> chains_;
    std::vector<std::jthread> threads_;
};
}  // namespace pipescope
