// Lanes on the fake accelerator, compared with a host lane that does the same.

#include "engine/gpipe.h"
#include "profiler/memory/device_blocks.h"
#include "profiler/memory/device_listening.h"
#include "profiler/memory/lane_memory.h"
#include "profiler/memory/tracking_allocator.h"
#include "tests/fake_accelerator/fake_device.h"

#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace pipescope {
namespace {
constexpr std::int64_t kWidth = 16;    // a double weight is 2 KiB: whole blocks
constexpr std::int64_t kSamples = 16;  // of a micro-batch; an activation is 2 KiB too
constexpr std::int64_t kChunks = 4;
constexpr Bytes kActivation = kSamples * kWidth * 8;
constexpr Bytes kWeight = kWidth * kWidth * 8;
constexpr std::size_t kLayers = 4;

using Names = std::vector<std::string>;

torch::nn::Sequential layers() {
    torch::nn::Sequential model;
    for (std::size_t k = 0; k < kLayers / 2; ++k) {
        model->push_back(torch::nn::Linear(torch::nn::LinearOptions(kWidth, kWidth).bias(false)));
        model->push_back(torch::nn::Tanh());
    }
    model->to(torch::kFloat64);
    return model;
}

/// Memory of lanes after each of their tasks, in order.
class Observed {
public:
    LaneMemory memory{[] { return Nanoseconds{0}; },
                      [this](const MemorySample& sample) {
                          const std::lock_guard lock(mutex_);
                          samples_[sample.lane.index()].push_back(sample);
                      }};

    std::vector<MemorySample> of(std::size_t lane) {
        const std::lock_guard lock(mutex_);
        return samples_[lane];
    }
    MemorySample last(std::size_t lane) { return of(lane).back(); }

private:
    std::mutex mutex_;
    std::map<std::size_t, std::vector<MemorySample>> samples_;
};

class Training {
public:
    Training(const Names& devices, TaskObserver& observer, Checkpoint mode, Driver driver = Driver::scheduled)
        : model_(layers(), {.balance = std::vector<std::int64_t>(devices.size(),
                                                                 static_cast<std::int64_t>(kLayers / devices.size())),
                            .devices = devices,
                            .chunks = kChunks,
                            .checkpoint = mode,
                            .driver = driver,
                            .observer = &observer}) {}

    void step() {
        const at::Tensor input = torch::ones({kChunks * kSamples, kWidth}, torch::kFloat64);
        model_.step(input, input, [](const at::Tensor& output, const at::Tensor&) { return output.sum(); });
    }

private:
    GPipe model_;
};

class LaneMemoryDeviceTest : public testing::Test {
protected:
    static void SetUpTestSuite() {
        fake_accelerator::install();
        tracking_allocator::install();
    }
    void SetUp() override { device_blocks::forget(0); }  // all that no log wrote down: what tests before left unheard
    void TearDown() override { fake_accelerator::synchronize(); }
};

Bytes sum_of(const MemoryBreakdown& composition) {
    Bytes sum = 0;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        sum += composition[static_cast<MemoryCategory>(k)];
    }
    return sum;
}

std::vector<MemorySample> steps_of_one_lane(const std::string& device, Checkpoint mode) {
    Observed observed;
    const DeviceListening listening;
    Training training({device}, observed.memory, mode);
    training.step();
    training.step();
    return observed.of(0);
}

std::map<std::int64_t, MemorySample> ends(const std::vector<MemorySample>& samples) {
    std::map<std::int64_t, MemorySample> last;
    for (const MemorySample& sample : samples) {
        last[sample.task] = sample;
    }
    return last;
}

TEST_F(LaneMemoryDeviceTest, ALaneHoldsWhatALaneOfTheHostHolds) {
    for (const Checkpoint mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
        SCOPED_TRACE(to_string(mode));
        const auto host = ends(steps_of_one_lane("cpu", mode));
        const auto device = ends(steps_of_one_lane("fake:0", mode));
        ASSERT_EQ(host.size(), device.size());
        for (const auto& [task, expected] : host) {
            SCOPED_TRACE(to_string(unpack(static_cast<std::uint64_t>(task)).value()));
            const MemorySample& found = device.at(task);
            for (const MemoryCategory category :
                 {MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::saved, MemoryCategory::copy,
                  MemoryCategory::skip, MemoryCategory::transient}) {
                EXPECT_EQ(found.composition[category], expected.composition[category]) << to_string(category);
            }
            EXPECT_EQ(sum_of(found.composition), found.allocated);
            EXPECT_GT(found.reserved, 0);
        }
    }
}

// The host's micro-batches are views of the caller's tensor; an accelerator's are copies.
TEST_F(LaneMemoryDeviceTest, TheInputThatALaneCopiesToItsDeviceIsItsBoundary) {
    Bytes most = 0;
    for (const MemorySample& sample : steps_of_one_lane("fake:0", Checkpoint::always)) {
        most = std::max(most, sample.composition[MemoryCategory::boundary]);
    }
    EXPECT_EQ(most, kChunks * kActivation);
}

/// Includes lanes of one device, which its statistics cannot distinguish.
TEST_F(LaneMemoryDeviceTest, AfterAStepALaneHoldsNothingButItsParametersAndGradients) {
    for (const Names& lanes : {Names{"fake:0", "fake:1"}, Names{"fake:0", "fake:0"}, Names{"fake:1", "cpu"}}) {
        for (const Checkpoint mode : {Checkpoint::always, Checkpoint::never}) {
            SCOPED_TRACE(lanes[0] + "," + lanes[1] + " " + to_string(mode));
            Observed observed;
            const DeviceListening listening;
            Training training(lanes, observed.memory, mode);
            for (int step = 0; step < 3; ++step) {
                training.step();
                for (int lane = 0; lane < 2; ++lane) {
                    const MemoryBreakdown held = tracking_allocator::account(lane + 1).composition();
                    EXPECT_EQ(held[MemoryCategory::parameters], kWeight);
                    EXPECT_EQ(held[MemoryCategory::gradients], kWeight);
                    EXPECT_EQ(sum_of(held), 2 * kWeight) << "lane " << lane;
                }
            }
        }
    }
}

TEST_F(LaneMemoryDeviceTest, TellsWhatAPeakConsistsOf) {
    Observed observed;
    const DeviceListening listening;
    Training training({"fake:0", "fake:1"}, observed.memory, Checkpoint::never);
    training.step();
    for (std::size_t lane = 0; lane < 2; ++lane) {
        Bytes peak = 0;
        for (const MemorySample& sample : observed.of(lane)) {
            ASSERT_TRUE(sample.composition.known());
            EXPECT_EQ(sum_of(sample.composition), sample.allocated);
            peak = std::max(peak, sample.composition[MemoryCategory::saved]);
        }
        EXPECT_GE(peak, kChunks * kActivation) << "tanh saves its output, of each micro-batch";
    }
}

// A program that does not listen: its frees outside tasks are detected later, so memory does not pile up.
TEST_F(LaneMemoryDeviceTest, NothingPilesUpWhereTheCallersThreadDoesNotListen) {
    Observed observed;
    Training training({"fake:0", "fake:1"}, observed.memory, Checkpoint::except_last);
    for (int step = 0; step < 6; ++step) {
        training.step();
    }
    const Bytes held = tracking_allocator::allocated(1) + tracking_allocator::allocated(2);
    EXPECT_GE(held, 4 * kWeight);
    // In the worst case, each block of the allocator counts once, whoever holds it.
    EXPECT_LE(held, observed.last(0).reserved + observed.last(1).reserved);
    EXPECT_EQ(observed.last(0).composition[MemoryCategory::parameters], kWeight);
    EXPECT_EQ(observed.last(0).composition[MemoryCategory::gradients], kWeight);
}

TEST_F(LaneMemoryDeviceTest, HearsALaneWithoutParametersToo) {
    Observed observed;
    torch::nn::Sequential layers(torch::nn::Linear(torch::nn::LinearOptions(kWidth, kWidth).bias(false)),
                                 torch::nn::Tanh());
    layers->to(torch::kFloat64);
    GPipe model(layers, {.balance = {1, 1},
                         .devices = {"fake:0", "fake:1"},
                         .chunks = 2,
                         .checkpoint = Checkpoint::never,
                         .observer = &observed.memory});
    model.forward(torch::ones({2 * kSamples, kWidth}, torch::kFloat64));
    Bytes saved = 0;
    for (const MemorySample& sample : observed.of(1)) {
        saved = std::max(saved, sample.composition[MemoryCategory::saved]);
    }
    EXPECT_EQ(saved, 2 * kActivation);
}

TEST_F(LaneMemoryDeviceTest, ForgetsAModelThatIsGone) {
    {
        Observed observed;
        Training training({"fake:0"}, observed.memory, Checkpoint::always);
        training.step();
    }
    Observed next;  // nobody listened when the model went, but its parameters had been seen
    const MemoryBreakdown held = tracking_allocator::account(1).composition();
    EXPECT_EQ(held[MemoryCategory::parameters], 0);
    EXPECT_EQ(held[MemoryCategory::gradients], 0);
}

TEST_F(LaneMemoryDeviceTest, ReportsTheDevicesOwnFiguresWhileAProfilerOfTorchsListens) {
    class TorchsListener final : public c10::MemoryReportingInfoBase {
    public:
        void reportMemoryUsage(void*, std::int64_t, std::size_t, std::size_t, c10::Device) override {}
        bool memoryProfilingEnabled() const override { return true; }
    };
    const c10::DebugInfoGuard running(c10::DebugInfoKind::PROFILER_STATE, std::make_shared<TorchsListener>());
    Observed observed;
    Training training({"fake:0"}, observed.memory, Checkpoint::always);
    training.step();
    for (const MemorySample& sample : observed.of(0)) {
        EXPECT_FALSE(sample.composition.known());
        EXPECT_GE(sample.allocated, kWeight);
        EXPECT_GE(sample.reserved, sample.allocated);
    }
}

// The driver's backward runs on autograd's thread of the device, piecewise between nodes.
TEST_F(LaneMemoryDeviceTest, HearsTheDriverOfThePaperToo) {
    Observed observed;
    const DeviceListening listening;
    Training training({"fake:0", "fake:1"}, observed.memory, Checkpoint::except_last, Driver::autograd);
    training.step();
    training.step();
    for (int lane = 0; lane < 2; ++lane) {
        EXPECT_TRUE(observed.last(static_cast<std::size_t>(lane)).composition.known());
        const MemoryBreakdown held = tracking_allocator::account(lane + 1).composition();
        EXPECT_EQ(held[MemoryCategory::parameters], kWeight);
        EXPECT_EQ(held[MemoryCategory::gradients], kWeight);
    }
}
}  // namespace
}  // namespace pipescope
