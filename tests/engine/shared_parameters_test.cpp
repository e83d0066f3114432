#include "engine/engine_error.h"
#include "engine/gpipe.h"
#include "schedule/schedules.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/modes.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::HasSubstr;
using testing_support::cpus;
using testing_support::FunctionLayer;
using testing_support::mean_square;

constexpr std::int64_t kTiedWidth = 5;
constexpr int kTiedLayers = 8;

/// Eight layers tanh(x W + b). Layers 0, 3 and 7 have one W, layers 2 and 5 another. The plain model has one tensor for
/// each of these, and the pipeline's layers have one each.
class Tied {
public:
    explicit Tied(std::uint64_t seed = 1) {
        torch::manual_seed(seed);
        for (int k = 0; k < kTiedLayers; ++k) {
            weights_.push_back(torch::randn({kTiedWidth, kTiedWidth}, torch::kFloat64) / 2);
            biases_.push_back(torch::randn({kTiedWidth}, torch::kFloat64).requires_grad_());
        }
        for (const auto& [k, first] : std::vector<std::pair<int, int>>{{3, 0}, {7, 0}, {5, 2}}) {
            weights_[std::size_t(k)] = weights_[std::size_t(first)];
        }
        for (const at::Tensor& each : weights_) {
            each.set_requires_grad(true);
        }
    }

    at::Tensor plain(at::Tensor x) const {
        for (std::size_t k = 0; k < kTiedLayers; ++k) {
            x = layer(x, weights_[k], biases_[k]);
        }
        return x;
    }
    /// Each once, in layer order.
    std::vector<at::Tensor> parameters() const {
        std::vector<at::Tensor> all;
        for (std::size_t k = 0; k < kTiedLayers; ++k) {
            if (k != 3 && k != 5 && k != 7) {
                all.push_back(weights_[k]);
            }
            all.push_back(biases_[k]);
        }
        return all;
    }
    /// With tensors of their own and equal values in `own`; else with the plain model's.
    std::vector<LayerSpec> layers(bool own = true) const {
        std::vector<LayerSpec> specs;
        for (std::size_t k = 0; k < kTiedLayers; ++k) {
            const auto copy = [&](const at::Tensor& tensor) {
                return own ? tensor.detach().clone().requires_grad_() : tensor;
            };
            // The layers but the first of a group begin with values that nobody may see.
            const bool is_user = k == 3 || k == 5 || k == 7;
            const at::Tensor weight =
                own && is_user ? torch::full_like(weights_[k], 7).requires_grad_() : copy(weights_[k]);
            const at::Tensor bias = copy(biases_[k]);
            specs.push_back({"layer" + std::to_string(k), [weight, bias] {
                                 return std::make_unique<FunctionLayer>(
                                     [weight, bias](const Tensors& in) { return Tensors{layer(in[0], weight, bias)}; },
                                     NamedTensors{{"weight", weight}, {"bias", bias}});
                             }});
        }
        return specs;
    }
    static std::vector<std::vector<std::string>> groups() {
        return {{"0.weight", "3.weight", "7.weight"}, {"2.weight", "5.weight"}};
    }

private:
    static at::Tensor layer(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
        return torch::tanh(x.matmul(weight) + bias);
    }

    std::vector<at::Tensor> weights_;
    std::vector<at::Tensor> biases_;
};

GPipeOptions options_for(std::vector<std::int64_t> balance, std::size_t lanes, std::int64_t chunks,
                         Checkpoint checkpoint, const Schedule& schedule = Schedule::gpipe) {
    GPipeOptions options;
    options.balance = std::move(balance);
    options.devices = cpus(lanes);
    options.chunks = chunks;
    options.checkpoint = checkpoint;
    options.schedule = schedule;
    options.shared = Tied::groups();
    return options;
}

/// So many partitions of eight layers, as equal as can be.
std::vector<std::int64_t> balance_of(std::size_t partitions) {
    std::vector<std::int64_t> balance(partitions, kTiedLayers / static_cast<std::int64_t>(partitions));
    for (std::size_t k = 0; k < kTiedLayers % partitions; ++k) {
        ++balance[k];
    }
    return balance;
}

at::Tensor step(GPipe& model, const at::Tensor& input, const at::Tensor& target) {
    return model.step(input, target, mean_square);
}

void step_plain(const Tied& tied, const at::Tensor& input, const at::Tensor& target) {
    mean_square(tied.plain(input), target).backward();
}

void expect_equal_gradients(const GPipe& model, const Tied& tied, const std::string& what) {
    const std::vector<at::Tensor> ours = model.parameters();
    const std::vector<at::Tensor> plain = tied.parameters();
    ASSERT_EQ(ours.size(), plain.size()) << what;
    for (std::size_t k = 0; k < ours.size(); ++k) {
        ASSERT_EQ(ours[k].grad().defined(), plain[k].grad().defined()) << what << ", parameter " << k;
        if (plain[k].grad().defined()) {
            const double error = (ours[k].grad() - plain[k].grad()).norm().item<double>();
            EXPECT_LE(error, 1e-12 * (1 + plain[k].grad().norm().item<double>())) << what << ", parameter " << k;
        }
    }
}

at::Tensor rows(std::int64_t count) {
    return torch::randn({count, kTiedWidth}, torch::kFloat64);
}

TEST(SharedParameters, HaveThePlainModelsGradientsInEverySchedule) {
    int tried = 0;
    for (const Schedule& schedule : runnable_schedules()) {
        for (const std::size_t lanes : {std::size_t{2}, std::size_t{3}, std::size_t{4}}) {
            const auto chunks = static_cast<std::int64_t>(2 * lanes);
            const std::size_t partitions = usual_partitions(schedule, lanes);
            if (!can_run(schedule, static_cast<int>(lanes), chunks) || partitions > kTiedLayers) {
                continue;
            }
            for (const Checkpoint checkpoint : kModes) {
                const Tied tied;
                GPipe model(tied.layers(), options_for(balance_of(partitions), lanes, chunks, checkpoint, schedule));
                for (const std::int64_t batch : {chunks + 1, 2 * chunks}) {  // added up over two steps
                    const at::Tensor input = rows(batch);
                    const at::Tensor target = rows(batch);
                    step(model, input, target);
                    step_plain(tied, input, target);
                    expect_equal_gradients(model, tied,
                                           to_string(schedule) + ", " + std::to_string(lanes) + " lanes, checkpoint " +
                                               to_string(checkpoint));
                }
                ++tried;
            }
        }
    }
    EXPECT_GE(tried, 60);
}

TEST(SharedParameters, AreOneTensorForOptimizers) {
    const Tied tied;
    GPipe model(tied.layers(), options_for({2, 2, 2, 2}, 4, 3, Checkpoint::except_last, Schedule::one_f_one_b));
    torch::optim::AdamW ours(model.parameters(), torch::optim::AdamWOptions(0.05));
    torch::optim::AdamW plain(tied.parameters(), torch::optim::AdamWOptions(0.05));
    for (int k = 0; k < 3; ++k) {
        const at::Tensor input = rows(7);
        const at::Tensor target = rows(7);
        ours.zero_grad();
        plain.zero_grad();
        step(model, input, target);
        step_plain(tied, input, target);
        ours.step();
        plain.step();
    }
    const std::vector<at::Tensor> parameters = model.parameters();
    for (std::size_t k = 0; k < parameters.size(); ++k) {
        EXPECT_TRUE(torch::allclose(parameters[k], tied.parameters()[k], 1e-10, 1e-12)) << k;
    }
    const at::NoGradGuard no_grad;
    const at::Tensor input = rows(4);
    EXPECT_TRUE(torch::allclose(model.forward(input), tied.plain(input), 1e-10, 1e-12));
}

TEST(SharedParameters, AreHeldOnceInStates) {
    const Tied tied;
    GPipe model(tied.layers(), options_for({4, 4}, 2, 2, Checkpoint::never));
    std::vector<std::string> names;
    for (const auto& [name, tensor] : model.state_dict()) {
        names.push_back(name);
    }
    EXPECT_THAT(names, testing::Not(testing::Contains("3.weight")));
    EXPECT_THAT(names, testing::Not(testing::Contains("7.weight")));
    EXPECT_THAT(names, testing::Contains("0.weight"));
    EXPECT_EQ(names.size(), 13U);

    const Tied other(2);
    GPipe loaded(other.layers(), options_for({2, 2, 4}, 3, 2, Checkpoint::never));
    loaded.load_state_dict(model.state_dict());
    const at::NoGradGuard no_grad;
    const at::Tensor input = rows(4);
    EXPECT_TRUE(torch::equal(loaded.forward(input), model.forward(input)));
    EXPECT_TRUE(torch::equal(loaded.forward(input), tied.plain(input)));
}

TEST(SharedParameters, GoBackwardFromTheCallersLoss) {
    for (const Driver driver : testing_support::kBothDrivers) {
        for (const Checkpoint checkpoint : kModes) {
            const Tied tied;
            GPipeOptions options = options_for({3, 3, 2}, 3, 3, checkpoint);
            options.driver = driver;
            GPipe model(tied.layers(), options);
            const at::Tensor first = rows(5);
            const at::Tensor second = rows(4);
            // Two forwards, then their backwards.
            const at::Tensor a = model.forward(first).square().mean();
            const at::Tensor b = model.forward(second).square().mean();
            a.backward();
            b.backward();
            tied.plain(first).square().mean().backward();
            tied.plain(second).square().mean().backward();
            expect_equal_gradients(model, tied, "checkpoint " + to_string(checkpoint));
        }
    }
}

TEST(SharedParameters, CallAHookOncePerStepWithTheWholeGradient) {
    const Tied tied;
    GPipe model(tied.layers(), options_for({3, 3, 2}, 3, 3, Checkpoint::always, Schedule::one_f_one_b));
    std::vector<at::Tensor> seen;
    model.parameters().front().register_hook([&](at::Tensor gradient) { seen.push_back(gradient.clone()); });
    const at::Tensor input = rows(5);
    const at::Tensor target = rows(5);
    step(model, input, target);
    step_plain(tied, input, target);
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_TRUE(torch::allclose(seen[0], tied.parameters().front().grad(), 1e-10, 1e-12));
    expect_equal_gradients(model, tied, "with a hook");
}

TEST(SharedParameters, MayBeFrozenAndTrainAgain) {
    const Tied tied;
    GPipe model(tied.layers(), options_for({3, 3, 2}, 3, 3, Checkpoint::always, Schedule::one_f_one_b));
    for (const bool trains : {false, true, false}) {
        model.parameters().front().set_requires_grad(trains);
        tied.parameters().front().set_requires_grad(trains);
        const at::Tensor input = rows(6);
        const at::Tensor target = rows(6);
        step(model, input, target);
        step_plain(tied, input, target);
        expect_equal_gradients(model, tied, trains ? "unfrozen" : "frozen");
        const auto graph = model.task_graph(6);
        EXPECT_EQ(graph->find({0, TaskKind::shared_sum, 0, -1, 1}).has_value(), trains);  // to lane 2
    }
}

TEST(SharedParameters, FollowAParameterThatGetsOtherMemory) {
    const Tied tied;
    GPipe model(tied.layers(), options_for({4, 4}, 2, 2, Checkpoint::never));
    const at::Tensor other = torch::randn({kTiedWidth, kTiedWidth}, torch::kFloat64);
    for (at::Tensor each : {model.parameters().front(), tied.parameters().front()}) {
        each.set_data(other.clone());
    }
    const at::Tensor input = rows(4);
    const at::Tensor target = rows(4);
    step(model, input, target);
    step_plain(tied, input, target);
    expect_equal_gradients(model, tied, "after set_data");
}

TEST(SharedParameters, AreCheckedForChangesBetweenForwardAndBackward) {
    const Tied tied;
    GPipe model(tied.layers(), options_for({4, 4}, 2, 2, Checkpoint::never));
    const at::Tensor loss = model.forward(rows(4)).mean();
    {
        const at::NoGradGuard no_grad;
        at::Tensor(model.parameters().front()).add_(1);
    }
    EXPECT_ANY_THROW(loss.backward());
}

TEST(SharedParameters, AStepAfterAFailedOneHasNoneOfItsGradients) {
    const Tied tied;
    GPipe model(tied.layers(), options_for({3, 3, 2}, 3, 3, Checkpoint::never, Schedule::one_f_one_b));
    int calls = 0;
    const auto fails = [&](const at::Tensor& output, const at::Tensor& target) {
        if (++calls == 3) {
            throw std::runtime_error("a bad loss");
        }
        return mean_square(output, target);
    };
    EXPECT_THROW(model.step(rows(6), rows(6), fails), std::runtime_error);
    for (const at::Tensor& each : model.parameters()) {
        each.mutable_grad() = at::Tensor();
    }
    const at::Tensor input = rows(6);
    const at::Tensor target = rows(6);
    step(model, input, target);
    step_plain(tied, input, target);
    expect_equal_gradients(model, tied, "after a failure");
}

TEST(SharedParameters, MayBeOneTensorOfSeveralLayersOnOneLane) {
    for (const Driver driver : testing_support::kBothDrivers) {
        for (const Checkpoint checkpoint : kModes) {
            const Tied tied;
            const Tied plain;
            GPipeOptions options = testing_support::on_host({8}, 3, checkpoint, driver);
            GPipe model(tied.layers(false), options);
            EXPECT_EQ(model.parameters().size(), 13U);
            const at::Tensor input = rows(5);
            const at::Tensor target = rows(5);
            step(model, input, target);
            step_plain(plain, input, target);
            expect_equal_gradients(model, plain, to_string(checkpoint));
        }
    }
}

TEST(SharedParameters, MayBeOneTensorOfTwoPartitionsOnOneLane) {
    const Tied tied;
    const Tied plain;
    GPipeOptions options = options_for({3, 2, 3}, 2, 3, Checkpoint::always);
    options.placement = {0, 1, 0};
    options.shared.clear();
    // Layers 2 and 5 share one tensor: in partitions 0 and 2.
    GPipe model(tied.layers(false), [&] {
        GPipeOptions of = options;
        of.placement = {0, 0, 0};
        of.devices = cpus(1);
        return of;
    }());
    EXPECT_EQ(model.parameters().size(), 13U);
    const at::Tensor input = rows(5);
    const at::Tensor target = rows(5);
    step(model, input, target);
    step_plain(plain, input, target);
    expect_equal_gradients(model, plain, "three partitions");
}

TEST(SharedParameters, OfTwoLanesMustBeNamed) {
    GPipeOptions options = options_for({4, 4}, 2, 2, Checkpoint::never);
    options.shared.clear();
    EXPECT_THAT(thrown<EngineError>([&] { GPipe(Tied().layers(false), options); }),
                testing::AllOf(HasSubstr("parameter 5.weight is also 2.weight"), HasSubstr("GPipeOptions::shared")));
}

TEST(SharedParameters, AreRefusedUnderWrongNames) {
    const auto message = [](std::vector<std::vector<std::string>> shared) {
        GPipeOptions options = options_for({4, 4}, 2, 2, Checkpoint::never);
        options.shared = std::move(shared);
        return thrown<UsageError>([&] { GPipe(Tied().layers(), options); });
    };
    EXPECT_THAT(message({{"0.weight", "9.weight"}}), HasSubstr("'9.weight', which begins with the key of no layer"));
    EXPECT_THAT(message({{"0.weight", "3.wait"}}), HasSubstr("3.wait, which is no parameter of layer 3 (layer3)"));
    EXPECT_THAT(message({{"0.weight"}}), HasSubstr("two or more share one"));
    EXPECT_THAT(message({{"0.weight", "3.weight"}, {"3.weight", "5.weight"}}), HasSubstr("3.weight twice"));
    EXPECT_THAT(message({{"0.weight", "3.bias"}}), HasSubstr("have one shape and type"));
}

TEST(SharedParameters, AreRefusedWithStaggeredUpdates) {
    GPipe model(Tied().layers(), options_for({4, 4}, 2, 2, Checkpoint::never, Schedule::one_f_one_b));
    StaggeredTraining training;
    training.next = [] { return std::nullopt; };
    training.loss = kLoss;
    training.update = [](LaneId) {};
    EXPECT_THAT(thrown<UsageError>([&] { model.train_staggered(training); }), HasSubstr("lanes share parameters"));
}

TEST(SharedParameters, CountOnceInTheNormOfGradients) {
    const Tied tied;
    const Tied plain;
    GPipe named(tied.layers(), options_for({4, 4}, 2, 2, Checkpoint::never));
    GPipe same(tied.layers(false), testing_support::on_host({8}, 2, Checkpoint::never));
    const at::Tensor input = rows(4);
    const at::Tensor target = rows(4);
    step(named, input, target);
    step(same, input, target);
    step_plain(plain, input, target);
    const double expected = torch::nn::utils::clip_grad_norm_(plain.parameters(), 1e9);
    EXPECT_NEAR(named.clip_grad_norm_(1e9).item<double>(), expected, 1e-12);
    EXPECT_NEAR(same.clip_grad_norm_(1e9).item<double>(), expected, 1e-12);
}
}  // namespace
}  // namespace pipescope
