#pragma once

#include "engine/layer.h"
#include "profiler/layers/device_clock.h"
#include "profiler/layers/skip_shelf.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

namespace pipescope {
/// ns of each layer in one pass over the model at one micro-batch size; 0 where nothing ran.
struct LayerTimes {
    std::vector<double> forward;    ///< without gradients, as the forward of a checkpointed micro-batch
    std::vector<double> recompute;  ///< with gradients
    std::vector<double> backward;
    double loss = 0;  ///< joining the output, the loss, and its gradient

    /// Of all layers, the loss apart.
    double total() const;
};

/// The model's layers, run one after the other in the way a lane runs its partition.
///
/// Problem: a layer timed by itself costs more than it does in a partition. Its input is cold, each of its backward
/// calls sets up autograd anew (10 to 20 us), and gradients arrive at leaves that a partition does not have. Idea:
/// never run a layer alone. A whole segment of layers runs forward as one autograd graph, with the clock read between
/// layers, and then backward in one call; a hook on each layer's output reads the clock when backward reaches that
/// layer. Autograd runs nodes in the reverse order of their making, so those instants cut the call into layers. Cost:
/// the activations of a segment are alive at once; segments are as long as memory allows.
///
/// On an accelerator the moments between layers are events in the stream (DeviceClock), so that a layer's time is what
/// the device works for it. Where a layer's kernels end before the host has launched the next ones, the device waits,
/// and that too is in the layer's time. Threading: one thread at a time, which has its stream for itself.
class LayerChain {
public:
    /// Makes the layers, in training mode, and moves each to the device before it makes the next.
    LayerChain(const ModelSpec& model, std::uint64_t seed, c10::Device device = c10::Device(c10::kCPU));

    /// One pass: for each segment forward, forward with gradients, backward. Adds to the parameters' .grad.
    /// `segments` are the ends of the segments, the last one the number of layers. A stopped pass returns early, with
    /// what it has.
    LayerTimes run(const Activation& start, const Tensors& target, const std::vector<std::size_t>& segments,
                   const std::stop_token& stop);

    /// One layer's forward, with random numbers as in the engine: takes what it pops from the activation, and leaves
    /// there what it stashes.
    void forward(std::size_t layer, Activation& activation);

    /// ns that the loss of that output takes, with its gradient; an end of the chain that has none takes 0.
    double time_loss(const Tensors& output, const Tensors& target) const;

    c10::Device device() const noexcept { return device_; }
    std::size_t size() const noexcept { return layers_.size(); }
    const Layer& layer(std::size_t index) const { return *layers_.at(index); }
    const SkipNames& skips(std::size_t index) const { return skips_.at(index); }
    std::vector<at::Tensor> parameters() const;
    bool has_loss() const noexcept { return static_cast<bool>(loss_); }
    at::Tensor loss(const Tensors& output, const Tensors& target) const { return loss_(output, target); }

private:
    void run_segment(std::size_t first, std::size_t end, Activation& at, const Tensors& target, LayerTimes& times,
                     const std::stop_token& stop);

    std::vector<std::unique_ptr<Layer>> layers_;
    std::vector<SkipNames> skips_;  // of each layer
    std::function<at::Tensor(const Tensors&, const Tensors&)> loss_;
    std::uint64_t seed_;
    c10::Device device_;
    DeviceClock clock_;
};

/// One intra-op thread for the calling thread, as a lane has. Sets the default of threads that ask torch later, too.
void run_on_one_thread();

/// Detached leaves of the same storages, requiring gradients where the tensors do: what a partition starts from.
Tensors as_leaves(const Tensors& tensors);
Activation as_leaves(const Activation& activation);
}  // namespace pipescope
