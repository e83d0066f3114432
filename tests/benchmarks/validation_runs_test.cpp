#include "benchmarks/experiments/validation_runs.h"

#include "base/error.h"
#include "models/zoo.h"
#include "profiler/memory/tracking_allocator.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Four layers that wait for 0.01 ms.
Profile short_waits() {
    Profile profile;
    profile.model = "short waits";
    profile.samples = {1};
    for (int l = 0; l < 4; ++l) {
        LayerProfile layer;
        layer.name = "layer." + std::to_string(l);
        layer.forward_ns = layer.recompute_ns = {10'000};
        layer.backward_ns = {20'000};
        layer.output_bytes = {64};
        layer.parameter_bytes = layer.gradient_bytes = 64;
        profile.layers.push_back(layer);
    }
    return profile;
}

ValidationPlan plan_of(const std::vector<std::vector<std::int64_t>>& balances, std::int64_t rounds) {
    ValidationPlan plan;
    for (const std::vector<std::int64_t>& balance : balances) {
        PipelineOptions options;
        options.balance = Balance(balance);
        options.hardware.devices.assign(balance.size(), "cpu");
        options.chunks = options.batch = 2;
        plan.candidates.push_back(options);
    }
    plan.rounds = rounds;
    plan.steps = 1;
    plan.warmup = 1;
    plan.emulated = true;
    plan.profile = [](const PipelineOptions&) { return short_waits(); };
    return plan;
}

class Validate : public testing::Test {
protected:
    static void SetUpTestSuite() { tracking_allocator::install(); }
};

TEST_F(Validate, CalibratesRightBeforeEachRunAndTakesCandidatesInTurn) {
    ValidationPlan plan = plan_of({{2, 2}, {1, 3}, {4}}, 2);
    std::vector<std::string> log;
    plan.profile = [&](const PipelineOptions& candidate) {
        log.push_back("profiled for " + to_string(candidate.balance));
        return short_waits();
    };
    plan.progress = [&](double) { log.push_back("ran"); };
    const std::vector<ValidatedCandidate> validated = validate(emulated_model(short_waits()), plan);
    EXPECT_THAT(log, ElementsAre("profiled for 2,2", "ran", "profiled for 1,3", "ran", "profiled for 4", "ran",  //
                                 "profiled for 2,2", "ran", "profiled for 1,3", "ran", "profiled for 4", "ran"));
    ASSERT_EQ(validated.size(), 3u);
    for (const ValidatedCandidate& each : validated) {
        EXPECT_EQ(each.runs.size(), 2u) << to_string(each.options.balance);
        for (const ValidatedRun& run : each.runs) {
            EXPECT_EQ(run.measured_steps.size(), 1u) << "warm-up left out";
        }
    }
}

TEST_F(Validate, PredictsARunFromTheProfileTakenForIt) {
    ValidationPlan plan = plan_of({{2, 2}}, 2);
    double factor = 1;
    plan.profile = [&](const PipelineOptions&) {
        Profile profile = short_waits();
        for (LayerProfile& layer : profile.layers) {
            for (double* ns : {&layer.forward_ns[0], &layer.recompute_ns[0], &layer.backward_ns[0]}) {
                *ns *= factor;
            }
        }
        factor = 3;  // the machine is three times as slow when the second round is profiled
        return profile;
    };
    const ValidatedCandidate validated = validate(emulated_model(short_waits()), plan).at(0);
    EXPECT_EQ(validated.runs.at(1).comparison.simulated_step_time,
              3 * validated.runs.at(0).comparison.simulated_step_time);
}

TEST_F(Validate, HandsBackWhatItHasWhenItIsStopped) {
    ValidationPlan plan = plan_of({{2, 2}, {1, 3}, {4}}, 3);
    int runs = 0;
    plan.progress = [&](double) { ++runs; };
    plan.stop = [&] { return runs == 4; };
    const std::vector<ValidatedCandidate> validated = validate(emulated_model(short_waits()), plan);
    EXPECT_EQ(runs, 4);
    EXPECT_EQ(validated.at(0).runs.size(), 2u);
    EXPECT_EQ(validated.at(1).runs.size(), 1u);
    EXPECT_EQ(validated.at(2).runs.size(), 1u);
}

TEST_F(Validate, DoesNotCountARunThatWasStopped) {
    ValidationPlan plan = plan_of({{2, 2}, {4}}, 1);
    int asked = 0;
    plan.stop = [&] { return ++asked > 2; };  // before the profile, before the run, behind it
    const std::vector<ValidatedCandidate> validated = validate(emulated_model(short_waits()), plan);
    EXPECT_TRUE(candidates_that_ran(validated).empty());
}

TEST_F(Validate, RefusesNoRound) {
    EXPECT_THAT(thrown<UsageError>([] { validate(emulated_model(short_waits()), plan_of({{4}}, 0)); }),
                AllOf(HasSubstr("--rounds is 0"), HasSubstr("use 1 or more")));
}

TEST(RealCandidates, AreASpreadOfCutsModesAndMicroBatches) {
    const std::vector<PipelineOptions> candidates = real_candidates(short_waits(), 2, 4, 8);
    ASSERT_GE(candidates.size(), 5u);
    std::vector<std::string> cuts;
    for (const PipelineOptions& each : candidates) {
        cuts.push_back(to_string(each.balance) + " m=" + std::to_string(each.chunks) + " " +
                       to_string(each.checkpoint));
    }
    EXPECT_THAT(cuts, ElementsAre("2,2 m=4 except_last", "3,1 m=4 never", "2,2 m=2 always", "2,2 m=8 never",
                                  "1,3 m=2 except_last"));
    EXPECT_EQ(real_candidates(short_waits(), 2, 8, 3).at(0).chunks, 3) << "no more micro-batches than samples";
}
}  // namespace
}  // namespace pipescope
