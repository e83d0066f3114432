#include "engine/current_task.h"
#include "engine/engine_error.h"
#include "engine/reference.h"
#include "engine/skippable.h"
#include "tests/engine/device_fixtures.h"
#include "tests/engine/engine_fixtures.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using namespace testing_support;
using fake_accelerator::behaviour;

using DevicePipelineTest = DeviceTest;
using Names = std::vector<std::string>;

constexpr std::array kModes = {Checkpoint::always, Checkpoint::except_last, Checkpoint::never};
const std::vector<Names> kLanes = {
    {"fake:0"},
    {"fake:0", "fake:1"},
    {"fake:0", "fake:0"},
    {"cpu", "fake:0"},
    {"fake:1", "cpu"},
    {"cpu", "fake:0", "fake:0", "fake:1"},
    {"fake:1", "cpu", "cpu", "fake:0"},
};

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

/// Eight layers, a skip over six of them; no random numbers, so that the CPU's are comparable.
std::vector<LayerSpec> model() {
    return {linear(6, 8), stashing(8, 8), tanh_layer(), linear(8, 8),
            tanh_layer(), linear(8, 8),   popping(),    linear(8, 4)};
}

const auto kLoss = [](const Tensors& output, const Tensors& target) { return mean_square(output[0], target[0]); };

GPipe pipeline(const std::vector<LayerSpec>& layers, const Names& lanes, Checkpoint mode, std::int64_t chunks = 4) {
    torch::manual_seed(1);
    const auto n = static_cast<std::int64_t>(lanes.size());
    const auto num_layers = static_cast<std::int64_t>(layers.size());
    std::vector<std::int64_t> balance(lanes.size(), num_layers / n);
    balance.back() += num_layers % n;
    return GPipe(layers, {.balance = balance, .devices = lanes, .chunks = chunks, .checkpoint = mode, .seed = 42});
}

NamedTensors on_cpu(NamedTensors tensors) {
    for (auto& [name, tensor] : tensors) {
        tensor = tensor.defined() ? tensor.cpu() : tensor;
    }
    return tensors;
}

std::string name_of(const Names& lanes, Checkpoint mode) {
    std::string name(to_string(mode));
    for (const std::string& lane : lanes) {
        name += " " + lane;
    }
    return name;
}

/// Late kernels, later copies: what does not wait reads NaN.
void be_slow() {
    behaviour().kernel_delay_us = 50;
    behaviour().copy_delay_us = 1'000;
}

struct Plain {
    at::Tensor input = samples(7);
    at::Tensor target = samples(7, 4);
    at::Tensor input_gradient;
    NamedTensors gradients;
    double loss = 0;
};

/// Two steps of the plain model on the CPU.
Plain plain_steps() {
    Plain plain;
    torch::manual_seed(1);
    PlainModel reference(model(), {.chunks = 4, .seed = 42});
    const at::Tensor input = plain.input.clone().requires_grad_();
    plain.loss = reference.step({input}, {plain.target}, kLoss).item<double>();
    reference.step({input}, {plain.target}, kLoss);
    plain.gradients = gradients_of(reference.named_parameters());
    plain.input_gradient = input.grad();
    return plain;
}

TEST_F(DevicePipelineTest, StepsWithTheGradientsOfTheCpu) {
    const Plain plain = plain_steps();
    be_slow();
    for (const Names& lanes : kLanes) {
        for (const Checkpoint mode : kModes) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(lanes, mode));
            GPipe pipe = pipeline(model(), lanes, mode);
            EXPECT_NEAR(pipe.step({plain.input}, {plain.target}, kLoss).item<double>(), plain.loss, 1e-12);
            EXPECT_NEAR(pipe.step({plain.input}, {plain.target}, kLoss).item<double>(), plain.loss, 1e-12);
            expect_equal_norm_wise(on_cpu(gradients_of(pipe.named_parameters())), plain.gradients);
        }
    }
}

TEST_F(DevicePipelineTest, GoesBackwardFromTheCallersLossWithoutADeadlock) {
    const Plain plain = plain_steps();
    be_slow();
    for (const Names& lanes : kLanes) {
        for (const Checkpoint mode : kModes) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(lanes, mode));
            GPipe pipe = pipeline(model(), lanes, mode);
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
    }
}

TEST_F(DevicePipelineTest, TakesItsInputFromWhereverItIs) {
    const Plain plain = plain_steps();
    be_slow();
    for (const std::string from : {"fake:0", "fake:1"}) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, from);
        GPipe pipe = pipeline(model(), {"fake:0", "fake:1"}, Checkpoint::except_last);
        const at::Tensor input = plain.input.to(from).requires_grad_();
        const at::Tensor output = pipe.forward(input);
        mean_square(output, plain.target.to(output.device())).backward();
        EXPECT_EQ(input.grad().device(), c10::Device(from));
        expect_equal_norm_wise({{"input", input.grad().cpu() * 2}}, {{"input", plain.input_gradient}});
    }
}

TEST_F(DevicePipelineTest, IsDoneWithTheInputWhenItReturns) {
    be_slow();
    GPipe pipe = pipeline(model(), {"fake:0", "fake:1"}, Checkpoint::never);
    pipe.train(false);
    const at::Tensor pinned =
        torch::empty({7, 6}, torch::TensorOptions().dtype(torch::kFloat64).pinned_memory(true)).copy_(samples(7));
    const at::Tensor expected = pipe.forward(pinned).cpu();
    behaviour().copy_delay_us = 20'000;
    const at::Tensor output = pipe.forward(pinned);
    pinned.zero_();
    EXPECT_TRUE(torch::equal(output.cpu(), expected));
}

TEST_F(DevicePipelineTest, WouldNoticeAMissingWait) {
    const Plain plain = plain_steps();
    be_slow();
    behaviour().ignores_waits = true;
    GPipe pipe = pipeline(model(), {"fake:0", "fake:1"}, Checkpoint::never);
    const at::Tensor loss = pipe.step({plain.input}, {plain.target}, kLoss);
    fake_accelerator::synchronize();
    EXPECT_NE(loss.item<double>(), plain.loss);
}

TEST_F(DevicePipelineTest, IssuesTasksWithoutWaitingForTheDevice) {
    GPipe pipe = pipeline(model(), {"fake:0"}, Checkpoint::never, 2);
    const at::Tensor input = samples(4);
    pipe.forward(input);
    behaviour().kernel_delay_us = 20'000;
    pipe.train(false);
    const at::Tensor output = pipe.forward(input);
    EXPECT_FALSE(fake_accelerator::current_stream(0).is_idle()) << "the caller's stream waits for the lanes'";
    EXPECT_TRUE(std::isfinite(output.sum().item<double>()));
}

TEST_F(DevicePipelineTest, DrawsTheSameRandomNumbersInEveryModeAndOnEveryBalance) {
    be_slow();
    const at::Tensor input = samples(7);
    const at::Tensor target = samples(7, 4);
    NamedTensors first;
    for (const Names& lanes : std::vector<Names>{{"fake:0"}, {"fake:0", "fake:0"}, {"fake:0", "fake:1", "fake:0"}}) {
        for (const Checkpoint mode : kModes) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(lanes, mode));
            GPipe pipe = pipeline(dropout_mlp(), lanes, mode);
            pipe.step({input}, {target}, kLoss);
            NamedTensors gradients = on_cpu(gradients_of(pipe.named_parameters()));
            if (first.empty()) {
                first = std::move(gradients);
            } else {
                expect_equal_norm_wise(gradients, first);
            }
        }
    }
}

TEST_F(DevicePipelineTest, TracksMiniBatchesWithDeferredBatchNorm) {
    be_slow();
    const auto norm = LayerSpec{"norm", [] {
                                    auto layer = module_layer(torch::nn::AnyModule(torch::nn::BatchNorm1d(6)));
                                    layer->to(torch::kFloat64);
                                    return layer;
                                }};
    const std::vector<LayerSpec> layers = {norm, linear(6, 4)};
    const at::Tensor input = samples(8);
    const auto buffers = [&](const Names& lanes) {
        torch::manual_seed(1);
        GPipe pipe(layers, {.balance = {1, 1}, .devices = lanes, .chunks = 4, .deferred_batch_norm = true});
        pipe.step({input}, {samples(8, 4)}, kLoss);
        NamedTensors all = on_cpu(pipe.named_buffers());
        for (auto& [name, tensor] : all) {
            tensor = tensor.to(torch::kFloat64);
        }
        return all;
    };
    expect_equal_norm_wise(buffers({"fake:0", "fake:1"}), buffers({"cpu", "cpu"}));
}

TEST_F(DevicePipelineTest, PassesAnExceptionOnAndWorksAfterwards) {
    be_slow();
    auto fails = std::make_shared<std::atomic<bool>>(false);
    const auto failing = function_layer("failing", [fails](const Tensors& x) {
        if (*fails) {
            throw std::domain_error("no");
        }
        return x;
    });
    GPipe pipe =
        pipeline({linear(6, 8), tanh_layer(), failing, linear(8, 4)}, {"fake:0", "fake:1"}, Checkpoint::always);
    const at::Tensor input = samples(7);
    const at::Tensor target = samples(7, 4);
    const double before = pipe.step({input}, {target}, kLoss).item<double>();
    *fails = true;
    EXPECT_THROW(pipe.step({input}, {target}, kLoss), std::domain_error);
    *fails = false;
    EXPECT_NEAR(pipe.step({input}, {target}, kLoss).item<double>(), before, 1e-12);
}

TEST_F(DevicePipelineTest, LetsGoOfEverythingAStepUsed) {
    GPipe pipe = pipeline(model(), {"fake:0", "fake:1"}, Checkpoint::never);
    const at::Tensor input = samples(64);
    const at::Tensor target = samples(64, 4);
    pipe.step({input}, {target}, kLoss);
    const std::int64_t first = fake_accelerator::allocated_bytes(0);
    const std::int64_t second = fake_accelerator::allocated_bytes(1);
    pipe.step({input}, {target}, kLoss);
    EXPECT_EQ(fake_accelerator::allocated_bytes(0), first);
    EXPECT_EQ(fake_accelerator::allocated_bytes(1), second);
}

TEST_F(DevicePipelineTest, CopiesEachBoundaryOnceEachWay) {
    GPipe pipe =
        pipeline({linear(6, 8), tanh_layer(), linear(8, 8), linear(8, 4)}, {"fake:0", "fake:1"}, Checkpoint::never);
    const at::Tensor input = samples(8).to(on(0));
    const at::Tensor target = samples(8, 4).to(on(1));
    pipe.step({input}, {target}, kLoss);
    const std::int64_t before = fake_accelerator::copies();
    pipe.step({input}, {target}, kLoss);
    EXPECT_EQ(fake_accelerator::copies() - before, 4 * 2);
}

TEST_F(DevicePipelineTest, RunsSchedulesThatGoBackwardEarly) {
    const Plain plain = plain_steps();
    be_slow();
    for (const Names& lanes : std::vector<Names>{{"fake:0", "fake:1"}, {"fake:0", "fake:0"}, {"cpu", "fake:1"}}) {
        torch::manual_seed(1);
        GPipe pipe(model(), {.balance = {4, 4}, .devices = lanes, .chunks = 4, .schedule = Schedule::one_f_one_b});
        pipe.step({plain.input}, {plain.target}, kLoss);
        EXPECT_NEAR(pipe.step({plain.input}, {plain.target}, kLoss).item<double>(), plain.loss, 1e-12);
        expect_equal_norm_wise(on_cpu(gradients_of(pipe.named_parameters())), plain.gradients);
    }
}

TEST_F(DevicePipelineTest, TakesAnOptimizerMadeBeforeAndAfter) {
    GPipe pipe = pipeline(model(), {"fake:0", "fake:1"}, Checkpoint::except_last);
    torch::optim::SGD optimizer(pipe.parameters(), 0.1);
    const at::Tensor input = samples(8);
    const at::Tensor target = samples(8, 4);
    be_slow();
    const double first = pipe.step({input}, {target}, kLoss).item<double>();
    optimizer.step();
    optimizer.zero_grad();
    double last = first;
    for (int step = 0; step < 5; ++step) {
        last = pipe.step({input}, {target}, kLoss).item<double>();
        optimizer.step();
        optimizer.zero_grad();
    }
    EXPECT_LT(last, first);
}
}  // namespace
}  // namespace pipescope
