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
      ranges(std::make_shared<RangeMemories>(profile, at_size(profile, sizes.front()), at_size(profile, sizes.back()),
                                             optimizer_state_factor(options, profile.dtype))),
      profile_(profile),
      speeds_(options.hardware.speeds.empty() ? std::vector<double>{1.0} : options.hardware.speeds) {}

const SearchTimes& SearchTables::times(Checkpoint checkpoint) const {
    const bool keeps_graphs =
        checkpoint == Checkpoint::never &&
        std::ranges::any_of(profile_.layers, [](const LayerProfile& layer) { return !layer.graph_forward_ns.empty(); });
    std::optional<SearchTimes>& times = keeps_graphs ? never_ : checkpointed_;
    if (times) {
        return *times;
    }
    times.emplace();
    times->large = at_size(profile_, sizes.front(), checkpoint);
    times->small = at_size(profile_, sizes.back(), checkpoint);
    if (profile_.layers.size() > kMostExactLayers) {
        return *times;
    }
    const auto intervals_of = [&](const SizedProfile& sized) {
        return std::make_shared<const IntervalTable>(sized.forward, sized.recompute, sized.backward, speeds_);
    };
    times->intervals_large = intervals_of(times->large);
    const bool is_even = sizes.front() == sizes.back();
    times->intervals_small = is_even ? times->intervals_large : intervals_of(times->small);
    times->intervals_least = is_even ? times->intervals_large : intervals_of(least_of(times->large, times->small));
    return *times;
}
}  // namespace pipescope
