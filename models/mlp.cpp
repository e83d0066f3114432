#include "models/zoo_models.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cmath>
#include <string>

namespace pipescope {
namespace {
struct HiddenImpl : torch::nn::Module {
    explicit HiddenImpl(std::int64_t width) : linear(register_module("linear", torch::nn::Linear(width, width))) {}
    at::Tensor forward(const at::Tensor& input) { return torch::relu(linear(input)); }

    torch::nn::Linear linear;
};
TORCH_MODULE(Hidden);

// The target is a fixed linear map of the input plus a common mean. The last bias learns the mean within a few steps;
// the layers need many for the map.
Batch mlp_batch(std::int64_t width, std::int64_t batch, std::uint64_t seed) {
    at::Generator samples = at::make_generator<at::CPUGeneratorImpl>(seed);
    at::Generator teacher = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{1});
    const at::Tensor input = at::randn({batch, width}, samples);
    const at::Tensor map = at::randn({width, width}, teacher) / (2 * std::sqrt(static_cast<double>(width)));
    return {{input}, {input.matmul(map) + 1}};
}
}  // namespace

ModelSpec mlp(const MlpOptions& options) {
    const std::int64_t width = options.width;
    ModelSpec model;
    for (std::int64_t layer = 0; layer + 1 < options.layers; ++layer) {
        model.layers.push_back(
            {"hidden." + std::to_string(layer), [width] { return module_layer(torch::nn::AnyModule(Hidden(width))); }});
    }
    model.layers.push_back(
        {"output", [width] { return module_layer(torch::nn::AnyModule(torch::nn::Linear(width, width))); }});
    model.make_batch = [width](std::int64_t batch, std::uint64_t seed) { return mlp_batch(width, batch, seed); };
    model.loss = [](const Tensors& output, const Tensors& target) {
        return torch::mse_loss(output.at(0), target.at(0));
    };
    return model;
}
}  // namespace pipescope
