#include "simulator/search/search_tables.h"

#include "balance/optimal_partition.h"

#include <algorithm>

namespace pipescope {
namespace {
void lower(auto& values, const auto& others) {
    for (std::size_t k = 0; k < values.size(); ++k) {
        values[k] = std::min(values[k], others[k]);
    }
}
}  // namespace

SizedProfile least_of(const SizedProfile& a, const SizedProfile& b) {
    SizedProfile least = a;
    lower(least.forward, b.forward);
    lower(least.kept_forward, b.kept_forward);
    lower(least.recompute, b.recompute);
    lower(least.backward, b.backward);
    lower(least.output, b.output);
    return least;
}

SearchTables::SearchTables(const Profile& profile, const PipelineOptions& options)
    : sizes(micro_batch_sizes(options)),
      ranges(std::make_shared<RangeMemories>(profile, at_size(profile, sizes.front()), at_size(profile, sizes.back()),
                                             optimizer_states(options, profile.dtype))),
      profile_(profile),
      speeds_(options.hardware.speeds.empty() ? std::vector<double>{1.0} : options.hardware.speeds) {}

const SearchTimes& SearchTables::times(Checkpoint checkpoint) const {
    const bool keeps_graphs = !is_checkpointed(checkpoint, MicroBatchId{0}, static_cast<int>(sizes.size()));
    std::optional<SearchTimes>& times = keeps_graphs && has_kept_forwards(profile_) ? kept_ : checkpointed_;
    if (times) {
        return *times;
    }
    times.emplace();
    times->large = at_size(profile_, sizes.front());
    times->small = at_size(profile_, sizes.back());
    for (SizedProfile* const sized : {&times->large, &times->small}) {
        sized->forward = keeps_graphs ? sized->kept_forward : sized->forward;
    }
    if (profile_.layers.size() > kMostExactLayers) {
        return *times;
    }
    const auto intervals_of = [&](const SizedProfile& sized) {
        return std::make_shared<const IntervalTable>(sized.forward, sized.recompute, sized.backward, speeds_,
                                                     sized.kept_forward);
    };
    times->intervals_large = intervals_of(times->large);
    const bool is_even = sizes.front() == sizes.back();
    times->intervals_small = is_even ? times->intervals_large : intervals_of(times->small);
    SizedProfile least = least_of(times->large, times->small);
    lower(least.forward, least.kept_forward);
    times->intervals_least = is_even ? times->intervals_large : intervals_of(least);
    return *times;
}
}  // namespace pipescope
