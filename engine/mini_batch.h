#pragma once

#include "engine/engine_options.h"
#include "engine/layer.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipescope {
/// The entry for the tensor at a position; by default it is cut along dimension 0.
TensorSplit split_of(const std::vector<TensorSplit>& how, std::size_t position);

/// Number of samples in a mini-batch: the size of all tensors that are cut, in their dimension of the samples. Throws
/// EngineError if they do not agree, or if no tensor is cut.
std::int64_t batch_size(const Tensors& mini_batch, const std::vector<TensorSplit>& how = {});

/// Throws EngineError if a tensor that `make` cuts requires a gradient, which could not go back through it.
void refuse_made_gradients(const Tensors& tensors, const std::vector<TensorSplit>& how);

/// Cuts every tensor; the parts are views, except for those that `make` makes. `sizes` sum to the number of samples.
/// Undefined tensors stay undefined.
std::vector<Tensors> split(const Tensors& tensors, const std::vector<std::int64_t>& sizes,
                           const std::vector<TensorSplit>& how = {});

/// Concatenates the micro-batches' tensors and releases them, position by position, so that at most one tensor is held
/// twice. `dimensions`: by position; otherwise 0. A single micro-batch is passed through. Throws EngineError if counts
/// differ or a tensor lacks the dimension.
Tensors gather(std::vector<Tensors> micro_batches, const std::vector<std::int64_t>& dimensions = {});

/// Like gather(), for gradients of `whole`'s parts: a missing one counts as zero. Undefined if all are missing or if
/// `whole` is undefined.
Tensors gather_gradients(std::vector<Tensors> micro_batches, const Tensors& whole,
                         const std::vector<std::int64_t>& sizes, const std::vector<TensorSplit>& how = {});
}  // namespace pipescope
