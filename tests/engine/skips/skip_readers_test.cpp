#include "engine/engine_error.h"
#include "engine/plain_model.h"
#include "engine/skippable.h"
#include "schedule/schedules.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/modes.h"
#include "tests/engine/skips/readers_model.h"
#include "tests/engine/task_log.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Skips that several layers pop.

void expect_equal_gradients(const NamedTensors& ours, const NamedTensors& plain) {
    ASSERT_EQ(ours.size(), plain.size());
    for (std::size_t k = 0; k < ours.size(); ++k) {
        EXPECT_EQ(ours[k].first, plain[k].first);
        EXPECT_LE((ours[k].second - plain[k].second).norm().item<double>(),
                  1e-12 * (1 + plain[k].second.norm().item<double>()))
            << ours[k].first;
    }
}

TEST(SkipReaders, HaveThePlainModelsGradientsInEverySchedule) {
    const at::Tensor input = samples(7);
    const at::Tensor target = samples(7, 4);
    const std::map<std::int64_t, std::vector<std::int64_t>> balances = {{1, {10}},
                                                                        {2, {5, 5}},
                                                                        {3, {4, 3, 3}},
                                                                        {4, {3, 2, 3, 2}},
                                                                        {6, {1, 2, 2, 2, 2, 1}},
                                                                        {8, {2, 1, 1, 1, 1, 1, 2, 1}}};
    int tried = 0;
    for (const int chunks : {1, 4}) {
        torch::manual_seed(1);
        PlainModel plain(readers_model(), {.chunks = chunks, .seed = 5});
        const double expected = plain.step({input}, {target}, kLoss).item<double>();
        for (const Schedule& schedule : all_schedules()) {
            for (const auto& [partitions, balance] : balances) {
                for (const std::int64_t lanes : {1, 2, 3, 4}) {
                    if (partitions % lanes != 0 || partitions > 3 * lanes) {
                        continue;
                    }
                    for (const auto mode : kModes) {
                        GPipeOptions options{.balance = balance,
                                             .devices = cpus(static_cast<std::size_t>(lanes)),
                                             .chunks = chunks,
                                             .checkpoint = mode,
                                             .schedule = schedule,
                                             .seed = 5};
                        const ::testing::ScopedTrace trace(__FILE__, __LINE__,
                                                           to_string(schedule) + " " + to_string(Balance(balance)) +
                                                               " on " + std::to_string(lanes) + " lanes, checkpoint " +
                                                               to_string(mode));
                        torch::manual_seed(1);
                        try {
                            GPipe model(readers_model(), options);
                            EXPECT_NEAR(model.step({input}, {target}, kLoss).item<double>(), expected, 1e-12);
                            expect_equal_gradients(gradients_of(model.named_parameters()),
                                                   gradients_of(plain.named_parameters()));
                            ++tried;
                        } catch (const UsageError&) {  // the schedule runs other numbers
                        } catch (const EngineError& error) {
                            EXPECT_THAT(error.what(), HasSubstr("devices names"));
                        }
                    }
                }
            }
        }
    }
    EXPECT_GT(tried, 150);
}

TEST(SkipReaders, GiveTheCallersInputItsGradient) {
    const at::Tensor target = samples(7, 4);
    const at::Tensor values = samples(7);
    torch::manual_seed(1);
    PlainModel plain(readers_model(), {.chunks = 3, .seed = 5});
    const at::Tensor plain_input = values.clone().requires_grad_();
    plain.step({plain_input}, {target}, kLoss);
    for (const Driver driver : kBothDrivers) {
        for (const auto mode : kModes) {
            for (const bool portals : {true, false}) {
                GPipeOptions options = on_host({2, 3, 3, 2}, 3, mode, driver);
                options.seed = 5;
                options.autograd.portals = portals;
                torch::manual_seed(1);
                GPipe model(readers_model(), options);
                const at::Tensor input = values.clone().requires_grad_();
                mean_square(model.forward(input), target).backward();
                expect_equal_gradients(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
                expect_equal_gradients({{"input", input.grad()}}, {{"input", plain_input.grad()}});
            }
        }
    }
}

int count(TaskLog& log, int lanes, TaskKind kind) {
    int found = 0;
    for (int lane = 0; lane < lanes; ++lane) {
        for (const TaskKey& key : log.started(LaneId{lane})) {
            found += key.kind == kind ? 1 : 0;
        }
    }
    return found;
}

TEST(SkipReaders, GetTheValueOnceOnEachLane) {
    const auto stash =
        LayerSpec{"stash", [] {
                      return skippable_layer(nullptr, named({"s"}, {}), [](const Tensors& in, SkipContext& skips) {
                          skips.stash("s", in[0] * 2);
                          return in;
                      });
                  }};
    const auto pop =
        LayerSpec{"pop", [] {
                      return skippable_layer(nullptr, named({}, {"s"}), [](const Tensors& in, SkipContext& skips) {
                          return Tensors{in[0] + skips.pop("s")};
                      });
                  }};
    const std::vector<LayerSpec> layers = {linear(6, 6), stash, pop, pop, pop, pop, pop, linear(6, 6)};
    constexpr int kMicroBatches = 4;
    const auto copies = [&](const Schedule& schedule, std::size_t lanes, const std::vector<std::int64_t>& balance) {
        TaskLog log;
        GPipe model(layers, {.balance = balance,
                             .devices = cpus(lanes),
                             .chunks = kMicroBatches,
                             .checkpoint = Checkpoint::always,
                             .schedule = schedule,
                             .observer = &log});
        model.step({samples(8)}, {samples(8)}, kLoss);
        const int forward = count(log, static_cast<int>(lanes), TaskKind::skip_forward);
        EXPECT_EQ(count(log, static_cast<int>(lanes), TaskKind::skip_backward), forward);
        return forward / kMicroBatches;
    };
    EXPECT_EQ(copies(Schedule::gpipe, 2, {4, 4}), 1) << "the other lane has three of the five layers";
    EXPECT_EQ(copies(Schedule::one_f_one_b, 4, {2, 2, 2, 2}), 3) << "lane 0 has none, each other lane has some";
    EXPECT_EQ(copies(Schedule::interleaved_1f1b, 2, {2, 2, 2, 2}), 1) << "two partitions of a lane read it";
    EXPECT_EQ(copies(Schedule::zero_bubble_v, 2, {3, 2, 1, 2}), 1);
    EXPECT_EQ(copies(Schedule::gpipe, 1, {8}), 0);
}

TEST(SkipReaders, CarryNoGradientForNumbersAndTruthValues) {
    for (const auto mode : kModes) {
        TaskLog log;
        std::vector<LayerSpec> layers = {stem()};
        for (int k = 0; k < 3; ++k) {
            layers.push_back(reader({"positive", "largest"}));
        }
        layers.push_back(reader({"wx", "input"}));
        GPipe model(layers,
                    {.balance = {1, 1, 1, 2}, .devices = cpus(4), .chunks = 1, .checkpoint = mode, .observer = &log});
        const at::Tensor input = samples(5);
        model.step({input}, {samples(5, 4)}, kLoss);
        // Back to lane 0 go the gradients of its output, and of wx; checkpointed partitions cannot tell that the input
        // needs none.
        const std::int64_t of_input = mode == Checkpoint::always ? input.numel() : 0;
        EXPECT_EQ(log.moved(LaneId{0}), 5 * 4 + 5 * 4 + of_input) << to_string(mode);
    }
}

TEST(SkipReaders, MayGetNothing) {
    const auto none =
        LayerSpec{"none", [] {
                      return skippable_layer(nullptr, named({"s"}, {}), [](const Tensors& in, SkipContext& skips) {
                          skips.stash("s", {});
                          return Tensors{in[0] * 2};
                      });
                  }};
    const auto ask =
        LayerSpec{"ask", [] {
                      return skippable_layer(nullptr, named({}, {"s"}), [](const Tensors& in, SkipContext& skips) {
                          EXPECT_FALSE(skips.pop("s").defined());
                          return in;
                      });
                  }};
    GPipe model({none, ask, ask, ask}, on_host({1, 2, 1}, 2, Checkpoint::never));
    const at::Tensor input = samples(4).requires_grad_();
    model.forward(input).sum().backward();
    EXPECT_TRUE(torch::equal(input.grad(), torch::full_like(input, 2)));
}

TEST(SkipReaders, MustNotChangeWhatALaterPartitionReads) {
    const auto layer = [](SkipNames names, SkipForward forward) {
        return LayerSpec{"layer", [=] { return skippable_layer(nullptr, names, forward); }};
    };
    const auto stash = layer(named({"s"}, {}), [](const Tensors& in, SkipContext& skips) {
        skips.stash("s", in[0] * 2);
        return in;
    });
    const auto change = layer(named({}, {"s"}), [](const Tensors& in, SkipContext& skips) {
        return Tensors{in[0] + skips.pop("s").mul_(3)};
    });
    const auto read =
        layer(named({}, {"s"}), [](const Tensors& in, SkipContext& skips) { return Tensors{in[0] + skips.pop("s")}; });
    for (const Driver driver : kBothDrivers) {
        for (const bool trains : {true, false}) {
            const at::AutoGradMode mode(trains);
            GPipe split({stash, change, read}, on_host({1, 1, 1}, 2, Checkpoint::never, driver));
            EXPECT_THAT(thrown<LayerError>([&] { split.forward(samples(4).requires_grad_(trains)); }),
                        AllOf(HasSubstr("partition 1 (layer) changed in place a skip that a later partition pops too"),
                              HasSubstr("clone the skip")));
        }
        GPipe last({stash, read, change}, on_host({1, 1, 1}, 2, Checkpoint::never, driver));
        GPipe whole({stash, change, read}, on_host({3}, 2, Checkpoint::never, driver));
        const at::Tensor x = samples(4).requires_grad_();
        last.forward(x).sum().backward();
        EXPECT_TRUE(torch::equal(x.grad(), torch::full_like(x, 1 + 2 + 6))) << "nobody reads it afterwards";
        x.mutable_grad() = at::Tensor();
        whole.forward(x).sum().backward();
        EXPECT_TRUE(torch::equal(x.grad(), torch::full_like(x, 1 + 6 + 6))) << "autograd sees the change there";
    }
}

TEST(SkipReaders, LetGoOfTheValueWhenTheLastHasRead) {
    using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
    std::vector<WeakStorage> stashed;
    std::vector<bool> lives;
    const auto stash = LayerSpec{"stash", [&stashed] {
                                     return skippable_layer(
                                         nullptr, named({"s"}, {}), [&stashed](const Tensors& in, SkipContext& skips) {
                                             at::Tensor fresh = in[0] + 1;
                                             stashed.emplace_back(fresh.storage().getWeakStorageImpl());
                                             skips.stash("s", std::move(fresh));
                                             return Tensors{in[0] + 2};
                                         });
                                 }};
    const auto pop =
        LayerSpec{"pop", [] {
                      return skippable_layer(nullptr, named({}, {"s"}), [](const Tensors& in, SkipContext& skips) {
                          return Tensors{in[0] + skips.pop("s")};
                      });
                  }};
    const auto look = function_layer("look", [&](const Tensors& in) {
        lives.push_back(!stashed.front().expired());
        return Tensors{in[0] + 1};
    });
    for (const std::vector<std::int64_t>& balance :
         std::vector<std::vector<std::int64_t>>{{6}, {1, 1, 1, 1, 1, 1}, {2, 2, 2}, {1, 3, 2}}) {
        stashed.clear();
        lives.clear();
        GPipe model({linear(2, 2), stash, pop, look, pop, look}, on_host(balance, 1, Checkpoint::never));
        model.forward(samples(2, 2));
        EXPECT_THAT(lives, ::testing::ElementsAre(true, false)) << to_string(Balance(balance));
    }
}
}  // namespace
}  // namespace pipescope
