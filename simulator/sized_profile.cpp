#include "simulator/sized_profile.h"

#include "simulator/clock/contention.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace pipescope {
SizedProfile at_size(const Profile& profile, std::int64_t samples) {
    SizedProfile sized;
    sized.samples = samples;
    const auto read = [&](const PerSize& values) {
        const Interpolated result = interpolate(profile.samples, values, static_cast<double>(samples));
        sized.extrapolated = sized.extrapolated || result.extrapolated;
        return result.value;
    };
    const double alone = speed_alone(profile);
    const auto read_time = [&](const PerSize& values) { return read(values) / alone; };
    const auto read_bytes = [&](const PerSize& values) { return rounded_bytes(read(values)); };
    sized.input = read_bytes(profile.input_bytes);
    for (const LayerProfile& layer : profile.layers) {
        sized.forward.push_back(read_time(layer.forward_ns));
        sized.kept_forward.push_back(layer.graph_forward_ns.empty() ? sized.forward.back()
                                                                    : read_time(layer.graph_forward_ns));
        sized.recompute.push_back(read_time(layer.recompute_ns.empty() ? layer.forward_ns : layer.recompute_ns));
        sized.backward.push_back(read_time(layer.backward_ns));
        const Interpolated weights = backward_weight_time(profile, layer, static_cast<double>(samples));
        sized.extrapolated = sized.extrapolated || weights.extrapolated;
        sized.backward_weight.push_back(weights.value / alone);
        sized.output.push_back(read_bytes(layer.output_bytes));
        sized.saved.push_back(read_bytes(layer.saved_bytes));
        sized.transient.push_back(read_bytes(layer.transient_bytes));
        for (const auto& [name, bytes] : layer.stash) {
            sized.skips.push_back(read_bytes(bytes));
        }
    }
    for (const NamedSkip& skip : skips_of(profile)) {
        sized.skip_names.push_back(skip.name);
        sized.skip_layers.push_back(skip.layers);
        sized.has_gradient.push_back(skip.has_gradient);
    }
    return sized;
}

std::vector<double> layer_times(const SizedProfile& sized, Checkpoint checkpoint, int micro_batches) {
    const bool recomputes = is_checkpointed(checkpoint, MicroBatchId{0}, micro_batches);
    std::vector<double> times;
    for (std::size_t l = 0; l < sized.forward.size(); ++l) {
        times.push_back(sized.backward[l] +
                        (recomputes ? sized.forward[l] + sized.recompute[l] : sized.kept_forward[l]));
    }
    return times;
}

bool has_kept_forwards(const Profile& profile) {
    return std::ranges::any_of(profile.layers,
                               [](const LayerProfile& layer) { return !layer.graph_forward_ns.empty(); });
}

std::vector<NamedSkip> skips_of(const Profile& profile) {
    std::vector<NamedSkip> skips;
    std::map<std::string, std::size_t> index;
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        const LayerId layer{static_cast<std::int64_t>(l)};
        for (const std::string& name : profile.layers[l].pop) {
            skips.at(index.at(name)).layers.pops.push_back(layer);
        }
        for (const auto& [name, bytes] : profile.layers[l].stash) {
            index[name] = skips.size();
            skips.push_back({name, {layer, {}}, !profile.layers[l].without_gradient.contains(name)});
        }
    }
    return skips;
}

std::vector<ProfiledShare> shares_of(const Profile& profile) {
    std::map<std::string, ProfiledShare> by_name;
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        for (const auto& [name, bytes] : profile.layers[l].shared) {
            ProfiledShare& share = by_name[name];
            share.where.layers.push_back(LayerId{l});
            share.where.trains = bytes.gradient_bytes > 0;
            share.bytes = bytes;
        }
    }
    std::vector<ProfiledShare> shares;
    for (auto& [name, share] : by_name) {
        shares.push_back(std::move(share));
    }
    return shares;
}

SkipRoutes skip_routes(const Profile& profile, const Balance& balance, const std::vector<LaneId>& placement) {
    std::vector<SkipLayers> layers;
    for (const NamedSkip& skip : skips_of(profile)) {
        layers.push_back(skip.layers);
    }
    return skip_routes(layers, balance, placement);
}
}  // namespace pipescope
