#include "engine/plain_model.h"
#include "schedule/schedules.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/modes.h"
#include "tests/engine/task_log.h"
#include "tests/schedule/random_csv.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <random>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Plan {
    Schedule schedule;
    std::vector<std::int64_t> balance;
    std::size_t lanes;
    std::vector<std::int64_t> placement = {};
};

GPipeOptions options(const Plan& plan, std::int64_t chunks, Checkpoint mode = Checkpoint::except_last) {
    return {.balance = plan.balance,
            .devices = cpus(plan.lanes),
            .chunks = chunks,
            .checkpoint = mode,
            .schedule = plan.schedule,
            .placement = plan.placement,
            .seed = 3};
}

const auto kMean = [](const Tensors& output, const Tensors& target) { return mean_square(output[0], target[0]); };
const auto kSum = [](const Tensors& output, const Tensors& target) { return (output[0] - target[0]).pow(2).sum(); };

std::vector<Plan> plans() {
    std::vector<Plan> all{{Schedule::one_f_one_b, {6}, 1},
                          {Schedule::interleaved_1f1b, {1, 1, 1, 1, 1, 1}, 3},
                          {Schedule::zero_bubble_h1, {1, 1, 1, 1, 1, 1}, 6},
                          {Schedule::zero_bubble_h1, {6}, 1},
                          {Schedule::v_min, {1, 1, 1, 1, 1, 1}, 3},
                          {Schedule::gpipe, {2, 1, 1, 2}, 2, {0, 0, 1, 1}},
                          {Schedule::gpipe, {2, 2, 2}, 2, {0, 1, 0}},
                          {Schedule::gpipe, {2, 2, 2}, 1, {0, 0, 0}}};
    for (const Schedule& each : runnable_schedules()) {
        all.push_back(runs_one_partition_a_lane(each) ? Plan{each, {2, 2, 2}, 3} : Plan{each, {2, 1, 1, 2}, 2});
    }
    return all;
}

// Rows of a file in any valid order, with partitions on any lanes.
TEST(Schedules, OfRandomFilesHaveThePlainModelsLossAndGradients) {
    std::mt19937 random(5);
    const at::Tensor input = samples(9);
    const at::Tensor target = samples(9, 4);
    torch::manual_seed(1);
    PlainModel plain(dropout_mlp(), {.chunks = 6, .seed = 3});
    const double expected = plain.step({input}, {target}, kMean).item<double>();
    for (int round = 0; round < 24; ++round) {
        const int lanes = 1 + static_cast<int>(random() % 3);
        const int partitions = std::min(6, lanes * (1 + static_cast<int>(random() % 3)));
        const RandomCells cells{random() % 2 == 0, random() % 3 == 0, random() % 3 == 0};
        const std::string csv = random_csv(random, partitions, lanes, 6, cells);
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, csv);
        std::vector<std::int64_t> balance(static_cast<std::size_t>(partitions), 1);
        balance.back() += 6 - partitions;
        torch::manual_seed(1);
        const Checkpoint mode = cells.recomputes ? Checkpoint::always : kModes[random() % 3];
        GPipe model(
            dropout_mlp(),
            options({Schedule::from_csv("random.csv", csv), balance, static_cast<std::size_t>(lanes)}, 6, mode));
        EXPECT_NEAR(model.step({input}, {target}, kMean).item<double>(), expected, 1e-12 * expected);
        expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
    }
}

TEST(Schedules, HaveThePlainModelsLossAndGradientsInEveryMode) {
    for (const std::int64_t batch : {6, 9}) {  // 6 micro-batches of 1, and of 2 and 1
        const at::Tensor input = samples(batch);
        const at::Tensor target = samples(batch, 4);
        torch::manual_seed(1);
        PlainModel plain(dropout_mlp(), {.chunks = 6, .seed = 3});
        const double expected = plain.step({input}, {target}, kMean).item<double>();
        for (const Plan& plan : plans()) {
            for (const auto mode : kModes) {
                const ::testing::ScopedTrace trace(
                    __FILE__, __LINE__,
                    to_string(plan.schedule) + " " + to_string(Balance(plan.balance)) + " " + to_string(mode));
                torch::manual_seed(1);
                GPipe model(dropout_mlp(), options(plan, 6, mode));
                EXPECT_NEAR(model.step({input}, {target}, kMean).item<double>(), expected, 1e-12 * expected);
                expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
            }
        }
    }
}

TEST(Schedules, AddLossesOfMicroBatchesWhereTheLossIsASum) {
    const at::Tensor input = samples(9);
    const at::Tensor target = samples(9, 4);
    torch::manual_seed(1);
    PlainModel plain(dropout_mlp(), {.chunks = 6, .seed = 3});
    const double expected = plain.step({input}, {target}, kSum).item<double>();
    torch::manual_seed(1);
    GPipeOptions with = options({Schedule::one_f_one_b, {3, 3}, 2}, 6);
    with.reduction = Reduction::sum;
    GPipe model(dropout_mlp(), with);
    EXPECT_NEAR(model.step({input}, {target}, kSum).item<double>(), expected, 1e-12 * expected);
    expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
}

// A sparse tensor has no storage, which some rules compare.
TEST(Schedules, PassSparseTensorsBetweenPartitions) {
    std::vector<LayerSpec> layers{
        linear(6, 6),
        function_layer("sparse", [](const Tensors& in) { return Tensors{(in[0] * (in[0] > 0)).to_sparse()}; }),
        function_layer("dense", [](const Tensors& in) { return Tensors{in[0].to_dense()}; }), linear(6, 4)};
    const at::Tensor input = samples(8);
    const at::Tensor target = samples(8, 4);
    torch::manual_seed(1);
    PlainModel plain(layers, {.chunks = 4, .seed = 3});
    plain.step({input}, {target}, kMean);
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
        for (const auto mode : kModes) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, to_string(schedule));
            torch::manual_seed(1);
            TaskLog log;
            GPipeOptions with = options({schedule, {2, 2}, 2}, 4, mode);
            with.observer = &log;
            GPipe model(layers, with);
            model.step({input}, {target}, kMean);
            expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
        }
    }
}

TEST(Schedules, RunEveryTaskInTheOrderOfItsLane) {
    for (const Plan& plan : plans()) {
        for (const auto mode : kModes) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, to_string(plan.schedule));
            TaskLog log;
            GPipeOptions with = options(plan, 6, mode);
            with.observer = &log;
            GPipe model(dropout_mlp(), with);
            model.step({samples(6)}, {samples(6, 4)}, kMean);
            log.expect_ran(*model.task_graph(6));
        }
    }
}

TEST(Schedules, MoveTasksOverTheLanesTheyArePlacedOn) {
    const GPipe model(dropout_mlp(), options({Schedule::interleaved_1f1b, {1, 2, 1, 2}, 2}, 4));
    std::vector<int> lanes;
    for (const PartitionInfo& partition : model.partitions()) {
        lanes.push_back(partition.lane.value());
    }
    EXPECT_THAT(lanes, testing::ElementsAre(0, 1, 0, 1));
    EXPECT_EQ(model.devices().size(), 2u);
}

// The purpose of 1F1B: lane 0 of two holds at most two micro-batches at a time, while GPipe holds all.
TEST(Schedules, HoldFewerMicroBatchesThanGPipe) {
    const auto most_graphs = [](Schedule schedule) {
        LiveTensors live;
        GPipe model({live.layer("a"), linear(2, 2)}, {.balance = {1, 1},
                                                      .devices = cpus(2),
                                                      .chunks = 8,
                                                      .checkpoint = Checkpoint::never,
                                                      .schedule = schedule});
        model.step(samples(8, 2).requires_grad_(), samples(8, 2), mean_square);
        return live.most();
    };
    EXPECT_EQ(most_graphs(Schedule::gpipe), 8);
    EXPECT_EQ(most_graphs(Schedule::one_f_one_b), 2);
}

TEST(Schedules, RunForwardWithoutGradients) {
    for (const Plan& plan : plans()) {
        GPipe model(dropout_mlp(), options(plan, 6));
        model.train(false);
        EXPECT_EQ(model.forward(samples(5)).size(0), 5) << "5 micro-batches would do for no interleaved step";
    }
}

TEST(SchedulesRefuse, AForwardThatTrainsWhereTheLossIsInside) {
    GPipe model(dropout_mlp(), options({Schedule::one_f_one_b, {3, 3}, 2}, 4));
    EXPECT_THAT(thrown<UsageError>([&] { model.forward(samples(4)); }),
                AllOf(HasSubstr("schedule 1f1b"), HasSubstr("loss inside"), HasSubstr("call step()")));
    EXPECT_EQ(model.next_step(), 0);
}

TEST(SchedulesRefuse, TargetsThatCannotBeCutLikeTheInput) {
    GPipe model(dropout_mlp(), options({Schedule::one_f_one_b, {3, 3}, 2}, 4));
    EXPECT_THAT(thrown<EngineError>([&] { model.step(samples(4), samples(3, 4), mean_square); }),
                AllOf(HasSubstr("target 0 holds 3 samples and the input 4"), HasSubstr("schedule gpipe")));
    EXPECT_GT(model.step(samples(4), samples(4, 4), mean_square).item<double>(), 0) << "and is usable";
}

TEST(SchedulesRefuse, LanesThatTheScheduleDoesNotRunOn) {
    const auto make = [](const Plan& plan) { return [plan] { GPipe(dropout_mlp(), options(plan, 4)); }; };
    EXPECT_THAT(thrown<UsageError>(make({Schedule::interleaved_1f1b, {3, 3}, 2})),
                AllOf(HasSubstr("2 lanes for 2 partitions"), HasSubstr("half")));
    EXPECT_THAT(thrown<UsageError>(make({Schedule::interleaved_1f1b, {2, 2, 2}, 2})), HasSubstr("2 lanes for 3"));
    EXPECT_THAT(thrown<UsageError>(make({Schedule::one_f_one_b, {2, 2, 2}, 2, {0, 1, 0}})),
                HasSubstr("or another schedule, such as interleaved"));
    EXPECT_THAT(thrown<EngineError>(make({Schedule::gpipe, {2, 2, 2}, 1, {0, 1, 0}})),
                HasSubstr("devices names 1 lane for a placement on 2"));
    EXPECT_THAT(thrown<UsageError>(make({Schedule::gpipe, {2, 2, 2}, 2, {0, 1}})), HasSubstr("placement"));
    GPipe model(dropout_mlp(), options({Schedule::interleaved_1f1b, {1, 1, 2, 2}, 2}, 5));
    EXPECT_THAT(thrown<UsageError>([&] { model.step(samples(5), samples(5, 4), mean_square); }),
                AllOf(HasSubstr("5 do not divide into 2 groups"), HasSubstr("use 4 or 6")));
    EXPECT_EQ(model.next_step(), 0) << "no step ran";
}
}  // namespace
}  // namespace pipescope
