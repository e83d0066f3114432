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
/// plain Sequential. Throws UsageError if a factory is missing or returns null, and EngineError if two layers share a
/// parameter: lanes run in parallel, and each writes its own partitions' gradients.
std::vector<ModelLayer> make_layers(const std::vector<LayerSpec>& specs, const IsLayerHere& is_here = {});
/// Shares the children of an existing module; keys are the children's names. Throws EngineError if a child appears
/// twice, or if two share a parameter.
std::vector<ModelLayer> layers_of(const torch::nn::SequentialImpl& module, const IsLayerHere& is_here = {});
/// Throws EngineError if two layers share a parameter, after layers have replaced some.
void refuse_shared_parameters(const std::vector<Partition>& partitions);
/// The layers' declared skips, for a SkipLayout.
std::vector<LayerSkips> declared_skips(const std::vector<ModelLayer>& layers);
}  // namespace pipescope
