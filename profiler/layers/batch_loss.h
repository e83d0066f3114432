#pragma once

#include "balance/profile.h"
#include "engine/layer.h"
#include "profiler/layers/layer_chain.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// The end of a model whose loss is to be measured, and the largest micro-batch that went through it.
struct ModelEnd {
    const LayerChain& chain;  ///< has a loss
    const ModelSpec& model;
    const Tensors& input;
    const Tensors& output;
};

/// Times the loss at the sizes of whole mini-batches without running the model at such a size: a mini-batch's output is
/// micro-batches joined, so the micro-batch's output is joined to itself, and the targets are those of a real batch.
/// `sizes` empty: 8 and 32 times the micro-batch, as far as input and output stay below a quarter of a GiB each. The
/// mean of a few repeats each. Runs on the calling thread.
BatchLoss time_batch_loss(const ModelEnd& end, std::vector<std::int64_t> sizes, std::uint64_t seed);
}  // namespace pipescope
