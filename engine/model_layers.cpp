#include "engine/model_layers.h"

#include "engine/engine_error.h"

#include <torch/nn/modules/container/sequential.h>

#include <map>

namespace pipescope {
std::vector<ModelLayer> make_layers(const std::vector<LayerSpec>& specs) {
    std::vector<ModelLayer> layers;
    for (const LayerSpec& spec : specs) {
        const std::string index = std::to_string(layers.size());
        std::unique_ptr<Layer> layer = spec.make ? spec.make() : nullptr;
        if (!layer) {
            throw UsageError("layer " + index + " (" + spec.name +
                             ") makes no layer; a LayerSpec's make returns one; set it");
        }
        layers.push_back({spec.name, index, std::move(layer)});
    }
    return layers;
}

std::vector<ModelLayer> layers_of(const torch::nn::SequentialImpl& module) {
    std::vector<ModelLayer> layers;
    std::map<const torch::nn::Module*, std::string> seen;
    const auto names = module.named_children().keys();
    for (auto child = module.begin(); child != module.end(); ++child) {
        const std::string& name = names[layers.size()];
        const auto [first, is_new] = seen.emplace(child->ptr().get(), name);
        if (!is_new) {
            throw EngineError("child " + name + " is the same module as child " + first->second +
                              "; each layer of a pipeline stands once; add a second module instead");
        }
        layers.push_back({name, name, module_layer(*child)});
    }
    return layers;
}

std::vector<LayerSkips> declared_skips(const std::vector<ModelLayer>& layers) {
    std::vector<LayerSkips> declared;
    for (const ModelLayer& each : layers) {
        declared.push_back({each.name, each.layer->skips()});
    }
    return declared;
}
}  // namespace pipescope
