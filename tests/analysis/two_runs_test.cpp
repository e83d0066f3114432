#include "analysis/two_runs.h"

#include "analysis/stored_simulation.h"
#include "profiler/profile/profile_file.h"
#include "tests/analysis/random_run.h"
#include "tests/analysis/sample_run.h"
#include "tests/temporary_folder.h"
#include "trace/store/process_json.h"
#include "trace/store/trace_writer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A recorded run to write into a trace.
struct WrittenRun {
    PipelineOptions options;
    Timeline timeline;
    std::string model = "\"sample\"";
    std::vector<double> losses;  ///< by step; empty: no records of steps
    std::vector<MemorySample> memory;
    bool configuration = true;
    bool profile = false;  ///< that of the sample
    std::int64_t dropped = 0;
    std::string process = {};              ///< facts about one process of several
    std::int64_t micro_batch_samples = 0;  ///< above 0: it is of another program, whose messages show them
};

/// Three steps of the sample, each task a few percent longer or shorter.
WrittenRun sample_of(const SampleRun& run = {}) {
    return {sampleOptions(run), sampleTimeline(run), "\"sample\"", {3.0, 2.0, 1.0}, {}};
}

Timeline scaled(Timeline timeline, std::int64_t factor) {
    for (Slice& slice : timeline.slices) {
        slice.start *= factor;
        slice.end *= factor;
    }
    return timeline;
}

class CompareTwoRuns : public testing::Test {
protected:
    std::filesystem::path write(const std::string& name, const WrittenRun& run) const {
        const std::filesystem::path path = folder_ / (name + ".sqlite");
        TraceWriter writer(path, IfExists::replace);
        if (!run.model.empty()) {
            writer.set_run("model", run.model);
        }
        if (!run.process.empty()) {
            writer.set_run("process", run.process);
        }
        if (run.micro_batch_samples > 0) {
            writer.set_run("source", "\"a trace of another program\"");
            writer.set_run(kMicroBatchKey, fmt::format("{{\"samples\":{}}}", run.micro_batch_samples));
        }
        if (run.configuration) {
            writer.set_run("configuration", to_json(run.options));
        }
        if (run.profile) {
            writer.set_profile(to_json(sampleProfile({})));
        }
        writer.set_lanes(run.timeline.lanes);
        writer.add_timeline(run.timeline);
        for (std::size_t step = 0; step < run.losses.size(); ++step) {
            const auto number = static_cast<std::int32_t>(step);
            const StepStatistics statistics = step_statistics(run.timeline, number);
            writer.add_step(
                {number, statistics.start, statistics.end, statistics.start, statistics.end, run.losses[step], false});
        }
        for (const MemorySample& sample : run.memory) {
            writer.add_memory(sample);
        }
        if (run.dropped > 0) {
            writer.add_drop({"nvtx", 1, 100, run.dropped, 0, 0});
        }
        writer.close();
        return path;
    }
    TwoRuns compared(const WrittenRun& before, const WrittenRun& after) const {
        return compare_two_runs(write("before", before), write("after", after));
    }

    TemporaryFolder folder_;
};

std::vector<std::string> texts_of_differences(const TwoRuns& runs) {
    std::vector<std::string> texts;
    for (const ConfigurationDifference& each : runs.differences) {
        texts.push_back(each.what + ": " + each.before + " -> " + each.after);
    }
    return texts;
}

TEST_F(CompareTwoRuns, FindsNothingBetweenARunAndItself) {
    const TwoRuns runs = compared(sample_of(), sample_of());
    EXPECT_EQ(runs.changes.step->difference(), 0);
    EXPECT_FALSE(runs.changes.step->exceeds_noise());
    EXPECT_EQ(runs.changes.bubble->difference(), 0);
    EXPECT_GT(runs.tasks_matched, 0);
    EXPECT_EQ(runs.tasks_only_before + runs.tasks_only_after, 0);
    EXPECT_THAT(runs.differences, IsEmpty());
    EXPECT_THAT(runs.why_no_tasks, IsEmpty());
    for (const ComparedTask& task : runs.worst) {
        EXPECT_EQ(task.measured, task.simulated);
    }
    EXPECT_EQ(runs.losses->equal, 3);
    EXPECT_FALSE(runs.losses->first);
}

// Without its tasks a lane would count as idle.
TEST_F(CompareTwoRuns, LeavesOutAStepThatLacksTasksOfALane) {
    const TwoRuns whole = compared(sample_of(), sample_of());
    WrittenRun after = sample_of();
    std::erase_if(after.timeline.slices,
                  [](const Slice& slice) { return slice.key.step == 1 && slice.lane == LaneId{1}; });
    const TwoRuns runs = compared(sample_of(), after);
    EXPECT_THAT(runs.after.figures->steps, ElementsAre(0, 2));
    EXPECT_THAT(texts_of(runs.after.warnings),
                Contains(AllOf(HasSubstr("tasks of a lane are missing or were recorded twice"), HasSubstr("step 1;"))));
    EXPECT_THAT(texts_of(whole.after.warnings), Not(Contains(HasSubstr("tasks of a lane"))));
    EXPECT_FALSE(runs.after.lossy());
}

// As the last mini-batch of a data set.
TEST_F(CompareTwoRuns, LeavesOutAStepOfFewerMicroBatches) {
    WrittenRun after = sample_of();
    std::erase_if(after.timeline.slices,
                  [](const Slice& slice) { return slice.key.step == 2 && slice.key.micro_batch == 3; });
    const TwoRuns runs = compared(sample_of(), after);
    EXPECT_THAT(runs.after.figures->steps, ElementsAre(0, 1));
    EXPECT_THAT(texts_of(runs.after.warnings), Contains(HasSubstr("steps of 4 micro-batches are compared")));
}

TEST_F(CompareTwoRuns, LeavesOutAStepWhoseTasksWereRecordedTwice) {
    WrittenRun after = sample_of();
    const std::vector<Slice> once = after.timeline.slices;
    std::copy_if(once.begin(), once.end(), std::back_inserter(after.timeline.slices),
                 [](const Slice& slice) { return slice.key.step == 0; });
    sort_slices(after.timeline);
    EXPECT_THAT(compared(sample_of(), after).after.figures->steps, ElementsAre(1, 2));
}

// Any schedule, balance and costs: a run against itself, and against itself three times as slow.
TEST_F(CompareTwoRuns, FindsTheExactFactorInRandomRuns) {
    std::mt19937 random(20);
    for (int trial = 0; trial < 15; ++trial) {
        const RandomRun run = random_run(random);
        WrittenRun before{run.options,
                          simulate(CheckedProfile(run.profile), run.options, {.noise = false}).timeline,
                          "\"m\"",
                          {},
                          {}};
        before.timeline.source = Source::measured;
        WrittenRun after = before;
        after.timeline = scaled(before.timeline, 3);
        const std::filesystem::path one = write("one", before);
        const std::filesystem::path other = write("other", after);

        const TwoRuns same = compare_two_runs(one, one);
        ASSERT_TRUE(same.changes.step) << trial;
        EXPECT_EQ(same.changes.step->difference(), 0);
        EXPECT_EQ(same.tasks_only_before + same.tasks_only_after, 0);

        const TwoRuns slower = compare_two_runs(one, other);
        ASSERT_GT(slower.tasks_matched, 0) << slower.why_no_tasks;
        EXPECT_EQ(slower.tasks_only_before + slower.tasks_only_after, 0);
        EXPECT_EQ(slower.changes.step->after, 3 * slower.changes.step->before);
        EXPECT_NEAR(slower.changes.bubble->difference(), 0, 1e-12);
        std::int64_t tasks = 0;
        for (const TaskGroup& group : slower.groups) {
            EXPECT_EQ(group.after, 3 * group.before);
            tasks += group.tasks_after;
        }
        EXPECT_EQ(tasks, slower.tasks_matched);
        for (const ComparedTask& task : slower.worst) {
            EXPECT_EQ(task.measured, 3 * task.simulated) << to_string(task.task);
        }

        const TwoRuns faster = compare_two_runs(other, one);
        EXPECT_EQ(faster.changes.step->difference(), -slower.changes.step->difference());
        EXPECT_EQ(faster.tasks_matched, slower.tasks_matched);
        ASSERT_EQ(faster.groups.size(), slower.groups.size());
        for (std::size_t k = 0; k < faster.groups.size(); ++k) {
            EXPECT_EQ(faster.groups[k].before, slower.groups[k].after);
            EXPECT_EQ(faster.groups[k].after, slower.groups[k].before);
        }
    }
}

TEST_F(CompareTwoRuns, NamesTheTaskThatChanged) {
    WrittenRun after = sample_of();
    const TaskKey changed{-1, TaskKind::backward, 1, 2, -1};
    for (Slice& slice : after.timeline.slices) {
        TaskKey key = slice.key;
        key.step = -1;
        if (key == changed) {
            slice.end += std::chrono::milliseconds(5);
        }
    }
    const TwoRuns runs = compared(sample_of(), after);
    ASSERT_FALSE(runs.worst.empty());
    TaskKey first = runs.worst.front().task;
    first.step = -1;
    EXPECT_EQ(first, changed);
    EXPECT_EQ(runs.worst.front().measured - runs.worst.front().simulated, std::chrono::milliseconds(5));
    EXPECT_EQ(runs.groups.front().kind, TaskKind::backward);
    EXPECT_EQ(runs.groups.front().partition, 1);
    EXPECT_EQ(runs.groups.front().layers, (LayerRange{LayerId{1}, LayerId{2}}));
    EXPECT_EQ(runs.groups.front().after - runs.groups.front().before, std::chrono::milliseconds(5));
}

TEST_F(CompareTwoRuns, SetsTheChangeAgainstTheNoiseOfTheSteps) {
    const TwoRuns same_noise = compared(sample_of({.steps = 6}), sample_of({.steps = 6, .forward_ns = 10'010'000}));
    EXPECT_TRUE(same_noise.changes.step->noise_is_known);
    EXPECT_FALSE(same_noise.changes.step->exceeds_noise()) << "a thousandth, and steps vary by more";
    EXPECT_TRUE(compared(sample_of(), sample_of({.forward_ns = 20'000'000})).changes.step->exceeds_noise());
    EXPECT_FALSE(compared(sample_of({.steps = 1}), sample_of({.forward_ns = 20'000'000})).changes.step->noise_is_known);
}

TEST_F(CompareTwoRuns, ComparesNoTasksOfAnotherBalanceButSumsByKind) {
    WrittenRun before = sample_of({.partitions = 2});
    WrittenRun after = sample_of({.partitions = 3});
    const TwoRuns runs = compared(before, after);
    EXPECT_THAT(runs.why_no_tasks, HasSubstr("the balance was 1,1 and is 1,1,1"));
    EXPECT_THAT(runs.groups, IsEmpty());
    EXPECT_THAT(runs.worst, IsEmpty());
    EXPECT_EQ(runs.tasks_matched, 0);
    EXPECT_THAT(runs.kinds, Contains(Field(&TaskGroup::kind, TaskKind::forward)));
    EXPECT_TRUE(runs.changes.step);
    EXPECT_EQ(runs.before.figures->lanes.size(), 2U);
    EXPECT_EQ(runs.after.figures->lanes.size(), 3U);
    EXPECT_THAT(texts_of(runs.warnings), Contains(HasSubstr("tasks are not compared one by one")));
    EXPECT_THAT(texts_of_differences(runs), Contains("balance: [1,1] -> [1,1,1]"));

    WrittenRun of_file = sample_of({.partitions = 2});
    const auto chunks = static_cast<int>(of_file.options.chunks);
    const auto file_of = [&](const Schedule& schedule) {
        const PipelineShape shape{.num_partitions = 2, .num_micro_batches = chunks};
        return Schedule::from_csv("mine.csv", to_csv(schedule_table(make_schedule(schedule, shape))));
    };
    of_file.options.schedule = file_of(Schedule::one_f_one_b);
    WrittenRun of_another = of_file;
    of_another.options.schedule = file_of(Schedule::model_parallel);
    EXPECT_THAT(texts_of_differences(compared(of_file, of_another)),
                Contains(testing::ContainsRegex("^schedule_csv: .* bytes, checksum [0-9a-f]+ -> .* bytes, checksum")))
        << "not all of their cells";

    before.configuration = after.configuration = false;
    EXPECT_THAT(compared(before, after).why_no_tasks, HasSubstr("the number of partitions was 2 and is 3"));
}

// Its configuration is not recorded; tasks and messages show it, as in the viewer.
TEST_F(CompareTwoRuns, SeesTheBatchOfAnotherProgram) {
    WrittenRun before = sample_of();
    before.timeline.source = Source::measured;
    before.configuration = false;
    before.model.clear();
    before.losses.clear();
    before.micro_batch_samples = 8;
    const std::int64_t chunks = before.options.chunks;
    WrittenRun after = before;
    after.micro_batch_samples = 4;
    const TwoRuns runs = compared(before, after);
    EXPECT_THAT(runs.why_no_tasks,
                HasSubstr(fmt::format("the batch was {} and is {} samples", 8 * chunks, 4 * chunks)));
    EXPECT_EQ(runs.why_no_kinds, runs.why_no_tasks);
    EXPECT_THAT(texts_of_differences(runs), ElementsAre(fmt::format("batch: {} -> {}", 8 * chunks, 4 * chunks)));
    EXPECT_DOUBLE_EQ(*runs.before.samples_per_second, 2 * *runs.after.samples_per_second);
    const TwoRuns same = compared(before, before);
    EXPECT_THAT(same.why_no_tasks, IsEmpty());
    EXPECT_THAT(same.differences, IsEmpty());
}

TEST_F(CompareTwoRuns, ComparesNoKindsOfAnotherModelOrBatch) {
    WrittenRun after = sample_of();
    after.model = "\"other\"";
    const TwoRuns models = compared(sample_of(), after);
    EXPECT_THAT(models.why_no_kinds, HasSubstr("the model was sample and is other"));
    EXPECT_THAT(models.kinds, IsEmpty());
    EXPECT_EQ(models.why_no_tasks, models.why_no_kinds);

    after.model = "\"emulated:sample.json\"";
    after.profile = true;
    EXPECT_THAT(compared(sample_of(), after).why_no_kinds, IsEmpty()) << "its profile's model is the sample";

    WrittenRun larger = sample_of();
    larger.options.batch *= 2;
    const TwoRuns batches = compared(sample_of(), larger);
    EXPECT_THAT(batches.why_no_kinds, HasSubstr("compare samples per second"));
    EXPECT_DOUBLE_EQ(*batches.after.samples_per_second, 2 * *batches.before.samples_per_second);
}

TEST_F(CompareTwoRuns, ComparesNoTasksOfOtherMicroBatches) {
    WrittenRun more = sample_of({.chunks = 8});
    more.options.batch = 4;
    WrittenRun before = sample_of({.chunks = 4});
    EXPECT_THAT(compared(before, more).why_no_tasks, HasSubstr("1 x 4 micro-batches and is cut into 1 x 8"));
    before.configuration = more.configuration = false;
    EXPECT_THAT(compared(before, more).why_no_tasks, HasSubstr("the number of micro-batches was 4 and is 8"));
}

TEST_F(CompareTwoRuns, AddsBothPartsOfABackwardThatOnlyOneRunSplits) {
    const WrittenRun before = sample_of();
    WrittenRun after = sample_of();
    for (Slice& slice : std::vector<Slice>(after.timeline.slices)) {
        if (slice.key.kind == TaskKind::backward) {
            slice.key.kind = TaskKind::backward_weight;
            slice.start = slice.end;
            slice.end += std::chrono::milliseconds(1);
            after.timeline.slices.push_back(slice);
        }
    }
    sort_slices(after.timeline);
    const TwoRuns runs = compared(before, after);
    EXPECT_THAT(runs.why_no_tasks, HasSubstr("splits its backwards"));
    const auto backward = std::find_if(runs.kinds.begin(), runs.kinds.end(),
                                       [](const TaskGroup& each) { return each.kind == TaskKind::backward; });
    ASSERT_NE(backward, runs.kinds.end());
    EXPECT_EQ(backward->after - backward->before, std::chrono::milliseconds(8)) << "4 micro-batches, 2 partitions";
    EXPECT_THAT(runs.kinds, Not(Contains(Field(&TaskGroup::kind, TaskKind::backward_weight))));
    EXPECT_EQ(backward->half, std::nullopt) << "one side is whole";

    const TwoRuns split = compared(after, after);
    for (const auto* groups : {&split.kinds, &split.groups}) {
        for (const TaskGroup& each : *groups) {
            EXPECT_EQ(each.half, each.kind == TaskKind::backward          ? std::optional(BackwardHalf::inputs)
                                 : each.kind == TaskKind::backward_weight ? std::optional(BackwardHalf::weights)
                                                                          : std::nullopt);
        }
    }
}

TEST_F(CompareTwoRuns, FindsTheFirstStepWhoseLossDiffers) {
    WrittenRun before = sample_of();
    WrittenRun after = sample_of();
    before.losses = {3, std::numeric_limits<double>::quiet_NaN(), 1};
    after.losses = {3, std::numeric_limits<double>::quiet_NaN(), 0.5};
    const TwoRuns runs = compared(before, after);
    EXPECT_EQ(runs.losses->steps, 3);
    EXPECT_EQ(runs.losses->equal, 1);
    EXPECT_EQ(runs.losses->without_number, 1);
    ASSERT_TRUE(runs.losses->first);
    EXPECT_EQ(runs.losses->first->step, 2);
    EXPECT_EQ(runs.losses->first->before, 1);
    EXPECT_EQ(runs.losses->first->after, 0.5);
    const double unknown = std::numeric_limits<double>::quiet_NaN();
    before.losses = after.losses = {unknown, unknown, unknown};
    EXPECT_FALSE(compared(before, after).losses) << "a file without losses";
    before.losses = {3, 2, 1};
    after.losses = {3, unknown, 1};
    EXPECT_EQ(compared(before, after).losses->first->step, 1) << "no number is not equal to one";
    after.losses = {0, 0, 0};
    EXPECT_FALSE(compared(before, after).losses) << "a program that knows no losses";
}

TEST_F(CompareTwoRuns, WithholdsBubblesIfOneRunLostRanges) {
    WrittenRun lossy = sample_of();
    lossy.dropped = 5;
    const TwoRuns runs = compared(sample_of(), lossy);
    EXPECT_FALSE(runs.before.lossy());
    EXPECT_TRUE(runs.after.lossy());
    EXPECT_TRUE(runs.changes.step);
    EXPECT_FALSE(runs.changes.bubble);
}

TEST_F(CompareTwoRuns, GivesPeaksOfRunsThatRecordedMemory) {
    WrittenRun after = sample_of();
    const Nanoseconds inside = step_statistics(after.timeline, 1).start;
    after.memory = {{LaneId{1}, inside, 100, 150, 0}};
    const TwoRuns runs = compared(sample_of(), after);
    EXPECT_EQ(runs.after.figures->lanes.at(1).peak_bytes, 150);
    EXPECT_FALSE(runs.after.figures->lanes.at(0).peak_bytes);
    EXPECT_FALSE(runs.before.figures->lanes.at(1).peak_bytes);
}

TEST_F(CompareTwoRuns, TakesASimulationAsARunOfOneStep) {
    const std::filesystem::path simulated = folder_ / "simulated.sqlite";
    writeSimulatedTrace(simulated);
    const TwoRuns runs = compare_two_runs(simulated, write("after", sample_of()));
    EXPECT_FALSE(runs.changes.step->noise_is_known);
    EXPECT_GT(runs.tasks_matched, 0);
    EXPECT_EQ(runs.tasks_only_before + runs.tasks_only_after, 0);
    EXPECT_THAT(texts_of(runs.before.warnings), Contains(HasSubstr("this is a simulation")));
}

TEST_F(CompareTwoRuns, SaysThatOnlyOneRunsStepsIncludeTheUpdate) {
    WrittenRun staggered = sample_of();
    staggered.options.update = Update::staggered;
    EXPECT_THAT(texts_of(compared(sample_of(), staggered).warnings),
                Contains(HasSubstr("steps of the run after include the update of the parameters")));
    EXPECT_THAT(texts_of(compared(sample_of(), sample_of()).warnings), IsEmpty());
}

TEST_F(CompareTwoRuns, RefusesAFileWithoutTasksAndRanges) {
    WrittenRun empty = sample_of();
    empty.timeline.slices.clear();
    empty.losses.clear();
    EXPECT_THROW(compared(sample_of(), empty), TraceFormatError);
}

/// A trace of ranges without tasks: (thread, name, duration).
class CompareNames : public testing::Test {
protected:
    struct Range {
        std::string group;
        std::string track;
        std::string name;
        std::int64_t length = 0;
    };
    static OpenedTrace trace_of(const std::vector<Range>& ranges) {
        OpenedTrace trace;
        trace.names = {""};
        std::int64_t time = 0;
        for (const Range& range : ranges) {
            auto track = std::find_if(trace.tracks.begin(), trace.tracks.end(), [&](const RangeTrack& each) {
                return each.group == range.group && each.name == range.track;
            });
            if (track == trace.tracks.end()) {
                const bool is_stream = range.track.starts_with("stream");
                trace.tracks.push_back(
                    {is_stream ? RangeTrack::Kind::stream : RangeTrack::Kind::thread, range.group, range.track, 1, {}});
                track = std::prev(trace.tracks.end());
            }
            trace.names.push_back(range.name);
            TraceRange each;
            each.start = Nanoseconds{time};
            each.end = Nanoseconds{time + range.length};
            each.name = static_cast<std::uint32_t>(trace.names.size() - 1);
            track->ranges.push_back(each);
            time += range.length;
        }
        return trace;
    }
};

TEST_F(CompareNames, JoinsTheNthRangeOfANameOnAThread) {
    const OpenedTrace before =
        trace_of({{"p", "t", "load", 10}, {"p", "t", "load", 20}, {"p", "t", "save", 5}, {"p", "t", "gone", 1}});
    const OpenedTrace after = trace_of({{"p", "t", "save", 5},
                                        {"p", "t", "load", 13},
                                        {"p", "t", "load", 24},
                                        {"p", "t", "load", 99},
                                        {"p", "t", "new", 7}});
    const NameJoin join = join_by_name(before, after);
    EXPECT_EQ(join.matched, 3);
    EXPECT_EQ(join.only_before, 1);
    EXPECT_EQ(join.only_after, 2);
    ASSERT_EQ(join.names.size(), 4U);
    const NamedRanges& load = join.names.front();
    EXPECT_EQ(load.name, "load");
    EXPECT_EQ(load.track, "p, t");
    EXPECT_EQ(load.matched, 2);
    EXPECT_EQ(load.only_after, 1);
    EXPECT_EQ(load.before.count(), 30);
    EXPECT_EQ(load.after.count(), 37) << "without the third, which has no twin";
    EXPECT_EQ(load.after_alone.count(), 99);
    const auto gone = std::ranges::find(join.names, "gone", &NamedRanges::name);
    ASSERT_NE(gone, join.names.end());
    EXPECT_EQ(gone->before_alone.count(), 1);
    EXPECT_EQ(gone->after_alone.count(), 0);
}

// Numbers of processes and threads are new in each run.
TEST_F(CompareNames, PairsThreadsWhoseNumbersChanged) {
    const OpenedTrace before = trace_of({{"process 17 (python)", "thread 18", "a", 1},
                                         {"process 17 (python)", "thread 19", "a", 2},
                                         {"GPU 1", "stream 7", "k", 3}});
    const OpenedTrace after = trace_of({{"GPU 0", "stream 7", "k", 30},
                                        {"GPU 1", "stream 7", "k", 31},
                                        {"process 905 (python)", "thread 906", "a", 10},
                                        {"process 905 (python)", "thread 911", "a", 20}});
    const NameJoin join = join_by_name(before, after);
    EXPECT_EQ(join.matched, 3);
    EXPECT_EQ(join.only_after, 1) << "the other GPU";
    for (const NamedRanges& each : join.names) {
        if (each.name == "k" && each.matched == 1) {
            EXPECT_EQ(each.after.count(), 31) << "equal names come first";
        }
        if (each.name == "a") {
            EXPECT_EQ(each.after, 10 * each.before) << each.track;
        }
    }
}

TEST_F(CompareNames, PairStreamsOfOtherGpus) {
    const OpenedTrace before = trace_of({{"GPU 3 (NVIDIA A100)", "stream 7", "k", 1},
                                         {"GPU 3 (NVIDIA A100)", "stream 20", "copy", 2},
                                         {"process 1", "thread 1", "k", 4}});
    const OpenedTrace after = trace_of({{"GPU 1 (Tesla V100)", "stream 7", "k", 10},
                                        {"GPU 1 (Tesla V100)", "stream 14", "copy", 20},
                                        {"other", "thread 1", "k", 40}});
    const NameJoin join = join_by_name(before, after);
    EXPECT_EQ(join.matched, 2) << "threads of another process are others";
    EXPECT_EQ(join.only_before, 1);
}

// torch's emit_nvtx() numbers each call in its name.
TEST_F(CompareNames, TakeCallsOfAnOperatorForOneName) {
    const OpenedTrace before = trace_of({{"p", "t", "aten::mm, seq = 3, op_id = 7, sizes = [[2, 3]]", 10},
                                         {"p", "t", "aten::mm, op_id = 8", 20},
                                         {"p", "t", "step, epoch = 1", 5}});
    const OpenedTrace after = trace_of({{"p", "t", "aten::mm, op_id = 100", 11},
                                        {"p", "t", "aten::mm, seq = 9, op_id = 101", 22},
                                        {"p", "t", "step, epoch = 2", 5}});
    const NameJoin join = join_by_name(before, after);
    EXPECT_EQ(join.matched, 2);
    EXPECT_EQ(join.only_before, 1) << "other names stay";
    EXPECT_EQ(join.names.front().name, "aten::mm");
    EXPECT_EQ(join.names.front().after.count(), 33);
}

TEST_F(CompareNames, OfATraceWithItselfFindNothing) {
    const OpenedTrace trace = trace_of({{"p", "1", "a", 1}, {"p", "2", "a", 2}, {"q", "1", "b", 3}});
    const NameJoin join = join_by_name(trace, trace);
    EXPECT_EQ(join.matched, 3);
    EXPECT_EQ(join.only_before + join.only_after, 0);
    for (const NamedRanges& each : join.names) {
        EXPECT_EQ(each.before, each.after);
    }
}

TEST_F(CompareTwoRuns, DoesNotJudgeStepsOfOneRankAlone) {
    WrittenRun alone = sample_of();
    std::erase_if(alone.timeline.slices, [](const Slice& slice) { return slice.lane == LaneId{0}; });
    ProcessFacts process;
    process.rank = 1;
    process.size = 2;
    process.lanes = {LaneId{1}};
    alone.process = to_json(process);
    const TwoRuns runs = compared(sample_of(), alone);
    EXPECT_FALSE(runs.changes.step);
    EXPECT_TRUE(runs.before.samples_per_second);
    EXPECT_FALSE(runs.after.samples_per_second);
    EXPECT_FALSE(runs.after.step_deviation);
    EXPECT_GT(runs.after.figures->lanes.at(1).busy.count(), 0) << "the lane is known";
}

// The file of the emulated profile may have any name, and only the first rank's trace holds it.
TEST_F(CompareTwoRuns, KnowsNoModelOfAnEmulatedRunWithoutAProfile) {
    WrittenRun whole = sample_of();
    whole.model = "\"emulated:other.json\"";
    whole.profile = true;
    WrittenRun alone = whole;
    alone.profile = false;
    EXPECT_EQ(compared(whole, alone).why_no_kinds, "");
}

TEST_F(CompareTwoRuns, TakesNoStepsWithoutALossAsKnownLosses) {
    RecordedRun run;
    run.steps.resize(2);
    EXPECT_FALSE(knows_losses(run)) << "zeros";
    run.steps[0].training_loss = std::numeric_limits<double>::quiet_NaN();
    EXPECT_FALSE(knows_losses(run));
    run.steps[1].training_loss = 0.5;
    EXPECT_TRUE(knows_losses(run));
}
}  // namespace
}  // namespace pipescope
