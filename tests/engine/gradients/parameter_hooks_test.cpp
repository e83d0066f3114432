#include "engine/engine_error.h"
#include "engine/plain_model.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/modes.h"

#include <gmock/gmock.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using namespace testing_support;

/// A way to train. Hooks must see the same in all of them.
struct Way {
    Driver driver;
    Schedule schedule;
    Checkpoint checkpoint;
    std::int64_t chunks;
    bool by_step;
};

std::string name_of(const Way& way) {
    return std::string(way.driver == Driver::autograd ? "autograd" : "scheduled") + ", " + to_string(way.schedule) +
           ", " + to_string(way.checkpoint) + ", chunks " + std::to_string(way.chunks) +
           (way.by_step ? ", step()" : ", backward()");
}

std::vector<Way> ways() {
    std::vector<Way> all;
    for (const Checkpoint mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
        for (const std::int64_t chunks : {1, 4}) {
            for (const bool by_step : {false, true}) {
                all.push_back({Driver::scheduled, Schedule::gpipe, mode, chunks, by_step});
                all.push_back({Driver::autograd, Schedule::gpipe, mode, chunks, by_step});
            }
            all.push_back({Driver::scheduled, Schedule::one_f_one_b, mode, chunks, true});
            all.push_back({Driver::scheduled, Schedule::zero_bubble_h1, mode, chunks, true});
        }
        all.push_back({Driver::scheduled, Schedule::interleaved_1f1b, mode, 4, true});
    }
    return all;
}

std::vector<LayerSpec> layers() {
    return {linear(6, 8), tanh_layer(), linear(8, 8), linear(8, 4)};
}

GPipe piped(const std::vector<LayerSpec>& of, const Way& way) {
    const bool interleaved = way.schedule == Schedule::interleaved_1f1b;
    torch::manual_seed(1);
    return {of,
            {.balance = interleaved ? std::vector<std::int64_t>{1, 1, 1, 1} : std::vector<std::int64_t>{2, 2},
             .devices = cpus(2),
             .chunks = way.chunks,
             .checkpoint = way.checkpoint,
             .schedule = way.schedule,
             .driver = way.driver}};
}

PlainModel plain_one(const std::vector<LayerSpec>& of, const Way& way) {
    torch::manual_seed(1);
    return {of, {.chunks = way.chunks}};
}

void go(GPipe& model, const Way& way, const at::Tensor& input, const at::Tensor& target) {
    if (way.by_step) {
        model.step({input}, {target}, kLoss);
    } else {
        mean_square(model.forward(input), target).backward();
    }
}

/// Modifies the gradient so that only the complete sum gives the correct result.
void count_and_square(const NamedTensors& parameters, int& calls) {
    for (const auto& [name, parameter] : parameters) {
        parameter.register_hook([&calls](const at::Tensor& gradient) {
            ++calls;
            return gradient.square() + 1;
        });
    }
}

TEST(ParameterHooks, AreCalledOnceAStepWithTheWholeGradient) {
    for (const Way& way : ways()) {
        SCOPED_TRACE(name_of(way));
        PlainModel plain = plain_one(layers(), way);
        GPipe model = piped(layers(), way);
        int plain_calls = 0;
        int own_calls = 0;
        count_and_square(plain.named_parameters(), plain_calls);
        count_and_square(model.named_parameters(), own_calls);
        for (int step = 0; step < 2; ++step) {
            const at::Tensor input = samples(7);
            const at::Tensor target = samples(7, 4);
            plain.step({input}, {target}, kLoss);
            go(model, way, input, target);
        }
        EXPECT_EQ(own_calls, plain_calls);
        expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
    }
}

/// An optimizer that keeps no gradients: updates each parameter as soon as its gradient is complete.
struct UpdatesAtOnce final : torch::autograd::PostAccumulateGradHook {
    void operator()(const torch::autograd::Variable& parameter) override {
        const torch::NoGradGuard no_grad;
        at::Tensor changed = parameter;
        changed.sub_(parameter.grad().sign() * 0.1 + parameter.grad());
        changed.mutable_grad() = at::Tensor();
    }
};

void update_at_once(const NamedTensors& parameters) {
    for (const auto& [name, parameter] : parameters) {
        torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<UpdatesAtOnce>());
    }
}

TEST(ParameterHooks, OfAnOptimizerInsideBackwardTrainLikeThePlainModels) {
    for (const Way& way : ways()) {
        SCOPED_TRACE(name_of(way));
        PlainModel plain = plain_one(layers(), way);
        GPipe model = piped(layers(), way);
        update_at_once(plain.named_parameters());
        update_at_once(model.named_parameters());
        for (int step = 0; step < 3; ++step) {
            const at::Tensor input = samples(7);
            const at::Tensor target = samples(7, 4);
            plain.step({input}, {target}, kLoss);
            go(model, way, input, target);
        }
        expect_equal_norm_wise(model.named_parameters(), plain.named_parameters());
        for (const at::Tensor& parameter : model.parameters()) {
            EXPECT_FALSE(parameter.grad().defined());
        }
    }
}

/// Two weights. A micro-batch's first value selects the one to use; "idle" is never used.
LayerSpec experts() {
    return {"experts", [] {
                const auto weight = [](double value) {
                    return torch::full({6}, value, torch::kFloat64).requires_grad_();
                };
                const NamedTensors all = {{"low", weight(2)}, {"high", weight(3)}, {"idle", weight(4)}};
                return std::make_unique<FunctionLayer>(
                    [all](const Tensors& in) {
                        const bool high = in[0].flatten()[0].item<double>() > 0;
                        return Tensors{in[0] * all[high ? 1 : 0].second};
                    },
                    all);
            }};
}

TEST(ParameterHooks, AreNotCalledWhereNoGradientComes) {
    at::Tensor input = samples(8);
    for (std::int64_t row = 0; row < 8; ++row) {
        input[row][0] = row < 4 ? 1.0 : -1.0;
    }
    for (const Way& way : ways()) {
        SCOPED_TRACE(name_of(way));
        const std::vector<LayerSpec> of = {linear(6, 6), tanh_layer(),
                                           function_layer("pass", [](const Tensors& in) { return Tensors{in[0] * 1}; }),
                                           experts()};
        GPipe model = piped(of, way);
        PlainModel plain = plain_one(of, way);
        int own_calls = 0;
        int plain_calls = 0;
        count_and_square(model.named_parameters(), own_calls);
        count_and_square(plain.named_parameters(), plain_calls);
        const at::Tensor target = samples(8);
        for (int step = 0; step < 2; ++step) {
            plain.step({input}, {target}, kLoss);
            go(model, way, input, target);
        }
        EXPECT_EQ(own_calls, plain_calls);
        expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
        for (const auto& [name, parameter] : model.named_parameters()) {
            if (name.ends_with("idle")) {
                EXPECT_FALSE(parameter.grad().defined());
            }
        }
    }
}

TEST(ParameterHooks, SeeOneSumOfTwoForwardsThatGoBackwardTogether) {
    for (const Driver driver : {Driver::scheduled, Driver::autograd}) {
        GPipe model = piped(layers(), {driver, Schedule::gpipe, Checkpoint::except_last, 3, false});
        int calls = 0;
        model.parameters()[0].register_hook([&](const at::Tensor&) { ++calls; });
        (model.forward(samples(6)).sum() + model.forward(samples(4)).sum()).backward();
        EXPECT_EQ(calls, 1);
    }
}

TEST(ParameterHooks, MayComeBetweenForwardAndBackwardAndGoAgain) {
    GPipe model = piped(layers(), {Driver::scheduled, Schedule::gpipe, Checkpoint::never, 3, false});
    const at::Tensor parameter = model.parameters()[0];
    int calls = 0;
    const at::Tensor output = model.forward(samples(6));
    const auto handle = parameter.register_hook([&](const at::Tensor&) { ++calls; });
    output.sum().backward();
    EXPECT_EQ(calls, 1);
    parameter.remove_hook(handle);
    model.forward(samples(6)).sum().backward();
    EXPECT_EQ(calls, 1);
}

struct CountsRuns final : torch::autograd::FunctionPostHook {
    explicit CountsRuns(int& runs) : runs_(runs) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list&) override {
        ++runs_;
        return outputs;
    }
    int& runs_;
};

TEST(ParameterHooks, OfTheNodeThatAccumulatesAreCalledOnceToo) {
    GPipe model = piped(layers(), {Driver::scheduled, Schedule::gpipe, Checkpoint::always, 3, false});
    const auto node = torch::autograd::impl::grad_accumulator(model.parameters()[0]);
    int runs = 0;
    node->add_post_hook(std::make_unique<CountsRuns>(runs));
    model.forward(samples(6)).sum().backward();
    model.step({samples(6)}, {samples(6, 4)}, kLoss);
    EXPECT_EQ(runs, 2);
}

TEST(ParameterHooks, AreBackInPlaceWhenALayerThrew) {
    for (const Driver driver : {Driver::scheduled, Driver::autograd}) {
        for (const bool by_step : {false, true}) {
            const Way way{driver, Schedule::gpipe, Checkpoint::always, 3, by_step};
            bool fails = false;
            const auto failing = function_layer("failing", [&](const Tensors& in) {
                if (fails && in[0].requires_grad()) {
                    throw std::runtime_error("spilled");
                }
                return Tensors{in[0] * 2};
            });
            GPipe model = piped({linear(6, 6), failing, linear(6, 6), linear(6, 4)}, way);
            const at::Tensor parameter = model.parameters()[0];
            int calls = 0;
            parameter.register_hook([&](const at::Tensor&) { ++calls; });
            go(model, way, samples(6), samples(6, 4));
            const at::Tensor before = parameter.grad().clone();
            fails = true;
            EXPECT_THROW(go(model, way, samples(6), samples(6, 4)), std::runtime_error);
            EXPECT_TRUE(parameter.grad().equal(before));
            fails = false;
            go(model, way, samples(6), samples(6, 4));
            EXPECT_EQ(calls, 2);
        }
    }
}

TEST(ParameterHooks, DoNotOpenAWayForAutogradGrad) {
    for (const Driver driver : {Driver::scheduled, Driver::autograd}) {
        for (const Checkpoint mode : {Checkpoint::always, Checkpoint::except_last}) {
            GPipe model = piped(layers(), {driver, Schedule::gpipe, mode, 3, false});
            for (const bool hooked : {false, true}) {
                if (hooked) {
                    model.parameters()[0].register_hook([](const at::Tensor& gradient) { return gradient; });
                }
                for (const at::Tensor& parameter : {model.parameters().front(), model.parameters().back()}) {
                    const at::Tensor loss = model.forward(samples(6)).sum();
                    // If every micro-batch is checkpointed, torch itself may report that nothing leads there.
                    EXPECT_ANY_THROW(torch::autograd::grad({loss}, {parameter}))
                        << to_string(mode) << (hooked ? ", hooked" : "") << ", driver " << static_cast<int>(driver);
                }
            }
        }
    }
}
}  // namespace
}  // namespace pipescope
