#include "engine/skippable.h"

#include "base/error.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
NamedTensors listed(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
    NamedTensors list;
    for (const auto& item : tensors) {
        list.emplace_back(item.key(), item.value());
    }
    return list;
}

/// For a layer that is called outside a model.
class NoSkips final : public SkipContext {
public:
    void stash(std::string_view /*name*/, at::Tensor /*tensor*/) override { refuse(); }
    at::Tensor pop(std::string_view /*name*/) override { refuse(); }

private:
    [[noreturn]] static void refuse() {
        throw UsageError(
            "a skip-aware layer is called without a place for its skips; they live in the model around it; call "
            "forward_with_skips()");
    }
};

class SkippableLayer final : public Layer {
public:
    SkippableLayer(std::shared_ptr<torch::nn::Module> module, SkipNames names, SkipForward forward)
        : module_(std::move(module)), names_(std::move(names)), forward_(std::move(forward)) {}

    Tensors forward(const Tensors& inputs) override {
        NoSkips none;
        return forward_(inputs, none);
    }
    SkipNames skips() const override { return names_; }
    Tensors forward_with_skips(const Tensors& inputs, SkipContext& skips) override { return forward_(inputs, skips); }
    NamedTensors parameters() const override { return module_ ? listed(module_->named_parameters()) : NamedTensors{}; }
    NamedTensors buffers() const override { return module_ ? listed(module_->named_buffers()) : NamedTensors{}; }
    void train(bool on) override {
        if (module_) {
            module_->train(on);
        }
    }
    /// Not Module::to(dtype): that one casts integer buffers too, such as batch norm's counter.
    void to(at::ScalarType dtype) override {
        for (const NamedTensors& tensors : {parameters(), buffers()}) {
            for (const auto& [name, tensor] : tensors) {
                if (tensor.defined() && tensor.is_floating_point()) {
                    tensor.set_data(tensor.to(dtype));
                }
            }
        }
    }
    void save(torch::serialize::OutputArchive& archive) const override {
        if (module_) {
            module_->save(archive);
        }
    }

private:
    std::shared_ptr<torch::nn::Module> module_;
    SkipNames names_;
    SkipForward forward_;
};

class IsolatedLayer final : public Layer {
public:
    IsolatedLayer(std::unique_ptr<Layer> layer, SkipNames names) : layer_(std::move(layer)), names_(std::move(names)) {}

    Tensors forward(const Tensors& inputs) override { return layer_->forward(inputs); }
    SkipNames skips() const override { return names_; }
    Tensors forward_with_skips(const Tensors& inputs, SkipContext& skips) override {
        return layer_->forward_with_skips(inputs, skips);
    }
    NamedTensors parameters() const override { return layer_->parameters(); }
    NamedTensors buffers() const override { return layer_->buffers(); }
    HeldBuffers hold_buffers() override { return layer_->hold_buffers(); }
    void recompute_with(HeldBuffers buffers) override { layer_->recompute_with(std::move(buffers)); }
    at::Tensor keeper_of(const at::Tensor& output) const override { return layer_->keeper_of(output); }
    void train(bool on) override { layer_->train(on); }
    void to(at::ScalarType dtype) override { layer_->to(dtype); }
    void save(torch::serialize::OutputArchive& archive) const override { layer_->save(archive); }

private:
    std::unique_ptr<Layer> layer_;
    SkipNames names_;
};
}  // namespace

std::unique_ptr<Layer> skippable_layer(std::shared_ptr<torch::nn::Module> module, SkipNames names,
                                       SkipForward forward) {
    if (!forward) {
        throw UsageError("skippable_layer is given no function; a layer needs a forward; pass one");
    }
    return std::make_unique<SkippableLayer>(std::move(module), std::move(names), std::move(forward));
}

LayerSpec isolate(LayerSpec layer, const std::string& space, const std::vector<std::string>& only) {
    layer.make = [inner = std::move(layer.make), space, only]() -> std::unique_ptr<Layer> {
        std::unique_ptr<Layer> made = inner ? inner() : nullptr;
        if (!made) {
            return made;
        }
        SkipNames names = made->skips();
        for (auto* const list : {&names.stash, &names.pop}) {
            for (SkipName& each : *list) {
                if (only.empty() || std::find(only.begin(), only.end(), each.name) != only.end()) {
                    each.space = space;
                }
            }
        }
        return std::make_unique<IsolatedLayer>(std::move(made), std::move(names));
    };
    return layer;
}
}  // namespace pipescope
