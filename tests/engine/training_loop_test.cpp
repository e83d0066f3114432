#include "engine/current_task.h"
#include "engine/plain_model.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/modes.h"
#include "tests/thrown.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include <atomic>
#include <functional>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<at::Tensor> tensors_of(const NamedTensors& named) {
    std::vector<at::Tensor> tensors;
    for (const auto& [name, tensor] : named) {
        tensors.push_back(tensor);
    }
    return tensors;
}

TEST(TrainingLoop, FollowsThePlainModelUnderEveryOptimizer) {
    using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;
    const std::vector<Make> optimizers = {
        [](auto p) { return std::make_unique<torch::optim::SGD>(p, torch::optim::SGDOptions(0.1).momentum(0.9)); },
        [](auto p) { return std::make_unique<torch::optim::AdamW>(p, torch::optim::AdamWOptions(0.01)); },
        [](auto p) { return std::make_unique<torch::optim::RMSprop>(p, torch::optim::RMSpropOptions(0.01)); }};
    for (const Make& make : optimizers) {
        torch::manual_seed(1);
        PlainModel plain(dropout_mlp(), {.chunks = 3});
        torch::manual_seed(1);
        GPipe model(dropout_mlp(), {.balance = {2, 4}, .devices = cpus(2), .chunks = 3});
        const auto plain_optimizer = make(tensors_of(plain.named_parameters()));
        const auto own_optimizer = make(model.parameters());
        for (int step = 0; step < 5; ++step) {
            const at::Tensor input = samples(7);
            const at::Tensor target = samples(7, 4);
            plain_optimizer->zero_grad();
            own_optimizer->zero_grad();
            plain.step({input}, {target}, kLoss);
            mean_square(model.forward(input), target).backward();
            plain_optimizer->step();
            own_optimizer->step();
        }
        expect_equal_norm_wise(model.named_parameters(), plain.named_parameters());
    }
}

TEST(TrainingLoop, AccumulatesStepsAndBackwardsAlike) {
    torch::manual_seed(1);
    PlainModel plain({linear(6, 8), linear(8, 4)}, {.chunks = 2});
    torch::manual_seed(1);
    GPipe model = two_lanes({linear(6, 8), linear(8, 4)}, 2, Checkpoint::except_last);
    for (int part = 0; part < 4; ++part) {
        const at::Tensor input = samples(4);
        const at::Tensor target = samples(4, 4);
        plain.step({input}, {target}, kLoss);
        if (part % 2 == 0) {
            model.step(input, target, mean_square);
        } else {
            mean_square(model.forward(input), target).backward();
        }
    }
    expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
}

TEST(TrainingLoop, TakesPartInALossThatUsesItsParametersToo) {
    GPipe model = two_lanes({linear(6, 8), linear(8, 4)}, 2, Checkpoint::except_last);
    const at::Tensor input = samples(4);
    const auto penalty = [&] { return model.parameters()[0].pow(2).sum(); };
    model.forward(input).sum().backward();
    penalty().backward();
    const at::Tensor apart = model.parameters()[0].grad().clone();
    model.parameters()[0].mutable_grad() = at::Tensor();
    (model.forward(input).sum() + penalty()).backward();
    EXPECT_TRUE(torch::allclose(model.parameters()[0].grad(), apart));
}

TEST(TrainingLoop, CallsHooksOfParametersWithTensorsOnly) {
    GPipe model = two_lanes({linear(6, 8), linear(8, 4)}, 2, Checkpoint::except_last);
    at::Tensor sum = torch::zeros({8, 6}, torch::kFloat64);
    model.parameters()[0].register_hook([&](const at::Tensor& gradient) { sum += gradient; });
    model.forward(samples(4)).sum().backward();
    EXPECT_TRUE(torch::allclose(sum, model.parameters()[0].grad()));
}

/// y = 2x. Counts the callbacks it queues for the end of backward.
struct CountsInCallback : torch::autograd::Function<CountsInCallback> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, std::int64_t count) {
        context->saved_data["count"] = count;
        return x * 2;
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list gradients) {
        auto* const count = reinterpret_cast<std::atomic<int>*>(context->saved_data["count"].toInt());
        torch::autograd::Engine::get_default_engine().queue_callback([count] { ++*count; });
        return {gradients[0] * 2, at::Tensor()};
    }
};

TEST(TrainingLoop, LetsLayersQueueCallbacksForTheEndOfBackward) {
    for (const Driver driver : {Driver::scheduled, Driver::autograd}) {
        for (const auto mode : kModes) {
            std::atomic<int> count = 0;
            const auto queues = function_layer("queues", [&](const Tensors& in) {
                return Tensors{CountsInCallback::apply(in[0], reinterpret_cast<std::int64_t>(&count))};
            });
            GPipe model({linear(6, 6), queues},
                        {.balance = {1, 1}, .devices = cpus(2), .chunks = 3, .checkpoint = mode, .driver = driver});
            model.step(samples(6), samples(6), mean_square);
            EXPECT_EQ(count, 3) << to_string(mode);
            mean_square(model.forward(samples(6)), samples(6)).backward();
            EXPECT_EQ(count, 6) << to_string(mode);
        }
    }
}

TEST(TrainingLoop, TrainsTwoModelsInTurn) {
    GPipe one = two_lanes(dropout_mlp(), 2, Checkpoint::always);
    GPipe two = two_lanes({linear(4, 6), tanh_layer()}, 3, Checkpoint::never);
    const at::Tensor input = samples(6).requires_grad_();
    for (int step = 0; step < 3; ++step) {
        two.forward(one.forward(input)).sum().backward();
    }
    for (const GPipe* const model : {&one, &two}) {
        for (const at::Tensor& parameter : model->parameters()) {
            EXPECT_TRUE(parameter.grad().defined());
        }
    }
}

TEST(TrainingLoop, RefusesAutogradGradWhateverItsInputs) {
    GPipe model = two_lanes(dropout_mlp(), 2, Checkpoint::except_last);
    const at::Tensor input = samples(4).requires_grad_();
    const auto refuse = [&](const std::vector<at::Tensor>& inputs) {
        EXPECT_THAT(thrown<EngineError>([&] { torch::autograd::grad({model.forward(input).sum()}, inputs); }),
                    AllOf(HasSubstr("autograd::grad"), HasSubstr("call backward()")));
        EXPECT_THAT(thrown<EngineError>(
                        [&] { torch::autograd::backward({model.forward(input).sum()}, {}, {}, false, inputs); }),
                    HasSubstr("backward(inputs)"));
    };
    refuse({input});
    refuse({model.parameters()[0]});
    refuse(model.parameters());
    for (const at::Tensor& parameter : model.parameters()) {
        EXPECT_FALSE(parameter.grad().defined()) << "nothing was added in silence";
    }
    model.forward(input).sum().backward();
    EXPECT_TRUE(input.grad().defined()) << "and is usable";
}

TEST(TrainingLoop, RefusesAStepWhereNothingNeedsAGradient) {
    GPipe model({linear(6, 4)}, {.balance = {1}, .devices = cpus(1)});
    for (const at::Tensor& parameter : model.parameters()) {
        parameter.set_requires_grad(false);
    }
    EXPECT_THAT(thrown<UsageError>([&] { model.step(samples(2), samples(2, 4), mean_square); }),
                AllOf(HasSubstr("no parameter and no input"), HasSubstr("forward()")));
}

// Settings around a forward also apply to its recompute: dropout, autocast and grad mode, in every checkpoint mode.

struct Seen {
    bool recomputing;
    bool gradients;
    bool autocast;
    at::Tensor kept;  // dropout's zeros
};

TEST(TrainingLoop, RecomputesUnderTheModesOfTheForward) {
    for (const bool autocast : {false, true}) {
        for (const auto mode : kModes) {
            std::vector<Seen> seen;
            const auto probe = function_layer("probe", [&](const Tensors& in) {
                const at::Tensor out = torch::dropout(in[0], 0.5, true);
                seen.push_back({is_recomputing(), at::GradMode::is_enabled(),
                                at::autocast::is_autocast_enabled(at::kCPU), (out != 0).detach()});
                return Tensors{out};
            });
            GPipe model({linear(6, 6), probe}, {.balance = {2}, .devices = cpus(1), .chunks = 3, .checkpoint = mode});
            at::autocast::set_autocast_enabled(at::kCPU, autocast);
            const at::Tensor output = model.forward(samples(6));
            at::autocast::set_autocast_enabled(at::kCPU, false);
            output.sum().backward();
            const std::size_t recomputed = mode == Checkpoint::always ? 3 : mode == Checkpoint::except_last ? 2 : 0;
            ASSERT_EQ(seen.size(), 3 + recomputed);
            for (std::size_t k = 0; k < seen.size(); ++k) {
                EXPECT_EQ(seen[k].autocast, autocast);
                EXPECT_EQ(seen[k].recomputing, k >= 3);
                EXPECT_EQ(seen[k].gradients, k >= 3 || k >= recomputed) << "a checkpointed forward keeps no graph";
            }
            for (std::size_t k = 0; k < recomputed; ++k) {  // the last micro-batch goes first
                EXPECT_TRUE(torch::equal(seen[3 + k].kept, seen[recomputed - 1 - k].kept));
            }
        }
    }
}
}  // namespace
}  // namespace pipescope
