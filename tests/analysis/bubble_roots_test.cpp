#include "analysis/bubble_roots.h"

#include "simulator/clock/pipeline_graph.h"
#include "simulator/clock/task_clock.h"
#include "simulator/clock/task_costs.h"
#include "tests/simulator/profiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

namespace pipescope {
namespace {
/// A step of gpipe on three lanes, on which forwards take 1 ms and backwards 2 ms unless a test says otherwise.
class RootsOfBubbles : public ::testing::Test {
protected:
    RootsOfBubbles() {
        options_.balance = Balance({1, 1, 1});
        options_.chunks = options_.batch = 4;
        options_.checkpoint = Checkpoint::never;
        graph_ = std::make_shared<const TaskGraph>(pipeline_graph(options_, TaskCosts(profile_, options_)));
    }

    void record(const std::function<std::int64_t(const TaskKey&)>& duration) {
        std::vector<std::int64_t> lengths;
        for (const Task& task : graph_->tasks()) {
            lengths.push_back(duration(task.key));
        }
        std::vector<std::int64_t> ends(lengths.size());
        TaskClock(*graph_).run(std::span<const std::int64_t>(lengths), ends);
        timeline_ = Timeline{Source::measured, std::vector<LaneInfo>(3), {}};
        for (TaskIndex index = 0; index < ends.size(); ++index) {
            const Task& task = graph_->tasks()[index];
            timeline_.slices.push_back(
                {task.key, task.lane, Nanoseconds{ends[index] - lengths[index]}, Nanoseconds{ends[index]}, 0});
            timeline_.slices.back().key.step = 0;
        }
        sort_slices(timeline_);
        const StepStatistics statistics = step_statistics(timeline_, 0);
        tasks_.emplace(step_graph_of(timeline_, {statistics.start.count(), statistics.end.count()}, graph_));
        bubbles_ = bubbles_of(*tasks_);
        roots_ = BubbleRoots({timeline_, {}, {0}, {}}, *graph_);
    }

    const Bubble& longest() const { return *std::ranges::max_element(bubbles_, {}, &Bubble::length); }

    static std::int64_t usual(const TaskKey& key) {
        return key.kind == TaskKind::forward ? 1'000'000 : key.kind == TaskKind::backward ? 2'000'000 : 0;
    }

    Profile profile_ = uniform_profile(3);
    PipelineOptions options_;
    std::shared_ptr<const TaskGraph> graph_;
    Timeline timeline_;
    std::optional<StepGraph> tasks_;
    std::vector<Bubble> bubbles_;
    BubbleRoots roots_;
};

TEST_F(RootsOfBubbles, AreTheRampInABalancedStep) {
    record(usual);
    ASSERT_FALSE(bubbles_.empty());
    for (const Bubble& bubble : bubbles_) {
        EXPECT_EQ(roots_.root_of(bubble, *tasks_), RootCause::ramp) << bubble.lane.value() << " at " << bubble.start;
    }
}

TEST_F(RootsOfBubbles, AreImbalanceWhereAPartitionTakesLonger) {
    record([](const TaskKey& key) { return usual(key) * (key.partition == 2 ? 8 : 1); });
    EXPECT_EQ(roots_.root_of(longest(), *tasks_), RootCause::imbalance);
    const BubbleRoots slow({timeline_, {}, {0}, {}}, *graph_, LaneId{2});
    EXPECT_EQ(slow.root_of(longest(), *tasks_), RootCause::slow_lane);
}

TEST_F(RootsOfBubbles, AreMessagesThatTakeTime) {
    record([](const TaskKey& key) { return is_copy(key.kind) ? 9'000'000 : usual(key); });
    EXPECT_EQ(roots_.root_of(longest(), *tasks_), RootCause::network);
}

TEST_F(RootsOfBubbles, AreOtherIfOneTaskTakesLongOnce) {
    record([](const TaskKey& key) {
        return usual(key) * (key.kind == TaskKind::backward && key.partition == 2 && key.micro_batch == 3 ? 20 : 1);
    });
    EXPECT_EQ(roots_.root_of(longest(), *tasks_), RootCause::other);
}

TEST_F(RootsOfBubbles, KnowNothingWithoutTheTasks) {
    record(usual);
    std::erase_if(timeline_.slices, [](const Slice& slice) { return slice.key.kind == TaskKind::backward; });
    EXPECT_EQ(BubbleRoots({timeline_, {}, {0}, {}}, *graph_).root_of(longest(), *tasks_), std::nullopt);
    EXPECT_EQ(BubbleRoots().root_of(longest(), *tasks_), std::nullopt);
}

TEST_F(RootsOfBubbles, NameWhoStillWorksWhenALaneIsDone) {
    record(usual);
    const auto done = std::ranges::find(bubbles_, BubbleCause::finished, &Bubble::cause);
    ASSERT_NE(done, bubbles_.end());
    const StepTaskIndex last = still_works(*done, *tasks_);
    ASSERT_NE(last, kNoTask);
    EXPECT_EQ(tasks_->task(last).end, tasks_->range().end);
    EXPECT_NE(tasks_->task(last).lane, done->lane);
    const auto waits = std::ranges::find(bubbles_, BubbleCause::previous_partition, &Bubble::cause);
    ASSERT_NE(waits, bubbles_.end());
    EXPECT_EQ(still_works(*waits, *tasks_), kNoTask);
}

TEST(MovesAgainstRoots, LeadBackToTheRoot) {
    for (const RootCause root : {RootCause::ramp, RootCause::imbalance, RootCause::network}) {
        EXPECT_EQ(root_against(moves_against(root).front()), root);
    }
    EXPECT_TRUE(moves_against(RootCause::other).empty());
    EXPECT_EQ(root_against(MoveKind::checkpoint), std::nullopt);
}
}  // namespace
}  // namespace pipescope
