#include "cluster/batch_ramp.h"
#include "base/error.h"
#include "cluster/cluster_plan.h"
#include "cluster/planned_run.h"
#include "tests/cluster/clusters.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr double kAny = std::numeric_limits<double>::infinity();
const std::string kFour = "gpt:layers=4,hidden=64,heads=4,sequence=32,vocabulary=256";

std::vector<std::pair<std::int64_t, double>> steps_of(const std::vector<RunPart>& parts) {
    std::vector<std::pair<std::int64_t, double>> steps;
    for (const RunPart& each : parts) {
        steps.emplace_back(each.batch, each.steps);
    }
    return steps;
}

// Three increments, after 100 samples each: 16 x 7 = 112 samples, then 32 x 3 = 96, 208 in all; 48 x 2 = 96, 304 in
// all, and the rest of 1000 in 64 x 11.
TEST(BatchRamp, GrowsAsMegatronsDoes) {
    const BatchRamp ramp = parse_batch_ramp("16,16,300");
    EXPECT_EQ(ramp, (BatchRamp{16, 16, 300}));
    EXPECT_THAT(steps_of(run_parts(ramp, 64, 1000, kAny)),
                ElementsAre(Pair(16, 7), Pair(32, 3), Pair(48, 2), Pair(64, 11)));
    EXPECT_THAT(steps_of(run_parts(ramp, 64, kAny, 9)), ElementsAre(Pair(16, 7), Pair(32, 2)));
    EXPECT_THAT(steps_of(run_parts(ramp, 64, 50, kAny)), ElementsAre(Pair(16, 4)));
}

// Against Megatron's rule, step by step.
TEST(BatchRamp, HasTheStepsOfARunStepByStep) {
    // The last ones have widths that are no whole numbers, so that a product of the width is rounded.
    const std::vector<std::pair<BatchRamp, std::int64_t>> ramps{
        {{8, 8, 1000}, 64}, {{16, 48, 37}, 64}, {{32, 4, 5000}, 64}, {{1, 1, 2655}, 64},
        {{3, 1, 646}, 10},  {{8, 2, 1820}, 30}, {{4, 1, 1306}, 11},  {{1, 2, 1918}, 47}};
    for (const auto& [ramp, full] : ramps) {
        std::vector<std::pair<std::int64_t, double>> steps;
        const double width =
            static_cast<double>(ramp.samples) / static_cast<double>((full - ramp.start) / ramp.increment);
        for (double consumed = 0; consumed < 7000;) {
            const std::int64_t batch =
                consumed > static_cast<double>(ramp.samples)
                    ? full
                    : std::min(full, ramp.start + static_cast<std::int64_t>(consumed / width) * ramp.increment);
            if (steps.empty() || steps.back().first != batch) {
                steps.emplace_back(batch, 0);
            }
            ++steps.back().second;
            consumed += static_cast<double>(batch);
        }
        EXPECT_EQ(steps_of(run_parts(ramp, full, 7000, kAny)), steps) << ramp.start << " " << ramp.samples;
    }
}

TEST(BatchRamp, RefusesTextsAndRampsThatAreNone) {
    const auto refuses = [](const std::string& text, const std::string& part) {
        EXPECT_THAT(thrown<UsageError>([&] { check_ramp(parse_batch_ramp(text), 64); }), HasSubstr(part)) << text;
    };
    refuses("16,16", "it is the first batch, its increment and the samples");
    refuses("16,0,100", "'0' is no whole number");
    refuses("16,1.5,100", "'1.5' is no whole number");
    refuses("64,16,100", "the first batch is smaller");
    refuses("16,10,100", "increments must lead to it exactly");
}

// The cluster costs 1 per device and hour.
TEST(BatchRamp, MakesARunAsLongAsTheSumOfItsSteps) {
    const LanguageModel model = parse_language_model(kFour);
    const Cluster cluster = plain_cluster(1);
    ClusterPlanRequest request{.layout = {.batch = 64}, .tokens = 32.0 * 1000, .ramp = BatchRamp{16, 16, 300}};
    const ClusterPlan plan = plan_cluster(model, cluster, request);
    ASSERT_FALSE(plan.candidates.empty());
    for (const ClusterCandidate& each : plan.candidates) {
        double ns = 0;
        for (const auto& [batch, steps] : {std::pair(16, 7), {32, 3}, {48, 2}, {64, 11}}) {
            Layout layout = each.step.layout;
            layout.batch = batch;
            layout.cuts = Cuts([&] {
                std::vector<std::int64_t> blocks = each.step.simulation.options.balance.layers_per_partition();
                --blocks.front();
                --blocks.back();
                return blocks;
            }());
            ns += steps * step_of(kFour, cluster, layout).step_ns();
        }
        EXPECT_NEAR(each.run_hours, ns / 3600e9, 1e-9 * each.run_hours) << to_string(each.step.layout);
        EXPECT_NEAR(each.cost, 4 * ns / 3600e9, 1e-9 * each.cost);
        EXPECT_NE(each.step.simulation.options.schedule, Schedule(Schedule::automatic));
    }
}

TEST(BatchRamp, OfManyBatchesIsTimedOnStraightLinesBetweenSixteen) {
    ClusterPlanRequest request{.layout = {.batch = 2000}, .steps = 1e6, .ramp = BatchRamp{10, 10, 1'000'000}};
    int timed = 0;
    const std::vector<RunPart> parts = timed_ramp(request, 0, 2000 * 3 + 7, [&](std::int64_t batch) {
        ++timed;
        return static_cast<double>(batch) * 3 + 7;
    });
    EXPECT_EQ(parts.size(), 200U);
    EXPECT_EQ(timed, 15);
    for (const RunPart& part : parts) {
        EXPECT_NEAR(part.step_ns, static_cast<double>(part.batch) * 3 + 7, 1e-6);
    }
}

TEST(Deadline, PutsCandidatesThatAreTooLateLastAndNamesTheFewestDevices) {
    const LanguageModel model = parse_language_model(kFour);
    const Cluster cluster = plain_cluster(2);
    ClusterPlanRequest request{.layout = {.batch = 64}, .steps = 1000, .goal = ClusterGoal::cost};
    const ClusterPlan without = plan_cluster(model, cluster, request);
    EXPECT_FALSE(without.fewest_in_time);
    // Between the runs on two and on four devices.
    const auto quickest_on = [&](int devices) {
        double hours = kAny;
        for (const ClusterCandidate& each : without.candidates) {
            hours = each.step.layout.devices() == devices ? std::min(hours, each.run_hours) : hours;
        }
        return hours;
    };
    request.deadline_hours = (quickest_on(2) + quickest_on(4)) / 2;
    const ClusterPlan plan = plan_cluster(model, cluster, request);
    EXPECT_FALSE(plan.candidates.back().in_time);
    EXPECT_TRUE(std::ranges::is_sorted(plan.candidates, std::greater<>(), &ClusterCandidate::in_time));
    for (const ClusterCandidate& each : plan.candidates) {
        EXPECT_EQ(each.in_time, each.run_hours <= request.deadline_hours);
    }
    ASSERT_TRUE(plan.fewest_in_time);
    int fewest = std::numeric_limits<int>::max();
    for (const ClusterCandidate& each : plan.candidates) {
        fewest = each.in_time ? std::min(fewest, each.step.layout.devices()) : fewest;
    }
    EXPECT_EQ(plan.candidates[*plan.fewest_in_time].step.layout.devices(), fewest);
    EXPECT_GT(fewest, 2);
    request.steps = 0;
    EXPECT_THAT(thrown<UsageError>([&] { plan_cluster(model, cluster, request); }),
                HasSubstr("--deadline is given without the length of the run; add --tokens or --steps"));
}
}  // namespace
}  // namespace pipescope
