#pragma once

#include <cstdint>
#include <vector>

namespace pipescope {
/// Sizes in samples of the micro-batches of a mini-batch. There are m = min(chunks, batch); sizes differ by at most
/// one, larger ones first. torchgpipe uses torch.chunk, which gives 5 micro-batches for 9 samples in 8 chunks.
/// Throws as check_micro_batches() does.
std::vector<std::int64_t> micro_batch_sizes(std::int64_t batch, std::int64_t chunks);
/// Throws UsageError unless chunks and batch are at least 1, and a task key has room for the micro-batches.
void check_micro_batches(std::int64_t batch, std::int64_t chunks);
}  // namespace pipescope
