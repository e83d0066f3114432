#include "engine/current_task.h"
#include "engine/engine_error.h"
#include "tests/engine/device/device_fixtures.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <string>
#include <vector>

namespace pipescope {
namespace {
using namespace testing_support;
using fake_accelerator::behaviour;

using DevicePipelineTest = DeviceTest;

GPipe device_pipeline(const std::vector<LayerSpec>& layers, const Names& lanes, Checkpoint mode,
                      std::int64_t chunks = 4) {
    torch::manual_seed(1);
    GPipeOptions options = on_lanes(lanes, layers.size(), mode);
    options.chunks = chunks;
    return GPipe(layers, options);
}

TEST_F(DevicePipelineTest, StepsWithTheGradientsOfTheCpu) {
    const Plain plain = plain_steps();
    be_slow();
    for (const Names& lanes : kLanes) {
        for (const Checkpoint mode : kModes) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(lanes, mode));
            GPipe pipe = device_pipeline(skip_chain(), lanes, mode);
            expect_plain_steps(pipe, plain);
        }
    }
}

TEST_F(DevicePipelineTest, GoesBackwardFromTheCallersLossWithoutADeadlock) {
    const Plain plain = plain_steps();
    be_slow();
    for (const Names& lanes : kLanes) {
        for (const Checkpoint mode : kModes) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, name_of(lanes, mode));
            GPipe pipe = device_pipeline(skip_chain(), lanes, mode);
            expect_plain_gradients_of_the_callers_loss(pipe, plain);
        }
    }
}

TEST_F(DevicePipelineTest, TakesItsInputFromWhereverItIs) {
    const Plain plain = plain_steps();
    be_slow();
    for (const std::string from : {"fake:0", "fake:1"}) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, from);
        GPipe pipe = device_pipeline(skip_chain(), {"fake:0", "fake:1"}, Checkpoint::except_last);
        const at::Tensor input = plain.input.to(from).requires_grad_();
        const at::Tensor output = pipe.forward(input);
        mean_square(output, plain.target.to(output.device())).backward();
        EXPECT_EQ(input.grad().device(), c10::Device(from));
        expect_equal_norm_wise({{"input", input.grad().cpu() * 2}}, {{"input", plain.input_gradient}});
    }
}

TEST_F(DevicePipelineTest, IsDoneWithTheInputWhenItReturns) {
    be_slow();
    GPipe pipe = device_pipeline(skip_chain(), {"fake:0", "fake:1"}, Checkpoint::never);
    pipe.train(false);
    expect_done_with_the_input(pipe);
}

TEST_F(DevicePipelineTest, WouldNoticeAMissingWait) {
    const Plain plain = plain_steps();
    be_slow();
    behaviour().ignores_waits = true;
    GPipe pipe = device_pipeline(skip_chain(), {"fake:0", "fake:1"}, Checkpoint::never);
    pipe.step({plain.input}, {plain.target}, first_mean_square);
    fake_accelerator::synchronize();
    EXPECT_THAT(fake_accelerator::take_races(), ::testing::Not(::testing::IsEmpty()));
}

TEST_F(DevicePipelineTest, IssuesTasksWithoutWaitingForTheDevice) {
    GPipe pipe = device_pipeline(skip_chain(), {"fake:0"}, Checkpoint::never, 2);
    const at::Tensor input = samples(4);
    pipe.forward(input);
    fake_accelerator::synchronize();  // what this one enqueued is not to be held: the next waits for it
    behaviour().holds_kernels = true;
    pipe.train(false);
    const at::Tensor output = pipe.forward(input);
    EXPECT_FALSE(fake_accelerator::current_stream(0).is_idle()) << "the caller's stream waits for the lanes'";
    fake_accelerator::release();
    EXPECT_TRUE(std::isfinite(output.sum().item<double>()));
}

TEST_F(DevicePipelineTest, DrawsTheSameRandomNumbersInEveryModeAndOnEveryBalance) {
    be_slow();
    expect_the_same_random_numbers({{"fake:0"}, {"fake:0", "fake:0"}, {"fake:0", "fake:1", "fake:0"}}, 7);
}

TEST_F(DevicePipelineTest, TracksMiniBatchesWithDeferredBatchNorm) {
    be_slow();
    const auto norm = LayerSpec{"norm", [] {
                                    auto layer = module_layer(torch::nn::AnyModule(torch::nn::BatchNorm1d(6)));
                                    layer->to(torch::kFloat64);
                                    return layer;
                                }};
    const std::vector<LayerSpec> layers = {norm, linear(6, 4)};
    const at::Tensor input = samples(8);
    const auto buffers = [&](const Names& lanes) {
        torch::manual_seed(1);
        GPipe pipe(layers, {.balance = {1, 1}, .devices = lanes, .chunks = 4, .deferred_batch_norm = true});
        pipe.step({input}, {samples(8, 4)}, first_mean_square);
        NamedTensors all = on_cpu(pipe.named_buffers());
        for (auto& [name, tensor] : all) {
            tensor = tensor.to(torch::kFloat64);
        }
        return all;
    };
    expect_equal_norm_wise(buffers({"fake:0", "fake:1"}), buffers({"cpu", "cpu"}));
}

TEST_F(DevicePipelineTest, PassesAnExceptionOnAndWorksAfterwards) {
    be_slow();
    expect_use_after_an_exception([](const std::vector<LayerSpec>& layers) {
        return device_pipeline(layers, {"fake:0", "fake:1"}, Checkpoint::always);
    });
}

TEST_F(DevicePipelineTest, LetsGoOfEverythingAStepUsed) {
    GPipe pipe = device_pipeline(skip_chain(), {"fake:0", "fake:1"}, Checkpoint::never);
    const at::Tensor input = samples(64);
    const at::Tensor target = samples(64, 4);
    pipe.step({input}, {target}, first_mean_square);
    const std::int64_t first = fake_accelerator::allocated_bytes(0);
    const std::int64_t second = fake_accelerator::allocated_bytes(1);
    pipe.step({input}, {target}, first_mean_square);
    EXPECT_EQ(fake_accelerator::allocated_bytes(0), first);
    EXPECT_EQ(fake_accelerator::allocated_bytes(1), second);
}

TEST_F(DevicePipelineTest, CopiesEachBoundaryOnceEachWay) {
    GPipe pipe = device_pipeline({linear(6, 8), tanh_layer(), linear(8, 8), linear(8, 4)}, {"fake:0", "fake:1"},
                                 Checkpoint::never);
    const at::Tensor input = samples(8).to(on(0));
    const at::Tensor target = samples(8, 4).to(on(1));
    pipe.step({input}, {target}, first_mean_square);
    const std::int64_t before = fake_accelerator::copies();
    pipe.step({input}, {target}, first_mean_square);
    EXPECT_EQ(fake_accelerator::copies() - before, 4 * 2 + 1) << "and one of the loss's number, on its own device";
}

void expect_plain_gradients(const Plain& plain, const Names& lanes, Schedule schedule,
                            const std::vector<std::int64_t>& balance) {
    torch::manual_seed(1);
    GPipe pipe(skip_chain(), {.balance = balance, .devices = lanes, .chunks = 4, .schedule = schedule});
    pipe.step({plain.input}, {plain.target}, first_mean_square);
    EXPECT_NEAR(pipe.step({plain.input}, {plain.target}, first_mean_square).item<double>(), plain.loss, 1e-12);
    expect_equal_norm_wise(on_cpu(gradients_of(pipe.named_parameters())), plain.gradients);
}

TEST_F(DevicePipelineTest, RunsSchedulesThatGoBackwardEarly) {
    const Plain plain = plain_steps();
    be_slow();
    for (const Names& lanes : std::vector<Names>{{"fake:0", "fake:1"}, {"fake:0", "fake:0"}, {"cpu", "fake:1"}}) {
        expect_plain_gradients(plain, lanes, Schedule::one_f_one_b, {4, 4});
        expect_plain_gradients(plain, lanes, Schedule::zero_bubble_h1, {4, 4});
        expect_plain_gradients(plain, lanes, Schedule::interleaved_1f1b, {2, 2, 2, 2});
    }
}

TEST_F(DevicePipelineTest, RefusesStaggeredUpdates) {
    GPipe pipe = device_pipeline(skip_chain(), {"cpu", "fake:1"}, Checkpoint::never);
    const StaggeredTraining training{.next = [] { return std::optional<MiniBatch>(); },
                                     .loss = [](const Tensors& output, const Tensors&) { return output[0].sum(); },
                                     .update = [](LaneId) {}};
    EXPECT_THAT(thrown<UsageError>([&] { pipe.train_staggered(training); }),
                testing::AllOf(testing::HasSubstr("a lane on fake:1"), testing::HasSubstr("use step()")));
}

TEST_F(DevicePipelineTest, TakesAnOptimizerMadeBeforeAndAfter) {
    GPipe pipe = device_pipeline(skip_chain(), {"fake:0", "fake:1"}, Checkpoint::except_last);
    torch::optim::SGD optimizer(pipe.parameters(), 0.1);
    const at::Tensor input = samples(8);
    const at::Tensor target = samples(8, 4);
    be_slow();
    const double first = pipe.step({input}, {target}, first_mean_square).item<double>();
    optimizer.step();
    optimizer.zero_grad();
    double last = first;
    for (int step = 0; step < 5; ++step) {
        last = pipe.step({input}, {target}, first_mean_square).item<double>();
        optimizer.step();
        optimizer.zero_grad();
    }
    EXPECT_LT(last, first);
}
}  // namespace
}  // namespace pipescope
