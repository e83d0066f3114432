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
        return slice.key.step == 1 && slice.key.kind == TaskKind::backward_weight && slice.key.micro_batch == 1;
    };
    EXPECT_THAT(faults_without(lost), IsEmpty());
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
    const MeasuredSteps steps = steps_to_compare(run, {});
    EXPECT_THAT(steps.numbers(), ElementsAre(1, 2, 4)) << "an earlier recorder noted no samples";
    EXPECT_EQ(steps.comparable, 3U);
    EXPECT_THAT(left_out_warnings(steps),
                ElementsAre("not compared, since the mini-batch has other samples than the simulated one: step 3"));
    for (StepRecord& record : run.steps) {
        record.samples = batch + 1;
    }
    EXPECT_THAT(steps_to_compare(run, {}).why_none, testing::StartsWith("holds no step of "));
}
}  // namespace
}  // namespace pipescope
