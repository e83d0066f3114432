#include "profiler/layers/profile_options.h"

#include "profiler/memory/tracking_allocator.h"
#include "schedule/error.h"

#include <algorithm>
#include <functional>
#include <string>

namespace pipescope {
void check_model_and_sizes(const ModelSpec& model, const std::vector<std::int64_t>& samples) {
    if (model.layers.empty()) {
        throw UsageError("the model has no layers; a profile needs at least 1; add a layer");
    }
    if (samples.empty() || samples.front() < 1 ||
        std::adjacent_find(samples.begin(), samples.end(), std::greater_equal<>()) != samples.end()) {
        std::string list;
        for (const std::int64_t size : samples) {
            if (!list.empty()) {
                list += ',';
            }
            list += std::to_string(size);
        }
        throw UsageError("micro-batch sizes are '" + list +
                         "'; they must be whole numbers from 1 up, ascending; write them as 1,2,4");
    }
    if (!tracking_allocator::installed()) {
        throw Error(
            "the tracking allocator is not installed; bytes cannot be measured without it; call "
            "tracking_allocator::install() before the first tensor is made");
    }
}
}  // namespace pipescope
