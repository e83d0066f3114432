#pragma once

#include "engine/partition.h"

#include <vector>

namespace torch::nn {
class SequentialImpl;
}

namespace pipescope {
/// Makes the layers, in order. Keys are their indices, as in a plain Sequential. Throws UsageError where a factory is
/// missing or makes nothing.
std::vector<ModelLayer> make_layers(const std::vector<LayerSpec>& specs);
/// Shares the children of a ready module; keys are the children's names. Throws EngineError where one child stands
/// twice.
std::vector<ModelLayer> layers_of(const torch::nn::SequentialImpl& module);
/// What the layers declare, for a SkipLayout.
std::vector<LayerSkips> declared_skips(const std::vector<ModelLayer>& layers);
}  // namespace pipescope
