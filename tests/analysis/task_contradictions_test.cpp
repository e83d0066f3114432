#include "analysis/task_contradictions.h"

#include "analysis/measured_steps.h"
#include "simulator/simulation.h"
#include "tests/analysis/sample_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr Nanoseconds kForward{10'000'000};

/// One step of two lanes, recorded by two processes whose clocks differ by at most `bound`.
struct TwoProcesses {
    explicit TwoProcesses(std::optional<Nanoseconds> bound) {
        const SampleRun sample{.partitions = 2, .chunks = 2};
        PipelineOptions options = sampleOptions(sample);
        options.schedule = Schedule::one_f_one_b;
        timeline = simulate(sampleProfile(sample), options).timeline;
        timeline.source = Source::measured;
        run.processes.resize(2);
        run.processes[1].rank = 1;
        run.processes[1].bound = bound;
    }
    void shift_lane_1(Nanoseconds by) {
        for (Slice& slice : timeline.slices) {
            slice.start += slice.lane == LaneId{1} ? by : Nanoseconds{0};
            slice.end += slice.lane == LaneId{1} ? by : Nanoseconds{0};
        }
        sort_slices(timeline);
    }
    std::vector<TraceWarning> warnings() const { return contradiction_warnings(run, timeline, steps_of(timeline)); }

    RecordedRun run;
    Timeline timeline;
};

TEST(TaskContradictions, AreNoneInARunWhoseClocksFit) {
    EXPECT_THAT(TwoProcesses(Nanoseconds{1000}).warnings(), IsEmpty());
    TwoProcesses within(Nanoseconds{8'000'000});
    within.shift_lane_1(Nanoseconds{-5'000'000});
    EXPECT_THAT(within.warnings(), IsEmpty()) << "the clocks may differ by more than that";
}

TEST(TaskContradictions, WithholdBubblesIfATaskRunsBeforeWhatItNeeds) {
    for (const std::int64_t by : {-5'000'000'000LL, 5'000'000'000LL}) {
        TwoProcesses wrong(Nanoseconds{20'000});
        wrong.shift_lane_1(Nanoseconds{by});
        const std::vector<TraceWarning> warnings = wrong.warnings();
        ASSERT_EQ(warnings.size(), 1U);
        EXPECT_EQ(warnings[0].severity, Severity::refusal);
        EXPECT_THAT(warnings[0].text, AllOf(HasSubstr("starts"), HasSubstr("the clocks differ by at most 0.02 ms"),
                                            HasSubstr("bubble fractions are not known"), HasSubstr("synchronize")));
        EXPECT_THAT(warnings[0].text, AllOf(HasSubstr(by < 0 ? "forward" : "backward"), HasSubstr("such pairs")));
    }
}

TEST(TaskContradictions, AreACautionIfTheyAreSmallAgainstTheStep) {
    TwoProcesses wrong(Nanoseconds{20'000});
    wrong.shift_lane_1(Nanoseconds{-600'000});  // a message takes 0.47 ms of them
    ASSERT_EQ(wrong.warnings().size(), 1U);
    EXPECT_EQ(wrong.warnings()[0].severity, Severity::caution);
    EXPECT_THAT(wrong.warnings()[0].text, HasSubstr("waits across lanes are wrong by that much"));
}

TEST(TaskContradictions, OfOneProcessAreThoseOfAChangedFile) {
    TwoProcesses changed(std::nullopt);
    changed.run.processes.clear();
    EXPECT_THAT(changed.warnings(), IsEmpty());
    changed.shift_lane_1(Nanoseconds{-600'000});
    EXPECT_THAT(changed.warnings(), IsEmpty()) << "less than a hundredth of the step";
    changed.shift_lane_1(Nanoseconds{-5'000'000});
    ASSERT_EQ(changed.warnings().size(), 1U);
    EXPECT_EQ(changed.warnings()[0].severity, Severity::refusal);
    EXPECT_THAT(changed.warnings()[0].text, AllOf(HasSubstr("starts"), HasSubstr("all lanes have the same clock"),
                                                  HasSubstr("the file was changed"), Not(HasSubstr("synchronize"))));
}

// Their ranges may contain the wait for their input, so that a start says nothing.
TEST(TaskContradictions, OfAnotherProgramAreTasksThatEndTooEarly) {
    TwoProcesses run(std::nullopt);
    run.run.of_another_program = true;
    run.run.processes.clear();
    run.shift_lane_1(Nanoseconds{0} - kForward / 2);
    EXPECT_THAT(run.warnings(), IsEmpty());
    run.shift_lane_1(Nanoseconds{-2'000'000'000});
    ASSERT_EQ(run.warnings().size(), 1U);
    EXPECT_THAT(run.warnings()[0].text,
                AllOf(HasSubstr("ends 1"), HasSubstr("how far the clocks of its lanes differ is not known"),
                      HasSubstr("sends and receives"), Not(HasSubstr("at most"))));
}

TEST(TaskContradictions, WithholdBubblesIfMessagesArriveMuchTooEarly) {
    TwoProcesses run(std::nullopt);
    run.run.of_another_program = true;
    run.run.early_messages = Nanoseconds{1};
    ASSERT_EQ(run.warnings().size(), 1U);
    EXPECT_EQ(run.warnings()[0].severity, Severity::caution);
    run.run.early_messages = step_statistics(run.timeline, steps_of(run.timeline).front()).step_time() / 50;
    const std::vector<TraceWarning> warnings = run.warnings();
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_EQ(warnings[0].severity, Severity::refusal);
    EXPECT_TRUE(warnings[0].of_clocks);
}

TEST(TaskContradictions, AreTasksOfOneLaneThatOverlap) {
    TwoProcesses run(Nanoseconds{1000});
    ASSERT_THAT(run.warnings(), IsEmpty());
    const auto last = std::find_if(run.timeline.slices.rbegin(), run.timeline.slices.rend(), [](const Slice& slice) {
        return slice.lane == LaneId{1} && is_compute(slice.key.kind);
    });
    last->start -= Nanoseconds{5'000'000};  // the loss took half of that
    sort_slices(run.timeline);
    const std::vector<TraceWarning> warnings = run.warnings();
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_EQ(warnings[0].severity, Severity::caution);
    EXPECT_THAT(warnings[0].text, AllOf(HasSubstr("run at the same time, for 2.5 ms"), HasSubstr("of one lane")));
}
}  // namespace
}  // namespace pipescope
