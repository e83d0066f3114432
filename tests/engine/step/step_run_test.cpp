#include "engine/current_task.h"
#include "engine/skippable.h"
#include "schedule/schedules.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/task_log.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <mutex>

namespace pipescope {
namespace {
using namespace testing_support;

at::Tensor ones(std::int64_t batch) {
    return torch::ones({batch, 2}, torch::kFloat64).requires_grad_();
}

// Two tasks that meet prove without a clock that lanes overlap: in sequence, they would wait forever.

TEST(StepRun, LanesOverlapInForward) {
    Rendezvous pair(2);
    const auto meet_at = [&](int micro_batch) {
        return function_layer("meet", [&pair, micro_batch](const Tensors& in) {
            if (current_task()->key.micro_batch == micro_batch) {
                EXPECT_TRUE(pair.meet());
            }
            return Tensors{in[0] * 1};
        });
    };
    // (1, 0) meets (0, 1)
    GPipe model({meet_at(1), meet_at(0)},
                {.balance = {1, 1}, .devices = cpus(2), .chunks = 2, .checkpoint = Checkpoint::never});
    model.forward(ones(2));
    EXPECT_EQ(pair.met(), 1);
}

TEST(StepRun, LanesOverlapInBackward) {
    for (const bool in_step : {false, true}) {
        Rendezvous pair(2);
        const auto meet_at = [&](int micro_batch) {
            return function_layer("meet", [&pair, micro_batch](const Tensors& in) {
                at::Tensor out = in[0] * 1;
                out.register_hook([&pair, micro_batch](const at::Tensor& gradient) {
                    if (current_task()->key.micro_batch == micro_batch) {
                        EXPECT_TRUE(pair.meet());
                    }
                    return gradient;
                });
                return Tensors{out};
            });
        };
        // The last micro-batch first: (1, 0) meets (0, 1) again.
        GPipe model({meet_at(1), meet_at(0)},
                    {.balance = {1, 1}, .devices = cpus(2), .chunks = 2, .checkpoint = Checkpoint::never});
        if (in_step) {
            model.step(ones(2), ones(2), sum_of);
        } else {
            model.forward(ones(2)).sum().backward();
        }
        EXPECT_EQ(pair.met(), 1);
    }
}

TEST(StepRun, RecomputesBeforeTheGradientArrives) {
    // recompute (1, 0) meets backward (1, 1), whose gradient it will need
    Rendezvous pair(2);
    const auto first = function_layer("first", [&](const Tensors& in) {
        if (is_recomputing() && current_task()->key.micro_batch == 1) {
            EXPECT_TRUE(pair.meet());
        }
        return Tensors{in[0] * 1};
    });
    const auto second = function_layer("second", [&](const Tensors& in) {
        at::Tensor out = in[0] * 1;
        if (out.requires_grad()) {
            out.register_hook([&](const at::Tensor& gradient) {
                if (current_task()->key.micro_batch == 1) {
                    EXPECT_TRUE(pair.meet());
                }
                return gradient;
            });
        }
        return Tensors{out};
    });
    GPipe model({first, second},
                {.balance = {1, 1}, .devices = cpus(2), .chunks = 2, .checkpoint = Checkpoint::always});
    model.step(ones(2), ones(2), sum_of);
    EXPECT_EQ(pair.met(), 1);
}

// Live tensors: LiveTensors::layer keeps one tensor in the graph of every call.

TEST(StepRun, KeepsOneGraphPerMicroBatchOnlyWhereNothingIsCheckpointed) {
    const std::map<Checkpoint, int> expected = {
        {Checkpoint::never, 8}, {Checkpoint::except_last, 2}, {Checkpoint::always, 0}};
    for (const auto& [mode, graphs] : expected) {
        LiveTensors live;
        GPipe model({live.layer("a"), live.layer("b")},
                    {.balance = {1, 1}, .devices = cpus(2), .chunks = 4, .checkpoint = mode});
        at::Tensor output = model.forward(ones(4));
        EXPECT_EQ(live.count(), graphs) << to_string(mode);
        output.sum().backward();
        EXPECT_EQ(live.count(), 0) << to_string(mode);
    }
}

TEST(StepRun, HoldsOneRecomputedGraphAtATimeOnALane) {
    LiveTensors live;
    GPipe model({live.layer("only")},
                {.balance = {1}, .devices = cpus(1), .chunks = 8, .checkpoint = Checkpoint::always});
    model.step(ones(8), ones(8), sum_of);
    EXPECT_EQ(live.most(), 1);
    EXPECT_EQ(live.count(), 0);
}

TEST(StepRun, IsFreedWithAnOutputThatNeverGoesBackward) {
    LiveTensors live;
    GPipe model({live.layer("a"), live.layer("b")},
                {.balance = {1, 1}, .devices = cpus(2), .chunks = 4, .checkpoint = Checkpoint::never});
    {
        const at::Tensor output = model.forward(ones(4));
        EXPECT_EQ(live.count(), 8);
    }
    EXPECT_EQ(live.count(), 0);
}

TEST(StepRun, KeepsOutputsOnlyWhereSomethingNeedsThem) {
    using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
    for (const auto mode : {Checkpoint::never, Checkpoint::always}) {
        std::mutex mutex;
        std::vector<WeakStorage> boundaries;
        const auto watch = function_layer("add", [&](const Tensors& in) {  // an addition saves nothing
            const std::lock_guard lock(mutex);
            if (!is_recomputing()) {
                boundaries.emplace_back(in[0].storage().getWeakStorageImpl());
            }
            return Tensors{in[0] + 1};
        });
        const auto alive = [&] {
            return std::count_if(boundaries.begin(), boundaries.end(),
                                 [](const WeakStorage& each) { return !each.expired(); });
        };
        GPipe model({linear(2, 2), watch}, {.balance = {1, 1}, .devices = cpus(2), .chunks = 4, .checkpoint = mode});
        const at::Tensor output = model.forward(ones(4));
        EXPECT_EQ(alive(), mode == Checkpoint::always ? 4 : 0) << "boundary inputs of checkpointed micro-batches";
        output.sum().backward();
        EXPECT_EQ(alive(), 0);
    }
}

// Calls of an observer.

TEST(StepRun, RunsEveryTaskOfTheScheduleInTheOrderOfItsLane) {
    for (const auto mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
        TaskLog log;
        GPipe model({linear(2, 3), linear(3, 3), linear(3, 2)},
                    {.balance = {1, 1, 1}, .devices = cpus(3), .chunks = 4, .checkpoint = mode, .observer = &log});
        model.step(ones(4), ones(4), sum_of);
        log.expect_ran(
            make_schedule(Schedule::gpipe, {.num_partitions = 3, .num_micro_batches = 4, .checkpoint = mode}));
    }
}

TEST(StepRun, TellsWhereTensorsLiveAndGo) {
    TaskLog log;
    GPipe model({linear(2, 3), linear(3, 2)}, {.balance = {1, 1}, .devices = cpus(2), .chunks = 4, .observer = &log});
    EXPECT_EQ(log.placed(LaneId{0}), 2 * 3 + 3);
    EXPECT_EQ(log.placed(LaneId{1}), 3 * 2 + 2);
    const at::Tensor output = model.forward(ones(4));
    EXPECT_EQ(log.moved(LaneId{1}), 4 * 3);
    EXPECT_EQ(log.moved(LaneId{0}), 0);
    output.sum().backward();
    EXPECT_EQ(log.moved(LaneId{0}), 4 * 3) << "gradients go back";
    EXPECT_EQ(log.started(LaneId{1}).back().step, 0);
}

TEST(StepRun, CarriesSkipsStraightToTheLaneThatPopsThem) {
    const LayerSpec stash{"stash", [] {
                              return skippable_layer(nullptr, {.stash = {{"", "a"}}},
                                                     [](const Tensors& in, SkipContext& skips) {
                                                         skips.stash("a", in[0].repeat({1, 5}));
                                                         return Tensors{in[0] * 1};
                                                     });
                          }};
    const LayerSpec pop{"pop", [] {
                            return skippable_layer(nullptr, {.pop = {{"", "a"}}},
                                                   [](const Tensors& in, SkipContext& skips) {
                                                       return Tensors{in[0] + skips.pop("a").sum(1, true)};
                                                   });
                        }};
    for (const auto mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
        TaskLog log;
        GPipe model({stash, linear(2, 2), pop},
                    {.balance = {1, 1, 1}, .devices = cpus(3), .chunks = 4, .checkpoint = mode, .observer = &log});
        model.step(ones(4), ones(4), sum_of);
        log.expect_ran(make_schedule(Schedule::gpipe, {.num_partitions = 3,
                                                       .num_micro_batches = 4,
                                                       .checkpoint = mode,
                                                       .skips = {{PartitionId{0}, {PartitionId{2}}}}}));
        EXPECT_EQ(log.moved(LaneId{1}), 2 * 4 * 2) << "lane 1 pays for what it computes on, there and back";
        EXPECT_EQ(log.moved(LaneId{2}), 4 * 2 + 4 * 10);
        EXPECT_EQ(log.moved(LaneId{0}), 4 * 2 + 4 * 10) << "gradients go back the same way";
    }
}
}  // namespace
}  // namespace pipescope
