#include "cluster/known_profiles.h"

#include <utility>

namespace pipescope {
PartProfile::PartProfile(Profile of_part, std::int64_t samples)
    : profile(std::move(of_part)), sized(at_size(profile, samples)), times(layer_times(sized, Checkpoint::never, 1)) {}

PartProfilePointer KnownProfiles::of(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                                     const Layout& layout) {
    const auto made = [&] {
        return std::make_shared<const PartProfile>(language_model_profile(model, cluster, group, layout),
                                                   layout.micro_batch_size);
    };
    // ZeRO 2 and 3 split what layers hold among the replicas, and ZeRO 1 what the ends' optimizer keeps beyond that of
    // blocks.
    const bool splits_ends = layout.zero == 1 && kept_bytes(layout, false) != kept_bytes(layout, true);
    const bool splits = layout.zero > 1 || splits_ends;
    // Which devices share a node depends on the total number of devices.
    const Key key(&group, layout.devices(), layout.tensor, layout.context, layout.expert, layout.expert_tensor,
                  layout.sequence_parallel, ends_share_a_lane(layout), layout.micro_batch_size, layout.recompute,
                  splits ? layout.zero : 0, splits ? layout.pipeline : 0);
    if (const auto found = known_.find(key); found != known_.end()) {
        return found->second;
    }
    PartProfilePointer profile = made();
    constexpr std::size_t kMostLayers = 50'000;  // about 50 MB
    layers_ += profile->times.size();
    if (layers_ > kMostLayers) {
        known_.clear();
        cuts_ = {};  // keeps profiles alive
        layers_ = profile->times.size();
    }
    known_.emplace(key, profile);
    return profile;
}
}  // namespace pipescope
