#pragma once

#include "engine/partition.h"

#include <vector>

namespace torch::nn {
class SequentialImpl;
}

namespace pipescope {
/// Makes the layers, in order. Keys are their indices, as in a plain Sequential. Throws UsageError if a factory is
/// missing or returns null.
std::vector<ModelLayer> make_layers(const std::vector<LayerSpec>& specs);
/// Shares the children of an existing module; keys are the children's names. Throws EngineError if a child appears
/// twice.
std::vector<ModelLayer> layers_of(const torch::nn::SequentialImpl& module);
/// The layers' declared skips, for a SkipLayout.
std::vector<LayerSkips> declared_skips(const std::vector<ModelLayer>& layers);
}  // namespace pipescope
