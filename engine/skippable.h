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
/// What a skip-aware layer computes. It stashes and pops every name it declared, once each.
using SkipForward = std::function<Tensors(const Tensors& inputs, SkipContext& skips)>;

/// A layer that stashes and pops, made of a torch module, whose parameters and buffers it shows, and of a function that
/// calls it:
///
///     auto conv = std::make_shared<torch::nn::Conv2dImpl>(...);
///     return skippable_layer(conv, {.stash = {{"", "early"}}}, [conv](const Tensors& in, SkipContext& skips) {
///         skips.stash("early", in[0]);
///         return Tensors{conv->forward(in[0])};
///     });
///
/// `module` may be null for a layer that owns nothing. Throws UsageError if the function is missing.
std::unique_ptr<Layer> skippable_layer(std::shared_ptr<torch::nn::Module> module, SkipNames names, SkipForward forward);

/// The same layer with its skips in `space`, so that a block can be used twice in a model: each use's layers are
/// isolated in a space of its own. `only` names the skips that move; empty: all. Inside the layer names stay as they
/// are; a layer isolated twice is where it was put last.
/// Source: torchgpipe's Namespace and Skippable.isolate.
LayerSpec isolate(LayerSpec layer, const std::string& space, const std::vector<std::string>& only = {});
}  // namespace pipescope
