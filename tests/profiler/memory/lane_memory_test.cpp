#include "profiler/memory/lane_memory.h"

#include "profiler/memory/tracking_allocator.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

namespace pipescope {
namespace {
constexpr LaneId kLane{5};
constexpr LaneId kSender{4};
constexpr TaskKey kForward{0, TaskKind::forward, 5, 0, -1};
constexpr TaskKey kBackward{0, TaskKind::backward, 5, 0, -1};

MemoryBreakdown nothing() {
    MemoryBreakdown breakdown;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        breakdown[static_cast<MemoryCategory>(k)] = 0;
    }
    return breakdown;
}

Bytes sum_of(const MemoryBreakdown& breakdown) {
    Bytes sum = 0;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        sum += breakdown[static_cast<MemoryCategory>(k)];
    }
    return sum;
}

class LaneMemoryTest : public testing::Test {
protected:
    /// A tensor that a lane's task made: what this thread makes outside a task is the caller's.
    static at::Tensor made_by(LaneId lane, std::int64_t elements) {
        const int before = tracking_allocator::set_owner(lane.value() + 1);
        const at::Tensor made = torch::ones({elements});
        tracking_allocator::set_owner(before);
        return made;
    }

    static void SetUpTestSuite() { tracking_allocator::install(); }
    void SetUp() override { tracking_allocator::account(kLane.value() + 1).take_window(); }

    std::vector<MemorySample> samples;
    LaneMemory memory{[this] { return Nanoseconds(static_cast<std::int64_t>(samples.size())); },
                      [this](const MemorySample& sample) { samples.push_back(sample); }};
};

TEST_F(LaneMemoryTest, ReportsWhatTheLaneHoldsWhenATaskEnds) {
    memory.task_started(kForward, kLane);
    const at::Tensor output = torch::empty({25});
    torch::empty({50});
    memory.task_ended(kForward, kLane);
    ASSERT_EQ(samples.size(), 2U);  // its peak, and its end
    const auto task = static_cast<std::int64_t>(pack(kForward));
    MemorySample at_peak{kLane, samples[0].time, 300, 300, 0, task, nothing()};
    at_peak.composition[MemoryCategory::transient] = 300;
    EXPECT_EQ(samples[0], at_peak);
    MemorySample at_end{kLane, Nanoseconds(0), 100, 100, 0, task, nothing()};
    at_end.composition[MemoryCategory::saved] = 100;
    EXPECT_EQ(samples[1], at_end);
}

TEST_F(LaneMemoryTest, CoversWhatHappensBetweenTwoTasks) {
    memory.task_started(kForward, kLane);
    memory.task_ended(kForward, kLane);
    {
        at::Tensor received = made_by(kSender, 75);
        memory.moved(received, kLane);
    }
    memory.task_started(kBackward, kLane);
    memory.task_ended(kBackward, kLane);
    ASSERT_EQ(samples.size(), 3U);
    EXPECT_EQ(samples[1].peak, 300);
    EXPECT_EQ(samples[2].allocated, 0);
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
    at::Tensor received = made_by(kSender, 20);
    memory.placed(parameter, kLane);
    memory.moved(received, kLane);
    memory.task_started(kForward, kLane);
    memory.task_ended(kForward, kLane);
    EXPECT_EQ(samples.at(0).allocated, 120);
    memory.moved(received, LaneId{6});
    EXPECT_EQ(tracking_allocator::allocated(6), 40);
}

// The first partition may hand on a view of the caller's whole mini-batch. Charged to the next lane, as it once was, it
// made lanes look up to 57 % larger than they are.
TEST_F(LaneMemoryTest, LeavesTheCallersTensorsToTheCaller) {
    const at::Tensor mini_batch = torch::empty({1000});
    memory.task_started(kForward, kSender);
    memory.moved(mini_batch.narrow(0, 0, 10), kLane);
    memory.task_ended(kForward, kSender);
    EXPECT_EQ(tracking_allocator::allocated(kLane.value() + 1), 0);
}

TEST_F(LaneMemoryTest, LeavesTheThreadsOwnMemoryAloneAfterTheTask) {
    memory.task_started(kForward, kLane);
    memory.task_ended(kForward, kLane);
    const at::Tensor optimizer_state = torch::empty({1000});
    EXPECT_EQ(tracking_allocator::allocated(kLane.value() + 1), 0);
}

// A training step of one lane, task by task, with the bytes that remain after each and their categories.
TEST_F(LaneMemoryTest, TellsWhatALanesBytesConsistOf) {
    constexpr TaskKey kCopy{0, TaskKind::copy_forward, 4, 0, -1};
    constexpr TaskKey kLoss{0, TaskKind::loss, 5, -1, -1};
    const auto holds = [&](MemoryCategory category) { return samples.back().composition[category]; };
    at::Tensor weight = torch::ones({10}).requires_grad_();
    memory.placed(weight, kLane);

    at::Tensor input = made_by(kSender, 10);
    memory.task_started(kCopy, LaneId{4});
    memory.moved(input, kLane);
    memory.task_ended(kCopy, LaneId{4});

    memory.task_started(kForward, kLane);
    at::Tensor output = (weight * input).tanh();
    memory.task_ended(kForward, kLane);
    EXPECT_EQ(holds(MemoryCategory::parameters), 40);
    EXPECT_EQ(holds(MemoryCategory::boundary), 40);
    EXPECT_EQ(holds(MemoryCategory::saved), 40);  // the product was let go
    EXPECT_EQ(holds(MemoryCategory::transient), 0);

    memory.task_started(kLoss, kLane);
    at::Tensor gradient = torch::ones({10});
    memory.task_ended(kLoss, kLane);
    EXPECT_EQ(holds(MemoryCategory::output), 40);

    memory.task_started(kBackward, kLane);
    output.backward(gradient);
    output = at::Tensor();
    gradient = at::Tensor();
    memory.task_ended(kBackward, kLane);
    EXPECT_EQ(holds(MemoryCategory::gradients), 40);
    EXPECT_EQ(holds(MemoryCategory::saved), 0);
    EXPECT_EQ(holds(MemoryCategory::output), 0);
    for (const MemorySample& sample : samples) {
        EXPECT_EQ(sum_of(sample.composition), sample.allocated);
    }
}

TEST_F(LaneMemoryTest, TellsByTheKindOfTaskWhatItsBytesAreFor) {
    const auto left_by = [&](TaskKind kind) {
        const TaskKey key{0, kind, 5, 0, -1};
        const at::Tensor kept = made_by(kSender, 10);
        memory.task_started(key, kLane);
        const at::Tensor taken = torch::empty({10});
        memory.moved(kept, kLane);  // what arrived, and what was made: both are of the kind
        memory.task_ended(key, kLane);
        return samples.back().composition;
    };
    EXPECT_EQ(left_by(TaskKind::optimizer)[MemoryCategory::optimizer], 80);
    EXPECT_EQ(left_by(TaskKind::skip_forward)[MemoryCategory::skip], 80);
    EXPECT_EQ(left_by(TaskKind::skip_backward)[MemoryCategory::skip], 80);
    EXPECT_EQ(left_by(TaskKind::copy_forward)[MemoryCategory::boundary], 80);
    EXPECT_EQ(left_by(TaskKind::copy_backward)[MemoryCategory::copy], 80);
    EXPECT_EQ(left_by(TaskKind::recompute)[MemoryCategory::saved], 80);
    EXPECT_EQ(left_by(TaskKind::loss)[MemoryCategory::output], 80);
}
}  // namespace
}  // namespace pipescope
