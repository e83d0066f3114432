#pragma once

#include "engine/partition.h"

#include <functional>
#include <vector>

namespace torch::nn {
class SequentialImpl;
}

namespace pipescope {
/// True for a layer that this process runs; empty: it runs them all.
using IsLayerHere = std::function<bool(LayerId)>;

/// Makes the layers, in order, so that each draws the same initial weights in every process. A layer of another process
/// is dropped at once. Its placeholder has its name and skips, no tensors, and cannot run. Keys are indices, as in a
/// plain Sequential. Fills in ModelLayer::same. Throws UsageError if a factory is missing or returns null.
std::vector<ModelLayer> make_layers(const std::vector<LayerSpec>& specs, const IsLayerHere& is_here = {});
/// Shares the children of an existing module; keys are the children's names. Fills in ModelLayer::same. Throws
/// EngineError if a child appears twice.
std::vector<ModelLayer> layers_of(const torch::nn::SequentialImpl& module, const IsLayerHere& is_here = {});
/// Fills in ModelLayer::same again, after layers have replaced some tensors.
void find_same_parameters(std::vector<Partition>& partitions);
/// Throws EngineError if the layer, on that lane, holds a parameter that a layer of another lane holds too: lanes run
/// in parallel, and each writes its own partitions' gradients.
void refuse_parameters_of_two_lanes(const ModelLayer& layer, LaneId lane,
                                    const std::function<LaneId(LayerId)>& lane_of);
/// The layers' declared skips, for a SkipLayout.
std::vector<LayerSkips> declared_skips(const std::vector<ModelLayer>& layers);
}  // namespace pipescope
