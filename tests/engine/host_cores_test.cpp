#include "tests/engine/engine_fixtures.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>

namespace pipescope {
namespace {
using namespace testing_support;

/// Counts lanes that are in a layer at the same time.
class Crowd {
public:
    Tensors pass(const Tensors& inputs) {
        const int now = ++inside_;
        for (int seen = most_; seen < now && !most_.compare_exchange_weak(seen, now);) {
        }
        Tensors outputs{inputs[0] * 2};
        --inside_;
        return outputs;
    }
    int most() const { return most_; }

private:
    std::atomic<int> inside_ = 0;
    std::atomic<int> most_ = 0;
};

GPipe four_lanes(const FunctionLayer::Function& function, int host_cores) {
    const std::vector<LayerSpec> layers(4, function_layer("layer", function));
    return {layers, {.balance = {1, 1, 1, 1}, .devices = cpus(4), .chunks = 4, .host_cores = host_cores}};
}

TEST(HostCores, AreTakenInTurnsByLanesThatAreMore) {
    for (const int cores : {1, 2}) {
        Crowd crowd;
        GPipe model = four_lanes([&](const Tensors& inputs) { return crowd.pass(inputs); }, cores);
        for (int repeat = 0; repeat < 20; ++repeat) {
            const at::Tensor input = samples(8).requires_grad_();
            const at::Tensor output = model.forward(input);
            EXPECT_TRUE(output.equal(input * 16));
            output.sum().backward();
            EXPECT_TRUE(input.grad().equal(at::full_like(input, 16)));
        }
        EXPECT_LE(crowd.most(), cores);
    }
}

TEST(HostCores, AsManyAsLanesHoldNobodyBack) {
    // Lane k meets the others in its micro-batch 3 - k: they are on one diagonal of the schedule.
    Rendezvous all(4);
    std::atomic<int> met = 0;
    std::vector<LayerSpec> layers;
    for (int lane = 0; lane < 4; ++lane) {
        const auto calls = std::make_shared<int>(0);
        layers.push_back(function_layer("layer", [&, calls, lane](const Tensors& inputs) {
            if ((*calls)++ == 3 - lane) {
                met += all.meet() ? 1 : 0;
            }
            return inputs;
        }));
    }
    GPipe model(layers, {.balance = {1, 1, 1, 1}, .devices = cpus(4), .chunks = 4, .host_cores = 4});
    model.forward(samples(8));
    EXPECT_EQ(met, 4);
}

TEST(HostCores, AreFreeAgainWhenALayerThrew) {
    bool fails = true;
    GPipe model = four_lanes(
        [&](const Tensors& inputs) -> Tensors {
            if (fails) {
                throw std::runtime_error("spilled");
            }
            return inputs;
        },
        1);
    const at::Tensor input = samples(8);
    EXPECT_THROW(model.forward(input), std::runtime_error);
    fails = false;
    EXPECT_TRUE(model.forward(input).equal(input));
}

TEST(HostCores, OfFewerThanNoneAreRefused) {
    EXPECT_THAT(thrown<UsageError>([] { four_lanes([](const Tensors& inputs) { return inputs; }, -1); }),
                ::testing::AllOf(::testing::HasSubstr("host_cores is -1"), ::testing::HasSubstr("use 0 for those")));
}
}  // namespace
}  // namespace pipescope
