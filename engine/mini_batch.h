#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// Samples of a mini-batch: the first dimension all its tensors agree in. Throws EngineError where they do not, or
/// where there is none.
std::int64_t batch_size(const Tensors& mini_batch);

/// Cuts every tensor along its first dimension; the parts are views. `sizes` sum to that dimension.
/// Undefined tensors stay undefined.
std::vector<Tensors> split(const Tensors& tensors, const std::vector<std::int64_t>& sizes);

/// Concatenates the micro-batches' tensors along the first dimension and lets go of them: per position, so that at most
/// one tensor is held twice. One micro-batch is handed through. Throws EngineError where counts differ or a tensor has
/// no dimension.
Tensors gather(std::vector<Tensors> micro_batches);

/// As gather(), for gradients of `whole`'s parts: a missing one counts as zero. Undefined where all are missing, and
/// where `whole` is.
Tensors gather_gradients(std::vector<Tensors> micro_batches, const Tensors& whole,
                         const std::vector<std::int64_t>& sizes);
}  // namespace pipescope
