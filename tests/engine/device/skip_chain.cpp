#include "tests/engine/device/skip_chain.h"

#include "engine/plain_model.h"
#include "engine/skippable.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <utility>

namespace pipescope::testing_support {
namespace {
/// y = tanh(Wx), stashing Wx
LayerSpec stashing(std::int64_t in, std::int64_t out) {
    return {"stash", [=] {
                auto linear = std::make_shared<torch::nn::LinearImpl>(in, out);
                linear->to(torch::kFloat64);
                return skippable_layer(linear, {.stash = {{"", "skip"}}}, [=](const Tensors& x, SkipContext& skips) {
                    const at::Tensor wx = linear->forward(x[0]);
                    skips.stash("skip", wx);
                    return Tensors{torch::tanh(wx)};
                });
            }};
}
LayerSpec popping() {
    return {"pop", [] {
                return skippable_layer(nullptr, {.pop = {{"", "skip"}}}, [](const Tensors& x, SkipContext& skips) {
                    return Tensors{x[0] + skips.pop("skip")};
                });
            }};
}
}  // namespace

std::vector<LayerSpec> skip_chain() {
    return {linear(6, 8), stashing(8, 8), tanh_layer(), linear(8, 8),
            tanh_layer(), linear(8, 8),   popping(),    linear(8, 4)};
}

GPipeOptions on_lanes(const Names& lanes, std::size_t num_layers, Checkpoint mode) {
    std::vector<std::int64_t> balance(lanes.size(), static_cast<std::int64_t>(num_layers / lanes.size()));
    balance.back() += static_cast<std::int64_t>(num_layers % lanes.size());
    return {.balance = balance, .devices = lanes, .chunks = 4, .checkpoint = mode, .seed = 42};
}

std::string name_of(const Names& lanes, Checkpoint mode) {
    std::string name(to_string(mode));
    for (const std::string& lane : lanes) {
        name += " " + lane;
    }
    return name;
}

at::Tensor first_mean_square(const Tensors& output, const Tensors& target) {
    return mean_square(output[0], target[0]);
}

NamedTensors on_cpu(NamedTensors tensors) {
    for (auto& [name, tensor] : tensors) {
        tensor = tensor.defined() ? tensor.cpu() : tensor;
    }
    return tensors;
}

Plain plain_steps() {
    Plain plain;
    torch::manual_seed(1);
    PlainModel reference(skip_chain(), {.chunks = 4, .seed = 42});
    const at::Tensor input = plain.input.clone().requires_grad_();
    plain.loss = reference.step({input}, {plain.target}, first_mean_square).item<double>();
    reference.step({input}, {plain.target}, first_mean_square);
    plain.gradients = gradients_of(reference.named_parameters());
    plain.input_gradient = input.grad();
    return plain;
}

void expect_plain_steps(GPipe& pipe, const Plain& plain) {
    for (int step = 0; step < 2; ++step) {
        EXPECT_NEAR(pipe.step({plain.input}, {plain.target}, first_mean_square).item<double>(), plain.loss, 1e-12);
    }
    expect_equal_norm_wise(on_cpu(gradients_of(pipe.named_parameters())), plain.gradients);
}

void expect_plain_gradients_of_the_callers_loss(GPipe& pipe, const Plain& plain) {
    const at::Tensor input = plain.input.clone().requires_grad_();
    for (int step = 0; step < 2; ++step) {
        const at::Tensor output = pipe.forward(input);
        EXPECT_EQ(output.device().str(), pipe.devices().back());
        mean_square(output, plain.target.to(output.device())).backward();
    }
    expect_equal_norm_wise(on_cpu(gradients_of(pipe.named_parameters())), plain.gradients);
    EXPECT_TRUE(input.grad().is_cpu()) << "a gradient belongs where its tensor is";
    expect_equal_norm_wise({{"input", input.grad()}}, {{"input", plain.input_gradient}});
}

void expect_the_same_random_numbers(const std::vector<Names>& every_lanes, std::int64_t num_samples) {
    const at::Tensor input = samples(num_samples);
    const at::Tensor target = samples(num_samples, 4);
    const std::vector<LayerSpec> layers = dropout_mlp();
    NamedTensors first;
    for (const Names& lanes : every_lanes) {
        for (const Checkpoint mode : kModes) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(lanes, mode));
            torch::manual_seed(1);
            GPipe pipe(layers, on_lanes(lanes, layers.size(), mode));
            pipe.step({input}, {target}, first_mean_square);
            NamedTensors gradients = on_cpu(gradients_of(pipe.named_parameters()));
            if (first.empty()) {
                first = std::move(gradients);
            } else {
                expect_equal_norm_wise(gradients, first);
            }
        }
    }
}
}  // namespace pipescope::testing_support
