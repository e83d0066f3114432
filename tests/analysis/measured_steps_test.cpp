#include "analysis/measured_steps.h"

#include "simulator/simulation.h"
#include "tests/analysis/sample_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

namespace pipescope {
namespace {
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

/// A run of four steps, the last of which has a micro-batch less, with the stored pipeline.
class StepFaults : public testing::Test {
protected:
    void record(Schedule schedule, Checkpoint checkpoint) {
        const SampleRun sample{.partitions = 3, .chunks = 4};
        PipelineOptions options = sampleOptions(sample);
        options.schedule = schedule;
        options.checkpoint = checkpoint;
        run_.options = options;
        run_.graph = pipeline_graph_of(sampleProfile(sample), options);
        timeline_ = {Source::measured, {}, {}};
        for (const std::int32_t step : {0, 1, 2, 3}) {
            PipelineOptions shorter = options;
            shorter.chunks = shorter.batch = step == 3 ? 3 : 4;
            const Simulation simulation = simulate(sampleProfile(sample), shorter);
            timeline_.lanes = simulation.timeline.lanes;
            for (Slice slice : simulation.timeline.slices) {
                slice.key.step = step;
                slice.start += std::chrono::seconds(step);
                slice.end += std::chrono::seconds(step);
                timeline_.slices.push_back(slice);
            }
        }
    }
    std::map<std::int32_t, StepFault> faults_without(const std::function<bool(const Slice&)>& lost) const {
        Timeline left = timeline_;
        std::erase_if(left.slices, lost);
        return check_run(run_, left).faults;
    }

    RecordedRun run_;
    Timeline timeline_;
};

TEST_F(StepFaults, AreThoseOfEveryKindThatTheStoredPipelineHas) {
    record(Schedule::zero_bubble_h1, Checkpoint::except_last);
    EXPECT_THAT(check_run(run_, timeline_).faults, IsEmpty()) << "the last step is of fewer micro-batches";
    for (const TaskKind kind :
         {TaskKind::forward, TaskKind::recompute, TaskKind::backward, TaskKind::backward_weight}) {
        const auto lost = [kind](const Slice& slice) {
            return slice.key.step == 1 && slice.key.kind == kind && slice.lane == LaneId{2} &&
                   slice.key.micro_batch == 1;
        };
        EXPECT_THAT(faults_without(lost), ElementsAre(Pair(1, StepFault::missing))) << to_string(kind);
        const auto lost_in_last = [kind](const Slice& slice) {
            return slice.key.step == 3 && slice.key.kind == kind && slice.lane == LaneId{0} &&
                   slice.key.micro_batch == 0;
        };
        EXPECT_THAT(faults_without(lost_in_last), ElementsAre(Pair(3, StepFault::missing))) << to_string(kind);
    }
}

TEST_F(StepFaults, AreInEveryStepIfALaneNeverRanItsSecondHalves) {
    record(Schedule::zero_bubble_h1, Checkpoint::never);
    const auto lost = [](const Slice& slice) {
        return slice.key.kind == TaskKind::backward_weight && slice.lane == LaneId{0};
    };
    EXPECT_EQ(faults_without(lost).size(), 4U);
}

TEST_F(StepFaults, AreNotThoseOfAnotherProgramsGuessedOrder) {
    record(Schedule::zero_bubble_h1, Checkpoint::never);
    run_.of_another_program = true;
    const auto lost = [](const Slice& slice) {
        return slice.key.kind == TaskKind::backward_weight && slice.key.micro_batch == 1;
    };
    EXPECT_THAT(faults_without(lost), IsEmpty()) << "no step has these tasks";
}

// Even if most steps lack the task.
TEST_F(StepFaults, OfAnotherProgramFollowFromItsOtherSteps) {
    record(Schedule::zero_bubble_h1, Checkpoint::except_last);
    run_.of_another_program = true;
    EXPECT_THAT(check_run(run_, timeline_).faults, IsEmpty());
    const auto of = [](std::int64_t count) { return testing::Field(&StepSize::micro_batches, count); };
    EXPECT_THAT(check_run(run_, timeline_).sizes,
                ElementsAre(Pair(0, of(4)), Pair(1, of(4)), Pair(2, of(4)), Pair(3, of(3))));
    for (const TaskKind kind :
         {TaskKind::forward, TaskKind::recompute, TaskKind::backward, TaskKind::backward_weight}) {
        const auto lost = [kind](const Slice& slice) {
            return (slice.key.step == 1 || slice.key.step == 2) && slice.key.kind == kind && slice.key.partition == 1 &&
                   slice.key.micro_batch == 1;
        };
        EXPECT_THAT(faults_without(lost), ElementsAre(Pair(1, StepFault::missing), Pair(2, StepFault::missing)))
            << to_string(kind);
    }
}

TEST_F(StepFaults, OfASingleStepAreThoseOfForwardsAndBackwards) {
    record(Schedule::one_f_one_b, Checkpoint::never);
    run_.of_another_program = true;
    const auto one_without = [&](TaskKind kind, std::int32_t partition) {
        Timeline left = timeline_;
        std::erase_if(left.slices, [&](const Slice& slice) {
            return slice.key.step != 1 || (slice.key.kind == kind && slice.key.micro_batch == 3 &&
                                           (slice.key.partition == partition || partition < 0));
        });
        return check_run(run_, left);
    };
    EXPECT_THAT(one_without(TaskKind::recompute, 1).faults, IsEmpty());
    EXPECT_THAT(one_without(TaskKind::forward, 1).faults, ElementsAre(Pair(1, StepFault::missing)));
    EXPECT_THAT(one_without(TaskKind::backward, -1).faults, ElementsAre(Pair(1, StepFault::missing)));
    EXPECT_EQ(one_without(TaskKind::backward, 2).first_lack,
              "step 1 has 3 of 4 tasks of the kind backward of partition 2");
}

TEST_F(StepFaults, OfAnotherProgramAreNotThoseOfAPartitionWithoutBackwards) {
    record(Schedule::gpipe, Checkpoint::never);
    run_.of_another_program = true;
    const auto frozen = [](const Slice& slice) {
        return slice.key.kind == TaskKind::backward && slice.key.partition == 0;
    };
    EXPECT_THAT(faults_without(frozen), IsEmpty());
}

/// Steps of these numbers of micro-batches; 0: with a fault.
MeasuredSteps steps_of_counts(const std::vector<std::int64_t>& counts, const RecordedRun& run = {},
                              std::size_t most = 100) {
    RunCheck check;
    std::vector<std::int32_t> recorded;
    for (std::size_t k = 0; k < counts.size(); ++k) {
        recorded.push_back(static_cast<std::int32_t>(k));
        if (counts[k] > 0) {
            check.sizes.emplace(recorded.back(), StepSize{counts[k], 0});
        }
    }
    return steps_to_compare(run, check, recorded, most);
}

TEST(MeasuredSteps, AreOfTheNumberOfMicroBatchesThatMostHave) {
    EXPECT_THAT(left_out_warnings(steps_of_counts({8, 8, 8})), IsEmpty());
    const MeasuredSteps short_last = steps_of_counts({8, 0, 8, 3});
    EXPECT_THAT(short_last.numbers(), ElementsAre(0, 1, 2)) << "the fault is another reason";
    EXPECT_EQ(short_last.comparable, 3U);
    EXPECT_THAT(left_out_warnings(short_last),
                ElementsAre("steps of 8 micro-batches are compared, as most have; not compared, since the mini-batch "
                            "has more or fewer: step 3"));
    EXPECT_THAT(steps_of_counts({8, 3, 3}).numbers(), ElementsAre(1, 2));
}

TEST(MeasuredSteps, OfTwoSizesThatAreEquallyFrequentAreTheLargerOnes) {
    const MeasuredSteps steps = steps_of_counts({3, 8, 3, 8}, {}, 2);
    EXPECT_THAT(steps.numbers(), ElementsAre(1, 3)) << "chosen before only some are taken";
    EXPECT_THAT(left_out_warnings(steps),
                ElementsAre("no number of micro-batches is that of most steps; those of 8 micro-batches are compared; "
                            "not compared, since the mini-batch has more or fewer: step 0, 2"));
}

TEST(MeasuredSteps, AreOfTheRecordedPipelinesMicroBatches) {
    RecordedRun run;
    run.graph = pipeline_graph_of(sampleProfile(SampleRun{.chunks = 4}), sampleOptions(SampleRun{.chunks = 4}));
    EXPECT_THAT(steps_of_counts({3, 3, 4}, run).numbers(), ElementsAre(2));
    run.of_another_program = true;
    EXPECT_THAT(steps_of_counts({3, 3, 4}, run).numbers(), ElementsAre(0, 1)) << "its pipeline is a guess";
}

/// Whole steps of two micro-batches in two partitions, with messages of these bytes; 0: it was not recorded.
Timeline steps_with_messages(const std::vector<std::pair<Bytes, Bytes>>& sizes) {
    Timeline timeline{Source::measured, {{"rank 0", ""}, {"rank 1", ""}}, {}};
    for (std::int32_t step = 0; step < static_cast<std::int32_t>(sizes.size()); ++step) {
        const auto add = [&](TaskKind kind, std::int32_t partition, std::int32_t micro_batch, Bytes bytes) {
            const Nanoseconds start{1000 * step + 100 * static_cast<int>(kind) + 10 * partition + micro_batch};
            timeline.slices.push_back(
                {{step, kind, partition, micro_batch, -1}, LaneId{partition}, start, start + Nanoseconds{1}, bytes});
        };
        const auto& [first, second] = sizes[static_cast<std::size_t>(step)];
        for (const std::int32_t i : {0, 1}) {
            for (const std::int32_t j : {0, 1}) {
                add(TaskKind::forward, j, i, 0);
                add(TaskKind::backward, j, i, 0);
            }
            if (const Bytes bytes = i == 0 ? first : second; bytes > 0) {
                add(TaskKind::copy_forward, 0, i, bytes);
            }
        }
    }
    sort_slices(timeline);
    return timeline;
}

// A loader's last mini-batch, cut into as many micro-batches as the others, as torch.distributed.pipelining does.
TEST(MeasuredSteps, OfAnotherProgramAreToldApartByTheirMessages) {
    RecordedRun run;
    run.of_another_program = true;
    const auto compared = [&](const std::vector<std::pair<Bytes, Bytes>>& sizes) {
        return whole_steps(run, steps_with_messages(sizes));
    };
    const MeasuredSteps steps = compared({{64, 64}, {64, 64}, {0, 64}, {40, 32}});
    EXPECT_THAT(steps.numbers(), ElementsAre(0, 1, 2)) << "a message that was not recorded has no other size";
    EXPECT_EQ(steps.comparable, 3U);
    EXPECT_THAT(left_out_warnings(steps),
                ElementsAre("steps whose messages have the sizes of most are compared; not compared, since their "
                            "messages are larger or smaller, as those of a mini-batch of other samples: step 3"));
    EXPECT_THAT(compared({{40, 40}, {64, 64}}).numbers(), ElementsAre(1)) << "the larger one of two";
    EXPECT_THAT(compared({{40, 40}, {0, 0}, {40, 40}}).numbers(), ElementsAre(0, 1, 2)) << "unknown is not other";
    run.of_another_program = false;
    EXPECT_THAT(compared({{64, 64}, {64, 64}, {40, 32}}).numbers(), ElementsAre(0, 1, 2))
        << "the records of an own run say the samples";
}

TEST(MeasuredSteps, LeaveOutThoseThatTakeNoTimeByTheirRecord) {
    RecordedRun run;
    for (std::int32_t step = 0; step < 3; ++step) {
        StepRecord record;
        record.step = step;
        record.start = record.wall_start = Nanoseconds{1000 * step + 10};
        record.end = record.wall_end = record.start + Nanoseconds{step == 1 ? 0 : 500};
        run.steps.push_back(record);
    }
    const MeasuredSteps steps = whole_steps(run, steps_with_messages({{64, 64}, {64, 64}, {64, 64}}));
    EXPECT_THAT(steps.numbers(), ElementsAre(0, 2));
    EXPECT_EQ(steps.comparable, 2U);
    EXPECT_THAT(left_out_warnings(steps), ElementsAre(testing::HasSubstr("or takes no time: step 1")));
}

// The last mini-batch of a data set may be smaller.
TEST(MeasuredSteps, LeaveOutMiniBatchesOfOtherSizes) {
    RecordedRun run;
    run.options = sampleOptions(SampleRun{});
    const std::int64_t batch = run.options->batch;
    for (std::int32_t step = 0; step < 5; ++step) {
        StepRecord record;
        record.step = step;
        record.warmup = step == 0;
        record.samples = step == 3 ? batch - 1 : step == 4 ? 0 : batch;
        run.steps.push_back(record);
    }
    const MeasuredSteps steps = steps_to_compare(run, {}, {});
    EXPECT_THAT(steps.numbers(), ElementsAre(1, 2, 4)) << "an earlier recorder noted no samples";
    EXPECT_EQ(steps.comparable, 3U);
    EXPECT_THAT(left_out_warnings(steps),
                ElementsAre("not compared, since the mini-batch has other samples than the simulated one: step 3"));
    for (StepRecord& record : run.steps) {
        record.samples = batch + 1;
    }
    EXPECT_THAT(steps_to_compare(run, {}, {}).why_none, testing::StartsWith("holds no step of "));
}
}  // namespace
}  // namespace pipescope
