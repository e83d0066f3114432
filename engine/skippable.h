#pragma once

#include "engine/layer.h"
#include "engine/skips.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace pipescope {
/// The forward of a skip-aware layer. It stashes and pops every declared name exactly once.
using SkipForward = std::function<Tensors(const Tensors& inputs, SkipContext& skips)>;

/// Makes a layer that stashes and pops from a torch module, whose parameters and buffers it exposes, and a function
/// that calls the module:
///
///     auto conv = std::make_shared<torch::nn::Conv2dImpl>(...);
///     return skippable_layer(conv, {.stash = {{"", "early"}}}, [conv](const Tensors& in, SkipContext& skips) {
///         skips.stash("early", in[0]);
///         return Tensors{conv->forward(in[0])};
///     });
///
/// `module` may be null for a layer that owns nothing. Throws UsageError if the function is missing.
std::unique_ptr<Layer> skippable_layer(std::shared_ptr<torch::nn::Module> module, SkipNames names, SkipForward forward);

/// Returns the layer with its skips in `space`, so that a model can use a block twice: each use's layers get a space of
/// their own. `only` names the skips that move; empty: all. Names inside the layer stay unchanged. If a layer is
/// isolated twice, the last call wins.
/// Source: torchgpipe's Namespace and Skippable.isolate.
LayerSpec isolate(LayerSpec layer, const std::string& space, const std::vector<std::string>& only = {});
}  // namespace pipescope
