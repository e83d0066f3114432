#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <vector>

namespace pipescope {
class Partition;

/// The inputs from which a checkpointed micro-batch is recomputed. The memory is the caller's, or a layer's, so it may
/// change in place before backward. Autograd, which compares versions of saved tensors, never sees these.
class RecomputeInputs {
public:
    RecomputeInputs() = default;
    /// `trains`: true if the model is in training mode.
    RecomputeInputs(Tensors inputs, bool trains);

    /// Returns the inputs of `partition`, once. Throws EngineError if one was changed in place since the forward, or if
    /// the model has switched its mode.
    Tensors take(const Partition& partition, bool trains);

private:
    Tensors inputs_;
    std::vector<std::uint32_t> versions_;
    bool trains_ = false;
};

/// Number of in-place changes of a tensor; 0 if torch does not count them.
std::uint32_t version_of(const at::Tensor& tensor);
}  // namespace pipescope
