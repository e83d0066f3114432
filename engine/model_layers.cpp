#include "engine/model_layers.h"

#include "engine/engine_error.h"

#include <torch/nn/modules/container/sequential.h>

#include <map>
#include <unordered_map>
#include <utility>

namespace pipescope {
namespace {
/// Finds parameters that two layers hold, also if one of the layers is gone.
class ParameterOwners {
public:
    /// Fills in `same` of the layer that is number `id`.
    void add(ModelLayer& layer, LayerId id) {
        layer.same.clear();
        for (const auto& [name, tensor] : layer.layer->parameters()) {
            const std::string key = layer.key + "." + name;
            const auto [owner, is_new] = owners_.emplace(tensor.unsafeGetTensorImpl(), Owner{id, key});
            if (!is_new && owner->second.layer != id) {
                layer.same.push_back({owner->second.layer, key, owner->second.key});
            }
            seen_.emplace_back(tensor.getIntrusivePtr());
        }
    }

private:
    struct Owner {
        LayerId layer;
        std::string key;
    };
    std::unordered_map<const void*, Owner> owners_;
    std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> seen_;  // no bytes, but no address is used again
};

/// Stands for a layer that another process runs.
class LayerElsewhere final : public Layer {
public:
    explicit LayerElsewhere(SkipNames skips) : skips_(std::move(skips)) {}

    Tensors forward(const Tensors& /*inputs*/) override {
        throw EngineError("a layer of another process is called; each process runs the layers of its own lanes");
    }
    SkipNames skips() const override { return skips_; }
    NamedTensors parameters() const override { return {}; }
    NamedTensors buffers() const override { return {}; }
    void train(bool /*on*/) override {}
    void to(at::ScalarType /*dtype*/) override {}

private:
    SkipNames skips_;
};

void keep_if_here(ModelLayer& layer, std::size_t index, const IsLayerHere& is_here) {
    if (is_here && !is_here(LayerId{index})) {
        layer.layer = std::make_unique<LayerElsewhere>(layer.layer->skips());
        layer.is_here = false;
    }
}
}  // namespace

std::vector<ModelLayer> make_layers(const std::vector<LayerSpec>& specs, const IsLayerHere& is_here) {
    ParameterOwners owners;
    std::vector<ModelLayer> layers;
    for (const LayerSpec& spec : specs) {
        const std::string index = std::to_string(layers.size());
        std::unique_ptr<Layer> layer = spec.make ? spec.make() : nullptr;
        if (!layer) {
            throw UsageError("layer " + index + " (" + spec.name +
                             ") makes no layer; a LayerSpec's make returns one; set it");
        }
        layers.push_back({spec.name, index, std::move(layer)});
        owners.add(layers.back(), LayerId{layers.size() - 1});
        keep_if_here(layers.back(), layers.size() - 1, is_here);
    }
    return layers;
}

std::vector<ModelLayer> layers_of(const torch::nn::SequentialImpl& module, const IsLayerHere& is_here) {
    ParameterOwners owners;
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
        owners.add(layers.back(), LayerId{layers.size() - 1});
        keep_if_here(layers.back(), layers.size() - 1, is_here);
    }
    return layers;
}

void find_same_parameters(std::vector<Partition>& partitions) {
    ParameterOwners owners;
    for (Partition& partition : partitions) {
        std::size_t id = partition.range().first.index();
        for (ModelLayer& layer : partition.layers()) {
            owners.add(layer, LayerId{id++});
        }
    }
}

void refuse_parameters_of_two_lanes(const ModelLayer& layer, LaneId lane,
                                    const std::function<LaneId(LayerId)>& lane_of) {
    for (const ModelLayer::SameParameter& each : layer.same) {
        if (lane_of(each.layer) != lane) {
            throw EngineError("parameter " + each.key + " is also " + each.first_key + ", on lanes " +
                              std::to_string(lane.value()) + " and " + std::to_string(lane_of(each.layer).value()) +
                              ", which add to its gradient at the same time; give the second layer a parameter of its "
                              "own and name both keys in GPipeOptions::shared, or put both layers on one lane");
        }
    }
}

std::vector<LayerSkips> declared_skips(const std::vector<ModelLayer>& layers) {
    std::vector<LayerSkips> declared;
    for (const ModelLayer& each : layers) {
        declared.push_back({each.name, each.layer->skips()});
    }
    return declared;
}
}  // namespace pipescope
