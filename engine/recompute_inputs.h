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
    explicit RecomputeInputs(Tensors inputs);

    /// The inputs of `partition`, once. Throws EngineError where one was changed in place since the forward.
    Tensors take(const Partition& partition);

private:
    Tensors inputs_;
    std::vector<std::uint32_t> versions_;
};

/// How often a tensor was changed in place; 0 where nobody counts.
std::uint32_t version_of(const at::Tensor& tensor);
}  // namespace pipescope
