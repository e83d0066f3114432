// Layers and losses that keep or change state: legal in torch, and easily wrong where micro-batches overlap.

#include "engine/current_task.h"
#include "engine/plain_model.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/modes.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(KeptState, WithAGradientFromAnotherMicroBatchIsRefused) {
    for (const auto schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
        for (const auto mode : kModes) {
            if (schedule != Schedule::gpipe && mode == Checkpoint::always) {
                continue;  // each recompute comes behind a forward without gradients, whose state has none
            }
            const auto state = std::make_shared<at::Tensor>(torch::zeros({1, 4}, torch::kFloat64));
            const auto carry = [state](const Tensors& in) {
                const at::Tensor y = in[0] + *state;
                *state = y.slice(0, 0, 1);
                return Tensors{y};
            };
            GPipeOptions with = on_host({1, 1}, 3, mode);
            with.schedule = schedule;
            GPipe model({linear(6, 4), function_layer("carry", carry)}, with);
            EXPECT_THAT(thrown<EngineError>([&] { model.step(samples(6), samples(6, 4), mean_square); }),
                        AllOf(HasSubstr("from one micro-batch or step to another"), HasSubstr("detach()")));
        }
    }
}

TEST(KeptState, WithoutAGradientIsTheLayersOwnAffair) {
    const auto carry = [](const Tensors& in) {
        thread_local at::Tensor last;
        const at::Tensor y = last.defined() && last.size(0) == in[0].size(0) ? in[0] + last * 0 : in[0] * 1;
        last = y.detach();
        return Tensors{y};
    };
    GPipe model({linear(6, 4), function_layer("carry", carry)}, on_host({1, 1}, 3, Checkpoint::never));
    model.step(samples(6), samples(6, 4), mean_square);
}

TEST(KeptState, InAnOutputThatIsFilledAgainIsRefused) {
    for (const Driver driver : kBothDrivers) {
        for (const bool is_last : {false, true}) {
            const at::Tensor buffer = torch::zeros({3, 6}, torch::kFloat64);
            const auto fill = [buffer](const Tensors& in) {
                at::Tensor part = buffer.narrow(0, 0, in[0].size(0));
                part.copy_(in[0] * 2);
                return Tensors{part};
            };
            std::vector<LayerSpec> layers = {function_layer("fill", fill)};
            if (!is_last) {
                layers.push_back(tanh_layer());
            }
            const std::vector<std::int64_t> balance(layers.size(), 1);
            const at::NoGradGuard no_grad;
            GPipe model(layers, on_host(balance, 3, Checkpoint::never, driver));
            EXPECT_THAT(thrown<LayerError>([&] { model.forward(samples(7)); }),
                        AllOf(HasSubstr("partition 0"),
                              HasSubstr("returns for micro-batch 1 memory that it "
                                        "returned for micro-batch 0"),
                              HasSubstr("clone()")));
            GPipe whole(layers, on_host(balance, 1, Checkpoint::never, driver));
            whole.forward(samples(3));
        }
    }
}

/// Doubles. Its backward fills the buffer each time, or makes a new tensor if that is empty.
struct Doubled : torch::autograd::Function<Doubled> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                              const at::Tensor& buffer) {
        context->saved_data["buffer"] = buffer;
        return x * 2;
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   const torch::autograd::variable_list& gradients) {
        const at::Tensor buffer = context->saved_data["buffer"].toTensor();
        const at::Tensor doubled = gradients[0] * 2;
        return {buffer.numel() > 0 ? buffer.narrow(0, 0, doubled.size(0)).copy_(doubled) : doubled, at::Tensor()};
    }
};

TEST(KeptState, InAGradientThatIsFilledAgainIsRefused) {
    const at::Tensor input = samples(6);
    const at::Tensor target = samples(6, 4);
    // Other lanes read the first, the second halves of backwards the others.
    enum class Where { at_the_cut, behind_a_product, in_the_loss };
    for (const Where where : {Where::at_the_cut, Where::behind_a_product, Where::in_the_loss}) {
        for (const auto schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
            for (const auto mode : kModes) {
                for (const bool refills : {true, false}) {
                    const at::Tensor buffer =
                        torch::zeros({refills ? 6 : 0, where == Where::in_the_loss ? 4 : 6}, torch::kFloat64);
                    const LayerSpec doubled = function_layer(
                        "doubled", [=](const Tensors& in) { return Tensors{Doubled::apply(in[0], buffer)}; });
                    const auto loss = [=](const at::Tensor& output, const at::Tensor& targets) {
                        return mean_square(where == Where::in_the_loss ? Doubled::apply(output, buffer) : output,
                                           targets);
                    };
                    std::vector<LayerSpec> layers = {linear(6, 6), doubled, linear(6, 4)};
                    if (where == Where::behind_a_product) {
                        layers.insert(layers.begin(), linear(6, 6));
                    } else if (where == Where::in_the_loss) {
                        layers.erase(layers.begin() + 1);
                    }
                    GPipeOptions with = on_host({1, static_cast<std::int64_t>(layers.size()) - 1}, 3, mode);
                    with.schedule = schedule;
                    torch::manual_seed(4);
                    GPipe model(layers, with);
                    const auto step = [&] { model.step(input, target, loss); };
                    // Elsewhere, what reads the buffer runs right after what fills it.
                    const bool outlives = where == Where::at_the_cut || schedule == Schedule::zero_bubble_h1;
                    if (refills && outlives) {
                        EXPECT_THAT(thrown<EngineError>(step), HasSubstr("return a new tensor"))
                            << int(where) << ' ' << to_string(schedule) << ' ' << to_string(mode);
                        continue;
                    }
                    step();
                    torch::manual_seed(4);
                    PlainModel plain(layers, {.chunks = 3});
                    plain.step({input}, {target}, [&](const Tensors& o, const Tensors& t) { return loss(o[0], t[0]); });
                    expect_equal_norm_wise(gradients_of(model.named_parameters()),
                                           gradients_of(plain.named_parameters()));
                }
            }
        }
    }
}

TEST(KeptState, InAnOutputThatStaysAsItIsIsAllowed) {
    const at::Tensor w = torch::randn({6, 6}, torch::kFloat64).requires_grad_();
    const std::vector<LayerSpec> layers = {
        {"shows",
         [w] {
             return std::make_unique<FunctionLayer>(
                 [w](const Tensors& in) {
                     return Tensors{in[0], w.unsqueeze(0).expand({in[0].size(0), 6, 6})};
                 },
                 NamedTensors{{"w", w}});
         }},
        function_layer("change",
                       [](const Tensors& in) {
                           return Tensors{in[0].mul_(2), in[1]};
                       }),
        function_layer("sum", [](const Tensors& in) { return Tensors{in[0] + in[1].sum(1)}; })};
    for (const Driver driver : kBothDrivers) {
        GPipe model(layers, on_host({1, 1, 1}, 3, Checkpoint::never, driver));
        const at::Tensor x = samples(7);
        const at::Tensor expected = x * 2 + w.detach().sum(0);
        EXPECT_TRUE(torch::allclose(model.forward(x), expected));
    }
}

/// Keeps a moving mean of what it sees in a buffer.
struct MovingMeanImpl final : torch::nn::Module {
    at::Tensor mean = register_buffer("mean", torch::zeros({}, torch::kFloat64));
    at::Tensor forward(const at::Tensor& x) {
        if (is_training()) {
            const at::NoGradGuard no_grad;
            mean.mul_(0.5).add_(x.mean());
        }
        return x * 2;
    }
};

TEST(KeptState, InABufferSeesEachMicroBatchOnce) {
    const std::vector<LayerSpec> layers = {
        linear(6, 4), {"mean", [] { return module_layer(torch::nn::AnyModule(std::make_shared<MovingMeanImpl>())); }}};
    const at::Tensor input = samples(7);
    torch::manual_seed(1);
    PlainModel plain(layers, {.chunks = 3});
    plain.forward({input});
    plain.forward({input});
    for (const Driver driver : kBothDrivers) {
        for (const auto mode : kModes) {
            torch::manual_seed(1);
            GPipe model(layers, on_host({1, 1}, 3, mode, driver));
            model.forward(input).sum().backward();
            model.step(input, samples(7, 4), mean_square);
            EXPECT_NEAR(model.named_buffers()[0].second.item<double>(), plain.named_buffers()[0].second.item<double>(),
                        1e-12);
        }
    }
}

TEST(ModeSwitch, BetweenForwardAndBackwardIsRefusedWhereMicroBatchesAreComputedAgain) {
    const at::Tensor input = samples(6);
    torch::manual_seed(1);
    PlainModel plain(dropout_mlp(), {.chunks = 3});
    plain.forward({input})[0].sum().backward();
    for (const Driver driver : kBothDrivers) {
        for (const auto mode : kModes) {
            torch::manual_seed(1);
            GPipe model(dropout_mlp(), on_host({3, 3}, 3, mode, driver));
            const at::Tensor output = model.forward(input);
            model.eval();
            if (mode == Checkpoint::never) {
                output.sum().backward();
            } else {
                EXPECT_THAT(thrown<EngineError>([&] { output.sum().backward(); }),
                            AllOf(HasSubstr("was in train mode in forward and is in eval "
                                            "mode in backward"),
                                  HasSubstr("go backward before you switch")));
                model.train();
                model.zero_grad();
                torch::manual_seed(1);
                GPipe again(dropout_mlp(), on_host({3, 3}, 3, mode, driver));
                const at::Tensor second = again.forward(input);
                again.eval();
                again.forward(input);
                again.train();
                second.sum().backward();
                expect_equal_norm_wise(gradients_of(again.named_parameters()), gradients_of(plain.named_parameters()));
                continue;
            }
            expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
        }
    }
}

TEST(Loss, MayChangeTheOutputInPlace) {
    const at::Tensor input = samples(7);
    const at::Tensor target = samples(7, 4);
    torch::manual_seed(1);
    const std::vector<LayerSpec> layers = {linear(6, 4), linear(4, 4)};
    PlainModel plain(layers, {.chunks = 3});
    plain.step({input}, {target}, [](const Tensors& o, const Tensors& t) { return (o[0] - t[0]).pow(2).sum(); });
    for (const Driver driver : kBothDrivers) {
        for (const auto schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
            for (const std::int64_t chunks : {1, 3}) {
                if (driver == Driver::autograd && schedule != Schedule::gpipe) {
                    continue;
                }
                GPipeOptions with = on_host({1, 1}, chunks, Checkpoint::except_last, driver);
                with.schedule = schedule;
                with.reduction = Reduction::sum;
                torch::manual_seed(1);
                GPipe model(layers, with);
                model.step(input, target, [](at::Tensor o, const at::Tensor& t) {
                    EXPECT_FALSE(o.is_leaf()) << "as in the plain model";
                    return o.sub_(t).pow(2).sum();
                });
                expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
            }
        }
    }
}
std::int64_t gradient_state(const at::Tensor& parameter) {
    return parameter.grad().defined() ? 1 + parameter.grad()._version() : 0;
}

LayerSpec layer_with(const at::Tensor& weight, FunctionLayer::Function function) {
    return {"layer", [=] { return std::make_unique<FunctionLayer>(function, NamedTensors{{"weight", weight}}); }};
}

TEST(CheckpointedForward, MayRunWhileALossOfItsWeightsGoesBackward) {
    // The first lane's second forward ends only after the first loss, on the other lane, went back to all weights.
    for (const auto schedule : {Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
        for (const auto mode : {Checkpoint::always, Checkpoint::except_last}) {
            torch::manual_seed(5);
            const at::Tensor weight = torch::randn({6}, torch::kFloat64).requires_grad_();
            const auto forward = [weight, before = std::int64_t{0}](const Tensors& in) mutable {
                if (is_checkpointing() && current_micro_batch() == MicroBatchId{0}) {
                    before = gradient_state(weight);
                } else if (is_checkpointing() && current_micro_batch() == MicroBatchId{1}) {
                    for (int k = 0; k < 5000 && gradient_state(weight) == before; ++k) {
                        std::this_thread::sleep_for(std::chrono::milliseconds(2));
                    }
                    EXPECT_NE(gradient_state(weight), before);
                }
                return Tensors{in[0] * weight};
            };
            const auto penalised = [weight](const at::Tensor& output, const at::Tensor& target) {
                return mean_square(output, target) + weight.pow(2).sum();
            };
            GPipeOptions with = on_host({1, 1}, 3, mode);
            with.schedule = schedule;
            with.host_cores = 2;  // the layer waits
            GPipe model({layer_with(weight, forward), tanh_layer()}, with);
            const at::Tensor input = samples(6);
            const at::Tensor target = samples(6);
            for (int step = 0; step < 2; ++step) {
                model.step(input, target, penalised);
            }
            const at::Tensor plain = weight.detach().clone().requires_grad_();
            (2 * (mean_square((input * plain).tanh(), target) + plain.pow(2).sum())).backward();
            expect_equal_norm_wise({{"weight", weight.grad()}}, {{"weight", plain.grad()}});
        }
    }
}

TEST(CheckpointedForward, MayNotGoBackwardItself) {
    for (const bool is_penalised : {false, true}) {
        const at::Tensor weight = torch::ones({6}, torch::kFloat64).requires_grad_();
        const auto forward = [weight](const Tensors& in) {
            const at::AutoGradMode with_gradients(true);
            weight.sum().backward();
            return Tensors{in[0] * weight};
        };
        const auto loss = [=](const at::Tensor& output, const at::Tensor& target) {
            const at::Tensor error = mean_square(output, target);
            return is_penalised ? error + weight.sum() : error;
        };
        GPipeOptions with = on_host({1, 1}, 3, Checkpoint::always);
        with.schedule = Schedule::one_f_one_b;
        GPipe model({layer_with(weight, forward), tanh_layer()}, with);
        EXPECT_THAT(thrown<EngineError>([&] { model.step(samples(6), samples(6), loss); }),
                    AllOf(HasSubstr("changed the gradient of a parameter in its forward"), HasSubstr("never")));
    }
}
}  // namespace
}  // namespace pipescope
