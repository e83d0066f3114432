#include "engine/current_task.h"
#include "tests/engine/engine_fixtures.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <stdexcept>
#include <vector>

namespace pipescope {
namespace {
using namespace testing_support;

torch::nn::Sequential norms(std::optional<double> momentum) {
    torch::manual_seed(2);
    torch::nn::Sequential module(torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(6).momentum(momentum)),
                                 torch::nn::Tanh(),
                                 torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(6).momentum(momentum)));
    module->to(torch::kFloat64);
    for (const auto& buffer : module->named_buffers()) {
        if (buffer.key().ends_with("tracked")) {
            buffer.value().set_data(buffer.value().to(torch::kLong));
        }
    }
    return module;
}

/// Only the first norm sees the same values as in the plain module: later inputs were normalised per micro-batch.
void expect_statistics_of_the_first_norm(const GPipe& model, const torch::nn::Sequential& plain) {
    const auto expected = plain->named_buffers();
    for (const auto& [name, buffer] : model.named_buffers()) {
        if (name.starts_with("0.") || name.ends_with("tracked")) {
            EXPECT_TRUE(torch::allclose(buffer, expected[name], 1e-12, 1e-14)) << name << " is " << buffer;
        }
    }
}

TEST(DeferredBatchNorm, TracksTheMiniBatchInEveryModeWithAnyMomentumAndShortBatches) {
    for (const std::optional<double> momentum : {std::optional(0.1), std::optional<double>()}) {
        for (const auto mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
            torch::nn::Sequential plain = norms(momentum);
            GPipe model(
                norms(momentum),
                {.balance = {1, 2}, .devices = cpus(2), .chunks = 4, .checkpoint = mode, .deferred_batch_norm = true});
            for (const std::int64_t batch : {16, 11, 8}) {  // 11 is cut into 3 3 3 2
                const at::Tensor input = samples(batch) * 3 + 100;
                plain->forward(input);
                model.forward(input).sum().backward();
                expect_statistics_of_the_first_norm(model, plain);
            }
        }
    }
}

/// One norm used in two places, like heads that share it.
class TwiceNormedImpl final : public torch::nn::Module {
public:
    explicit TwiceNormedImpl(std::optional<double> momentum)
        : norm(register_module("norm", torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(6).momentum(momentum)))) {}
    at::Tensor forward(const at::Tensor& x) { return norm(x) + norm(x * 2 + 1); }
    torch::nn::BatchNorm1d norm;
};

TEST(DeferredBatchNorm, MovesAsOftenAsTheForwardCallsTheNorm) {
    for (const std::optional<double> momentum : {std::optional(0.1), std::optional<double>()}) {
        for (const auto mode : {Checkpoint::always, Checkpoint::never}) {
            const auto plain = std::make_shared<TwiceNormedImpl>(momentum);
            const auto piped = std::make_shared<TwiceNormedImpl>(momentum);
            GPipe model(
                torch::nn::Sequential(piped),
                {.balance = {1}, .devices = cpus(1), .chunks = 4, .checkpoint = mode, .deferred_batch_norm = true});
            for (const std::int64_t batch : {16, 11}) {
                const at::Tensor input = torch::randn({batch, 6}) * 3 + 5;
                plain->forward(input);
                model.forward(input).sum().backward();
                EXPECT_TRUE(torch::allclose(piped->norm->running_mean, plain->norm->running_mean));
                EXPECT_TRUE(torch::allclose(piped->norm->running_var, plain->norm->running_var));
                EXPECT_EQ(piped->norm->num_batches_tracked.item<std::int64_t>(),
                          plain->norm->num_batches_tracked.item<std::int64_t>());
            }
        }
    }
}

TEST(DeferredBatchNorm, LeavesStatisticsAloneInEvalMode) {
    GPipe model(norms(0.1), {.balance = {1, 2}, .devices = cpus(2), .chunks = 4, .deferred_batch_norm = true});
    model.train(false);
    model.forward(samples(16));
    for (const auto& [name, buffer] : model.named_buffers()) {
        EXPECT_EQ(buffer.sum().item<double>(), name.ends_with("var") ? 6 : 0) << name;
    }
}

TEST(DeferredBatchNorm, ForgetsAMiniBatchThatFailed) {
    bool fails = true;
    torch::nn::BatchNorm1d norm(6);
    norm->to(torch::kFloat64);
    norm->num_batches_tracked.set_data(norm->num_batches_tracked.to(torch::kLong));
    GPipe model({{"norm", [&] { return module_layer(torch::nn::AnyModule(norm)); }},
                 function_layer("fail",
                                [&](const Tensors& in) {
                                    if (fails && current_task()->key.micro_batch == 2) {
                                        throw std::runtime_error("defect");
                                    }
                                    return in;
                                })},
                {.balance = {2}, .devices = cpus(1), .chunks = 4, .deferred_batch_norm = true});
    EXPECT_THROW(model.forward(samples(8)), std::runtime_error);
    EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 0);
    fails = false;
    norm->num_batches_tracked.fill_(7);  // as a loaded state does
    const at::Tensor input = samples(8);
    model.forward(input);
    EXPECT_TRUE(torch::allclose(norm->running_mean, 0.1 * input.mean(0)));
    EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 8);
}

TEST(DeferredBatchNorm, ReportsACounterThatALayerMadeUseless) {
    torch::nn::BatchNorm1d norm(6);
    GPipe model({{"norm", [&] { return module_layer(torch::nn::AnyModule(norm)); }},
                 function_layer("reshape",
                                [&](const Tensors& in) {
                                    norm->num_batches_tracked.resize_({3});
                                    return in;
                                })},
                {.balance = {2},
                 .devices = cpus(1),
                 .chunks = 2,
                 .checkpoint = Checkpoint::never,
                 .deferred_batch_norm = true});
    EXPECT_THROW(model.forward(torch::randn({8, 6})), c10::Error) << "batches would be counted wrongly in silence";
}

class ConvBlockImpl final : public torch::nn::Module {  // a user's own module, with norms deep inside
public:
    ConvBlockImpl() {
        inner->push_back(torch::nn::BatchNorm2d(3));
        inner->push_back(torch::nn::ReLU());
    }
    at::Tensor forward(const at::Tensor& x) { return inner->forward(x); }
    torch::nn::Sequential inner = register_module("inner", torch::nn::Sequential());
};

TEST(DeferredBatchNorm, WorksInsideTheModulesOfAReadySequential) {
    const auto block = std::make_shared<ConvBlockImpl>();
    const torch::nn::Sequential ready(block, torch::nn::Flatten());
    const auto plain = std::make_shared<torch::nn::BatchNorm2dImpl>(3);
    GPipe model(ready, {.balance = {1, 1}, .devices = cpus(2), .chunks = 3, .deferred_batch_norm = true});
    for (const std::int64_t batch : {7, 2}) {  // the second is cut into two of one sample
        const at::Tensor images = torch::randn({batch, 3, 4, 4}) + 5;
        plain->forward(images);
        model.forward(images).sum().backward();
        const auto& own = *block->inner[0]->as<torch::nn::BatchNorm2d>();
        EXPECT_TRUE(torch::allclose(own.running_mean, plain->running_mean));
        EXPECT_TRUE(torch::allclose(own.running_var, plain->running_var)) << "unbiased, as torch's";
        EXPECT_EQ(own.num_batches_tracked.item<std::int64_t>(), plain->num_batches_tracked.item<std::int64_t>());
    }
}

TEST(DeferredBatchNorm, LeavesNormsThatTrackNothingAndFrozenOnesAlone) {
    torch::nn::Sequential module(torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(6).track_running_stats(false)),
                                 torch::nn::BatchNorm1d(6));
    GPipe model(module, {.balance = {1, 1}, .devices = cpus(2), .chunks = 2, .deferred_batch_norm = true});
    module[1]->as<torch::nn::BatchNorm1d>()->eval();
    model.forward(torch::randn({8, 6})).sum().backward();
    const auto& frozen = *module[1]->as<torch::nn::BatchNorm1d>();
    EXPECT_EQ(frozen.running_mean.abs().sum().item<float>(), 0);
    EXPECT_EQ(frozen.num_batches_tracked.item<std::int64_t>(), 0);
}

TEST(DeferredBatchNorm, TracksTheMiniBatchInAnyOrderOfForwards) {
    torch::nn::Sequential plain = norms(0.1);
    GPipe model(norms(0.1), {.balance = {3},
                             .devices = cpus(1),
                             .chunks = 2,
                             .schedule = Schedule::from_csv("backwards.csv", "0F1,0F0,0B1,0B0\n"),
                             .deferred_batch_norm = true});
    for (int step = 0; step < 2; ++step) {
        const at::Tensor input = samples(8) * 3 + 100;
        plain->forward(input);
        model.step(input, input, mean_square);
        expect_statistics_of_the_first_norm(model, plain);
    }
}

TEST(DeferredBatchNorm, HoldsWhereMicroBatchesGoBackwardBetween) {
    torch::nn::Sequential plain = norms(0.1);
    GPipe model(norms(0.1), {.balance = {1, 2},
                             .devices = cpus(2),
                             .chunks = 4,
                             .schedule = Schedule::one_f_one_b,
                             .deferred_batch_norm = true});
    for (int step = 0; step < 3; ++step) {
        const at::Tensor input = samples(10) * 3 + 100;
        plain->forward(input);
        model.step(input, input, mean_square);
        expect_statistics_of_the_first_norm(model, plain);
    }
}
}  // namespace
}  // namespace pipescope
