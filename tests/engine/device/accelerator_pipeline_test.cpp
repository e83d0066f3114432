// The engine on an accelerator against the CPU. The device is the one that PIPESCOPE_TEST_ACCELERATOR names; else the
// fake accelerator, if the program has one; else cuda:0. Without CUDA everything is skipped. So the fake accelerator
// shows what the tests are worth, and a real one that it behaves like the fake. On "cpu", tests of what only
// accelerators have are skipped.

#include "engine/cuda_runtime.h"
#include "engine/device/lane_device.h"
#include "engine/device_memory.h"
#include "engine/plain_model.h"
#include "tests/engine/device/skip_chain.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using namespace testing_support;

std::vector<std::string> names_of_devices() {
    std::vector<std::string> names;
    for (const c10::Device device : usable_devices()) {
        names.push_back(device.str());
    }
    return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

class AcceleratorPipelineTest : public ::testing::Test {
protected:
    /// Before any use of torch: run this suite in a process of its own.
    static void SetUpTestSuite() { load_cuda(); }

    void SetUp() override {
        const std::vector<std::string> there = names_of_devices();
        const char* const wanted = std::getenv("PIPESCOPE_TEST_ACCELERATOR");
        name_ = wanted != nullptr ? wanted : contains(there, "fake:0") ? "fake:0" : "cuda:0";
        if (wanted == nullptr && !contains(there, name_)) {
            GTEST_SKIP() << "no CUDA device here: " << why_no_cuda();
        }
        usable_device(name_);  // a wrong name fails the test, with the reason
        const std::string second = name_.substr(0, name_.find(':')) + ":1";
        lanes_ = {{name_}, {name_, name_}, {"cpu", name_}, {name_, "cpu"}, {name_, "cpu", name_, name_}};
        if (contains(there, second)) {
            lanes_.push_back({name_, second});
        }
    }

    bool is_accelerator() const { return name_ != "cpu"; }

    std::string name_;
    std::vector<Names> lanes_;
};

GPipe pipeline(const std::vector<LayerSpec>& layers, GPipeOptions options) {
    torch::manual_seed(1);
    return GPipe(layers, std::move(options));
}

TEST_F(AcceleratorPipelineTest, StepsWithTheGradientsOfTheCpu) {
    const Plain plain = plain_steps();
    for (const Driver driver : kBothDrivers) {
        for (const Names& lanes : lanes_) {
            for (const Checkpoint mode : kModes) {
                const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(lanes, mode));
                GPipeOptions options = on_lanes(lanes, 8, mode);
                options.driver = driver;
                GPipe pipe = pipeline(skip_chain(), options);
                expect_plain_steps(pipe, plain);
            }
        }
    }
}

TEST_F(AcceleratorPipelineTest, GoesBackwardFromTheCallersLoss) {
    const Plain plain = plain_steps();
    for (const Names& lanes : lanes_) {
        for (const Checkpoint mode : kModes) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(lanes, mode));
            GPipe pipe = pipeline(skip_chain(), on_lanes(lanes, 8, mode));
            expect_plain_gradients_of_the_callers_loss(pipe, plain);
        }
    }
}

// The split backwards, and several partitions on a lane.

TEST_F(AcceleratorPipelineTest, RunsSchedulesThatGoBackwardEarly) {
    const Plain plain = plain_steps();
    struct Case {
        Schedule schedule;
        std::vector<std::int64_t> balance;
    };
    const std::vector<Case> cases = {{Schedule::one_f_one_b, {4, 4}},
                                     {Schedule::zero_bubble_h1, {4, 4}},
                                     {Schedule::interleaved_1f1b, {2, 2, 2, 2}},
                                     {Schedule::zero_bubble_v, {2, 2, 2, 2}}};
    for (const Names& lanes : lanes_) {
        if (lanes.size() != 2) {
            continue;
        }
        for (std::size_t k = 0; k < cases.size(); ++k) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__,
                                               name_of(lanes, Checkpoint::never) + ", case " + std::to_string(k));
            GPipe pipe = pipeline(skip_chain(), {.balance = cases[k].balance,
                                                 .devices = lanes,
                                                 .chunks = 4,
                                                 .checkpoint = Checkpoint::never,
                                                 .schedule = cases[k].schedule});
            expect_plain_steps(pipe, plain);
        }
    }
}

// Kernels long enough to show a missing wait: products of 512 x 512.

std::vector<LayerSpec> wide() {
    return {linear(6, 512), tanh_layer(), linear(512, 512), tanh_layer(), linear(512, 512), linear(512, 4)};
}

TEST_F(AcceleratorPipelineTest, HasTheGradientsOfTheCpuInWideLayers) {
    const at::Tensor input = samples(62);
    const at::Tensor target = samples(62, 4);
    torch::manual_seed(1);
    PlainModel plain(wide(), {.chunks = 4, .seed = 42});
    plain.step({input}, {target}, first_mean_square);
    for (const Names& lanes : lanes_) {
        for (const Checkpoint mode : kModes) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(lanes, mode));
            GPipe pipe = pipeline(wide(), on_lanes(lanes, 6, mode));
            pipe.step({input}, {target}, first_mean_square);
            expect_equal_norm_wise(on_cpu(gradients_of(pipe.named_parameters())),
                                   gradients_of(plain.named_parameters()));
        }
    }
}

TEST_F(AcceleratorPipelineTest, WaitsForTheCallersStreamAndIsWaitedFor) {
    if (!is_accelerator()) {
        GTEST_SKIP() << "the CPU has no streams";
    }
    const c10::Device device = usable_device(name_);
    const at::Tensor x = samples(512).to(device);
    const at::Tensor target = samples(512, 4).to(device);
    const at::Tensor factor = samples(512, 512).to(device);
    const c10::impl::VirtualGuardImpl guard(device.type());
    const auto make = [&] { return pipeline(wide(), on_lanes({name_, name_}, 6, Checkpoint::never)); };
    const auto loss_and_gradients = [&](GPipe& pipe, const at::Tensor& input) {
        at::Tensor sum = pipe.step({input}, {target}, first_mean_square).clone();
        for (const auto& [name, gradient] : gradients_of(pipe.named_parameters())) {
            sum = sum + gradient.square().sum();
        }
        return sum.item<double>();
    };
    GPipe first = make();
    const double expected = loss_and_gradients(first, x);
    for (int k = 0; k < 3; ++k) {
        GPipe pipe = make();
        const at::Tensor input = torch::full_like(x, std::nan(""));
        input.cpu();  // waits until it is NaN, and the pipeline made
        const c10::StreamGuard here(guard.getStreamFromGlobalPool(device));
        at::Tensor slow = factor;
        for (int product = 0; product < 40; ++product) {
            slow = slow.mm(factor);
        }
        input.copy_(x);
        EXPECT_NEAR(loss_and_gradients(pipe, input), expected, 1e-9 * expected);
    }
}

TEST_F(AcceleratorPipelineTest, IsDoneWithAPinnedInputWhenItReturns) {
    if (!is_accelerator()) {
        GTEST_SKIP() << "the CPU has no pinned memory";
    }
    GPipe pipe = pipeline(wide(), on_lanes({name_, name_}, 6, Checkpoint::never));
    pipe.train(false);
    const auto in_double = torch::TensorOptions().dtype(torch::kFloat64);
    const at::Tensor input = torch::empty({4096, 6}, in_double.pinned_memory(true)).copy_(samples(4096));
    const at::Tensor expected = pipe.forward(input).detach().cpu();
    const at::Tensor output = pipe.forward(input);
    input.zero_();
    EXPECT_TRUE(torch::equal(output.detach().cpu(), expected));
}

TEST_F(AcceleratorPipelineTest, DrawsTheSameRandomNumbersInEveryMode) {
    expect_the_same_random_numbers({{name_}, {name_, name_}}, 62);
}

TEST_F(AcceleratorPipelineTest, KeepsNoMemoryFromStepToStep) {
    const c10::Device device = usable_device(name_);
    if (!device_memory(device)) {
        GTEST_SKIP() << name_ << " counts no memory";
    }
    GPipe pipe = pipeline(wide(), on_lanes({name_, name_}, 6, Checkpoint::never));
    const at::Tensor input = samples(512);
    const at::Tensor target = samples(512, 4);
    const auto allocated_after_step = [&] {
        pipe.step({input}, {target}, first_mean_square).item<double>();
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
