#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <vector>

namespace pipescope {
class Partition;

/// What a checkpointed micro-batch is computed again from. The memory is the caller's, or a layer's, so it may be
/// changed in place before backward; autograd, which compares versions of what it saved, never sees these tensors.
class RecomputeInputs {
public:
    RecomputeInputs() = default;
    /// `trains`: whether the model is in training mode, not in eval mode.
    RecomputeInputs(Tensors inputs, bool trains);

    /// The inputs of `partition`, once. Throws EngineError where one was changed in place since the forward, or where
    /// the model has changed its mode.
    Tensors take(const Partition& partition, bool trains);

private:
    Tensors inputs_;
    std::vector<std::uint32_t> versions_;
    bool trains_ = false;
};

/// How often a tensor was changed in place; 0 where nobody counts.
std::uint32_t version_of(const at::Tensor& tensor);
}  // namespace pipescope
