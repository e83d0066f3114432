#pragma once

#include "profiler/profile/profile.h"
#include "schedule/balance.h"
#include "schedule/checkpoint.h"
#include "schedule/shared_routes.h"
#include "schedule/skip_routes.h"

#include <string>
#include <vector>

namespace pipescope {
/// A profile read off at one micro-batch size: plain numbers per layer.
struct SizedProfile {
    std::int64_t samples = 0;
    std::vector<double> forward;          ///< ns; of one that keeps no graph
    std::vector<double> kept_forward;     ///< ns; of one that keeps its graph for the backward
    std::vector<double> recompute;        ///< ns
    std::vector<double> backward;         ///< ns
    std::vector<double> backward_weight;  ///< ns, the part of backward that computes the parameters' gradients
    Bytes input = 0;
    std::vector<Bytes> output;
    std::vector<Bytes> saved;
    std::vector<Bytes> transient;
    std::vector<Bytes> skips;  ///< by index, in the order of skips_of()
    std::vector<std::string> skip_names;
    std::vector<SkipLayers> skip_layers;  ///< by skip
    std::vector<bool> has_gradient;       ///< by skip: false for whole numbers and truth values
    bool extrapolated = false;            ///< some value lies outside the measured sizes
};

/// Times are those of layers that run alone (contention.h). Precondition: the profile was checked.
SizedProfile at_size(const Profile& profile, std::int64_t samples);
/// True if some layer's forward takes another time if it keeps its graph.
bool has_kept_forwards(const Profile& profile);

/// Time of each layer in a step's first micro-batch, in ns: its forward and backward, and its recomputation if that
/// micro-batch is checkpointed. `sized`: at the size of that micro-batch.
std::vector<double> layer_times(const SizedProfile& sized, Checkpoint checkpoint, int micro_batches);

struct NamedSkip {
    std::string name;
    SkipLayers layers;
    bool has_gradient = true;
};
/// The profile's skips by stashing layer, then name.
std::vector<NamedSkip> skips_of(const Profile& profile);
/// Parameters that several layers use, by name.
struct ProfiledShare {
    SharedLayers where;
    SharedBytes bytes;
};
std::vector<ProfiledShare> shares_of(const Profile& profile);
/// The routes of the profile's skips; skip_of are positions in skips_of().
SkipRoutes skip_routes(const Profile& profile, const Balance& balance, const std::vector<LaneId>& placement);
}  // namespace pipescope
