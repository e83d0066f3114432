// Compares the paper's driver with the plain model, and checks the order that it imposes on autograd.

#include "engine/current_task.h"
#include "engine/engine_error.h"
#include "engine/plain_model.h"
#include "engine/skippable.h"
#include "engine/task_observer.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <stdexcept>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::array kModes = {Checkpoint::always, Checkpoint::except_last, Checkpoint::never};
const auto kLoss = [](const Tensors& output, const Tensors& target) { return mean_square(output[0], target[0]); };

/// Records tasks in the order of their starts.
class GraphTaskLog final : public TaskObserver {
public:
    void placed(const at::Tensor&, LaneId) override {}
    void task_started(const TaskKey& key, LaneId) override {
        const std::lock_guard lock(mutex_);
        started_.push_back(key);
    }
    void task_ended(const TaskKey&, LaneId) override {
        const std::lock_guard lock(mutex_);
        ++ended_;
    }
    void moved(const at::Tensor&, LaneId) override {
        const std::lock_guard lock(mutex_);
        ++moved_;
    }

    std::vector<TaskKey> of_kind(TaskKind kind) const {
        std::vector<TaskKey> tasks;
        std::copy_if(started_.begin(), started_.end(), std::back_inserter(tasks),
                     [kind](const TaskKey& key) { return key.kind == kind; });
        return tasks;
    }
    /// Position of the task's start among all starts.
    std::ptrdiff_t place_of(TaskKind kind, int micro_batch, int partition) const {
        const auto found = std::find_if(started_.begin(), started_.end(), [&](const TaskKey& key) {
            return key.kind == kind && key.micro_batch == micro_batch && key.partition == partition;
        });
        EXPECT_NE(found, started_.end()) << to_string(TaskKey{0, kind, partition, micro_batch, -1}) << " never ran";
        return found - started_.begin();
    }
    std::size_t started() const { return started_.size(); }
    std::size_t ended() const { return ended_; }
    int moved() const { return moved_; }

private:
    std::mutex mutex_;
    std::vector<TaskKey> started_;
    std::size_t ended_ = 0;
    int moved_ = 0;
};

GPipe pipeline_of(const std::vector<LayerSpec>& layers, const std::vector<std::int64_t>& balance, std::int64_t chunks,
                  Checkpoint mode, AutogradParts parts = {}, TaskObserver* observer = nullptr) {
    torch::manual_seed(1);
    return GPipe(layers, {.balance = balance,
                          .devices = cpus(balance.size()),
                          .chunks = chunks,
                          .checkpoint = mode,
                          .driver = Driver::autograd,
                          .autograd = parts,
                          .seed = 42,
                          .observer = observer});
}

void expect_plain_gradients(const std::vector<LayerSpec>& layers, const std::vector<std::int64_t>& balance,
                            AutogradParts parts = {}) {
    for (const auto& [chunks, batch] : {std::pair{1, 4}, {3, 7}, {8, 5}}) {
        const at::Tensor input = samples(batch);
        const at::Tensor target = samples(batch, 4);
        torch::manual_seed(1);
        PlainModel plain(layers, {.chunks = chunks, .seed = 42});
        const at::Tensor plain_input = input.clone().requires_grad_();
        const double first = plain.step({plain_input}, {target}, kLoss).item<double>();
        const double second = plain.step({plain_input}, {target}, kLoss).item<double>();
        for (const auto mode : kModes) {
            const ::testing::ScopedTrace trace(
                __FILE__, __LINE__, to_string(Balance(balance)) + " " + std::to_string(chunks) + " " + to_string(mode));
            GPipe stepped = pipeline_of(layers, balance, chunks, mode, parts);
            EXPECT_DOUBLE_EQ(stepped.step({input}, {target}, kLoss).item<double>(), first);
            EXPECT_DOUBLE_EQ(stepped.step({input}, {target}, kLoss).item<double>(), second);
            expect_equal_norm_wise(gradients_of(stepped.named_parameters()), gradients_of(plain.named_parameters()));

            GPipe wrapped = pipeline_of(layers, balance, chunks, mode, parts);
            const at::Tensor own_input = input.clone().requires_grad_();
            for (const double expected : {first, second}) {
                const at::Tensor value = mean_square(wrapped.forward(own_input), target);
                EXPECT_DOUBLE_EQ(value.item<double>(), expected);
                value.backward();
            }
            expect_equal_norm_wise(gradients_of(wrapped.named_parameters()), gradients_of(plain.named_parameters()));
            expect_equal_norm_wise({{"input", own_input.grad()}}, {{"input", plain_input.grad()}});
        }
    }
}

TEST(AutogradDriver, HasThePlainModelsGradientsWithDropoutAndTuples) {
    for (const auto& balance : std::vector<std::vector<std::int64_t>>{{6}, {3, 3}, {1, 1, 1, 1, 1, 1}}) {
        expect_plain_gradients(dropout_mlp(), balance);
    }
    expect_plain_gradients(tuple_model(), {1, 2, 1, 1});
}

TEST(AutogradDriver, HasThePlainModelsGradientsWithoutItsParts) {
    expect_plain_gradients(dropout_mlp(), {2, 2, 2}, {.dependency = false, .copy_streams = false, .portals = false});
}

/// Stashes x and adds it three layers later.
std::vector<LayerSpec> two_skips_model() {
    const auto spec = [](std::string name, SkipNames names, SkipForward forward) {
        return LayerSpec{std::move(name), [=] { return skippable_layer(nullptr, names, forward); }};
    };
    return {linear(6, 4),
            spec("stash", {.stash = {{"", "x"}}},
                 [](const Tensors& in, SkipContext& skips) {
                     skips.stash("x", in[0]);
                     return Tensors{in[0] * 2};
                 }),
            linear(4, 4), tanh_layer(), spec("pop", {.pop = {{"", "x"}}}, [](const Tensors& in, SkipContext& skips) {
                return Tensors{in[0] + skips.pop("x")};
            })};
}

TEST(AutogradDriver, CarriesSkipsWithPortalsAndWithout) {
    for (const bool portals : {true, false}) {
        expect_plain_gradients(two_skips_model(), {2, 1, 1, 1}, {.portals = portals});
        expect_plain_gradients(two_skips_model(), {1, 4}, {.portals = portals});
    }
}

TEST(AutogradDriver, PortalsSendASkipOnceWhereItElsePassesEveryPartitionBetween) {
    GraphTaskLog with;
    pipeline_of(two_skips_model(), {2, 1, 1, 1}, 2, Checkpoint::never, {}, &with)
        .step({samples(4)}, {samples(4, 4)}, kLoss);
    EXPECT_EQ(with.of_kind(TaskKind::skip_forward).size(), 2U);
    EXPECT_EQ(with.of_kind(TaskKind::skip_backward).size(), 2U);
    EXPECT_EQ(with.moved(), 2 * 2 * (3 + 1));  // micro-batches, there and back, boundaries and the skip

    GraphTaskLog without;
    pipeline_of(two_skips_model(), {2, 1, 1, 1}, 2, Checkpoint::never, {.portals = false}, &without)
        .step({samples(4)}, {samples(4, 4)}, kLoss);
    EXPECT_THAT(without.of_kind(TaskKind::skip_forward), IsEmpty());
    EXPECT_EQ(without.moved(), 2 * 2 * (3 + 3));
}

TEST(AutogradDriver, GoesBackwardLastMicroBatchFirstOnEveryPartition) {
    for (const auto mode : kModes) {
        GraphTaskLog log;
        pipeline_of(dropout_mlp(), {2, 2, 2}, 4, mode, {}, &log).step({samples(8)}, {samples(8, 4)}, kLoss);
        ASSERT_EQ(log.of_kind(TaskKind::backward).size(), 12U);
        for (int j = 0; j < 3; ++j) {
            for (int i = 1; i < 4; ++i) {
                EXPECT_LT(log.place_of(TaskKind::backward, i, j), log.place_of(TaskKind::backward, i - 1, j))
                    << "micro-batch " << i << ", partition " << j << ", " << to_string(mode);
            }
        }
        EXPECT_EQ(log.started(), log.ended());
    }
}

TEST(AutogradDriver, RecomputesWhatWasCheckpointedRightBeforeItsBackward) {
    GraphTaskLog log;
    pipeline_of(dropout_mlp(), {3, 3}, 4, Checkpoint::except_last, {}, &log).step({samples(8)}, {samples(8, 4)}, kLoss);
    EXPECT_EQ(log.of_kind(TaskKind::recompute).size(), 6U);
    for (int i = 0; i < 3; ++i) {
        EXPECT_LT(log.place_of(TaskKind::recompute, i, 0), log.place_of(TaskKind::backward, i, 0));
        EXPECT_LT(log.place_of(TaskKind::recompute, i, 1), log.place_of(TaskKind::backward, i, 1));
    }
}

TEST(AutogradDriver, MakesOneConnectedGraphSoThatGradWorksWithoutCheckpoints) {
    const at::Tensor target = samples(6, 4);
    GPipe scheduled(dropout_mlp(), {.balance = {3, 3}, .devices = cpus(2), .chunks = 3, .seed = 42});
    GPipe model = pipeline_of(dropout_mlp(), {3, 3}, 3, Checkpoint::never);
    const at::Tensor input = samples(6).requires_grad_();
    const std::vector<at::Tensor> parameters = model.parameters();
    const auto gradients = torch::autograd::grad({mean_square(model.forward(input), target)}, parameters);
    for (const at::Tensor& parameter : parameters) {
        EXPECT_FALSE(parameter.grad().defined());
    }
    GPipe other = pipeline_of(dropout_mlp(), {3, 3}, 3, Checkpoint::never);
    mean_square(other.forward(input), target).backward();
    for (std::size_t k = 0; k < parameters.size(); ++k) {
        EXPECT_TRUE(torch::allclose(gradients[k], other.parameters()[k].grad(), 1e-12, 1e-12));
    }
}

TEST(AutogradDriver, RefusesAutogradGradThroughACheckpointAndAddsNothingInSilence) {
    GPipe model = pipeline_of(dropout_mlp(), {3, 3}, 2, Checkpoint::always);
    const at::Tensor input = samples(4).requires_grad_();
    EXPECT_THAT(thrown<EngineError>(
                    [&] { torch::autograd::grad({mean_square(model.forward(input), samples(4, 4))}, {input}); }),
                AllOf(HasSubstr("autograd::grad"), HasSubstr("checkpoint never")));
    for (const at::Tensor& parameter : model.parameters()) {
        EXPECT_FALSE(parameter.grad().defined());
    }
}

TEST(AutogradDriver, RefusesASecondBackwardThroughACheckpoint) {
    GPipe model = pipeline_of(dropout_mlp(), {3, 3}, 2, Checkpoint::always);
    const at::Tensor loss = mean_square(model.forward(samples(4)), samples(4, 4));
    loss.backward({}, /*retain_graph=*/true);
    EXPECT_THAT(thrown<EngineError>([&] { loss.backward(); }),
                AllOf(HasSubstr("second time"), HasSubstr("checkpoint never")));
}

TEST(AutogradDriver, RefusesAScheduleItCannotHideInAGraph) {
    EXPECT_THAT(
        thrown<UsageError>([] {
            GPipe(
                dropout_mlp(),
                {.balance = {3, 3}, .devices = cpus(2), .schedule = Schedule::one_f_one_b, .driver = Driver::autograd});
        }),
        AllOf(HasSubstr("1f1b"), HasSubstr("driver scheduled")));
}

TEST(AutogradDriver, RefusesAPlacement) {
    EXPECT_THAT(thrown<UsageError>([] {
                    GPipe(dropout_mlp(),
                          {.balance = {3, 3}, .devices = cpus(2), .placement = {1, 0}, .driver = Driver::autograd});
                }),
                AllOf(HasSubstr("placement"), HasSubstr("driver scheduled")));
}

TEST(AutogradDriver, PassesALayersExceptionOnAndCanBeUsedAgain) {
    bool fails = true;
    int calls = 0;
    const auto fuse = function_layer("fuse", [&](const Tensors& in) {
        if (fails && ++calls == 2) {
            throw std::out_of_range("blown");
        }
        return Tensors{in[0] * 1.0};
    });
    GPipe model = pipeline_of({linear(6, 4), fuse}, {1, 1}, 3, Checkpoint::always);
    EXPECT_THROW(model.step({samples(6)}, {samples(6, 4)}, kLoss), std::out_of_range);
    ASSERT_TRUE(model.last_failure());
    EXPECT_EQ(model.last_failure()->layer_name, "fuse");
    EXPECT_EQ(model.last_failure()->task.micro_batch, 1);
    fails = false;
    EXPECT_NO_THROW(model.step({samples(6)}, {samples(6, 4)}, kLoss));
}

TEST(AutogradDriver, PassesAnExceptionOfARecomputeOn) {
    int calls = 0;
    const auto fuse = function_layer("fuse", [&](const Tensors& in) {
        if (++calls == 3) {
            throw std::out_of_range("blown");
        }
        return Tensors{in[0] * 1.0};
    });
    GPipe model = pipeline_of({linear(6, 4), fuse}, {1, 1}, 2, Checkpoint::always);
    EXPECT_THROW(model.step({samples(4)}, {samples(4, 4)}, kLoss), std::out_of_range);
    ASSERT_TRUE(model.last_failure());
    EXPECT_EQ(model.last_failure()->task.kind, TaskKind::recompute);
    EXPECT_EQ(model.last_failure()->layer_name, "fuse");
    EXPECT_NO_THROW(model.step({samples(4)}, {samples(4, 4)}, kLoss));
}

TEST(AutogradDriver, PassesIntegersAndTensorsWithoutGradientThroughEveryMode) {
    for (const auto mode : kModes) {
        const auto split = function_layer("split", [](const Tensors& in) {
            return Tensors{in[0] * 2, (in[0] > 0).to(torch::kLong), in[0].detach()};
        });
        const auto merge = function_layer("merge", [](const Tensors& in) {
            EXPECT_EQ(in[1].scalar_type(), torch::kLong);
            return Tensors{in[0] * in[1] + in[2], in[1]};
        });
        GPipe model = pipeline_of({split, merge}, {1, 1}, 3, mode);
        const at::Tensor input = samples(7).requires_grad_();
        const Tensors output = model.forward(Tensors{input});
        EXPECT_FALSE(output[1].requires_grad());
        output[0].sum().backward();
        EXPECT_TRUE(torch::equal(input.grad(), 2.0 * (input.detach() > 0))) << to_string(mode);
    }
}

TEST(AutogradDriver, TakesSkipsThatAreUndefinedOrLeftUnused) {
    const auto spec = [](std::string name, SkipNames names, SkipForward forward) {
        return LayerSpec{std::move(name), [=] { return skippable_layer(nullptr, names, forward); }};
    };
    const SkipNames names{.stash = {{"", "none"}, {"", "unused"}}};
    for (const bool portals : {true, false}) {
        for (const auto mode : kModes) {
            GPipe model = pipeline_of({spec("stash", names,
                                            [](const Tensors& in, SkipContext& skips) {
                                                skips.stash("none", at::Tensor());
                                                skips.stash("unused", in[0] * 5);
                                                return Tensors{in[0] * 2};
                                            }),
                                       tanh_layer(),
                                       spec("pop", {.pop = names.stash},
                                            [](const Tensors& in, SkipContext& skips) {
                                                EXPECT_FALSE(skips.pop("none").defined());
                                                skips.pop("unused");
                                                return Tensors{in[0] * 3};
                                            })},
                                      {1, 1, 1}, 2, mode, {.portals = portals});
            for (int step = 0; step < 2; ++step) {
                const at::Tensor input = samples(4).requires_grad_();
                model.forward(input).sum().backward();
                const at::Tensor expected = 6 * (1 - (2 * input.detach()).tanh().pow(2));
                EXPECT_TRUE(torch::allclose(input.grad(), expected)) << to_string(mode);
            }
        }
    }
}

TEST(AutogradDriver, TracksMiniBatchesWithDeferredBatchNorm) {
    for (const auto mode : kModes) {
        const auto norm = std::make_shared<torch::nn::BatchNorm1dImpl>(6);
        const auto plain = std::make_shared<torch::nn::BatchNorm1dImpl>(6);
        GPipe model(torch::nn::Sequential(norm, torch::nn::Tanh()), {.balance = {1, 1},
                                                                     .devices = cpus(2),
                                                                     .chunks = 4,
                                                                     .checkpoint = mode,
                                                                     .driver = Driver::autograd,
                                                                     .deferred_batch_norm = true});
        for (const std::int64_t batch : {11, 8}) {
            const at::Tensor input = torch::randn({batch, 6}) + 3;
            plain->forward(input);
            model.forward(input).sum().backward();
        }
        EXPECT_TRUE(torch::allclose(norm->running_mean, plain->running_mean));
        EXPECT_TRUE(torch::allclose(norm->running_var, plain->running_var));
        EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 2);
    }
}

TEST(AutogradDriver, TellsLayersThatTheyAreCheckpointedOrRecomputed) {
    std::vector<std::string> seen;
    const auto probe = function_layer("probe", [&](const Tensors& in) {
        seen.push_back(std::to_string(current_micro_batch().value().value()) +
                       (is_checkpointing() ? " checkpointing" : "") + (is_recomputing() ? " recomputing" : ""));
        return Tensors{in[0] * 1.0};
    });
    pipeline_of({linear(6, 4), probe}, {2}, 2, Checkpoint::except_last).step({samples(4)}, {samples(4, 4)}, kLoss);
    EXPECT_THAT(seen, ElementsAre("0 checkpointing", "1", "0 recomputing"));
}

TEST(AutogradDriver, WithoutGradientsRunsLikeAnyForward) {
    GPipe model = pipeline_of(dropout_mlp(), {3, 3}, 2, Checkpoint::always);
    model.train(false);
    const at::Tensor input = samples(4);
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(model.forward(input).requires_grad());
}
}  // namespace
}  // namespace pipescope
