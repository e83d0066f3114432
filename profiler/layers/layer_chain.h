#pragma once

#include "engine/layer.h"
#include "profiler/layers/device_clock.h"
#include "profiler/layers/skip_shelf.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <set>
#include <stop_token>
#include <vector>

namespace pipescope {
/// Time of each layer in one pass at one micro-batch size, in ns; 0 for a part that did not run.
struct LayerTimes {
    std::vector<double> forward;    ///< without gradients, as in a checkpointed micro-batch
    std::vector<double> recompute;  ///< with gradients
    std::vector<double> backward;
    double loss = 0;  ///< gathering the output, the loss, and its gradient

    /// Sum over all layers, without the loss.
    double total() const;
};

/// Times of split backwards, in ns.
struct SplitTimes {
    std::vector<double> weights;  ///< of each layer's second half: the gradients of its parameters
    double both = 0;              ///< of both halves of all layers
};

/// The model's layers, run in sequence as a lane runs its partition.
///
/// Problem: a layer that is timed alone costs more than in a partition. Its input is cold, each backward call sets up
/// autograd again (10 to 20 us), and gradients arrive at leaves that a partition does not have.
///
/// Idea: never run a layer alone. A whole segment of layers runs forward as one autograd graph, and the clock is read
/// between layers. Then the segment runs backward in one call, and a hook on each layer's output reads the clock when
/// backward reaches that layer. Autograd runs nodes in the reverse order of their creation, so these instants divide
/// the call into layers. Cost: the activations of a segment are alive at once; segments are as long as memory allows.
///
/// On an accelerator the instants between layers are events in the stream (DeviceClock), so a layer's time is its time
/// on the device. If a layer's kernels end before the host has launched the next ones, the layer's time includes that
/// wait. Threading: one thread at a time, which has its stream to itself.
class LayerChain {
public:
    /// Creates the layers in training mode, and moves each to the device before it creates the next.
    LayerChain(const ModelSpec& model, std::uint64_t seed, c10::Device device = c10::Device(c10::kCPU));

    /// Runs one pass: for each segment a forward, a forward with gradients, and a backward. Adds to the parameters'
    /// .grad. `segments` are the ends of the segments; the last is the number of layers. A stopped pass returns early,
    /// with the times so far.
    LayerTimes run(const Activation& start, const Tensors& target, const std::vector<std::size_t>& segments,
                   const std::stop_token& stop);

    /// Runs one pass with split backwards. Adds to the parameters' .grad.
    SplitTimes run_split(const Activation& start, const std::vector<std::size_t>& segments);

    /// One layer's forward, with random numbers as in the engine. Takes its pops from the activation, and adds its
    /// stashes.
    void forward(std::size_t layer, Activation& activation);

    /// Time of the loss of that output with its gradient, in ns; 0 if the chain has no loss.
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
    std::vector<SkipNames> skips_;               // by layer
    std::vector<std::set<SkipName>> popped_on_;  // by layer: its pops that a later layer pops too
    std::function<at::Tensor(const Tensors&, const Tensors&)> loss_;
    std::uint64_t seed_;
    c10::Device device_;
    DeviceClock clock_;
};

/// Gives the calling thread one intra-op thread, like a lane. Also sets torch's default for threads that ask later.
void run_on_one_thread();

/// Detached leaves of the same storages, which require gradients if the tensors do: the inputs of a partition.
Tensors as_leaves(const Tensors& tensors);
Activation as_leaves(const Activation& activation);
}  // namespace pipescope
