// ResNet-101 (arXiv 1512.03385), flattened as in torchgpipe's benchmarks, so that cuts inside a block are possible.
// Each of the 33 blocks has 11 layers. Its input skips nine of them, in a namespace of the block:
//
//     identity, conv1, bn1, relu1, conv2, bn2, relu2, conv3, bn3, residual, relu3
//     stash ───────────────────────────────────────────────────── pop
//
// If a block halves the image or widens the channels, its residual layer projects the popped tensor.

#include "engine/skippable.h"
#include "models/made_up_data.h"
#include "models/zoo_models.h"

#include <torch/torch.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;

constexpr std::array<std::int64_t, 4> kBlocks = {3, 4, 23, 3};
constexpr std::int64_t kExpansion = 4;  // ratio of a block's output channels to its inner channels
constexpr const char* kIdentity = "identity";

// Weight initialisation that preserves the scale of gradients, as in the paper (section 3.4; arXiv 1502.01852).
Conv2d convolution(Conv2dOptions options) {
    Conv2d conv(options.bias(false));
    torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
    return conv;
}

Tensors stash_identity(const Tensors& inputs, SkipContext& skips) {
    skips.stash(kIdentity, inputs.at(0));
    return inputs;
}

std::unique_ptr<Layer> residual(torch::nn::Sequential projection) {
    return skippable_layer(
        projection.ptr(), {.stash = {}, .pop = {{"", kIdentity}}},
        [projection](const Tensors& inputs, SkipContext& skips) mutable {
            const at::Tensor identity = skips.pop(kIdentity);
            return Tensors{inputs.at(0) + (projection->is_empty() ? identity : projection->forward(identity))};
        });
}

struct BlockOptions {
    std::int64_t input;
    std::int64_t inner;
    std::int64_t stride;

    std::int64_t output() const { return inner * kExpansion; }
    bool projects() const { return stride != 1 || input != output(); }
};

torch::nn::Sequential projection_of(const BlockOptions& block) {
    torch::nn::Sequential projection;
    if (block.projects()) {
        projection->push_back(convolution(Conv2dOptions(block.input, block.output(), 1).stride(block.stride)));
        projection->push_back(BatchNorm2d(block.output()));
    }
    return projection;
}

class ResnetBuilder {
public:
    explicit ResnetBuilder(const ResnetOptions& options) : options_(options) {}

    std::vector<LayerSpec> build() {
        const std::int64_t width = options_.width;
        add("conv1", [width] { return convolution(Conv2dOptions(3, width, 7).stride(2).padding(3)); });
        add("bn1", [width] { return BatchNorm2d(width); });
        add("relu", [] { return torch::nn::ReLU(); });
        add("maxpool", [] { return torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1)); });
        std::int64_t input = width;
        for (std::size_t group = 0; group < kBlocks.size(); ++group) {
            for (std::int64_t i = 0; i < kBlocks[group]; ++i) {
                const BlockOptions options{input, width << group, group > 0 && i == 0 ? 2 : 1};
                block("layer" + std::to_string(group + 1) + "." + std::to_string(i), options);
                input = options.output();
            }
        }
        add("avgpool", [] { return torch::nn::AdaptiveAvgPool2d(torch::nn::AdaptiveAvgPool2dOptions({1, 1})); });
        add("flat", [] { return torch::nn::Flatten(); });
        add("fc", [input, classes = options_.classes] { return torch::nn::Linear(input, classes); });
        return std::move(layers_);
    }

private:
    void block(const std::string& name, const BlockOptions& options) {
        const std::int64_t inner = options.inner;
        add_skippable(name, "identity", [] {
            return skippable_layer(nullptr, {.stash = {{"", kIdentity}}, .pop = {}}, &stash_identity);
        });
        add(name + ".conv1", [options] { return convolution(Conv2dOptions(options.input, options.inner, 1)); });
        add(name + ".bn1", [inner] { return BatchNorm2d(inner); });
        add(name + ".relu1", [] { return torch::nn::ReLU(); });
        add(name + ".conv2", [options] {
            return convolution(Conv2dOptions(options.inner, options.inner, 3).stride(options.stride).padding(1));
        });
        add(name + ".bn2", [inner] { return BatchNorm2d(inner); });
        add(name + ".relu2", [] { return torch::nn::ReLU(); });
        add(name + ".conv3", [options] { return convolution(Conv2dOptions(options.inner, options.output(), 1)); });
        add(name + ".bn3", [options] { return BatchNorm2d(options.output()); });
        add_skippable(name, "residual", [options] { return residual(projection_of(options)); });
        add(name + ".relu3", [] { return torch::nn::ReLU(); });
    }

    template <class Make>
    void add(const std::string& name, Make make) {
        layers_.push_back({name, [make] { return module_layer(torch::nn::AnyModule(make())); }});
    }

    void add_skippable(const std::string& block, const std::string& name,
                       std::function<std::unique_ptr<Layer>()> make) {
        layers_.push_back(isolate({block + "." + name, std::move(make)}, block));
    }

    ResnetOptions options_;
    std::vector<LayerSpec> layers_;
};
}  // namespace

ModelSpec resnet101(const ResnetOptions& options) {
    return image_classifier(ResnetBuilder(options).build(), options.size, options.classes);
}
}  // namespace pipescope
