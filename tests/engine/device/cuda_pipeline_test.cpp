// Runs on a real GPU, otherwise skipped. The fake accelerator tests the same behaviours everywhere; this checks that
// CUDA behaves like it.

#include "engine/cuda_runtime.h"
#include "engine/device/lane_device.h"
#include "engine/device_memory.h"
#include "engine/plain_model.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/modes.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using namespace testing_support;
using Names = std::vector<std::string>;

class CudaPipelineTest : public ::testing::Test {
protected:
    /// Before any use of torch: run this suite in a process of its own.
    static void SetUpTestSuite() { load_cuda(); }
    void SetUp() override {
        if (!load_cuda()) {
            GTEST_SKIP() << "no CUDA device here: " << why_no_cuda();
        }
        lanes_ = {{"cuda:0"}, {"cuda:0", "cuda:0"}, {"cpu", "cuda:0"}, {"cuda:0", "cpu"}};
        if (usable_devices().size() > 2) {
            lanes_.push_back({"cuda:0", "cuda:1"});
        }
    }

    std::vector<Names> lanes_;
};

std::vector<LayerSpec> model() {
    return {linear(6, 512), tanh_layer(), linear(512, 512), tanh_layer(), linear(512, 512), linear(512, 4)};
}

GPipe pipeline(const std::vector<LayerSpec>& layers, const Names& lanes, Checkpoint mode) {
    torch::manual_seed(1);
    std::vector<std::int64_t> balance(lanes.size(), static_cast<std::int64_t>(layers.size() / lanes.size()));
    return GPipe(layers, {.balance = balance, .devices = lanes, .chunks = 4, .checkpoint = mode, .seed = 42});
}

NamedTensors gradients_on_cpu(const GPipe& pipe) {
    NamedTensors gradients = gradients_of(pipe.named_parameters());
    for (auto& [name, gradient] : gradients) {
        gradient = gradient.cpu();
    }
    return gradients;
}

TEST_F(CudaPipelineTest, HasTheGradientsOfTheCpu) {
    const at::Tensor input = samples(62);
    const at::Tensor target = samples(62, 4);
    torch::manual_seed(1);
    PlainModel plain(model(), {.chunks = 4, .seed = 42});
    plain.step({input}, {target}, kLoss);
    plain.step({input}, {target}, kLoss);
    for (const Names& lanes : lanes_) {
        for (const Checkpoint mode : kModes) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, lanes.front() + ".." + lanes.back());
            GPipe pipe = pipeline(model(), lanes, mode);
            pipe.step({input}, {target}, kLoss);
            const at::Tensor output = pipe.forward(input);
            EXPECT_EQ(output.device().str(), lanes.back());
            mean_square(output, target.to(output.device())).backward();
            expect_equal_norm_wise(gradients_on_cpu(pipe), gradients_of(plain.named_parameters()));
        }
    }
}

TEST_F(CudaPipelineTest, DrawsTheSameRandomNumbersInEveryMode) {
    const at::Tensor input = samples(62);
    const at::Tensor target = samples(62, 4);
    NamedTensors first;
    for (const Names& lanes : {Names{"cuda:0"}, Names{"cuda:0", "cuda:0"}}) {
        for (const Checkpoint mode : kModes) {
            GPipe pipe = pipeline(dropout_mlp(), lanes, mode);
            pipe.step({input}, {target}, kLoss);
            if (first.empty()) {
                first = gradients_on_cpu(pipe);
            } else {
                expect_equal_norm_wise(gradients_on_cpu(pipe), first);
            }
        }
    }
}

TEST_F(CudaPipelineTest, KeepsNoMemoryFromStepToStep) {
    GPipe pipe = pipeline(model(), {"cuda:0", "cuda:0"}, Checkpoint::never);
    const at::Tensor input = samples(512);
    const at::Tensor target = samples(512, 4);
    const c10::Device device("cuda:0");
    const auto allocated_after_step = [&] {
        pipe.step({input}, {target}, kLoss).item<double>();
        return device_memory(device).value().allocated;
    };
    allocated_after_step();
    const std::int64_t second = allocated_after_step();
    for (int step = 0; step < 5; ++step) {
        EXPECT_EQ(allocated_after_step(), second);
    }
    EXPECT_GT(device_memory(device)->allocated_peak, second);
}
}  // namespace
}  // namespace pipescope
