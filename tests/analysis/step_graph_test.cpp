#include "analysis/bubble_causes.h"
#include "analysis/task_join.h"
#include "schedule/schedules.h"
#include "tests/analysis/sample_run.h"
#include "tests/analysis/tasks_of_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

namespace pipescope {
namespace {
Slice slice_of(TaskKind kind, int partition, int micro_batch, int start, int end, int lane = -1) {
    return {{0, kind, partition, micro_batch, -1},
            LaneId{lane < 0 ? partition : lane},
            Nanoseconds{start},
            Nanoseconds{end},
            0};
}

Timeline timeline_of(int lanes, std::vector<Slice> slices) {
    Timeline timeline{Source::measured, {}, std::move(slices)};
    for (int lane = 0; lane < lanes; ++lane) {
        timeline.lanes.push_back({"lane " + std::to_string(lane), "cpu"});
    }
    sort_slices(timeline);
    return timeline;
}

// One micro-batch on two partitions; the copy begins 5 ns after the forward, lane 1 10 ns after the copy:
//
//     lane 0   F0 0..100                                              B0 350..550
//     copies       105..120                            340..350
//     lane 1                 F0 130..200  L 200..220  B0 220..340
Timeline chain() {
    return timeline_of(
        2, {slice_of(TaskKind::forward, 0, 0, 0, 100), slice_of(TaskKind::copy_forward, 0, 0, 105, 120),
            slice_of(TaskKind::forward, 1, 0, 130, 200), slice_of(TaskKind::loss, 1, -1, 200, 220),
            slice_of(TaskKind::backward, 1, 0, 220, 340), slice_of(TaskKind::copy_backward, 0, 0, 340, 350, 1),
            slice_of(TaskKind::backward, 0, 0, 350, 550)});
}

std::vector<TaskKey> keys_of(const StepGraph& tasks, const std::vector<StepTaskIndex>& indexes) {
    std::vector<TaskKey> keys;
    for (const StepTaskIndex index : indexes) {
        keys.push_back(tasks.task(index).key);
    }
    return keys;
}

TEST(StepGraph, KnowsWhatEachTaskWaitsFor) {
    const StepGraph tasks = tasks_of_step(chain(), 0);
    const auto before = [&](const TaskKey& key) { return keys_of(tasks, tasks.dependencies(tasks.find(key))); };
    using testing::ElementsAre;
    const TaskKey f0{0, TaskKind::forward, 0, 0, -1};
    const TaskKey f1{0, TaskKind::forward, 1, 0, -1};
    const TaskKey copy{0, TaskKind::copy_forward, 0, 0, -1};
    const TaskKey loss{0, TaskKind::loss, 1, -1, -1};
    const TaskKey b1{0, TaskKind::backward, 1, 0, -1};
    const TaskKey back{0, TaskKind::copy_backward, 0, 0, -1};
    EXPECT_TRUE(before(f0).empty());
    EXPECT_THAT(before(copy), ElementsAre(f0));
    EXPECT_THAT(before(f1), ElementsAre(copy));
    EXPECT_THAT(before(loss), ElementsAre(f1));
    EXPECT_THAT(before(b1), ElementsAre(loss));
    EXPECT_THAT(before(back), ElementsAre(b1));
    EXPECT_THAT(before({0, TaskKind::backward, 0, 0, -1}), ElementsAre(back));
    EXPECT_THAT(keys_of(tasks, tasks.dependents(tasks.find(f0))), ElementsAre(copy));
}

TEST(StepGraph, ReadsTheSameDependenciesOffTheKeysAsTheTaskGraphHas) {
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
        PipelineShape shape;
        shape.num_partitions = 3;
        shape.num_micro_batches = 4;
        shape.skips = {{PartitionId{0}, {PartitionId{2}}}, {PartitionId{0}, {PartitionId{1}}}};
        const TaskGraph graph = make_schedule(schedule, shape);
        Timeline timeline{Source::simulated, {{"0", ""}, {"1", ""}, {"2", ""}}, {}};
        for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
            const Task& task = graph.tasks()[i];
            timeline.slices.push_back({task.key, task.lane, Nanoseconds{10 * i}, Nanoseconds{10 * i + 10}, 0});
        }
        const StepGraph tasks = tasks_of_step(timeline, 0);
        ASSERT_EQ(tasks.tasks().size(), graph.tasks().size());
        for (std::size_t i = 0; i < graph.tasks().size(); ++i) {
            std::vector<TaskKey> found = keys_of(tasks, tasks.dependencies(tasks.find(graph.tasks()[i].key)));
            for (const TaskIndex wanted : graph.dependencies(i)) {
                // A backward waits for its own forward, which is on its lane and long done.
                const TaskKey& key = graph.tasks()[wanted].key;
                if (key.kind == TaskKind::forward && graph.tasks()[wanted].lane == graph.tasks()[i].lane) {
                    continue;
                }
                if (key.kind == TaskKind::loss && key.micro_batch < 0) {
                    continue;  // of each lane the first task alone waits for it in the graph
                }
                EXPECT_THAT(found, testing::Contains(key))
                    << to_string(graph.tasks()[i].key) << " in " << to_string(schedule);
            }
        }
    }
}

TEST(StepGraph, TakesDependenciesFromTheTaskGraphWhereItIsKnown) {
    PipelineShape shape;
    shape.num_partitions = 3;
    shape.num_micro_batches = 4;
    shape.skips = {{PartitionId{0}, {PartitionId{2}}}, {PartitionId{0}, {PartitionId{1}}}};
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
        const auto graph = std::make_shared<const TaskGraph>(make_schedule(schedule, shape));
        Timeline timeline{Source::measured, {{"0", ""}, {"1", ""}, {"2", ""}}, {}};
        for (std::size_t i = 0; i < graph->tasks().size(); ++i) {
            const Task& task = graph->tasks()[i];
            timeline.slices.push_back({task.key, task.lane, Nanoseconds{10 * i}, Nanoseconds{10 * i + 10}, 0});
        }
        const StepGraph tasks = tasks_of_step(timeline, 0, graph);
        for (TaskIndex i = 0; i < graph->tasks().size(); ++i) {
            const Task& task = graph->tasks()[i];
            std::vector<TaskKey> wanted;
            for (const TaskIndex before : graph->dependencies(i)) {
                wanted.push_back(graph->tasks()[before].key);
            }
            EXPECT_THAT(keys_of(tasks, tasks.dependencies(tasks.find(task.key))),
                        testing::UnorderedElementsAreArray(wanted))
                << to_string(task.key);
            EXPECT_EQ(tasks.receiver(tasks.find(task.key)),
                      is_copy(task.key.kind) ? std::optional(task.receiver) : std::nullopt);
        }
        EXPECT_EQ(tasks.popping_partition(0), 2);
        EXPECT_EQ(tasks.popping_partition(2), std::nullopt);
    }
}

TEST(StepGraph, WaitForWhatATaskThatWasNotRecordedWaitedFor) {
    const auto graph = std::make_shared<const TaskGraph>(
        make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 1}));
    Timeline timeline = chain();
    std::erase_if(timeline.slices, [](const Slice& each) { return each.key.kind == TaskKind::copy_forward; });
    const StepGraph tasks = tasks_of_step(timeline, 0, graph);
    EXPECT_THAT(keys_of(tasks, tasks.dependencies(tasks.find({0, TaskKind::forward, 1, 0, -1}))),
                testing::ElementsAre(TaskKey{0, TaskKind::forward, 0, 0, -1}));
}

/// The forwards and backwards of gpipe on one lane without the loss, as another program records them. `draw_start`
/// gives each task's start.
StepGraph step_without_loss(int micro_batches, const std::function<int(std::size_t place)>& draw_start) {
    const auto graph = std::make_shared<const TaskGraph>(make_schedule(
        Schedule::gpipe, {.num_partitions = 1, .num_micro_batches = micro_batches, .checkpoint = Checkpoint::never}));
    Timeline timeline{Source::measured, {{"0", ""}}, {}};
    for (const Task& task : graph->tasks()) {
        if (task.key.kind == TaskKind::forward || task.key.kind == TaskKind::backward) {
            const int start = draw_start(timeline.slices.size());
            timeline.slices.push_back({task.key, task.lane, Nanoseconds{start}, Nanoseconds{start + 10}, 0});
        }
    }
    return tasks_of_step(timeline, 0, graph);
}

TEST(StepGraph, KeepsNoListOfAllForwardsForEachBackward) {
    // 20,000 lists of 20,000 forwards would take gigabytes. A gap of 5 ns before each task.
    const StepGraph tasks = step_without_loss(20'000, [](std::size_t place) { return 15 * static_cast<int>(place); });
    ASSERT_EQ(tasks.tasks().size(), 40'000U);
    std::size_t before = 0;
    std::size_t after = 0;
    for (StepTaskIndex i = 0; i < tasks.tasks().size(); ++i) {
        before += tasks.dependencies(i).size();
        after += tasks.dependents(i).size();
    }
    EXPECT_LE(before, 2 * tasks.tasks().size());
    EXPECT_EQ(after, before);
    EXPECT_EQ(bubbles_of(tasks).size(), 39'999U);
    EXPECT_EQ(critical_path(tasks).tasks.size(), 40'000U);
}

TEST(StepGraph, KnowsTheLastOfVeryManyThatATaskWaitedFor) {
    std::mt19937 random(7);
    // Even where clocks differ, so that some forwards end after a backward.
    const StepGraph tasks = step_without_loss(
        600, [&](std::size_t place) { return static_cast<int>(place) * 10 + static_cast<int>(random() % 1500); });
    const auto all = tasks.tasks();
    for (StepTaskIndex i = 0; i < all.size(); ++i) {
        if (all[i].key.kind != TaskKind::backward) {
            continue;
        }
        std::int64_t latest = -1;
        std::int64_t latest_before = -1;
        for (StepTaskIndex each = 0; each < all.size(); ++each) {
            if (all[each].key.kind == TaskKind::forward) {
                latest = std::max(latest, all[each].end);
                const bool earlier = each < i && all[each].end <= all[i].end;
                latest_before = std::max(latest_before, earlier ? all[each].end : -1);
            }
        }
        const auto last_of = [&](const std::vector<StepTaskIndex>& found) {
            std::int64_t last = -1;
            for (const StepTaskIndex each : found) {
                last = std::max(last, all[each].end);
            }
            return last;
        };
        EXPECT_EQ(last_of(tasks.dependencies(all[i].key)), latest);
        EXPECT_EQ(last_of(tasks.dependencies(i)), latest_before);
    }
}

TEST(CriticalPath, FollowsTheChainAndSaysWhatItConsistsOf) {
    const StepGraph tasks = tasks_of_step(chain(), 0);
    const CriticalPath path = critical_path(tasks);
    EXPECT_EQ(path.tasks.size(), 7U);
    EXPECT_EQ(path.compute, 100 + 70 + 20 + 120 + 200);
    EXPECT_EQ(path.copies, 15 + 10);
    EXPECT_EQ(path.waits, 5 + 10);
    EXPECT_EQ(path.length(), 550);
}

TEST(CriticalPath, IsAsLongAsTheStepOnTheVirtualClock) {
    // On the virtual clock a task begins when what it waits for ends: the path has no gap, and covers the step.
    for (const int partitions : {1, 2, 4}) {
        SampleRun run;
        run.partitions = partitions;
        run.chunks = 6;
        const Simulation simulation = simulate(sampleProfile(run), sampleOptions(run));
        const StepGraph tasks = tasks_of_step(simulation.timeline, 0);
        const CriticalPath path = critical_path(tasks);
        EXPECT_EQ(path.length(), simulation.step_time.count()) << partitions;
        EXPECT_EQ(path.waits, 0) << partitions;
    }
}

TEST(CriticalPath, GoesThroughTheCopiesOfSkipsThatTakeLongest) {
    // A skip so large that its copies, and not the layers between, make the step as long as it is.
    SampleRun run;
    run.partitions = 3;
    run.chunks = 1;
    Profile profile = sampleProfile(run);
    profile.layers.front().stash["wide"] = {4e9};
    profile.layers.back().pop = {"wide"};
    const Simulation simulation = simulate(CheckedProfile(profile), sampleOptions(run));
    const StepGraph tasks = tasks_of_step(simulation.timeline, 0);
    const CriticalPath path = critical_path(tasks);
    std::vector<TaskKind> kinds;
    for (const StepTaskIndex index : path.tasks) {
        kinds.push_back(tasks.task(index).key.kind);
    }
    EXPECT_THAT(kinds, testing::IsSupersetOf({TaskKind::skip_forward, TaskKind::skip_backward}));
    EXPECT_EQ(path.length(), simulation.step_time.count());
    EXPECT_EQ(path.waits, 0);
}

TEST(StepGraph, ReadsWhereASkipEndsOffTheLaneThatSendsItsGradientBack) {
    // Lane 1 has partitions 1 and 3. Of two micro-batches one gradient is sent late, after partition 1 was through too.
    const auto skip = [](TaskKind kind, int micro_batch, int start, int lane) {
        Slice copy = slice_of(kind, 0, micro_batch, start, start + 5, lane);
        copy.key.skip = 7;
        return copy;
    };
    const auto backward = [](int partition, int micro_batch, int start) {
        return slice_of(TaskKind::backward, partition, micro_batch, start, start + 10, partition % 2);
    };
    const Timeline timeline = timeline_of(
        2, {slice_of(TaskKind::forward, 0, 0, 0, 10), skip(TaskKind::skip_forward, 0, 10, 0),
            slice_of(TaskKind::forward, 3, 0, 30, 40, 1), backward(3, 0, 100), skip(TaskKind::skip_backward, 0, 110, 1),
            backward(3, 1, 110), skip(TaskKind::skip_backward, 1, 121, 1), backward(1, 0, 130), backward(1, 1, 140),
            backward(3, 2, 150), backward(1, 2, 160), skip(TaskKind::skip_backward, 2, 171, 1), backward(0, 0, 200)});
    const StepGraph tasks = tasks_of_step(timeline, 0);
    EXPECT_EQ(tasks.popping_partition(7), 3);
    EXPECT_EQ(tasks.popping_partition(8), std::nullopt);
    const auto before = [&](const TaskKey& key) { return keys_of(tasks, tasks.dependencies(tasks.find(key))); };
    EXPECT_THAT(before({0, TaskKind::forward, 3, 0, -1}),
                testing::ElementsAre(TaskKey{0, TaskKind::skip_forward, 0, 0, 7}));
    EXPECT_THAT(before({0, TaskKind::skip_backward, 0, 0, 7}),
                testing::ElementsAre(TaskKey{0, TaskKind::backward, 3, 0, -1}));
    EXPECT_THAT(before({0, TaskKind::backward, 0, 0, -1}),
                testing::Contains(TaskKey{0, TaskKind::skip_backward, 0, 0, 7}));
}

TEST(BubbleCauses, NameWhatTheLaneWaitedFor) {
    const StepGraph tasks = tasks_of_step(chain(), 0);
    const std::vector<Bubble> pieces = bubbles_of(tasks);
    const auto has = [&](int lane, std::int64_t start, std::int64_t end, BubbleCause cause) {
        return std::any_of(pieces.begin(), pieces.end(), [&](const Bubble& piece) {
            return piece.lane == LaneId{lane} && piece.start == start && piece.end == end && piece.cause == cause;
        });
    };
    EXPECT_TRUE(has(0, 100, 340, BubbleCause::next_partition));
    EXPECT_TRUE(has(0, 340, 350, BubbleCause::copy));
    EXPECT_TRUE(has(1, 0, 100, BubbleCause::previous_partition));
    EXPECT_TRUE(has(1, 100, 120, BubbleCause::copy));
    EXPECT_TRUE(has(1, 120, 130, BubbleCause::contention));
    EXPECT_TRUE(has(1, 340, 550, BubbleCause::finished));
    EXPECT_EQ(std::count_if(pieces.begin(), pieces.end(), [](const Bubble& each) { return !is_work(each.cause); }), 6);
}

TEST(BubbleCauses, NameASlowerLaneAndTheLoss) {
    // Lane 0 takes 100 for each forward and never pauses, lane 1 only 30: it waits for a slower lane. Lane 0's backward
    // of the last micro-batch can only follow lane 1's; its recompute waits for the loss.
    const Timeline timeline =
        timeline_of(2, {slice_of(TaskKind::forward, 0, 0, 0, 100), slice_of(TaskKind::forward, 0, 1, 100, 200),
                        slice_of(TaskKind::forward, 1, 0, 100, 130), slice_of(TaskKind::forward, 1, 1, 200, 230),
                        slice_of(TaskKind::loss, 1, -1, 230, 250), slice_of(TaskKind::recompute, 0, 0, 250, 350),
                        slice_of(TaskKind::backward, 1, 1, 250, 310), slice_of(TaskKind::backward, 1, 0, 310, 370),
                        slice_of(TaskKind::backward, 0, 0, 370, 570)});
    const StepGraph tasks = tasks_of_step(timeline, 0);
    std::map<std::pair<std::int64_t, std::int64_t>, BubbleCause> causes;
    for (const Bubble& piece : bubbles_of(tasks)) {
        causes[{piece.lane.value(), piece.start}] = piece.cause;
    }
    EXPECT_EQ(causes.at({1, 0}), BubbleCause::previous_partition);  // the pipeline fills
    EXPECT_EQ(causes.at({1, 130}), BubbleCause::slower_lane);
    EXPECT_EQ(causes.at({0, 200}), BubbleCause::loss);
    EXPECT_EQ(causes.at({0, 350}), BubbleCause::slower_lane);
    EXPECT_EQ(causes.at({1, 370}), BubbleCause::finished);
}

TEST(BubbleCauses, CoverExactlyTheTimeInWhichALaneRanNothing) {
    SampleRun run;
    run.partitions = 4;
    run.chunks = 8;
    const Timeline timeline = sampleTimeline(run);
    for (int step = 0; step < run.steps; ++step) {
        const StepGraph tasks = tasks_of_step(timeline, step);
        const std::vector<Bubble> pieces = bubbles_of(tasks);
        for (std::int64_t lane = 0; lane < run.partitions; ++lane) {
            std::int64_t idle = 0;
            std::int64_t end = tasks.range().start;
            for (const Bubble& piece : pieces) {
                if (piece.lane == LaneId{lane} && !is_work(piece.cause)) {
                    EXPECT_GE(piece.start, end);
                    EXPECT_GT(piece.length(), 0);
                    end = piece.end;
                    idle += piece.length();
                }
            }
            EXPECT_LE(end, tasks.range().end);
            std::int64_t ran = 0;
            for (const StepTaskIndex index : tasks.lane_order(LaneId{lane})) {
                ran += tasks.task(index).duration();
            }
            EXPECT_EQ(idle + ran, tasks.range().length()) << "lane " << lane << " of step " << step;
        }
    }
}

TEST(TaskMatching, PairsEveryTaskOfARunWithItsTwin) {
    SampleRun run;
    run.partitions = 4;
    const Simulation simulation = simulate(sampleProfile(run), sampleOptions(run));
    const Timeline& simulated = simulation.timeline;
    const Timeline measured = sampleTimeline(run);
    const TaskMatching matching = match_tasks(tasks_of_step(measured, 1), tasks_of_step(simulated, 0));
    EXPECT_EQ(matching.pairs.size(), simulated.slices.size());
    EXPECT_TRUE(matching.unmatched.empty());
    for (const TaskPair& pair : matching.pairs) {
        const Slice& ours = measured.slices[pair.measured.index];
        const Slice& theirs = simulated.slices[pair.simulated.index];
        EXPECT_EQ(ours.key.kind, theirs.key.kind);
        EXPECT_EQ(pair.end_change - pair.start_change, (ours.duration() - theirs.duration()).count());
    }
}

TEST(TaskMatching, ListsTheRestWithTheReason) {
    Timeline measured = chain();
    measured.slices.push_back(slice_of(TaskKind::forward, 0, 0, 560, 600));     // a second time
    measured.slices.push_back(slice_of(TaskKind::optimizer, 0, -1, 600, 650));  // after the step
    measured.slices.push_back(slice_of(TaskKind::recompute, 1, 0, 225, 226));   // not simulated
    std::erase_if(measured.slices, [](const Slice& each) { return each.key.kind == TaskKind::copy_backward; });
    sort_slices(measured);
    Timeline simulated = chain();
    simulated.source = Source::simulated;
    const TaskMatching matching = match_tasks(tasks_of_step(measured, 0), tasks_of_step(simulated, 0));
    EXPECT_EQ(matching.pairs.size(), 6U);
    std::map<UnmatchedReason, TaskKind> rest;
    for (const UnmatchedTask& each : matching.unmatched) {
        rest[each.reason] = each.key.kind;
        EXPECT_FALSE(describe(each.reason).empty());
    }
    EXPECT_EQ(matching.unmatched.size(), 4U);
    EXPECT_EQ(rest.at(UnmatchedReason::repeated), TaskKind::forward);
    EXPECT_EQ(rest.at(UnmatchedReason::outside_the_step), TaskKind::optimizer);
    EXPECT_EQ(rest.at(UnmatchedReason::not_in_the_schedule), TaskKind::recompute);
    EXPECT_EQ(rest.at(UnmatchedReason::not_recorded), TaskKind::copy_backward);
}

TEST(TaskMatching, MissesNoCopyOrLossIfTheRecordingShowsNone) {
    Timeline measured = chain();
    std::erase_if(measured.slices,
                  [](const Slice& each) { return is_copy(each.key.kind) || each.key.kind == TaskKind::loss; });
    const StepGraph tasks = tasks_of_step(measured, 0);
    EXPECT_TRUE(match_tasks(tasks, tasks_of_step(chain(), 0)).unmatched.empty());
    EXPECT_EQ(match_tasks(tasks, tasks_of_step(chain(), 0), false, Opposite::run_before).unmatched.size(), 3U)
        << "an earlier run recorded them";
}

}  // namespace
}  // namespace pipescope
