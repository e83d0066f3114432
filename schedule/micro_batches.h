#pragma once

#include <cstdint>
#include <vector>

namespace pipescope {
/// Sizes of the micro-batches a mini-batch is cut into, in samples: m = min(chunks, batch) of them, differing by at
/// most one, the larger first. torch.chunk, which torchgpipe uses, would give 5 micro-batches for 9 samples in 8
/// chunks. Throws UsageError unless chunks and batch are at least 1.
std::vector<std::int64_t> micro_batch_sizes(std::int64_t batch, std::int64_t chunks);
}  // namespace pipescope
