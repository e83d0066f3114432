#pragma once

#include "schedule/checkpoint.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// Times of n partitions for one micro-batch size and of the n - 1 copies between neighbours, in ns.
struct GPipeTimes {
    std::vector<std::int64_t> forward;
    std::vector<std::int64_t> recompute;
    std::vector<std::int64_t> backward;
    std::vector<std::int64_t> copy_forward;
    std::vector<std::int64_t> copy_backward;
    /// With except_last: the forward of the last of several micro-batches, which keeps its graph. Empty: as forward.
    std::vector<std::int64_t> kept_forward = {};
};

/// Computes the step of plain GPipe (partition j on lane j, no skips) without building a task graph. Uses the order of
/// simulate() and gives the same answer, for searches that try very many configurations.
///
/// Idea: micro-batch i leaves partition j once the lane has finished i - 1 and i has arrived. One row of arrival times,
/// overwritten partition by partition, is therefore the whole state. Cost: O(n m), no allocation after the first call
/// of a size. Threading: one thread at a time; it keeps a buffer.
class GPipeRecurrence {
public:
    /// The first `num_large` of the m micro-batches take `large`, the rest `small`; both have n partitions.
    std::int64_t step(const GPipeTimes& large, const GPipeTimes& small, int m, int num_large, Checkpoint checkpoint,
                      std::int64_t loss);
    /// m micro-batches of one size.
    std::int64_t step(const GPipeTimes& times, int m, Checkpoint checkpoint, std::int64_t loss) {
        return step(times, times, m, m, checkpoint, loss);
    }

private:
    std::vector<std::int64_t> arrival_;  // arrival time of each micro-batch at the current partition
};
}  // namespace pipescope
