#include "gui/what_if/balance_cuts.h"

#include <algorithm>

namespace pipescope {
namespace {
/// Share of the bar that is divided evenly among the layers, so that layers without cost stay visible.
constexpr double kEvenPart = 0.05;
}  // namespace

std::vector<std::size_t> cutsOf(const Balance& balance) {
    std::vector<std::size_t> cuts;
    for (std::size_t j = 1; j < balance.num_partitions(); ++j) {
        cuts.push_back(balance.layers_of(PartitionId{static_cast<std::int64_t>(j)}).first.index());
    }
    return cuts;
}

Balance withCut(const Balance& balance, std::size_t cut, std::int64_t layer) {
    std::vector<std::int64_t> layers = balance.layers_per_partition();
    if (cut + 1 >= layers.size()) {
        return balance;
    }
    const auto first =
        static_cast<std::int64_t>(balance.layers_of(PartitionId{static_cast<std::int64_t>(cut)}).first.index());
    const std::int64_t both = layers[cut] + layers[cut + 1];
    layers[cut] = std::clamp<std::int64_t>(layer - first, 1, both - 1);
    layers[cut + 1] = both - layers[cut];
    return Balance(layers);
}

LayerSums layerSums(const Profile& profile, const Scenario& scenario) {
    const PipelineOptions& options = scenario.options;
    const SizedProfile sized = atFirstMicroBatch(profile, options);
    const std::vector<double> times = layerTimes(profile, options);
    LayerSums sums;
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        const LayerProfile& layer = profile.layers[l];
        sums.time.push_back(sums.time.back() + times[l]);
        const Bytes bytes =
            layer.parameter_bytes + layer.gradient_bytes + layer.buffer_bytes + sized.output[l] + sized.saved[l];
        sums.memory.push_back(sums.memory.back() + static_cast<double>(bytes));
    }
    return sums;
}

std::vector<double> layerPlaces(const LayerSums& sums, LayerWidth width) {
    const std::size_t layers = sums.numLayers();
    const std::vector<double>& of = width == LayerWidth::memory ? sums.memory : sums.time;
    const double even = width == LayerWidth::equal || !(of.back() > 0) ? 1.0 : kEvenPart;
    std::vector<double> places;
    for (std::size_t l = 0; l <= layers; ++l) {
        const double share = of.back() > 0 ? of[l] / of.back() : 0;
        places.push_back(even * static_cast<double>(l) / static_cast<double>(std::max<std::size_t>(1, layers)) +
                         (1 - even) * share);
    }
    places.back() = 1;
    return places;
}

std::int64_t layerAtPlace(const std::vector<double>& places, double place) {
    const auto last = static_cast<std::int64_t>(places.size()) - 2;
    auto index = std::lower_bound(places.begin(), places.end(), place) - places.begin();
    if (index > 0 && index < static_cast<std::ptrdiff_t>(places.size()) &&
        place - places[static_cast<std::size_t>(index) - 1] < places[static_cast<std::size_t>(index)] - place) {
        --index;
    }
    return std::clamp<std::int64_t>(index, std::min<std::int64_t>(1, last), std::max<std::int64_t>(1, last));
}
}  // namespace pipescope
