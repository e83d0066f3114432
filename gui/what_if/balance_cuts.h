#pragma once

#include "gui/document/scenario.h"
#include "profiler/profile/profile.h"
#include "schedule/balance.h"

#include <cstddef>
#include <vector>

namespace pipescope {
// Cut k is between partitions k and k + 1: the index of the first layer of partition k + 1.

/// All cuts in ascending order; one fewer than partitions.
std::vector<std::size_t> cutsOf(const Balance& balance);
/// The balance with one cut moved towards `layer`, limited by its neighbours: each partition keeps at least one layer.
Balance withCut(const Balance& balance, std::size_t cut, std::int64_t layer);

/// Quantity that determines a layer's width in the bar.
enum class LayerWidth {
    time,    ///< forward, recompute and backward
    memory,  ///< parameters, gradients, output and saved tensors
    equal,
};

/// Running sums of the layers' costs on one lane, for one micro-batch of the scenario. Layers [a, b) cost sum[b] -
/// sum[a]. Times in ns, sizes in bytes.
struct LayerSums {
    std::vector<double> time{0};
    std::vector<double> memory{0};

    std::size_t numLayers() const { return time.size() - 1; }
    double timeOf(const LayerRange& layers) const { return time[layers.end.index()] - time[layers.first.index()]; }
};
LayerSums layerSums(const Profile& profile, const Scenario& scenario);

/// Start of each layer in a bar of length 1, and 1 after the last one. Strictly ascending, so that every cut has its
/// own position.
std::vector<double> layerPlaces(const LayerSums& sums, LayerWidth width);
/// The cut (a layer index from 1 to the number of layers - 1) nearest to a position.
std::int64_t layerAtPlace(const std::vector<double>& places, double place);
}  // namespace pipescope
