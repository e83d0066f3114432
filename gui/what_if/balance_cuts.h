#pragma once

#include "balance/profile.h"
#include "gui/document/scenario.h"
#include "schedule/balance.h"

#include <cstddef>
#include <vector>

namespace pipescope {
// Cut k stands between partitions k and k + 1: it is the index of the first layer of partition k + 1.

/// All cuts, ascending; one fewer than partitions.
std::vector<std::size_t> cutsOf(const Balance& balance);
/// The balance with one cut moved towards `layer`, as far as its neighbours let it: no partition loses its last layer.
Balance withCut(const Balance& balance, std::size_t cut, std::int64_t layer);

/// What each layer's place in the bar is wide as.
enum class LayerWidth {
    time,    ///< its forward, recompute and backward
    memory,  ///< its parameters, gradients, output and saved tensors
    equal,
};

/// What layers cost one lane for one micro-batch of the scenario, as running sums: of layers [a, b) it is
/// sum[b] - sum[a]. Times in ns, sizes in bytes.
struct LayerSums {
    std::vector<double> time{0};
    std::vector<double> memory{0};

    std::size_t numLayers() const { return time.size() - 1; }
    double timeOf(const LayerRange& layers) const { return time[layers.end.index()] - time[layers.first.index()]; }
};
LayerSums layerSums(const Profile& profile, const Scenario& scenario);

/// Where each layer starts in a bar of length 1, and 1 behind the last. Ascending; each layer has some width, so that
/// every cut has a place of its own.
std::vector<double> layerPlaces(const LayerSums& sums, LayerWidth width);
/// The cut position (a layer index, 1 to the layers less 1) nearest to a place.
std::int64_t layerAtPlace(const std::vector<double>& places, double place);
}  // namespace pipescope
