#include "engine/current_task.h"
#include "engine/plain_model.h"
#include "tests/engine/engine_fixtures.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <atomic>
#include <mutex>
#include <thread>

namespace pipescope {
namespace {
using namespace testing_support;

torch::nn::Sequential three_linears() {
    torch::nn::Sequential module(torch::nn::Linear(6, 8), torch::nn::ReLU(), torch::nn::Linear(8, 4));
    module->to(torch::kFloat64);
    return module;
}
TEST(GPipe, TellsWhatItWasBuiltWith) {
    const GPipe model(
        dropout_mlp(),
        {.balance = {4, 2}, .devices = {"cpu", "cpu", "cpu"}, .chunks = 3, .checkpoint = Checkpoint::always});
    EXPECT_EQ(model.balance().layers_per_partition(), (std::vector<std::int64_t>{4, 2}));
    EXPECT_EQ(model.devices(), cpus(2)) << "a device more than partitions is left out";
    EXPECT_EQ(model.chunks(), 3);
    EXPECT_EQ(model.checkpoint(), Checkpoint::always);
    EXPECT_EQ(model.num_layers(), 6u);
    EXPECT_EQ(model.next_step(), 0);
    EXPECT_FALSE(model.last_failure());
}

TEST(GPipe, SharesTheParametersOfASequentialUnderItsKeys) {
    const torch::nn::Sequential module = three_linears();
    const GPipe model(module, {.balance = {2, 1}, .devices = cpus(2)});
    const auto plain = module->named_parameters();
    const NamedTensors own = model.named_parameters();
    ASSERT_EQ(own.size(), plain.size());
    for (std::size_t k = 0; k < own.size(); ++k) {
        EXPECT_EQ(own[k].first, plain[k].key());
        EXPECT_TRUE(own[k].second.is_same(plain[k].value()));
        EXPECT_TRUE(model.parameters()[k].is_same(own[k].second));
    }
}

TEST(GPipe, KeysOfFactoriesAreThoseOfAPlainSequential) {
    const GPipe model({linear(6, 8), tanh_layer(), linear(8, 4)}, {.balance = {1, 2}, .devices = cpus(2)});
    std::vector<std::string> keys;
    for (const auto& [key, tensor] : model.named_parameters()) {
        keys.push_back(key);
    }
    EXPECT_THAT(keys, testing::ElementsAre("0.weight", "0.bias", "2.weight", "2.bias"));
}

TEST(GPipe, TrainsWithAnOptimizer) {
    torch::manual_seed(0);
    GPipe model({linear(6, 8), tanh_layer(), linear(8, 4)}, {.balance = {1, 2}, .devices = cpus(2), .chunks = 4});
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
    const at::Tensor input = samples(16);
    const at::Tensor target = samples(16, 4);
    const double before = model.step(input, target, mean_square).item<double>();
    for (int step = 0; step < 30; ++step) {
        optimizer.zero_grad();
        model.step(input, target, mean_square);
        optimizer.step();
    }
    EXPECT_LT(model.step(input, target, mean_square).item<double>(), 0.9 * before);
    EXPECT_EQ(model.next_step(), 32);
}

TEST(GPipe, ZeroGradKeepsTheGradientsAllocated) {
    GPipe model = two_lanes(dropout_mlp(), 2, Checkpoint::never);
    model.step(samples(4), samples(4, 4), mean_square);
    const at::Tensor gradient = model.parameters()[0].grad();
    model.zero_grad();
    EXPECT_TRUE(model.parameters()[0].grad().is_same(gradient));
    EXPECT_EQ(gradient.abs().sum().item<double>(), 0);
}

TEST(GPipe, AccumulatesGradientsOverSteps) {
    GPipe model = two_lanes({linear(6, 8), linear(8, 4)}, 2, Checkpoint::always);
    const at::Tensor input = samples(4);
    const at::Tensor target = samples(4, 4);
    model.step(input, target, mean_square);
    const at::Tensor once = model.parameters()[0].grad().clone();
    model.step(input, target, mean_square);
    EXPECT_TRUE(torch::allclose(model.parameters()[0].grad(), 2 * once));
}

TEST(GPipe, TakesAndReturnsTuples) {
    GPipe model({function_layer("swap",
                                [](const Tensors& in) {
                                    return Tensors{in[1], in[0] * 2};
                                }),
                 function_layer("add",
                                [](const Tensors& in) {
                                    return Tensors{in[0] + in[1], in[1]};
                                })},
                {.balance = {1, 1}, .devices = cpus(2), .chunks = 2});
    const at::Tensor a = samples(5).requires_grad_();
    const at::Tensor b = samples(5).requires_grad_();
    const Tensors output = model.forward(Tensors{a, b});
    ASSERT_EQ(output.size(), 2u);
    EXPECT_TRUE(torch::equal(output[0], b + 2 * a));
    (output[0].sum() + output[1].sum()).backward();
    EXPECT_TRUE(torch::equal(a.grad(), torch::full_like(a, 4)));
    EXPECT_TRUE(torch::equal(b.grad(), torch::full_like(b, 1)));
}

TEST(GPipe, PassesIntegersAndTensorsWithoutGradientThroughEveryMode) {
    for (const auto mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
        torch::manual_seed(5);
        torch::nn::Embedding embedding(10, 6);
        embedding->to(torch::kFloat64);
        const LayerSpec embed{
            "embed", [embedding] {
                return std::make_unique<FunctionLayer>(
                    [embedding](const Tensors& in) mutable {
                        return Tensors{embedding->forward(in[0]), in[0], (in[0] > 4).to(torch::kFloat64)};
                    },
                    NamedTensors{{"weight", embedding->weight}});
            }};
        GPipe model({embed, function_layer("mask",
                                           [](const Tensors& in) {
                                               EXPECT_EQ(in[1].scalar_type(), torch::kLong);
                                               return Tensors{in[0] * in[2].unsqueeze(-1), in[1]};
                                           })},
                    {.balance = {1, 1}, .devices = cpus(2), .chunks = 3, .checkpoint = mode});
        const at::Tensor tokens = torch::randint(0, 10, {7, 3}, torch::kLong);
        const Tensors output = model.forward(Tensors{tokens});
        EXPECT_FALSE(output[1].requires_grad());
        EXPECT_TRUE(torch::equal(output[1], tokens));
        output[0].sum().backward();
        const at::Tensor counts = torch::bincount(tokens.masked_select(tokens > 4), {}, 10).to(torch::kFloat64);
        EXPECT_TRUE(torch::equal(embedding->weight.grad(), counts.unsqueeze(1).expand({10, 6})));
        embedding->weight.mutable_grad() = at::Tensor();
    }
}

TEST(GPipe, KeepsNoGraphUnderNoGrad) {
    std::atomic<int> calls = 0;
    std::atomic<int> with_gradient = 0;
    std::vector<LayerSpec> layers = {linear(6, 4), function_layer("probe", [&](const Tensors& in) {
                                         ++calls;
                                         with_gradient += at::GradMode::is_enabled() || is_checkpointing() ? 1 : 0;
                                         return in;
                                     })};
    GPipe model = two_lanes(layers, 3, Checkpoint::always);
    {
        const torch::NoGradGuard no_grad;
        EXPECT_FALSE(model.forward(samples(5)).requires_grad());
    }
    EXPECT_EQ(calls, 3) << "still cut into micro-batches";
    EXPECT_EQ(with_gradient, 0);
    EXPECT_EQ(model.next_step(), 0) << "only training forwards count";
    model.train();
    EXPECT_TRUE(model.forward(samples(5)).requires_grad());
    EXPECT_EQ(model.next_step(), 1);
}

TEST(GPipe, DrawsAnewInEveryForwardWithoutGradients) {
    GPipe model = two_lanes({dropout(0.5), dropout(0.5)}, 2, Checkpoint::never);
    const torch::NoGradGuard no_grad;
    const at::Tensor ones = torch::ones({4, 50}, torch::kFloat64);
    EXPECT_FALSE(torch::equal(model.forward(ones), model.forward(ones)));
}

TEST(GPipe, TellsLayersTheirTask) {
    std::mutex mutex;
    std::vector<std::string> seen;
    const auto probe = [&](const Tensors& in) {
        const std::lock_guard lock(mutex);
        const CurrentTask task = current_task().value();
        EXPECT_EQ(task.lane.value(), task.key.partition);
        EXPECT_EQ(task.layer, LayerId{1});
        seen.push_back(to_string(task.key) + (is_checkpointing() ? " checkpointing" : "") +
                       (is_recomputing() ? " recomputing" : ""));
        return Tensors{in[0] * 1};
    };
    GPipe model({linear(6, 4), function_layer("probe", probe)}, {.balance = {2}, .devices = cpus(1), .chunks = 2});
    model.step(samples(4), samples(4, 4), mean_square);
    EXPECT_THAT(seen, testing::ElementsAre("step 0 forward (0, 0) checkpointing", "step 0 forward (1, 0)",
                                           "step 0 recompute (0, 0) recomputing"));
    EXPECT_FALSE(current_task());
}

TEST(GPipe, GivesEachLaneOneThreadAndLeavesTheCallersAlone) {
    at::set_num_threads(2);
    std::atomic<int> threads = 0;
    GPipe model({function_layer("probe",
                                [&](const Tensors& in) {
                                    threads = at::get_num_threads();
                                    return in;
                                })},
                {.balance = {1}, .devices = cpus(1)});
    model.forward(samples(2));
    EXPECT_EQ(threads, 1);
    EXPECT_EQ(at::get_num_threads(), 2);
}

TEST(GPipe, CarriesAutocastIntoLanesAndLosesNoGradient) {
    for (const auto mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
        torch::nn::Sequential module(torch::nn::Linear(6, 8), torch::nn::Linear(8, 4));
        GPipe model(module, {.balance = {1, 1}, .devices = cpus(2), .chunks = 3, .checkpoint = mode});
        const at::Tensor input = torch::randn({6, 6});
        module->zero_grad();
        module->forward(input).sum().backward();
        const at::Tensor exact = module[0]->as<torch::nn::Linear>()->weight.grad().clone();
        module->zero_grad();
        at::autocast::set_autocast_enabled(at::kCPU, true);
        at::autocast::increment_nesting();
        const at::Tensor output = model.forward(input);
        at::autocast::decrement_nesting();
        at::autocast::set_autocast_enabled(at::kCPU, false);
        EXPECT_EQ(output.scalar_type(), torch::kBFloat16);
        output.to(torch::kFloat32).sum().backward();
        const at::Tensor gradient = module[0]->as<torch::nn::Linear>()->weight.grad();
        ASSERT_TRUE(gradient.defined());
        EXPECT_LT((gradient - exact).norm().item<float>(), 0.05 * exact.norm().item<float>());
    }
}

TEST(GPipe, UpdatesRunningStatisticsOncePerMicroBatchInEveryMode) {
    const auto make = [] {
        torch::manual_seed(2);
        torch::nn::Sequential module(torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::Linear(8, 4));
        module->to(torch::kFloat64);
        return module;
    };
    const at::Tensor input = samples(9);
    const at::Tensor target = samples(9, 4);
    const torch::nn::Sequential plain_module = make();
    PlainModel plain(plain_module, {.chunks = 3});
    plain.step({input}, {target}, [](const Tensors& o, const Tensors& t) { return mean_square(o[0], t[0]); });
    for (const auto mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
        GPipe model(make(), {.balance = {2, 1}, .devices = cpus(2), .chunks = 3, .checkpoint = mode});
        model.step(input, target, mean_square);
        expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
        const NamedTensors buffers = model.named_buffers();
        for (std::size_t k = 0; k < buffers.size(); ++k) {
            EXPECT_EQ(buffers[k].first, plain.named_buffers()[k].first);
            EXPECT_TRUE(torch::allclose(buffers[k].second, plain.named_buffers()[k].second)) << buffers[k].first;
        }
    }
}

TEST(GPipe, CastsFloatingPointTensorsOnlyAndKeepsTheObjects) {
    torch::nn::Sequential module(torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8));
    GPipe model(module, {.balance = {1, 1}, .devices = cpus(2)});
    const at::Tensor weight = model.parameters()[0];
    model.to(torch::kFloat64);
    EXPECT_EQ(weight.scalar_type(), torch::kFloat64);
    for (const auto& [name, buffer] : model.named_buffers()) {
        EXPECT_EQ(buffer.scalar_type(), name.ends_with("tracked") ? torch::kLong : torch::kFloat64) << name;
    }
    EXPECT_EQ(model.forward(samples(4)).scalar_type(), torch::kFloat64);
}

TEST(GPipe, RunsTwoForwardsBeforeTheirBackwards) {
    for (const auto mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
        torch::manual_seed(4);
        GPipe model = two_lanes(dropout_mlp(), 2, mode);
        torch::manual_seed(4);
        PlainModel plain(dropout_mlp(), {.chunks = 2});
        const at::Tensor a = samples(4);
        const at::Tensor b = samples(6);
        plain.forward({a})[0].sum().backward();
        plain.forward({b})[0].pow(2).sum().backward();
        const at::Tensor first = model.forward(a).sum();
        const at::Tensor second = model.forward(b).pow(2).sum();
        first.backward();
        second.backward();
        expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
    }
}

TEST(GPipe, RunsOneBackwardThroughTwoForwards) {
    GPipe model = two_lanes({linear(6, 6), tanh_layer()}, 2, Checkpoint::except_last);
    const at::Tensor input = samples(4).requires_grad_();
    model.forward(model.forward(input)).sum().backward();
    EXPECT_GT(input.grad().abs().sum().item<double>(), 0);
}

TEST(GPipe, GoesBackwardAfterTheModelIsGone) {
    at::Tensor output;
    const at::Tensor input = samples(4).requires_grad_();
    {
        GPipe model = two_lanes(dropout_mlp(), 2, Checkpoint::except_last);
        output = model.forward(input);
    }
    output.sum().backward();
    EXPECT_TRUE(input.grad().defined());
}

TEST(GPipe, RunsTwoModelsAtOnceFromTwoThreads) {
    const at::Tensor input = samples(8);
    const at::Tensor target = samples(8, 4);
    const auto train = [&](at::Tensor& gradient) {
        const auto layers = std::vector<LayerSpec>{linear(6, 8), dropout(0.5), linear(8, 4)};
        static std::mutex construction;
        std::unique_ptr<GPipe> model;
        {
            const std::lock_guard lock(construction);  // initial weights come from torch's one default generator
            torch::manual_seed(9);
            model = std::make_unique<GPipe>(layers, GPipeOptions{.balance = {1, 2}, .devices = cpus(2), .chunks = 4});
        }
        for (int step = 0; step < 10; ++step) {
            model->step(input, target, mean_square);
        }
        gradient = model->parameters()[0].grad();
    };
    at::Tensor one;
    at::Tensor two;
    std::thread other([&] { train(one); });
    train(two);
    other.join();
    EXPECT_TRUE(torch::equal(one, two));
}

TEST(GPipe, CanBeMoved) {
    GPipe model = two_lanes(dropout_mlp(), 2, Checkpoint::never);
    GPipe moved = std::move(model);
    EXPECT_EQ(moved.forward(samples(4)).size(0), 4);
}
}  // namespace
}  // namespace pipescope
