#include "simulator/search_tables.h"

#include "balance/optimal_partition.h"

#include <algorithm>

namespace pipescope {
SizedProfile least_of(const SizedProfile& a, const SizedProfile& b) {
    SizedProfile least = a;
    const auto lower = [](auto& values, const auto& others) {
        for (std::size_t k = 0; k < values.size(); ++k) {
            values[k] = std::min(values[k], others[k]);
        }
    };
    lower(least.forward, b.forward);
    lower(least.recompute, b.recompute);
    lower(least.backward, b.backward);
    lower(least.output, b.output);
    return least;
}

SearchTables::SearchTables(const Profile& profile, const PipelineOptions& options)
    : sizes(micro_batch_sizes(options)),
      large(at_size(profile, sizes.front())),
      small(at_size(profile, sizes.back())),
      ranges(std::make_shared<RangeMemories>(profile, large, small, optimizer_state_factor(options, profile.dtype))) {
    if (profile.layers.size() > kMostExactLayers) {
        return;
    }
    const std::vector<double> speeds =
        options.hardware.speeds.empty() ? std::vector<double>{1.0} : options.hardware.speeds;
    const auto intervals_of = [&](const SizedProfile& sized) {
        return std::make_shared<const IntervalTable>(sized.forward, sized.recompute, sized.backward, speeds);
    };
    intervals_large = intervals_of(large);
    const bool is_even = sizes.front() == sizes.back();
    intervals_small = is_even ? intervals_large : intervals_of(small);
    intervals_least = is_even ? intervals_large : intervals_of(least_of(large, small));
}
}  // namespace pipescope
