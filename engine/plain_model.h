#pragma once

#include "engine/engine_options.h"
#include "engine/partition.h"

#include <concepts>
#include <cstdint>
#include <vector>

namespace torch::nn {
class Sequential;
}

namespace pipescope {
struct PlainOptions {
    std::int64_t chunks = 1;  ///< micro-batches, cut as GPipe cuts them
    std::uint64_t seed = 0;   ///< for random numbers drawn inside layers, as in GPipeOptions
    MiniBatchSplit split = {};
};

/// Runs the same layers in sequence in the calling thread, micro-batch by micro-batch, with the same rule for random
/// numbers. The reference for a pipeline's gradients and speed. No lanes, no detaching, no checkpointing: torch's own
/// autograd sees the whole model.
/// Threading: one caller at a time.
class PlainModel {
public:
    PlainModel(const std::vector<LayerSpec>& layers, PlainOptions options);
    /// Shares the children of an existing module. A template as in GPipe.
    template <std::same_as<torch::nn::Sequential> Module>
    PlainModel(Module module, PlainOptions options);

    /// The gathered output, in the caller's graph.
    Tensors forward(const Tensors& input);
    /// Forward, the loss on the gathered output, and backward; returns the loss, detached.
    at::Tensor step(const Tensors& input, const Tensors& target, const LossFunction& loss);

    /// Keys and order as in GPipe::named_parameters().
    NamedTensors named_parameters() const;
    NamedTensors named_buffers() const;
    void train(bool on = true);
    void to(at::ScalarType dtype);
    /// Like GPipe::next_step(), but counts every forward.
    std::int32_t next_step() const noexcept { return next_step_; }
    /// Makes the next forward draw the random numbers of a pipeline's step of that number.
    void set_next_step(std::int32_t step) noexcept { next_step_ = step; }

private:
    PlainModel(std::vector<ModelLayer> layers, PlainOptions options);

    PlainOptions options_;
    Partition layers_;
    std::int32_t next_step_ = 0;
};
}  // namespace pipescope
