#include "tests/engine/engine_fixtures.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <cmath>
#include <tuple>

namespace pipescope::testing_support {
namespace {
LayerSpec module(std::string name, std::function<torch::nn::AnyModule()> make) {
    return {std::move(name), [make] {
                auto layer = module_layer(make());
                layer->to(torch::kFloat64);
                return layer;
            }};
}

class ForkImpl final : public torch::nn::Module {  // x -> (tanh(Wx), Vx)
public:
    std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x) { return {torch::tanh(main(x)), side(x)}; }
    torch::nn::Linear main = register_module("main", torch::nn::Linear(6, 8));
    torch::nn::Linear side = register_module("side", torch::nn::Linear(6, 4));
};

class PassSkipImpl final : public torch::nn::Module {  // (x, skip) -> (dropout(tanh(Wx)), skip)
public:
    std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x, const at::Tensor& skip) {
        return {torch::dropout(torch::tanh(main(x)), 0.3, is_training()), skip};
    }
    torch::nn::Linear main = register_module("main", torch::nn::Linear(8, 8));
};

class MergeImpl final : public torch::nn::Module {  // (x, skip) -> Wx + skip
public:
    at::Tensor forward(const at::Tensor& x, const at::Tensor& skip) { return main(x) + skip; }
    torch::nn::Linear main = register_module("main", torch::nn::Linear(8, 4));
};
}  // namespace

LayerSpec linear(std::int64_t in, std::int64_t out) {
    return module("linear", [in, out] { return torch::nn::AnyModule(torch::nn::Linear(in, out)); });
}
LayerSpec dropout(double p) {
    return module("dropout", [p] { return torch::nn::AnyModule(torch::nn::Dropout(p)); });
}
LayerSpec tanh_layer() {
    return module("tanh", [] { return torch::nn::AnyModule(torch::nn::Tanh()); });
}

std::vector<LayerSpec> dropout_mlp() {
    return {linear(6, 8), tanh_layer(), dropout(0.4), linear(8, 8), dropout(0.2), linear(8, 4)};
}

std::vector<LayerSpec> tuple_model() {
    const auto pass = module("pass", [] { return torch::nn::AnyModule(std::make_shared<PassSkipImpl>()); });
    return {module("fork", [] { return torch::nn::AnyModule(std::make_shared<ForkImpl>()); }), pass, pass, pass,
            module("merge", [] { return torch::nn::AnyModule(std::make_shared<MergeImpl>()); })};
}

bool Rendezvous::meet() {
    std::unique_lock lock(mutex_);
    ++here_;
    arrived_.notify_all();
    return arrived_.wait_for(lock, std::chrono::seconds(20), [this] { return here_ % count_ == 0; });
}

int Rendezvous::met() {
    const std::lock_guard lock(mutex_);
    return here_ / count_;
}

LayerSpec LiveTensors::layer(std::string name) {
    return function_layer(std::move(name), [counts = counts_](const Tensors& in) {
        auto values = std::make_shared<std::vector<double>>(static_cast<std::size_t>(in[0].numel()), 3.0);
        const int now = ++counts->now;
        int seen = counts->most;
        while (seen < now && !counts->most.compare_exchange_weak(seen, now)) {
        }
        const at::Tensor factor = torch::from_blob(
            values->data(), in[0].sizes(), [values, counts](void*) { --counts->now; }, torch::kFloat64);
        return Tensors{in[0] * factor};
    });
}

at::Tensor samples(std::int64_t batch, std::int64_t width) {
    return torch::randn({batch, width}, torch::kFloat64);
}

GPipe two_lanes(const std::vector<LayerSpec>& layers, std::int64_t chunks, Checkpoint checkpoint) {
    const auto first = static_cast<std::int64_t>(layers.size()) / 2;
    return GPipe(layers, {.balance = {first, static_cast<std::int64_t>(layers.size()) - first},
                          .devices = cpus(2),
                          .chunks = chunks,
                          .checkpoint = checkpoint});
}

std::vector<std::string> cpus(std::size_t n) {
    return std::vector<std::string>(n, "cpu");
}

at::Tensor mean_square(const at::Tensor& output, const at::Tensor& target) {
    return (output - target).pow(2).mean();
}

void expect_equal_norm_wise(const NamedTensors& actual, const NamedTensors& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    double error = 0;
    double size = 0;
    for (std::size_t k = 0; k < actual.size(); ++k) {
        EXPECT_EQ(actual[k].first, expected[k].first);
        const at::Tensor& a = actual[k].second;
        const at::Tensor& b = expected[k].second;
        const auto square = [](const at::Tensor& x) { return x.defined() ? x.pow(2).sum().item<double>() : 0.0; };
        error += a.defined() && b.defined() ? square(a - b) : square(a) + square(b);
        size += square(b);
    }
    EXPECT_LE(std::sqrt(error), 1e-10 * std::sqrt(size));
    EXPECT_GT(size, 0) << "nothing was compared";
}

NamedTensors gradients_of(const NamedTensors& parameters) {
    NamedTensors gradients;
    for (const auto& [name, parameter] : parameters) {
        gradients.emplace_back(name, parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
    }
    return gradients;
}

GPipeOptions on_host(std::vector<std::int64_t> balance, std::int64_t chunks, Checkpoint mode, Driver driver) {
    const std::size_t lanes = balance.size();
    return {
        .balance = std::move(balance), .devices = cpus(lanes), .chunks = chunks, .checkpoint = mode, .driver = driver};
}

at::Tensor sum_of(const at::Tensor& output, const at::Tensor&) {
    return output.sum();
}
}  // namespace pipescope::testing_support
