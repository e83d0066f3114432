// Mini-batches whose samples are not the first dimension of every tensor.

#include "engine/plain_model.h"
#include "schedule/schedules.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/modes.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <optional>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kBatch = 7;
const TensorSplit kCut = {};
const TensorSplit kWhole = {.dimension = std::nullopt};
const TensorSplit kAlongOne = {.dimension = 1};

/// (x [batch, 5, 6], mask [5, 5], shift [3, batch]): mixes the rows of each sample by the mask, which travels on.
std::vector<LayerSpec> masked_model() {
    const auto mix = [](const Tensors& in) {
        return Tensors{torch::matmul(in[1], in[0]) + in[2].sum(0).view({-1, 1, 1}), in[1]};
    };
    const auto again = [](const Tensors& in) { return Tensors{torch::tanh(torch::matmul(in[1], in[0]))}; };
    return {function_layer("mix", mix), function_layer("again", again), linear(6, 4)};
}

Tensors masked_input() {
    return {torch::randn({kBatch, 5, 6}, torch::kFloat64).requires_grad_(),
            torch::randn({5, 5}, torch::kFloat64).requires_grad_(),
            torch::randn({3, kBatch}, torch::kFloat64).requires_grad_()};
}

Tensors copies_of(const Tensors& tensors) {
    Tensors copies;
    for (const at::Tensor& each : tensors) {
        copies.push_back(each.detach().clone().requires_grad_(each.requires_grad()));
    }
    return copies;
}

struct SplitRun {
    Schedule schedule;
    Driver driver = Driver::scheduled;
};
std::vector<SplitRun> split_runs() {
    return {
        {Schedule::gpipe}, {Schedule::one_f_one_b}, {Schedule::zero_bubble_h1}, {Schedule::gpipe, Driver::autograd}};
}

GPipeOptions options_of(const SplitRun& run, Checkpoint mode, MiniBatchSplit split) {
    return {.balance = {1, 1, 1},
            .devices = cpus(3),
            .chunks = 3,
            .checkpoint = mode,
            .schedule = run.schedule,
            .split = std::move(split),
            .driver = run.driver};
}

TEST(MiniBatch, GivesInputsWholeAndCutsThemAlongOtherDimensions) {
    const Tensors input = masked_input();
    const at::Tensor target = torch::randn({kBatch, 5, 4}, torch::kFloat64);
    const MiniBatchSplit split = {.input = {kCut, kWhole, kAlongOne}};
    torch::manual_seed(1);
    PlainModel plain(masked_model(), {.split = split});
    const Tensors plain_input = copies_of(input);
    const double expected = plain.step(plain_input, {target}, kLoss).item<double>();
    for (const SplitRun& run : split_runs()) {
        for (const auto mode : kModes) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, to_string(run.schedule) + " " + to_string(mode));
            torch::manual_seed(1);
            GPipe model(masked_model(), options_of(run, mode, split));
            const Tensors own_input = copies_of(input);
            EXPECT_NEAR(model.step(own_input, {target}, kLoss).item<double>(), expected, 1e-12 * expected);
            expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
            for (std::size_t k = 0; k < input.size(); ++k) {
                EXPECT_TRUE(at::allclose(own_input[k].grad(), plain_input[k].grad(), 1e-12, 1e-13)) << "input " << k;
            }
        }
    }
}

TEST(MiniBatch, GoesForwardAndBackwardWithInputsGivenWhole) {
    const Tensors input = masked_input();
    const MiniBatchSplit split = {.input = {kCut, kWhole, kAlongOne}};
    torch::manual_seed(1);
    PlainModel plain(masked_model(), {.split = split});
    const Tensors plain_input = copies_of(input);
    const at::Tensor expected = plain.forward(plain_input)[0];
    expected.pow(2).sum().backward();
    for (const auto driver : kBothDrivers) {
        torch::manual_seed(1);
        GPipe model(masked_model(), options_of({Schedule::gpipe, driver}, Checkpoint::except_last, split));
        const Tensors own_input = copies_of(input);
        const at::Tensor output = model.forward(own_input)[0];
        EXPECT_TRUE(at::allclose(output, expected, 1e-12, 1e-13));
        output.pow(2).sum().backward();
        for (std::size_t k = 0; k < input.size(); ++k) {
            EXPECT_TRUE(at::allclose(own_input[k].grad(), plain_input[k].grad(), 1e-12, 1e-13)) << "input " << k;
        }
        const at::NoGradGuard no_grad;
        EXPECT_TRUE(at::allclose(model.forward(input)[0], expected, 1e-12, 1e-13));
    }
}

// [sequence, batch, width], as torch's transformer layers have it by default: samples mix along dimension 0.
TEST(MiniBatch, RunsModelsWithTheSequenceFirst) {
    const std::vector<LayerSpec> layers = {
        linear(6, 6), function_layer("mix", [](const Tensors& in) { return Tensors{in[0] - in[0].mean(0, true)}; }),
        linear(6, 4)};
    const at::Tensor input = torch::randn({5, kBatch, 6}, torch::kFloat64);
    const at::Tensor target = torch::randn({5, kBatch, 4}, torch::kFloat64);
    torch::manual_seed(1);
    PlainModel plain(layers, {});
    const double expected = plain.step({input}, {target}, kLoss).item<double>();
    for (const std::int64_t dimension : {1, -2}) {
        const TensorSplit rule = {.dimension = dimension};
        const MiniBatchSplit split = {.input = {rule}, .target = {rule}, .output = {dimension}};
        for (const SplitRun& run : split_runs()) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, to_string(run.schedule));
            torch::manual_seed(1);
            GPipe model(layers, options_of(run, Checkpoint::except_last, split));
            EXPECT_NEAR(model.step({input}, {target}, kLoss).item<double>(), expected, 1e-12 * expected);
            expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
            const at::NoGradGuard no_grad;
            EXPECT_TRUE(at::allclose(model.forward(input), plain.forward({input})[0], 1e-12, 1e-13));
        }
    }
}

// Offsets of sequences in one long row: each micro-batch's begin at 0.
TEST(MiniBatch, LetsTheCallerMakeTheParts) {
    const auto shift = [](const Tensors& in) { return Tensors{in[0] + in[1].diff().view({-1, 1})}; };
    const std::vector<LayerSpec> layers = {linear(6, 6), linear(6, 6), linear(6, 4)};
    const std::vector<LayerSpec> all = {function_layer("shift", shift), layers[0], layers[2]};
    const at::Tensor offsets = torch::tensor({0, 2, 5, 6, 9, 14, 15, 20}, torch::kFloat64);
    const MiniBatchSplit split = {
        .input = {kCut, {.make = [](const at::Tensor& whole, std::int64_t first, std::int64_t end) {
                      return whole.narrow(0, first, end - first + 1) - whole[first];
                  }}}};
    const at::Tensor input = samples(kBatch);
    const at::Tensor target = samples(kBatch, 4);
    torch::manual_seed(1);
    PlainModel plain(all, {.split = split});
    const double expected = plain.step({input, offsets}, {target}, kLoss).item<double>();
    for (const SplitRun& run : split_runs()) {
        torch::manual_seed(1);
        GPipe model(all, options_of(run, Checkpoint::always, split));
        EXPECT_NEAR(model.step({input, offsets}, {target}, kLoss).item<double>(), expected, 1e-12 * expected);
        expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
        EXPECT_THAT(thrown<EngineError>([&] {
                        model.step({input, offsets.clone().requires_grad_()}, {target}, kLoss);
                    }),
                    HasSubstr("input 1 requires a gradient, and a function of split makes its parts"));
    }
}

TEST(MiniBatch, IsCutOtherwiseOnceTheSplitIsReplaced) {
    GPipe model({linear(6, 4)}, {.balance = {1}, .devices = cpus(1), .chunks = 2});
    const at::NoGradGuard no_grad;
    const at::Tensor input = torch::randn({5, kBatch, 6}, torch::kFloat64);
    EXPECT_EQ(model.forward(input).size(1), kBatch);
    model.set_split({.input = {kAlongOne}, .output = {1}});
    EXPECT_EQ(model.forward(input).sizes(), (std::vector<std::int64_t>{5, kBatch, 4}));
}

TEST(MiniBatchRefuses, WhatCannotBeCut) {
    const auto refusal = [](MiniBatchSplit split, const Tensors& input) {
        GPipe model(masked_model(), options_of({Schedule::gpipe}, Checkpoint::never, std::move(split)));
        return thrown<EngineError>([&] { model.forward(input); });
    };
    const Tensors input = masked_input();
    EXPECT_THAT(refusal({}, input), AllOf(HasSubstr("input 1 holds 5 samples and input 0 holds 7"),
                                          HasSubstr("say in split that each micro-batch gets the whole tensor")));
    EXPECT_THAT(refusal({.input = {kCut, kWhole, {.dimension = 2}}}, input),
                HasSubstr("input 2 has 2 dimensions and is to be cut along dimension 2"));
    EXPECT_THAT(refusal({.input = {kWhole, kWhole, kWhole}}, input), HasSubstr("no input is cut into micro-batches"));
    EXPECT_THAT(refusal({.input = {kCut, kWhole, kAlongOne}, .output = {3}}, input),
                HasSubstr("output 0 of the last layer has 3 dimensions and is to be gathered along dimension 3"));
}

// In the plain model the change happens once; here it would happen for each micro-batch.
TEST(MiniBatchRefuses, AChangeInPlaceOfAnInputGivenWhole) {
    for (const auto driver : kBothDrivers) {
        const auto change = [](const Tensors& in) { return Tensors{in[0] + in[1].mul_(2)}; };
        GPipe model({function_layer("change", change), linear(6, 4)}, {.balance = {1, 1},
                                                                       .devices = cpus(2),
                                                                       .chunks = 2,
                                                                       .checkpoint = Checkpoint::never,
                                                                       .split = {.input = {kCut, kWhole}},
                                                                       .driver = driver});
        EXPECT_THAT(thrown<EngineError>([&] {
                        model.forward({samples(4), torch::ones({6}, torch::kFloat64)});
                    }),
                    HasSubstr("given whole to every micro-batch"));
    }
}
}  // namespace
}  // namespace pipescope
