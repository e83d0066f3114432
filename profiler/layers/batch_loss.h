#pragma once

#include "engine/layer.h"
#include "profiler/layers/layer_chain.h"
#include "profiler/profile/profile.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// The end of a model whose loss is measured, and the largest micro-batch that went through it.
struct ModelEnd {
    const LayerChain& chain;  ///< has a loss
    const ModelSpec& model;
    const Tensors& input;
    const Tensors& output;
    const std::vector<std::int64_t>& output_dimensions;  ///< as in ProfileOptions
};

/// Times the loss at whole mini-batch sizes without running the model at such a size. A mini-batch's output is the
/// concatenation of its micro-batches', so it repeats the micro-batch's output; the targets come from a real batch.
///
/// `sizes` empty: 8 and 32 times the micro-batch, provided that input and output stay below a quarter of a GiB each.
/// Returns the median of a few repeats for each size, since the first repeats may fault in memory that later ones find.
/// Runs on the calling thread.
BatchLoss time_batch_loss(const ModelEnd& end, std::vector<std::int64_t> sizes, std::uint64_t seed);
}  // namespace pipescope
