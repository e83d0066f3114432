#include "analysis/comparison.h"
#include "tests/simulator/profiles.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace pipescope {
namespace {
using ::testing::HasSubstr;

class Compare : public ::testing::Test {
protected:
    Compare() {
        PipelineOptions options;
        options.balance = Balance({1, 1});
        options.chunks = options.batch = 2;
        simulation_ = simulate(uniform_profile(2), options);
        for (const std::int32_t step : {0, 1, 2}) {
            add_step(step, 1.0 + 0.1 * step);
        }
    }

    /// The simulated step as a measured one, with stretched times, 100 us after the previous step.
    void add_step(std::int32_t step, double stretch) {
        timeline_.lanes = simulation_.timeline.lanes;
        const auto at = [&](Nanoseconds time) {
            return Nanoseconds{step * 100'000 + std::llround(static_cast<double>(time.count()) * stretch)};
        };
        for (Slice slice : simulation_.timeline.slices) {
            slice.key.step = step;
            slice.start = at(slice.start);
            slice.end = at(slice.end);
            timeline_.slices.push_back(slice);
        }
        timeline_.slices.push_back(
            {{step, TaskKind::optimizer, -1, -1, -1}, LaneId{0}, at(Nanoseconds{20'000}), at(Nanoseconds{25'000}), 0});
    }
    Comparison of(std::vector<std::int32_t> steps) const {
        return compare({timeline_, peaks_of(memory_), std::move(steps), {}}, simulation_);
    }

    Simulation simulation_;
    Timeline timeline_;
    std::vector<MemorySample> memory_;
};

TEST_F(Compare, TakesMediansOverTheStepsCompared) {
    const Comparison comparison = of({0, 1, 2});  // 10, 11 and 12 us
    EXPECT_EQ(comparison.simulated_step_time.count(), 10'000);
    EXPECT_EQ(comparison.measured_step_time.count(), 11'000);
    EXPECT_NEAR(comparison.step_error, 10.0 / 11 - 1, 1e-12);
    EXPECT_NEAR(comparison.measured_bubble_fraction, comparison.simulated_bubble_fraction, 1e-9);
    EXPECT_EQ(comparison.lanes.at(0).simulated_busy.count(), 7'000);
    EXPECT_EQ(comparison.lanes.at(0).measured_busy.count(), 7'700);
    EXPECT_EQ(of({1, 2}).measured_step_time.count(), 11'500);
}

TEST_F(Compare, CountsTheSumOverReplicasAsTheSimulationDoes) {
    PipelineOptions options;
    options.balance = Balance({1, 1});
    options.chunks = 2;
    options.batch = 4;
    options.replicas = 2;
    options.hardware.link.bytes_per_second = 1e9;
    Profile profile = uniform_profile(2);
    for (LayerProfile& layer : profile.layers) {
        layer.gradient_bytes = 4000;
    }
    simulation_ = simulate(CheckedProfile(profile), options);
    ASSERT_TRUE(std::ranges::any_of(simulation_.timeline.slices, [](const Slice& slice) {
        return slice.key.kind == TaskKind::all_reduce && slice.end > slice.start;
    }));
    timeline_.slices.clear();
    for (const std::int32_t step : {0, 1, 2}) {
        add_step(step, 1);
    }
    const Comparison comparison = of({0, 1, 2});
    EXPECT_EQ(comparison.measured_step_time, comparison.simulated_step_time);
    EXPECT_NEAR(comparison.measured_bubble_fraction, comparison.simulated_bubble_fraction, 1e-9);
    EXPECT_EQ(comparison.tasks_unmatched, 0);
}

// Steps of 10, 11 and 12 us. The simulated one without noise is the shortest.
TEST_F(Compare, HoldsTheExpectedStepAgainstTheMeanStepWhereNoiseIsKnown) {
    simulation_.noise = {.mean = std::chrono::microseconds(11), .bubble = 0.25};
    const Comparison comparison = of({0, 1, 2});
    EXPECT_EQ(comparison.measured_step_mean.count(), 11'000);
    const JudgedStep judged = comparison.judged();
    EXPECT_TRUE(judged.is_mean);
    EXPECT_EQ(judged.measured, comparison.measured_step_mean);
    EXPECT_EQ(judged.simulated, std::chrono::microseconds(11));
    EXPECT_EQ(judged.simulated_bubble, 0.25);
    EXPECT_NEAR(comparison.step_error, 0, 1e-12);
    EXPECT_EQ(comparison.simulated_step_time.count(), 10'000) << "without noise, as ever";

    const Comparison two = of({0, 2});
    EXPECT_NEAR(two.step_error, 0, 1e-12) << "11 against 10 and 12";
    simulation_.noise.reset();
    EXPECT_FALSE(of({0, 2}).judged().is_mean);
    EXPECT_NEAR(of({0, 2}).step_error, 10.0 / 11 - 1, 1e-12);
}

TEST_F(Compare, MatchesEveryTaskOfEveryStepByItsKey) {
    const Comparison comparison = of({0, 1, 2});
    EXPECT_EQ(comparison.tasks_matched, 3 * static_cast<std::int64_t>(simulation_.timeline.slices.size()));
    EXPECT_EQ(comparison.tasks_unmatched, 0) << "the optimizer is outside the step";
}

TEST_F(Compare, CountsWhatOnlyOneSideHas) {
    std::erase_if(timeline_.slices, [](const Slice& slice) {
        return slice.key == TaskKey{1, TaskKind::backward, 0, 0, -1};
    });
    timeline_.slices.push_back(
        {{2, TaskKind::forward, 0, 7, -1}, LaneId{0}, Nanoseconds{200'000}, Nanoseconds{200'001}, 0});
    EXPECT_EQ(of({0, 1, 2}).tasks_unmatched, 2);
    EXPECT_EQ(of({0, 1, 2}).tasks_only_simulated, 1);
    EXPECT_EQ(of({2}).tasks_only_simulated, 0) << "the forward too many is measured";
    EXPECT_EQ(of({0}).tasks_unmatched, 0);
}

// As in a run of another program without messages.
TEST_F(Compare, DoesNotMissCopiesAndLossesThatTakeNoTime) {
    ASSERT_TRUE(std::ranges::any_of(simulation_.timeline.slices, [](const Slice& slice) {
        return is_copy(slice.key.kind) && slice.end == slice.start;
    }));
    std::erase_if(timeline_.slices, [](const Slice& slice) { return is_copy(slice.key.kind); });
    EXPECT_EQ(of({0, 1, 2}).tasks_unmatched, 0);
    for (Slice& slice : simulation_.timeline.slices) {
        slice.end += is_copy(slice.key.kind) ? Nanoseconds{1} : Nanoseconds{0};
    }
    EXPECT_EQ(of({0}).tasks_unmatched, 0) << "the recording shows no copy";
    const auto copy =
        std::ranges::find_if(simulation_.timeline.slices, [](const Slice& slice) { return is_copy(slice.key.kind); });
    timeline_.slices.push_back(*copy);
    EXPECT_GT(of({0}).tasks_only_simulated, 0) << "it shows one of them";
}

TEST_F(Compare, ListsTheTasksThatDifferMost) {
    for (Slice& slice : timeline_.slices) {
        if (slice.key.kind == TaskKind::backward && slice.key.partition == 1 && slice.key.micro_batch == 1) {
            slice.end += Nanoseconds{5'000};  // behind its proper end, whatever follows
        }
    }
    const Comparison comparison = of({0, 1, 2});
    ASSERT_EQ(comparison.worst.size(), 10u);
    EXPECT_EQ(comparison.worst[0].task, (TaskKey{1, TaskKind::backward, 1, 1, -1}));
    EXPECT_EQ(comparison.worst[0].measured.count(), 7'200);  // 2000 * 1.1 + 5000 in the median step
    EXPECT_EQ(comparison.worst[0].simulated.count(), 2'000);
    EXPECT_GE(comparison.worst[1].measured, comparison.worst[2].measured);
}

TEST_F(Compare, ListsMediansSoThatOneSlowStepIsNoLargestDifference) {
    const auto slow = std::ranges::find_if(timeline_.slices, [](const Slice& slice) {
        return slice.key == TaskKey{2, TaskKind::backward, 1, 1, -1};
    });
    ASSERT_NE(slow, timeline_.slices.end());
    slow->end += Nanoseconds{50'000};
    for (const ComparedTask& task : of({0, 1, 2}).worst) {
        EXPECT_LT(task.measured.count(), 50'000) << to_string(task.task);
    }
}

TEST(RelativeError, IsSignedAndUnknownIfNothingWasMeasured) {
    EXPECT_EQ(relative_error(3, 4), -0.25);
    EXPECT_EQ(relative_error(Nanoseconds{5}, Nanoseconds{4}), 0.25);
    EXPECT_EQ(relative_error(5, 0), std::nullopt);
}

TEST_F(Compare, ReadsPeaksFromTheStepsComparedOnly) {
    EXPECT_FALSE(of({0, 1}).lanes[0].measured_peak_bytes) << "memory was not recorded";
    memory_ = {{LaneId{0}, Nanoseconds{5'000}, 10, 900, 0, -1},    // step 0
               {LaneId{0}, Nanoseconds{105'000}, 10, 30, 0, -1},   // step 1
               {LaneId{0}, Nanoseconds{150'000}, 10, 500, 0, -1},  // between two steps
               {LaneId{0}, Nanoseconds{205'000}, 10, 40, 0, -1}};
    EXPECT_EQ(of({1, 2}).lanes[0].measured_peak_bytes, 40);
    EXPECT_FALSE(of({1, 2}).lanes[1].measured_peak_bytes);
}

// Steps of 10, 11 and 12 us: the typical step has the durations of the second.
TEST_F(Compare, TakesTheTypicalStepOfAnotherRunForTheSimulatedOne) {
    const Measured before{timeline_, peaks_of(memory_), {0, 1, 2}, {}};
    const Timeline typical = typical_step(before);
    EXPECT_EQ(typical.slices.size(), simulation_.timeline.slices.size()) << "without the optimizer";
    for (const Slice& slice : typical.slices) {
        EXPECT_EQ(slice.key.step, 0);
        EXPECT_GE(slice.start.count(), 0);
    }
    const RunFigures figures = run_figures(before);
    EXPECT_EQ(figures.step_mean.count(), 11'000);
    const Comparison same = compare(before, figures, figures, typical);
    EXPECT_EQ(same.step_error, 0);
    EXPECT_TRUE(same.judged().is_mean);
    EXPECT_EQ(same.tasks_unmatched, 0);
    EXPECT_TRUE(same.worst.empty()) << "no task differs from itself";
    const Measured last{timeline_, peaks_of(memory_), {2}, {}};
    const Comparison later = compare(last, run_figures(last), figures, typical);
    EXPECT_NEAR(later.step_error, 11.0 / 12 - 1, 1e-12);
    EXPECT_EQ(later.lanes.at(0).simulated_busy.count(), 7'700);
    EXPECT_EQ(later.lanes.at(0).measured_busy.count(), 8'400);
    EXPECT_EQ(later.worst.front().measured.count(), 2'400);
    EXPECT_EQ(later.worst.front().simulated.count(), 2'200);
    const Timeline of_two = typical_step({timeline_, peaks_of(memory_), {0, 1}, {}});
    const auto backward =
        std::ranges::find(of_two.slices, TaskKind::backward, [](const Slice& slice) { return slice.key.kind; });
    EXPECT_EQ(backward->duration().count(), 2'200) << "of two, the longer";
}

TEST_F(Compare, TakesTheFiguresOfBothRunsAsTheyAreGiven) {
    const Measured run{timeline_, peaks_of(memory_), {0, 1, 2}, {}};
    RunFigures longer = run_figures(run);  // as those of a layout, whose step goes on after the traced pipeline
    longer.step_time += Nanoseconds{9'000};
    longer.step_mean += Nanoseconds{9'000};
    const Comparison compared = compare(run, longer, longer, typical_step(run));
    EXPECT_EQ(compared.measured_step_mean.count(), 20'000);
    EXPECT_EQ(compared.step_error, 0);
}

// Measured steps of 10, 11 and 12 us; their mean has a standard error of 1 us / sqrt(3).
TEST_F(Compare, GivesTheErrorOfTheSimulationWithThatOfTheMeasuredMean) {
    const std::optional<ModelError> error = model_error(of({0, 1, 2}));
    ASSERT_TRUE(error);
    EXPECT_NEAR(error->error, static_cast<double>(simulation_.step_time.count()) / 11'000 - 1, 1e-12);
    ASSERT_TRUE(error->standard_error);
    EXPECT_NEAR(*error->standard_error, 1 / std::sqrt(3.0) / 11, 1e-12);
    EXPECT_EQ(error->steps, 3U);
    EXPECT_NEAR(error->least_change(), std::abs(error->error) + 2 / std::sqrt(3.0) / 11, 1e-12);
    EXPECT_FALSE(model_error(of({1}))->standard_error) << "one step has no spread";
}

TEST_F(Compare, RefusesNothingToCompare) {
    EXPECT_THAT(thrown<Error>([&] { of({}); }), HasSubstr("0 steps to compare"));
    EXPECT_THAT(thrown<Error>([&] { of({0, 9}); }), HasSubstr("step 9 has no forward or backward"));
}
}  // namespace
}  // namespace pipescope
