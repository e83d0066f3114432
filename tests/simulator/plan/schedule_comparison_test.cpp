#include "simulator/plan/schedule_comparison.h"
#include "tests/simulator/profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace pipescope {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;

PipelineOptions options_of(int n, int m) {
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(n), 8 / n));
    options.chunks = options.batch = m;
    return options;
}

Profile eight_small_layers() {
    Profile profile = uniform_profile(8);
    for (LayerProfile& layer : profile.layers) {
        layer.parameter_bytes = layer.gradient_bytes = 1000;
        layer.output_bytes = {100};
    }
    return profile;
}

std::vector<std::string> names_of(const ScheduleComparison& comparison) {
    std::vector<std::string> names;
    for (const ComparedSchedule& each : comparison.schedules) {
        names.push_back(each.name);
    }
    return names;
}

const ComparedSchedule& named(const ScheduleComparison& comparison, const std::string& name) {
    const auto found = std::find_if(comparison.schedules.begin(), comparison.schedules.end(),
                                    [&](const ComparedSchedule& each) { return each.name == name; });
    EXPECT_NE(found, comparison.schedules.end()) << name;
    return *found;
}

TEST(CompareSchedules, TriesEveryWayToUseTheLanes) {
    const ScheduleComparison comparison = compare_schedules(eight_small_layers(), options_of(4, 8));
    std::vector<std::string> expected{"model-parallel", "data-parallel",      "2 x 2 data x gpipe",
                                      "gpipe, always",  "gpipe, except_last", "gpipe, never"};
    for (const Schedule& each : all_schedules()) {
        if (each != Schedule::gpipe && each != Schedule::model_parallel && each != Schedule::pipedream) {
            expected.push_back(to_string(each));
        }
    }
    expected.emplace_back("pipedream");
    EXPECT_EQ(names_of(comparison), expected);
    EXPECT_TRUE(comparison.left_out.empty());
}

TEST(CompareSchedules, DataParallelLanesWaitForTheSlowest) {
    Profile profile = eight_small_layers();
    for (LayerProfile& layer : profile.layers) {
        layer.forward_cv = layer.backward_cv = 0.3;
    }
    const ScheduleComparison comparison = compare_schedules(CheckedProfile(profile), options_of(4, 8));
    // A lane does two samples: 48000 ns, with a deviation of 300 sqrt(16 (1 + 4)) ns. The largest of four normal
    // numbers is 1.029 deviations above the mean.
    const Simulation& each = named(comparison, "data-parallel").simulation;
    EXPECT_EQ(each.step_time.count(), 48000);
    EXPECT_NEAR(static_cast<double>(each.noise->mean.count()), 48000 + 1.029 * 300 * std::sqrt(80), 250);
    const Simulation& grid = named(comparison, "2 x 2 data x gpipe").simulation;
    PipelineOptions alone = grid.options;
    alone.batch /= alone.replicas;
    alone.replicas = 1;
    EXPECT_GT(grid.noise->mean, simulate(CheckedProfile(profile), alone).noise->mean);
}

TEST(CompareSchedules, ShowsWhatTheExplainerTells) {
    // Four lanes, two layers each: utilization 1/4 one at a time, and 8 / 11 with eight micro-batches.
    const ScheduleComparison comparison = compare_schedules(eight_small_layers(), options_of(4, 8));
    EXPECT_NEAR(named(comparison, "model-parallel").simulation.utilization, 1.0 / 4, 1e-12);
    EXPECT_NEAR(named(comparison, "gpipe, never").simulation.utilization, 8.0 / 11, 1e-12);
    EXPECT_NEAR(named(comparison, "1f1b").simulation.step_time.count(),
                named(comparison, "gpipe, except_last").simulation.step_time.count(), 5000);
    EXPECT_NEAR(named(comparison, "data-parallel").simulation.speedup, 4, 1e-9) << "the link is free";
    EXPECT_FALSE(named(comparison, "pipedream").synchronous);
    EXPECT_NEAR(named(comparison, "pipedream").simulation.bubble_fraction, 0, 1e-9);
    EXPECT_LT(named(comparison, "interleaved").simulation.bubble_fraction,
              named(comparison, "1f1b").simulation.bubble_fraction);
    for (const ComparedSchedule& each : comparison.schedules) {
        EXPECT_NEAR(each.simulation.samples_per_second * static_cast<double>(each.simulation.step_time.count()), 8e9,
                    1e4)
            << each.name << " takes the whole mini-batch";
    }
}

TEST(CompareSchedules, KnowsTheBoundOfEveryWayThatDrains) {
    const ScheduleComparison comparison = compare_schedules(eight_small_layers(), options_of(4, 8));
    for (const ComparedSchedule& each : comparison.schedules) {
        const std::optional<Nanoseconds>& bound = each.simulation.lower_bound;
        const bool is_doubled = is_bidirectional(each.simulation.options.schedule);  // has no bound
        ASSERT_EQ(bound.has_value(), each.synchronous && !is_doubled) << each.name;
        if (bound) {
            EXPECT_LE(*bound, each.simulation.step_time) << each.name;
            EXPECT_GE(*bound, each.simulation.step_time / 5) << each.name << ": four lanes, one at a time";
        }
    }
    // The last lane starts three forwards late, and has eight forwards and backwards.
    EXPECT_EQ(named(comparison, "gpipe, never").simulation.lower_bound, Nanoseconds{3 * 2000 + 8 * (2000 + 4000)});
}

TEST(CompareSchedules, CountsWhatEachSends) {
    const ScheduleComparison comparison = compare_schedules(eight_small_layers(), options_of(4, 8));
    EXPECT_EQ(named(comparison, "gpipe, never").communicated_bytes, 3 * 2 * 8 * 100);
    EXPECT_EQ(named(comparison, "pipedream").communicated_bytes, 3 * 2 * 8 * 100) << "copies free or not";
    PipelineOptions slow = options_of(4, 8);
    slow.hardware.link.bytes_per_second = 1e6;
    EXPECT_EQ(named(compare_schedules(eight_small_layers(), slow), "pipedream").communicated_bytes, 3 * 2 * 8 * 100);
    EXPECT_EQ(named(comparison, "data-parallel").communicated_bytes, 2 * 3 * 8000);
    EXPECT_EQ(named(comparison, "dualpipe").communicated_bytes, 3 * 2 * 8 * 100 + 2 * 8000)
        << "two copies of gradients";
    EXPECT_EQ(named(comparison, "2 x 2 data x gpipe").communicated_bytes, 2 * (2 * 4 * 100) + 2 * 8000);
}

TEST(CompareSchedules, SaysWhyAWayIsLeftOut) {
    PipelineOptions options = options_of(4, 6);
    const ScheduleComparison uneven = compare_schedules(eight_small_layers(), options);
    ASSERT_EQ(uneven.left_out.size(), 3u);
    EXPECT_EQ(uneven.left_out[0].name, "data-parallel");
    EXPECT_THAT(uneven.left_out[0].because, HasSubstr("cannot be divided by 4"));
    EXPECT_EQ(uneven.left_out[1].name, "dualpipe-v");
    EXPECT_THAT(uneven.left_out[1].because, HasSubstr("twice as many micro-batches as lanes"));
    EXPECT_EQ(uneven.left_out[2].name, "dualpipe");
    const ScheduleComparison odd = compare_schedules(eight_small_layers(), options_of(4, 9));
    ASSERT_EQ(odd.left_out.size(), 5u);
    EXPECT_EQ(odd.left_out[1].name, "2 x 2 data x gpipe");
    EXPECT_EQ(odd.left_out[2].name, "interleaved");
    EXPECT_THAT(odd.left_out[2].because, HasSubstr("micro-batches in equal groups"));
    EXPECT_EQ(odd.left_out[3].name, "interleaved-zero-bubble");
    EXPECT_EQ(odd.left_out[4].name, "dualpipe");
    EXPECT_THAT(odd.left_out[4].because, HasSubstr("an even number of micro-batches"));
    options = options_of(4, 8);
    options.hardware.devices.assign(4, "cuda:0");
    EXPECT_THAT(compare_schedules(eight_small_layers(), options).left_out.front().because, HasSubstr("share a device"));
}

TEST(CompareSchedules, HoldsEveryWayAgainstTheMemoryLimit) {
    PipelineOptions options = options_of(4, 8);
    options.hardware.memory_limit = 10'000;  // two layers' parameters and gradients are 4000, all layers' 16000
    const ScheduleComparison comparison = compare_schedules(eight_small_layers(), options);
    EXPECT_FALSE(named(comparison, "data-parallel").simulation.feasible);
    EXPECT_TRUE(named(comparison, "gpipe, always").simulation.feasible);
}

TEST(CompareSchedules, WorksOnOneLane) {
    PipelineOptions options = options_of(1, 4);
    EXPECT_THAT(names_of(compare_schedules(eight_small_layers(), options)),
                ElementsAre("model-parallel", "gpipe, always", "gpipe, except_last", "gpipe, never", "1f1b",
                            "zero-bubble-h1", "zero-bubble-2p", "pipedream"));
}
}  // namespace
}  // namespace pipescope
