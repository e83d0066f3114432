// The U-Net of torchgpipe's benchmarks as a flat list of layers, with five long skips:
//
//     [ encoder.0 ]---------------------------------[ decoder.4 ]--[ segment ]
//        [ encoder.1 ]---------------------------[ decoder.3 ]
//                   ..  [ encoder.4 ]--[ decoder.0 ]  ..
//                             [ bottleneck ]
//
// Each skip is stashed after its encoder and popped by its decoder, in its own namespace.

#include "engine/skippable.h"
#include "models/zoo_models.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr std::int64_t kDepth = 5;
constexpr std::int64_t kInputChannels = 3;
constexpr std::int64_t kOutputChannels = 1;
constexpr double kDropout = 0.1;

constexpr const char* kLevelSkip = "skip";

Tensors stash(const Tensors& inputs, SkipContext& skips) {
    skips.stash(kLevelSkip, inputs.at(0));
    return inputs;
}

// Pooling rounded an odd side down. Pads the missing row and column with zeros.
at::Tensor padded_to(const at::Tensor& input, const at::Tensor& like) {
    const std::int64_t rows = like.size(2) - input.size(2);
    const std::int64_t columns = like.size(3) - input.size(3);
    return rows == 0 && columns == 0 ? input : at::constant_pad_nd(input, {0, columns, 0, rows});
}

Tensors pop_and_concatenate(const Tensors& inputs, SkipContext& skips) {
    const at::Tensor skip = skips.pop(kLevelSkip);
    return {at::cat({padded_to(inputs.at(0), skip), skip}, 1)};
}

class UnetBuilder {
public:
    explicit UnetBuilder(const UnetOptions& options) : options_(options) {}

    std::vector<LayerSpec> build() {
        for (std::int64_t i = 0; i < kDepth; ++i) {
            const std::string name = "encoder." + std::to_string(i);
            const std::int64_t width = options_.channels << i;
            cell(name, i == 0 ? kInputChannels : width / 2, width, width);
            add_skip(name, level_space(i), {.stash = {{"", kLevelSkip}}, .pop = {}}, &stash);
            add_module(name + ".down", [] { return torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(2)); });
        }
        const std::int64_t deepest = options_.channels << (kDepth - 1);
        cell("bottleneck", deepest, 2 * deepest, deepest);
        for (std::int64_t i = kDepth - 1; i >= 0; --i) {
            const std::string name = "decoder." + std::to_string(kDepth - 1 - i);
            const std::int64_t width = options_.channels << i;
            add_module(name + ".up", [] {
                return torch::nn::Upsample(torch::nn::UpsampleOptions().scale_factor(std::vector<double>{2, 2}));
            });
            add_skip(name, level_space(i), {.stash = {}, .pop = {{"", kLevelSkip}}}, &pop_and_concatenate);
            cell(name, 2 * width, width / 2, width / 2);
        }
        add_module("segment", [input = options_.channels / 2] {
            return torch::nn::Conv2d(torch::nn::Conv2dOptions(input, kOutputChannels, 1).bias(false));
        });
        return std::move(layers_);
    }

private:
    // B blocks: the first from `input` to `hidden` channels, the last to `output`.
    void cell(const std::string& name, std::int64_t input, std::int64_t hidden, std::int64_t output) {
        for (std::int64_t i = 0; i < options_.blocks; ++i) {
            block(name + "." + std::to_string(i), i == 0 ? input : hidden, i + 1 == options_.blocks ? output : hidden);
        }
    }

    void block(const std::string& name, std::int64_t input, std::int64_t output) {
        add_module(name + ".conv", [=] {
            return torch::nn::Conv2d(torch::nn::Conv2dOptions(input, output, 3).padding(1).bias(false));
        });
        add_module(name + ".dropout", [] { return torch::nn::Dropout2d(torch::nn::Dropout2dOptions(kDropout)); });
        add_module(name + ".norm", [=] { return torch::nn::InstanceNorm2d(torch::nn::InstanceNorm2dOptions(output)); });
        add_module(name + ".relu",
                   [] { return torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.01)); });
    }

    // A namespace per level, since all five skips have the same name.
    static std::string level_space(std::int64_t level) { return "level." + std::to_string(level); }

    void add_skip(const std::string& cell, const std::string& space, const SkipNames& names,
                  const SkipForward& forward) {
        layers_.push_back(
            isolate({cell + ".skip", [names, forward] { return skippable_layer(nullptr, names, forward); }}, space));
    }

    template <class Make>
    void add_module(const std::string& name, Make make) {
        layers_.push_back({name, [make] { return module_layer(torch::nn::AnyModule(make())); }});
    }

    UnetOptions options_;
    std::vector<LayerSpec> layers_;
};

// A bright disc in noise, and a mask that shows where it is.
Batch unet_batch(std::int64_t size, std::int64_t batch, std::uint64_t seed) {
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const at::Tensor place = at::rand({batch, 3, 1, 1}, generator);
    const at::Tensor axis = at::linspace(0, 1, size);
    const at::Tensor down = axis.view({1, size, 1}) - place.select(1, 0);
    const at::Tensor across = axis.view({1, 1, size}) - place.select(1, 1);
    const at::Tensor radius = 0.1 + 0.3 * place.select(1, 2);
    const at::Tensor mask = (down.square() + across.square()).lt(radius.square()).to(at::kFloat).unsqueeze(1);
    const at::Tensor noise = at::randn({batch, kInputChannels, size, size}, generator);
    return {{0.3 * noise + mask}, {mask}};
}
}  // namespace

ModelSpec unet(const UnetOptions& options) {
    ModelSpec model;
    model.layers = UnetBuilder(options).build();
    model.make_batch = [size = options.size](std::int64_t batch, std::uint64_t seed) {
        return unet_batch(size, batch, seed);
    };
    model.loss = [](const Tensors& output, const Tensors& target) {
        return torch::binary_cross_entropy_with_logits(output.at(0), target.at(0));
    };
    return model;
}
}  // namespace pipescope
