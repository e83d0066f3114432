#include "balance/automatic_balance.h"

#include "balance/contiguous_partition.h"
#include "base/error.h"

#include <cmath>
#include <string>
#include <vector>

namespace pipescope {
namespace {
void require_positive(const char* name, std::int64_t value) {
    if (value < 1) {
        throw UsageError(std::string(name) + " is " + std::to_string(value) + "; it must be at least 1; correct it");
    }
}
}  // namespace

Balance balance_by_time(int partitions, const CheckedProfile& profile, std::int64_t samples) {
    require_positive("samples", samples);
    std::vector<double> costs;
    for (const LayerProfile& layer : profile->layers) {
        const auto at = [&](const PerSize& values) {
            return interpolate(profile->samples, values, static_cast<double>(samples)).value;
        };
        costs.push_back(at(layer.forward_ns) + at(layer.backward_ns));
    }
    return block_partition(costs, partitions).balance;
}

Balance balance_by_size(int partitions, const CheckedProfile& profile, std::int64_t batch, std::int64_t chunks,
                        double param_scale) {
    require_positive("batch", batch);
    require_positive("chunks", chunks);
    if (!(param_scale >= 0) || !std::isfinite(param_scale)) {
        throw UsageError("param_scale is " + std::to_string(param_scale) +
                         "; it counts copies of the parameters; use 2 for plain SGD");
    }
    const double samples = static_cast<double>(batch) / static_cast<double>(chunks);
    std::vector<double> costs;
    for (const LayerProfile& layer : profile->layers) {
        const auto at = [&](const PerSize& values) { return interpolate(profile->samples, values, samples).value; };
        const double output = layer.aliases_input ? 0 : at(layer.output_bytes);
        costs.push_back(output + at(layer.saved_bytes) + param_scale * static_cast<double>(layer.parameter_bytes));
    }
    return block_partition(costs, partitions).balance;
}
}  // namespace pipescope
