#include "engine/plain_model.h"
#include "engine/random.h"
#include "tests/engine/engine_fixtures.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

namespace pipescope {
namespace {
using namespace testing_support;

at::Generator default_generator() {
    return at::detail::getDefaultCPUGenerator();
}

at::Tensor dropped(const at::Tensor& x, const at::Tensor& weight) {
    return torch::dropout(torch::dropout(x, 0.4, true).mul(weight).tanh(), 0.3, true);
}

/// Like torch.utils.checkpoint: keeps the input and the state of torch's default generator, and recomputes in backward.
struct Checkpointed : torch::autograd::Function<Checkpointed> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                              const at::Tensor& weight) {
        context->save_for_backward({x, weight});
        context->saved_data["state"] = default_generator().get_state();
        return dropped(x, weight);
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list gradients) {
        const auto saved = context->get_saved_variables();
        const at::Tensor x = saved[0].detach().requires_grad_();
        const at::Tensor weight = saved[1].detach().requires_grad_();
        const at::Tensor before = default_generator().get_state();
        default_generator().set_state(context->saved_data["state"].toTensor());
        const at::AutoGradMode with_graph(true);
        const at::Tensor again = dropped(x, weight);
        default_generator().set_state(before);
        return torch::autograd::grad({again}, {x, weight}, {gradients[0]});
    }
};

/// Draws random numbers before, in and after the recomputed part.
LayerSpec checkpointed_layer() {
    return {"checkpointed", [] {
                const at::Tensor weight = torch::randn({6}, torch::kFloat64).requires_grad_();
                return std::make_unique<FunctionLayer>(
                    [weight](const Tensors& in) {
                        const at::Tensor x = torch::dropout(in[0], 0.2, true);
                        return Tensors{torch::dropout(Checkpointed::apply(x, weight), 0.2, true)};
                    },
                    NamedTensors{{"weight", weight}});
            }};
}

TEST(RecomputingLayer, DrawsAgainWhatItsForwardDrew) {
    const std::vector<LayerSpec> layers = {linear(6, 6), checkpointed_layer(), checkpointed_layer(), linear(6, 6)};
    const auto loss = [](const Tensors& output, const Tensors& target) { return mean_square(output[0], target[0]); };
    const at::Tensor input = samples(7);
    const at::Tensor target = samples(7);
    torch::manual_seed(1);
    PlainModel plain(layers, {.chunks = 3, .seed = 9});
    plain.step({input}, {target}, loss);
    const NamedTensors expected = gradients_of(plain.named_parameters());
    for (const Driver driver : {Driver::scheduled, Driver::autograd}) {
        for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
            if (driver == Driver::autograd && schedule != Schedule::gpipe) {
                continue;
            }
            for (const Checkpoint mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
                SCOPED_TRACE(to_string(mode) + ", " + to_string(schedule));
                const auto make = [&] {
                    torch::manual_seed(1);
                    return GPipe(layers, {.balance = {2, 2},
                                          .devices = cpus(2),
                                          .chunks = 3,
                                          .checkpoint = mode,
                                          .schedule = schedule,
                                          .driver = driver,
                                          .seed = 9});
                };
                GPipe stepped = make();
                stepped.step({input}, {target}, loss);
                expect_equal_norm_wise(gradients_of(stepped.named_parameters()), expected);
                if (schedule == Schedule::gpipe) {
                    GPipe wrapped = make();
                    mean_square(wrapped.forward(input), target).backward();
                    expect_equal_norm_wise(gradients_of(wrapped.named_parameters()), expected);
                }
            }
        }
    }
}

TEST(RecomputingLayer, LeavesTheCallersGeneratorAlone) {
    GPipe model = two_lanes({checkpointed_layer(), checkpointed_layer()}, 3, Checkpoint::always);
    torch::manual_seed(5);
    const at::Tensor expected = torch::rand({8});
    const at::Tensor input = samples(6);
    torch::manual_seed(5);
    model.step(input, input, mean_square);
    mean_square(model.forward(input), input).backward();
    EXPECT_TRUE(torch::equal(torch::rand({8}), expected));
}

/// Adds noise to gradients, drawn in backward.
LayerSpec noisy_layer() {
    return function_layer("noisy", [](const Tensors& in) {
        const at::Tensor out = in[0] * 2;
        if (out.requires_grad()) {
            out.register_hook([](const at::Tensor& gradient) { return gradient + torch::randn_like(gradient); });
        }
        return Tensors{out};
    });
}

TEST(RandomInBackward, IsTheSameForTheSameSeedHoweverLanesInterleave) {
    std::vector<at::Tensor> gradients;
    for (int repeat = 0; repeat < 6; ++repeat) {
        GPipe model({noisy_layer(), noisy_layer()},
                    {.balance = {1, 1}, .devices = cpus(2), .chunks = 4, .seed = repeat < 5 ? 3u : 4u});
        const at::Tensor input = torch::ones({4, 64}, torch::kFloat64).requires_grad_();
        model.forward(input).sum().backward();
        gradients.push_back(input.grad());
    }
    for (int repeat = 1; repeat < 5; ++repeat) {
        EXPECT_TRUE(torch::equal(gradients[0], gradients[static_cast<std::size_t>(repeat)]));
    }
    EXPECT_FALSE(torch::equal(gradients[0], gradients[5])) << "the seed counts";
    EXPECT_FALSE(torch::equal(gradients[0][0], gradients[0][1])) << "and so does the micro-batch";
}
}  // namespace
}  // namespace pipescope
