#include "benchmarks/published/published_runs.h"
#include "benchmarks/published/published_ranges.h"
#include "benchmarks/published/run_errors.h"

#include "cluster/training_program.h"
#include "simulator/memory/memory_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace pipescope {
namespace {
const std::vector<PublishedRun>& runs_of_programs() {
    static const std::vector<PublishedRun> runs = published_runs(PIPESCOPE_SOURCE_DIR);
    return runs;
}

// A row that is left out makes an error look smaller.
TEST(PublishedRuns, HaveAllRows) {
    EXPECT_EQ(runs_of_programs().size(), 399U);
    std::set<std::string> names;
    std::size_t predicted = 0;
    for (const PublishedRun& run : runs_of_programs()) {
        EXPECT_TRUE(names.insert(run.run).second) << run.run;
        EXPECT_EQ(run.step.has_value(), run.left_out.empty()) << run.run;
        predicted += run.step ? 1 : 0;
    }
    EXPECT_GE(predicted, 388U);
}

// docs/evidence/published-pipelines.md shows the errors; the limits leave a margin.
TEST(PublishedRuns, AreAsCloseAsTheirSetsWere) {
    struct Limit {
        double absolute, signed_mean;
    };
    const std::map<std::string, Limit> limits{{"NeMo: H100 dense bfloat16", {0.04, 0.025}},
                                              {"NeMo: H100 dense float8 or float4", {0.075, 0.03}},
                                              {"NeMo: H100 experts bfloat16", {0.05, 0.045}},
                                              {"NeMo: H100 experts float8 or float4", {0.11, 0.075}},
                                              {"NeMo: Blackwell dense float8 or float4", {0.09, 0.03}},
                                              {"NeMo: Blackwell experts bfloat16", {0.11, 0.04}},
                                              {"NeMo: Blackwell experts float8 or float4", {0.14, 0.04}},
                                              {"SimuMax: B200", {0.06, 0.04}},
                                              {"llm-foundry: A100-80GB", {0.065, 0.04}},
                                              {"llm-foundry: A100-40GB", {0.055, 0.04}},
                                              {"BigScience: A100", {0.06, 0.04}},
                                              {"MaxText and Paxml: bfloat16", {0.11, 0.1}},
                                              {"torchtitan: bfloat16", {0.08, 0.07}},
                                              {"torchtitan: float8", {0.11, 0.09}}};
    std::size_t found = 0;
    for (const RunErrors& set : errors_by_set(runs_of_programs())) {
        const auto limit = limits.find(set.set);
        if (limit != limits.end()) {
            ++found;
            EXPECT_LE(set.absolute_mean, limit->second.absolute) << set.set;
            EXPECT_LE(std::abs(set.signed_mean), limit->second.signed_mean) << set.set;
        }
    }
    EXPECT_EQ(found, limits.size());
}

// The files of programs say how their published runs compare.
TEST(PublishedRuns, LieInTheRangesOfTheirPrograms) {
    struct Count {
        int runs = 0, inside = 0;
    };
    Count all;
    for (const PublishedRun& run : runs_of_programs()) {
        if (run.step && run.ran() && run.set.find("tuning") == std::string::npos) {
            const double measured = 1 / (1 + run.error());
            ++all.runs;
            all.inside += measured >= run.step->range.low && measured <= run.step->range.high ? 1 : 0;
            EXPECT_GT(run.step->range.runs, 0) << run.run;
        }
    }
    EXPECT_GE(all.inside, 0.86 * all.runs);
}

TEST(PublishedRuns, LieInTheRangesThatOtherSourcesGive) {
    int runs = 0;
    int inside = 0;
    for (const RangeCheck& check : range_checks(runs_of_programs())) {
        EXPECT_GT(check.errors.runs, 0) << check.program;
        runs += check.errors.runs;
        inside += check.inside_left_out;
    }
    EXPECT_GE(inside, 0.86 * runs);
}

// One source takes twice as long as predicted, another with two files four times, and a third like the first: the
// halves are the first with the third, and the second.
TEST(PublishedRuns, TakeTheFactorOfTheOtherHalfOfTheirSources) {
    std::vector<PublishedRun> runs;
    for (const auto& [source, seconds] :
         {std::pair("a@1:x", 2.0), std::pair("b@1:x", 4.0), std::pair("b@1:y", 4.0), std::pair("c@1:x", 2.0)}) {
        PublishedRun& run = runs.emplace_back();
        run.source = source;
        run.program = "p";
        run.device = "d";
        run.seconds = seconds;
        run.step.emplace().simulation.step_time = Nanoseconds{1'000'000'000};
    }
    runs.push_back(runs.front());
    runs.back().device = "of one source";
    const std::vector<HalfCheck> checks = half_checks(runs);
    ASSERT_EQ(checks.size(), 1U);
    EXPECT_EQ(checks[0].sources, 3);
    EXPECT_EQ(checks[0].group.runs, 4);
    EXPECT_DOUBLE_EQ(checks[0].as_is, (0.5 + 0.75 + 0.75 + 0.5) / 4);
    // 4 / 2 - 1 for the first half, 1 - 2 / 4 for the second
    EXPECT_DOUBLE_EQ(checks[0].from_others, (1 + 0.5 + 0.5 + 1) / 4);
    double error = 0;
    double all = 0;
    for (const HalfCheck& check : half_checks(runs_of_programs())) {
        error += check.from_others * check.group.runs;
        all += check.group.runs;
    }
    EXPECT_GT(all, 80);
    EXPECT_LE(error / all, 0.12);
}

TEST(PublishedRuns, OfSimuMaxHoldTheirMemory) {
    double sum = 0;
    int runs = 0;
    for (const PublishedRun& run : runs_of_programs()) {
        if (run.set == "SimuMax: B200") {
            constexpr double kGiB = 1024.0 * 1024 * 1024;
            const double peak = static_cast<double>(highest_peak(run.step->simulation)) / kGiB;
            sum += std::abs(peak / *run.gib - 1);
            ++runs;
        }
    }
    EXPECT_LE(sum / runs, 0.02);
}

// A plan takes the spread of pairs for the errors of two of its candidates.
TEST(PublishedRuns, OfTwoLayoutsOfAModelDifferLessThanRunsOfTwoPrograms) {
    for (const LayoutPairs& each : layout_pairs(runs_of_programs())) {
        if (each.program == "all") {
            EXPECT_GT(each.pairs, 50);
            EXPECT_LE(each.spread, each.experts ? 0.25 : 0.12);
            EXPECT_GE(each.right, 0.75 * each.pairs) << "of two layouts, the quicker one is predicted to be quicker";
        }
    }
}

// Of BigScience's runs, two died of memory.
TEST(PublishedRuns, ThatDiedOfMemoryNeedMoreThanTheirDevicesHave) {
    int died = 0;
    int right = 0;
    int runs = 0;
    for (const PublishedRun& run : runs_of_programs()) {
        if (run.program != "megatron-deepspeed") {
            continue;
        }
        const LayoutStep& step = *run.step;
        const bool fits = step.layout.how().shown_bytes(highest_peak(step.simulation)) <= step.memory.front().bytes;
        ++runs;
        right += fits == run.ran() ? 1 : 0;
        died += run.ran() ? 0 : 1;
        EXPECT_TRUE(run.ran() || !fits) << run.run;
    }
    EXPECT_EQ(died, 2);
    EXPECT_GE(right, 0.95 * runs);
}
}  // namespace
}  // namespace pipescope
