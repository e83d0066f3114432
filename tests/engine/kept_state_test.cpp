// Layers and losses that keep or change state: legal in torch, and easily wrong where micro-batches overlap.

#include "engine/reference.h"
#include "tests/engine/engine_fixtures.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <array>
#include <memory>
#include <string>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::array kModes = {Checkpoint::always, Checkpoint::except_last, Checkpoint::never};
constexpr std::array kDrivers = {Driver::scheduled, Driver::autograd};

GPipeOptions options(std::vector<std::int64_t> balance, std::int64_t chunks, Checkpoint mode,
                     Driver driver = Driver::scheduled) {
    const std::size_t lanes = balance.size();
    return {
        .balance = std::move(balance), .devices = cpus(lanes), .chunks = chunks, .checkpoint = mode, .driver = driver};
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
    for (const Driver driver : kDrivers) {
        for (const auto mode : kModes) {
            torch::manual_seed(1);
            GPipe model(layers, options({1, 1}, 3, mode, driver));
            model.forward(input).sum().backward();
            model.step(input, samples(7, 4), mean_square);
            EXPECT_NEAR(model.named_buffers()[0].second.item<double>(), plain.named_buffers()[0].second.item<double>(),
                        1e-12);
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
    for (const Driver driver : kDrivers) {
        for (const auto schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
            for (const std::int64_t chunks : {1, 3}) {
                if (driver == Driver::autograd && schedule != Schedule::gpipe) {
                    continue;
                }
                GPipeOptions with = options({1, 1}, chunks, Checkpoint::except_last, driver);
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
}  // namespace
}  // namespace pipescope
