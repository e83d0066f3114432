// What a caller does while the lanes run: GPipeOptions::while_waiting, and layers whose tensors are replaced.

#include "engine/gpipe.h"
#include "tests/engine/engine_fixtures.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
using namespace testing_support;

struct Stop : std::runtime_error {
    Stop() : std::runtime_error("interrupted") {}
};

class Interrupted : public ::testing::TestWithParam<std::tuple<Driver, bool>> {
protected:
    static constexpr int kMicroBatches = 200;  // each takes 5 ms or more
};

TEST_P(Interrupted, CallsEndWithinATaskAndTheModelStaysUsable) {
    const auto [driver, steps] = GetParam();
    std::atomic<int> ran = 0;
    std::atomic<bool> interrupts = true;
    const auto slow = function_layer("slow", [&ran](const Tensors& in) {
        ++ran;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return Tensors{in[0] * 1};
    });
    GPipe model({linear(2, 2), slow}, {.balance = {1, 1},
                                       .devices = cpus(2),
                                       .chunks = kMicroBatches,
                                       .driver = driver,
                                       .host_cores = 2,
                                       .while_waiting = [&interrupts] {
                                           if (interrupts) {
                                               throw Stop();
                                           }
                                       }});
    const at::Tensor input = samples(kMicroBatches, 2);
    const auto call = [&, by_steps = steps] {
        if (by_steps) {
            model.step(input, input, mean_square);
        } else {
            model.forward(input);
        }
    };
    EXPECT_THROW(call(), Stop);
    EXPECT_LT(ran, kMicroBatches);
    EXPECT_FALSE(model.last_failure()) << "no layer failed";
    interrupts = false;
    ran = 0;
    call();
    EXPECT_GE(ran, kMicroBatches);
}

INSTANTIATE_TEST_SUITE_P(Drivers, Interrupted,
                         ::testing::Combine(::testing::Values(Driver::scheduled, Driver::autograd), ::testing::Bool()));

TEST(Interruption, EndsABackwardToo) {
    bool interrupts = false;
    const auto slow = function_layer("slow", [](const Tensors& in) {
        at::Tensor out = in[0] * 1;
        if (out.requires_grad()) {
            out.register_hook([](const at::Tensor& gradient) {
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
                return gradient;
            });
        }
        return Tensors{out};
    });
    GPipe model({linear(2, 2), slow}, {.balance = {1, 1},
                                       .devices = cpus(2),
                                       .chunks = 100,
                                       .checkpoint = Checkpoint::never,
                                       .while_waiting = [&interrupts] {
                                           if (interrupts) {
                                               throw Stop();
                                           }
                                       }});
    const at::Tensor output = model.forward(samples(100, 2));
    interrupts = true;
    EXPECT_THROW(output.sum().backward(), Stop);
}

/// y = weight * x; the test replaces the weight.
class Scale final : public Layer {
public:
    explicit Scale(std::shared_ptr<at::Tensor> weight) : weight_(std::move(weight)) {}
    Tensors forward(const Tensors& in) override { return {in[0] * *weight_}; }
    NamedTensors parameters() const override { return {{"weight", *weight_}}; }
    NamedTensors buffers() const override { return {}; }
    void train(bool /*on*/) override {}
    void to(at::ScalarType /*dtype*/) override {}

private:
    std::shared_ptr<at::Tensor> weight_;
};

TEST(ListTensors, TrainsParametersThatALayerHasReplaced) {
    const auto weight = std::make_shared<at::Tensor>(torch::full({1}, 2.0));
    const LayerSpec scale{"scale", [weight] { return std::make_unique<Scale>(weight); }};
    GPipe model({scale}, {.balance = {1}, .devices = cpus(1)});
    *weight = torch::full({1}, 3.0).requires_grad_();
    const at::Tensor input = torch::ones({2, 1});
    model.list_tensors();
    EXPECT_TRUE(model.parameters()[0].is_same(*weight));
    model.step(input, input, sum_of);
    EXPECT_EQ(weight->grad().item<double>(), 2) << "the sum of the inputs";
}
}  // namespace
}  // namespace pipescope
