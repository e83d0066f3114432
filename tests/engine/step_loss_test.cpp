// A loss that is a mean over something else than samples, such as the tokens that are no padding.

#include "engine/plain_model.h"
#include "schedule/schedules.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/modes.h"
#include "tests/schedule/random_csv.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>
#include <random>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Which rows count: none of the first three, so none of the first micro-batches.
at::Tensor mask_of(std::int64_t batch) {
    at::Tensor mask = torch::ones({batch}, torch::kFloat64);
    mask.narrow(0, 0, 3).zero_();
    mask[batch - 1] = 0;
    return mask;
}

MiniBatch padded_batch(std::int64_t batch) {
    return {{samples(batch)}, {samples(batch, 4), mask_of(batch)}};
}

/// Nan where nothing counts, as cross_entropy() is where it ignores all targets.
const auto kMaskedMean = [](const Tensors& output, const Tensors& target) {
    const at::Tensor squares = (output[0] - target[0]).pow(2).sum(1);
    return (squares * target[1]).sum() / target[1].sum();
};
const auto kCounted = [](const Tensors& target) { return target[1].sum().item<double>(); };

std::vector<std::int64_t> even_balance(std::size_t partitions) {
    std::vector<std::int64_t> balance(partitions, 1);
    balance.back() += 6 - static_cast<std::int64_t>(partitions);
    return balance;
}

GPipeOptions options_of(const Schedule& schedule, std::size_t partitions, std::size_t lanes, Checkpoint mode) {
    return {.balance = even_balance(partitions),
            .devices = cpus(lanes),
            .chunks = 6,
            .checkpoint = mode,
            .schedule = schedule,
            .weight = kCounted,
            .seed = 3};
}

/// Two steps whose gradients add up, with a hook; compared with the plain model's loss on the gathered output.
void expect_plain_training(const GPipeOptions& options) {
    const ::testing::ScopedTrace trace(__FILE__, __LINE__,
                                       to_string(options.schedule) + " " + to_string(options.checkpoint));
    torch::manual_seed(7);
    const std::vector<MiniBatch> batches = {padded_batch(9), padded_batch(12)};
    const auto halve = [](const at::Tensor& gradient) { return gradient * 0.5; };
    torch::manual_seed(1);
    PlainModel plain(dropout_mlp(), {.chunks = 6, .seed = 3});
    torch::manual_seed(1);
    GPipe model(dropout_mlp(), options);
    plain.named_parameters()[0].second.register_hook(halve);
    model.named_parameters()[0].second.register_hook(halve);
    for (const MiniBatch& batch : batches) {
        at::Tensor input = batch.input[0].clone().requires_grad_();
        at::Tensor plain_input = batch.input[0].clone().requires_grad_();
        const double expected = plain.step({plain_input}, batch.target, kMaskedMean).item<double>();
        EXPECT_NEAR(model.step({input}, batch.target, kMaskedMean).item<double>(), expected, 1e-12 * expected);
        EXPECT_TRUE(at::allclose(input.grad(), plain_input.grad(), 1e-12, 1e-14));
    }
    const NamedTensors expected = gradients_of(plain.named_parameters());
    const NamedTensors found = gradients_of(model.named_parameters());
    for (std::size_t k = 0; k < expected.size(); ++k) {
        EXPECT_TRUE(at::allclose(found[k].second, expected[k].second, 1e-12, 1e-14)) << expected[k].first;
    }
}

TEST(StepLoss, TrainsWithAWeightAlikeInEverySchedule) {
    for (const Schedule& schedule : runnable_schedules()) {
        for (const auto mode : kModes) {
            expect_plain_training(options_of(schedule, usual_partitions(schedule, 2), 2, mode));
        }
    }
    std::mt19937 random(4);
    for (const RandomCells cells : {RandomCells{}, RandomCells{.splits = true, .losses = true}}) {
        const std::string csv = random_csv(random, 4, 2, 6, cells);
        expect_plain_training(options_of(Schedule::from_csv("random.csv", csv), 4, 2, Checkpoint::except_last));
    }
}

TEST(StepLoss, WithAWeightIsThatOfStaggeredTraining) {
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
        const std::vector<MiniBatch> batches = {padded_batch(9), padded_batch(12), padded_batch(6)};
        torch::manual_seed(1);
        GPipe model(dropout_mlp(), options_of(schedule, 2, 2, Checkpoint::except_last));
        torch::manual_seed(1);
        GPipe staggered(dropout_mlp(), options_of(schedule, 2, 2, Checkpoint::except_last));
        std::vector<double> expected, losses;
        for (const MiniBatch& batch : batches) {
            expected.push_back(model.step(batch.input, batch.target, kMaskedMean).item<double>());
        }
        staggered.train_staggered({.next =
                                       [&, next = std::size_t{0}]() mutable {
                                           return next < batches.size() ? std::optional(batches[next++]) : std::nullopt;
                                       },
                                   .loss = kMaskedMean,
                                   .update = [](LaneId) {},
                                   .done = [&](const at::Tensor& loss) { losses.push_back(loss.item<double>()); }});
        EXPECT_EQ(losses, expected);
        expect_equal_norm_wise(gradients_of(staggered.named_parameters()), gradients_of(model.named_parameters()));
    }
}

// As cross_entropy() of ignored targets only: a mean of nothing, whose gradient is zero.
TEST(StepLoss, IsNanWithoutAnyWeightAndItsGradientsAreZero) {
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
        GPipe model(dropout_mlp(), options_of(schedule, 2, 2, Checkpoint::except_last));
        const MiniBatch batch = {{samples(9)}, {samples(9, 4), torch::zeros({9}, torch::kFloat64)}};
        const at::Tensor loss = model.step(batch.input, batch.target, kMaskedMean);
        EXPECT_TRUE(std::isnan(loss.item<double>()));
        EXPECT_EQ(loss.scalar_type(), at::kDouble);
        for (const at::Tensor& parameter : model.parameters()) {
            EXPECT_EQ(parameter.grad().abs().max().item<double>(), 0);
        }
    }
}

TEST(StepLoss, GivesATargetWithoutDimensionsToEachMicroBatch) {
    const auto scaled = [](const Tensors& output, const Tensors& target) {
        return mean_square(output[0], target[0]) * target[1];
    };
    const Tensors target = {samples(9, 4), torch::tensor(3.0, torch::kFloat64)};
    const at::Tensor input = samples(9);
    std::vector<double> losses;
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
        torch::manual_seed(1);
        GPipe model(dropout_mlp(),
                    {.balance = {3, 3}, .devices = cpus(2), .chunks = 4, .schedule = schedule, .seed = 3});
        losses.push_back(model.step({input}, target, scaled).item<double>());
    }
    EXPECT_NEAR(losses[0], losses[1], 1e-12 * losses[0]);
}

TEST(StepLoss, NamesTheMicroBatchWhoseMeanAloneIsNan) {
    GPipeOptions options = options_of(Schedule::one_f_one_b, 2, 2, Checkpoint::except_last);
    options.weight = nullptr;
    GPipe model(dropout_mlp(), options);
    const MiniBatch batch = padded_batch(12);
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(std::isnan(model.step(batch.input, batch.target, kMaskedMean).item<double>()));
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("the loss of micro-batch 0 is nan"), HasSubstr("'weight'")));
    ::testing::internal::CaptureStderr();
    model.step(batch.input, batch.target, kMaskedMean);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "said once";
}

TEST(StepLossRefuses, WeightsThatAreNone) {
    for (const double weight : {-1.0, std::nan("")}) {
        GPipeOptions options = options_of(Schedule::one_f_one_b, 2, 2, Checkpoint::except_last);
        options.weight = [=](const Tensors&) { return weight; };
        GPipe model(dropout_mlp(), options);
        const MiniBatch batch = padded_batch(9);
        EXPECT_THAT(thrown<EngineError>([&] { model.step(batch.input, batch.target, kMaskedMean); }),
                    AllOf(HasSubstr("weight of micro-batch 0 is"), HasSubstr("from 0 up")));
    }
    GPipeOptions options = options_of(Schedule::one_f_one_b, 2, 2, Checkpoint::except_last);
    options.reduction = Reduction::sum;
    EXPECT_THAT(thrown<UsageError>([&] { GPipe(dropout_mlp(), options); }),
                HasSubstr("weight is given with reduction sum"));
}
}  // namespace
}  // namespace pipescope
