#include "engine/current_task.h"
#include "engine/skippable.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace pipescope::staggered_test {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::array kEachMode = {Checkpoint::always, Checkpoint::except_last, Checkpoint::never};
const auto kMeanSquare = [](const Tensors& output, const Tensors& target) { return mean_square(output[0], target[0]); };

using Optimizer = std::shared_ptr<torch::optim::Optimizer>;
using MakeOptimizer = std::function<Optimizer(std::vector<at::Tensor>)>;

Optimizer momentum(std::vector<at::Tensor> parameters) {
    return std::make_shared<torch::optim::SGD>(std::move(parameters), torch::optim::SGDOptions(0.05).momentum(0.9));
}
Optimizer adam(std::vector<at::Tensor> parameters) {
    return std::make_shared<torch::optim::Adam>(std::move(parameters), torch::optim::AdamOptions(0.01));
}

/// An optimizer for each lane.
std::map<LaneId, Optimizer> optimizers_of(const GPipe& model, const MakeOptimizer& make) {
    std::map<LaneId, std::vector<at::Tensor>> parameters;
    for (const LayerInfo& layer : model) {
        for (auto& [name, parameter] : layer.layer->parameters()) {
            parameters[model.partitions()[layer.partition.index()].lane].push_back(parameter);
        }
    }
    std::map<LaneId, Optimizer> optimizers;
    for (auto& [lane, tensors] : parameters) {
        optimizers[lane] = make(tensors);
    }
    return optimizers;
}

std::vector<MiniBatch> mini_batches(std::vector<std::int64_t> sizes) {
    torch::manual_seed(7);
    std::vector<MiniBatch> batches;
    for (const std::int64_t size : sizes) {
        batches.push_back({{samples(size)}, {samples(size, 4)}});
    }
    return batches;
}

std::function<std::optional<MiniBatch>()> each_of(const std::vector<MiniBatch>& batches) {
    return [&batches, next = std::size_t{0}]() mutable {
        return next < batches.size() ? std::optional(batches[next++]) : std::nullopt;
    };
}

std::vector<double> train_synchronously(GPipe& model, const std::vector<MiniBatch>& batches,
                                        const MakeOptimizer& make) {
    const Optimizer optimizer = make(model.parameters());
    std::vector<double> losses;
    for (const MiniBatch& batch : batches) {
        losses.push_back(model.step(batch.input, batch.target, kMeanSquare).item<double>());
        optimizer->step();
        optimizer->zero_grad();
    }
    return losses;
}

/// `update`: instead of the optimizers' own.
std::vector<double> train_staggered(
    GPipe& model, const std::vector<MiniBatch>& batches, const MakeOptimizer& make,
    const std::function<void(LaneId, torch::optim::Optimizer&)>& update = [](LaneId, torch::optim::Optimizer& own) {
        own.step();
        own.zero_grad();
    }) {
    const std::map<LaneId, Optimizer> optimizers = optimizers_of(model, make);
    std::vector<double> losses;
    model.train_staggered({.next = each_of(batches),
                           .loss = kMeanSquare,
                           .update =
                               [&](LaneId lane) {
                                   if (const auto own = optimizers.find(lane); own != optimizers.end()) {
                                       update(lane, *own->second);
                                   }
                               },
                           .done = [&](const at::Tensor& loss) { losses.push_back(loss.item<double>()); }});
    return losses;
}

void expect_equal_bits(const NamedTensors& actual, const NamedTensors& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t k = 0; k < actual.size(); ++k) {
        EXPECT_TRUE(at::equal(actual[k].second, expected[k].second)) << expected[k].first;
    }
}

struct Plan {
    Schedule schedule;
    std::vector<std::int64_t> balance;
    std::size_t lanes;
};

GPipeOptions options(const Plan& plan, Checkpoint mode = Checkpoint::except_last) {
    return {.balance = plan.balance,
            .devices = cpus(plan.lanes),
            .chunks = 6,
            .checkpoint = mode,
            .schedule = plan.schedule,
            .seed = 3};
}

/// Linear 6-8, batch norm, its output stashed, tanh, Linear 8-8, dropout, the popped tensor added, Linear 8-4.
std::vector<LayerSpec> skipping_model() {
    const auto stash = [](const Tensors& in, SkipContext& skips) {
        skips.stash("early", in[0]);
        return Tensors{in[0].tanh()};
    };
    const auto add = [](const Tensors& in, SkipContext& skips) { return Tensors{in[0] + skips.pop("early")}; };
    return {linear(6, 8),
            {"norm", [] { return module_layer(torch::nn::AnyModule(torch::nn::BatchNorm1d(8))); }},
            {"stash",
             [stash] {
                 return skippable_layer(nullptr, {.stash = {{"", "early"}}}, stash);
             }},
            linear(8, 8),
            dropout(0.3),
            {"add",
             [add] {
                 return skippable_layer(nullptr, {.pop = {{"", "early"}}}, add);
             }},
            linear(8, 4)};
}

void expect_equal_trainings(const std::vector<LayerSpec>& layers, const GPipeOptions& with, const MakeOptimizer& make) {
    const std::vector<MiniBatch> batches = mini_batches({12, 15, 12, 7, 6});
    torch::manual_seed(1);
    GPipe plain(layers, with);
    plain.to(at::kDouble);
    const std::vector<double> expected = train_synchronously(plain, batches, make);
    torch::manual_seed(1);
    GPipe model(layers, with);
    model.to(at::kDouble);
    EXPECT_EQ(train_staggered(model, batches, make), expected);
    expect_equal_bits(model.state_dict(), plain.state_dict());
    EXPECT_EQ(model.next_step(), plain.next_step());
}

TEST(Staggered, HasTheLossesAndParametersOfSynchronousSteps) {
    const std::vector<Plan> plans = {{Schedule::gpipe, {2, 2, 2}, 3},
                                     {Schedule::gpipe, {6}, 1},
                                     {Schedule::one_f_one_b, {3, 3}, 2},
                                     {Schedule::one_f_one_b, {2, 1, 1, 2}, 4},
                                     {Schedule::interleaved_1f1b, {2, 1, 1, 2}, 2},
                                     {Schedule::zero_bubble_h1, {2, 1, 1, 2}, 4},
                                     {Schedule::zero_bubble_2p, {2, 2, 2}, 3},
                                     {Schedule::zero_bubble_v, {2, 1, 1, 2}, 2},
                                     {Schedule::zero_bubble_v, {1, 1, 1, 1, 1, 1}, 3}};
    for (const Plan& plan : plans) {
        for (const auto mode : kEachMode) {
            const ::testing::ScopedTrace trace(
                __FILE__, __LINE__,
                to_string(plan.schedule) + " " + to_string(Balance(plan.balance)) + " " + to_string(mode));
            expect_equal_trainings(dropout_mlp(), options(plan, mode), momentum);
            expect_equal_trainings(dropout_mlp(), options(plan, mode), adam);
        }
    }
}

TEST(Staggered, MovesSkipsAndRunningStatisticsAsSynchronousStepsDo) {
    for (const Plan& plan :
         {Plan{Schedule::gpipe, {2, 2, 3}, 3}, Plan{Schedule::one_f_one_b, {2, 1, 2, 2}, 4},
          Plan{Schedule::zero_bubble_h1, {3, 2, 2}, 3}, Plan{Schedule::zero_bubble_v, {2, 1, 2, 2}, 2}}) {
        for (const auto mode : kEachMode) {
            for (const bool deferred : {false, true}) {
                const ::testing::ScopedTrace trace(__FILE__, __LINE__,
                                                   to_string(plan.schedule) + " " + to_string(mode));
                GPipeOptions with = options(plan, mode);
                with.chunks = 3;
                with.deferred_batch_norm = deferred;
                expect_equal_trainings(skipping_model(), with, adam);
            }
        }
    }
}

// A hook that clamps gives another sum if it sees each micro-batch's part.
TEST(Staggered, CallsParameterHooksOnceAStepWithTheStepsGradient) {
    const std::vector<MiniBatch> batches = mini_batches({12, 12, 12});
    for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
        std::array<std::vector<double>, 2> losses;
        std::array<int, 2> calls = {0, 0};
        NamedTensors states[2];
        for (const bool staggered : {false, true}) {
            torch::manual_seed(1);
            GPipe model(dropout_mlp(), options({schedule, {2, 2, 2}, 3}));
            std::atomic<int> called = 0;
            for (const at::Tensor& parameter : model.parameters()) {
                parameter.register_hook([&called](const at::Tensor& gradient) {
                    ++called;
                    return gradient.clamp(-0.01, 0.01);
                });
            }
            losses[staggered] =
                staggered ? train_staggered(model, batches, momentum) : train_synchronously(model, batches, momentum);
            calls[staggered] = called;
            states[staggered] = model.state_dict();
        }
        EXPECT_EQ(losses[1], losses[0]);
        EXPECT_EQ(calls[1], calls[0]);
        expect_equal_bits(states[1], states[0]);
    }
}

TEST(Staggered, RefusesALossOfAnotherLanesParameter) {
    GPipe model(dropout_mlp(), options({Schedule::one_f_one_b, {3, 3}, 2}));
    const std::vector<at::Tensor> parameters = model.parameters();
    const auto train = [&](const at::Tensor& decayed) {
        const auto optimizers = optimizers_of(model, momentum);
        const std::vector<MiniBatch> batches = mini_batches({6, 6});
        model.train_staggered({.next = each_of(batches),
                               .loss =
                                   [decayed](const Tensors& output, const Tensors& target) {
                                       return kMeanSquare(output, target) + 0.1 * decayed.square().sum();
                                   },
                               .update = [&](LaneId lane) { optimizers.at(lane)->step(); }});
    };
    EXPECT_THAT(thrown<EngineError>([&] { train(parameters.front()); }),
                AllOf(HasSubstr("a parameter of another lane"), HasSubstr("use step()")));
    train(parameters.back());
}

TEST(Staggered, WorksWhereLanesShareACore) {
    GPipeOptions with = options({Schedule::one_f_one_b, {2, 2, 2}, 3});
    with.host_cores = 1;
    expect_equal_trainings(dropout_mlp(), with, momentum);
}

// Lane 1 updates for step 0 only once lane 0 has begun step 1. Synchronous steps would hang here.
TEST(Staggered, LetsALaneBeginTheNextStepWhileAnotherUpdates) {
    std::promise<void> begun;
    std::atomic<int> forwards = 0;
    std::vector<LayerSpec> layers = dropout_mlp();
    layers.insert(layers.begin(), function_layer("count", [&](const Tensors& in) {
                      if (++forwards == 7) {  // of the second step
                          begun.set_value();
                      }
                      return in;
                  }));
    GPipe model(layers, options({Schedule::one_f_one_b, {4, 3}, 2}, Checkpoint::never));
    std::future<void> second_step = begun.get_future();
    bool overlaps = false;
    int updates = 0;
    train_staggered(model, mini_batches({6, 6}), momentum, [&](LaneId lane, torch::optim::Optimizer&) {
        if (lane == LaneId{1} && updates++ == 0) {
            overlaps = second_step.wait_for(std::chrono::seconds(60)) == std::future_status::ready;
        }
    });
    EXPECT_TRUE(overlaps);
}

/// Throws in the forward, or in the backward, of the step with that number.
LayerSpec throwing_layer(int step, bool in_backward) {
    return function_layer("fragile", [step, in_backward](const Tensors& in) {
        if (current_task()->key.step != step) {
            return in;
        }
        if (!in_backward) {
            throw std::runtime_error("it broke");
        }
        const at::Tensor out = in[0] * 1;
        if (out.requires_grad()) {
            out.register_hook([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("it broke"); });
        }
        return Tensors{out};
    });
}

TEST(Staggered, EndsBothStepsWhereATaskThrowsAndStaysUsable) {
    const std::vector<MiniBatch> batches = mini_batches({12, 12, 12, 12});
    for (const bool in_backward : {false, true}) {
        // Where nothing below needs a gradient, no gradient passes the layer.
        for (const std::size_t place : {in_backward ? 1u : 0u, 3u, 6u}) {
            for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
                std::vector<LayerSpec> layers = dropout_mlp();
                layers.insert(layers.begin() + static_cast<std::ptrdiff_t>(place), throwing_layer(1, in_backward));
                torch::manual_seed(1);
                GPipe model(layers, options({schedule, {3, 2, 2}, 3}));
                EXPECT_THAT(thrown<std::runtime_error>([&] { train_staggered(model, batches, momentum); }), "it broke");
                ASSERT_TRUE(model.last_failure());
                EXPECT_EQ(model.last_failure()->task.step, 1);
                if (!in_backward) {
                    EXPECT_EQ(model.last_failure()->layer_name, "fragile");
                }
                model.zero_grad();
                model.set_next_step(2);
                EXPECT_EQ(train_staggered(model, batches, momentum).size(), batches.size());
            }
        }
    }
}

TEST(Staggered, KeepsTheStepsBeforeAFailedForwardWhole) {
    const std::vector<MiniBatch> batches = mini_batches({12, 12, 12});
    std::vector<LayerSpec> layers = dropout_mlp();
    layers.insert(layers.begin(), throwing_layer(2, false));
    torch::manual_seed(1);
    GPipe expected(layers, options({Schedule::gpipe, {3, 4}, 2}));
    train_synchronously(expected, {batches[0], batches[1]}, momentum);
    torch::manual_seed(1);
    GPipe model(layers, options({Schedule::gpipe, {3, 4}, 2}));
    EXPECT_THROW(train_staggered(model, batches, momentum), std::runtime_error);
    expect_equal_bits(model.named_parameters(), expected.named_parameters());
}

TEST(Staggered, PassesTheExceptionOfAnUpdateOn) {
    GPipe model(dropout_mlp(), options({Schedule::one_f_one_b, {2, 2, 2}, 3}));
    const auto update = [](LaneId lane, torch::optim::Optimizer&) {
        if (lane == LaneId{1}) {
            throw std::runtime_error("no memory for the state");
        }
    };
    EXPECT_THAT(thrown<std::runtime_error>([&] {
                    train_staggered(model, mini_batches({6, 6, 6}), momentum, update);
                }),
                "no memory for the state");
    ASSERT_TRUE(model.last_failure());
    EXPECT_EQ(model.last_failure()->task, (TaskKey{0, TaskKind::optimizer, 1, -1, -1}));
    EXPECT_EQ(model.last_failure()->lane, LaneId{1});
}

TEST(Staggered, CompletesTheStepsThatHaveBegunWhereNoMiniBatchCanBeMade) {
    const std::vector<MiniBatch> batches = mini_batches({12, 12});
    torch::manual_seed(1);
    GPipe expected(dropout_mlp(), options({Schedule::one_f_one_b, {2, 2, 2}, 3}));
    train_synchronously(expected, batches, momentum);
    torch::manual_seed(1);
    GPipe model(dropout_mlp(), options({Schedule::one_f_one_b, {2, 2, 2}, 3}));
    const auto optimizers = optimizers_of(model, momentum);
    std::size_t next = 0;
    const auto train = [&] {
        model.train_staggered({.next = [&]() -> std::optional<MiniBatch> {
                                   if (next == batches.size()) {
                                       throw std::runtime_error("the file ends");
                                   }
                                   return batches[next++];
                               },
                               .loss = kMeanSquare,
                               .update =
                                   [&](LaneId lane) {
                                       optimizers.at(lane)->step();
                                       optimizers.at(lane)->zero_grad();
                                   }});
    };
    EXPECT_THAT(thrown<std::runtime_error>(train), "the file ends");
    expect_equal_bits(model.named_parameters(), expected.named_parameters());
}

// In synchronous steps the memory is free by then. Here lane 1 may still read it.
TEST(Staggered, RefusesALayerThatRefillsItsOutputForTheNextStep) {
    const auto kept = std::make_shared<at::Tensor>();
    std::vector<LayerSpec> layers = dropout_mlp();
    layers.insert(layers.begin(), function_layer("refill", [kept](const Tensors& in) {
                      if (!kept->defined()) {
                          *kept = at::empty_like(in[0]);
                      }
                      kept->copy_(in[0]);
                      return Tensors{*kept};
                  }));
    GPipeOptions with = options({Schedule::gpipe, {1, 3, 3}, 3});
    with.chunks = 1;
    const std::vector<MiniBatch> batches = mini_batches({4, 4, 4});
    GPipe model(layers, with);
    EXPECT_EQ(train_synchronously(model, batches, momentum).size(), 3u);
    kept->reset();
    EXPECT_THAT(thrown<LayerError>([&] { train_staggered(model, batches, momentum); }),
                HasSubstr("other tasks may still read it"));
}

void expect_refusal(GPipe& model, const std::string& reason, const std::string& remedy) {
    EXPECT_THAT(thrown<UsageError>([&] { train_staggered(model, mini_batches({6}), momentum); }),
                AllOf(HasSubstr(reason), HasSubstr(remedy)));
}

TEST(Staggered, RefusesWeightsInOneMemoryOnTwoLanes) {
    GPipe model({linear(6, 6), linear(6, 4), linear(4, 4)}, options({Schedule::gpipe, {2, 1}, 2}));
    std::vector<at::Tensor> parameters = model.parameters();  // each layer's weight and bias
    const auto use = [&](const at::Tensor& flat) { parameters[4].set_data(flat.narrow(0, 0, 16).view({4, 4})); };
    const at::Tensor tied = torch::randn({36}, parameters[0].options());
    parameters[0].set_data(tied.view({6, 6}));
    use(tied);
    expect_refusal(model, "0.weight on lane 0 and 2.weight on lane 1 share memory", "give each its own memory");
    parameters[4].set_requires_grad(false);
    parameters[0].set_requires_grad(false);
    EXPECT_EQ(train_staggered(model, mini_batches({6}), momentum).size(), 1u) << "nobody changes it";
    parameters[0].set_requires_grad(true);
    use(torch::randn({16}, parameters[0].options()));
    EXPECT_EQ(train_staggered(model, mini_batches({6}), momentum).size(), 1u);
}

class TimesImpl : public torch::nn::Module {
public:
    explicit TimesImpl(const at::Tensor& by) : weight(register_parameter("weight", by)) {}
    at::Tensor forward(const at::Tensor& x) { return x.matmul(weight); }
    at::Tensor weight;
};

TEST(Staggered, RefusesWeightsOfOneVersionOnTwoLanes) {
    const at::Tensor flat = torch::randn({72}, torch::kFloat64);
    std::vector<LayerSpec> layers;
    for (const std::int64_t k : {0, 1}) {
        const at::Tensor part = flat.narrow(0, 36 * k, 36).view({6, 6}).detach();
        layers.push_back(
            {"times", [part] { return module_layer(torch::nn::AnyModule(std::make_shared<TimesImpl>(part))); }});
    }
    layers.push_back(linear(6, 4));
    GPipe model(layers, options({Schedule::one_f_one_b, {1, 2}, 2}));
    expect_refusal(model, "0.weight on lane 0 and 1.weight on lane 1 share memory", "use step()");
}

TEST(Staggered, RefusesWhatNeedsMoreThanOneLane) {
    GPipeOptions with_autograd = options({Schedule::gpipe, {3, 3}, 2});
    with_autograd.driver = Driver::autograd;
    GPipe autograd(dropout_mlp(), with_autograd);
    expect_refusal(autograd, "driver autograd", "use driver scheduled");

    GPipe model(dropout_mlp(), options({Schedule::gpipe, {3, 3}, 2}));
    {
        const at::NoGradGuard no_grad;
        expect_refusal(model, "under no_grad", "turn them on");
    }
    const std::vector<MiniBatch> with_graph = {{{samples(6).requires_grad_()}, {samples(6, 4)}}};
    EXPECT_THAT(thrown<UsageError>([&] { train_staggered(model, with_graph, momentum); }),
                HasSubstr("an input that requires a gradient"));
    EXPECT_THAT(thrown<UsageError>([&] { model.train_staggered({}); }), HasSubstr("no next function"));
    for (const at::Tensor& parameter : model.parameters()) {
        parameter.set_requires_grad(false);
    }
    expect_refusal(model, "no parameter requires a gradient", "let one require it");
}
}  // namespace
}  // namespace pipescope::staggered_test
