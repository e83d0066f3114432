#include "profiler/memory/tracking_allocator.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

namespace pipescope {
namespace {
constexpr LaneId kLane{5};
constexpr TaskKey kForward{0, TaskKind::forward, 5, 0, -1};
constexpr TaskKey kBackward{0, TaskKind::backward, 5, 0, -1};

class LaneMemoryTest : public testing::Test {
protected:
    static void SetUpTestSuite() { tracking_allocator::install(); }
    void SetUp() override { tracking_allocator::take_window(kLane.value() + 1); }

    std::vector<MemorySample> samples;
    LaneMemory memory{[this] { return Nanoseconds(static_cast<std::int64_t>(samples.size())); },
                      [this](const MemorySample& sample) { samples.push_back(sample); }};
};

TEST_F(LaneMemoryTest, ReportsWhatTheLaneHoldsWhenATaskEnds) {
    memory.task_started(kForward, kLane);
    const at::Tensor output = torch::empty({25});
    torch::empty({50});
    memory.task_ended(kForward, kLane);
    const MemorySample expected{kLane, Nanoseconds(0), 100, 300, 0, static_cast<std::int64_t>(pack(kForward))};
    ASSERT_EQ(samples.size(), 1U);
    EXPECT_EQ(samples[0], expected);
}

TEST_F(LaneMemoryTest, CoversWhatHappensBetweenTwoTasks) {
    memory.task_started(kForward, kLane);
    memory.task_ended(kForward, kLane);
    {
        at::Tensor received = torch::empty({75});
        memory.moved(received, kLane);
    }
    memory.task_started(kBackward, kLane);
    memory.task_ended(kBackward, kLane);
    ASSERT_EQ(samples.size(), 2U);
    EXPECT_EQ(samples[1].allocated, 0);
    EXPECT_EQ(samples[1].peak, 300);
}

TEST_F(LaneMemoryTest, ForgetsWhatAnEarlierModelHeldOnTheLane) {
    const int before = tracking_allocator::set_owner(kLane.value() + 1);
    torch::empty({1000});
    tracking_allocator::set_owner(before);
    std::vector<MemorySample> later;
    LaneMemory next([] { return Nanoseconds(0); }, [&](const MemorySample& sample) { later.push_back(sample); });
    next.task_started(kForward, kLane);
    next.task_ended(kForward, kLane);
    EXPECT_EQ(later.at(0).peak, 0);
}

TEST_F(LaneMemoryTest, ChargesParametersAndMovedTensorsToTheirLane) {
    at::Tensor parameter = torch::empty({10});
    at::Tensor received = torch::empty({20});
    memory.placed(parameter, kLane);
    memory.moved(received, kLane);
    memory.task_started(kForward, kLane);
    memory.task_ended(kForward, kLane);
    EXPECT_EQ(samples.at(0).allocated, 120);
    memory.moved(received, LaneId{6});
    EXPECT_EQ(tracking_allocator::allocated(6), 40);
}

TEST_F(LaneMemoryTest, LeavesTheThreadsOwnMemoryAloneAfterTheTask) {
    memory.task_started(kForward, kLane);
    memory.task_ended(kForward, kLane);
    const at::Tensor optimizer_state = torch::empty({1000});
    EXPECT_EQ(tracking_allocator::allocated(kLane.value() + 1), 0);
}
}  // namespace
}  // namespace pipescope
