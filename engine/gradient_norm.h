#pragma once

#include <ATen/core/Tensor.h>

namespace pipescope {
class Pipeline;

/// GPipe::clip_grad_norm_().
///
/// Each process computes the norms of its own gradients. All get all of them, in the order of the layers, and compute
/// the total from those, so it has the same bits everywhere, and the bits of the plain model's.
at::Tensor clip_gradients(Pipeline& pipeline, double max_norm, double norm_type, bool error_if_nonfinite);
}  // namespace pipescope
