#include "schedule/micro_batches.h"

#include "base/error.h"
#include "schedule/task_key.h"

#include <algorithm>
#include <string>

namespace pipescope {
void check_micro_batches(std::int64_t batch, std::int64_t chunks) {
    if (chunks < 1) {
        throw UsageError("chunks is " + std::to_string(chunks) +
                         "; a mini-batch is cut into at least 1 micro-batch; use 1 or more");
    }
    if (batch < 1) {
        throw UsageError("batch is " + std::to_string(batch) + "; a step needs at least 1 sample; use 1 or more");
    }
    if (std::min(batch, chunks) > kMostMicroBatches) {
        throw UsageError("chunks is " + std::to_string(chunks) + "; a step has at most " +
                         std::to_string(kMostMicroBatches) + " micro-batches; use fewer");
    }
}

std::vector<std::int64_t> micro_batch_sizes(std::int64_t batch, std::int64_t chunks) {
    check_micro_batches(batch, chunks);
    const std::int64_t m = std::min(batch, chunks);
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(m), batch / m);
    std::fill_n(sizes.begin(), batch % m, batch / m + 1);
    return sizes;
}
}  // namespace pipescope
