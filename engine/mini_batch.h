#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// Number of samples in a mini-batch: the first dimension, in which all its tensors must agree. Throws EngineError if
/// they do not, or if there is no tensor.
std::int64_t batch_size(const Tensors& mini_batch);

/// Cuts every tensor along its first dimension; the parts are views. `sizes` sum to that dimension.
/// Undefined tensors stay undefined.
std::vector<Tensors> split(const Tensors& tensors, const std::vector<std::int64_t>& sizes);

/// Concatenates the micro-batches' tensors along the first dimension and releases them, position by position, so that
/// at most one tensor is held twice. A single micro-batch is passed through. Throws EngineError if counts differ or a
/// tensor has no dimension.
Tensors gather(std::vector<Tensors> micro_batches);

/// Like gather(), for gradients of `whole`'s parts: a missing one counts as zero. Undefined if all are missing or if
/// `whole` is undefined.
Tensors gather_gradients(std::vector<Tensors> micro_batches, const Tensors& whole,
                         const std::vector<std::int64_t>& sizes);
}  // namespace pipescope
