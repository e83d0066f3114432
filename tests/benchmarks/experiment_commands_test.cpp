// pipescope_experiments with small models, as its user would run it.

#include "tests/cli/user.h"

#include <gmock/gmock.h>

#include <chrono>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::Gt;
using testing::HasSubstr;
using testing::Lt;
using testing::StartsWith;

const std::string kSmallModel = "mlp:layers=4,width=64";

class Experiments : public testing::Test {
protected:
    std::string refused(const std::string& line) const {
        const CommandResult result = user.types(line);
        EXPECT_EQ(result.code, 2) << line << "\n" << result.err;
        EXPECT_THAT(result.err, StartsWith("pipescope: ")) << line;
        return result.err;
    }

    User user{"pipescope_experiments"};
};

TEST_F(Experiments, ValidatePredictsRunsAndComparesASpreadOfPipelines) {
    user.writes("p.json", emulated_profile(0.5));
    const auto object = user.succeeds("validate emulated:p.json --rounds 2 --steps 1 --json").json();
    EXPECT_THAT(keys_of(object),
                ElementsAre("candidates", "step_error", "bubble_error", "peak_error", "replayed_peak_error",
                            "replay_error", "replay_with_gaps_error", "spread", "uncertainty", "rank_correlation",
                            "regret", "band_coverage", "load", "allowed_step_error", "goals", "reached"));
    EXPECT_EQ(object.at("allowed_step_error"), 0.01) << "layers that only wait";
    ASSERT_EQ(object.at("goals").size(), 9u);
    EXPECT_EQ(object.at("goals").at(1).at("name"), "step_error_max");
    EXPECT_THAT(keys_of(object.at("goals").at(1)), ElementsAre("name", "allowed", "found", "reached", "not_judged"));
    EXPECT_TRUE(object.at("load").is_null()) << "waiting takes no core";
    ASSERT_EQ(object.at("candidates").size(), 9u);
    for (const auto& candidate : object.at("candidates")) {
        EXPECT_EQ(candidate.at("runs"), 2);
        EXPECT_GT(candidate.at("measured_step_ns").get<std::int64_t>(), 1'000'000);
        // A run takes at least the simulated time, plus the delays that other programs cause.
        EXPECT_THAT(candidate.at("step_error").get<double>(), AllOf(Gt(-0.9), Lt(0.2)));
    }
    EXPECT_TRUE(object.at("rank_correlation").is_number());
    EXPECT_FALSE(user.has("run.sqlite"));

    EXPECT_THAT(refused("validate"), HasSubstr("name a MODEL, or use --emulated"));
    EXPECT_THAT(refused("validate " + kSmallModel + " -n 9"), AllOf(HasSubstr("-n is 9"), HasSubstr("use 1 to 4")));
    EXPECT_THAT(refused("validate " + kSmallModel + " --emulated"), HasSubstr("emulated:PROFILE"));
}

TEST_F(Experiments, ValidateJudgesAndSaysWhereSamplesAreFewerThanMicroBatches) {
    const std::string text = user.succeeds("validate mlp:layers=2,width=16 -m 8 --batch 4 --rounds 1 --steps 1").out;
    EXPECT_THAT(text, AllOf(HasSubstr("in the mean: not judged, how far equal runs differ is not known"),
                            HasSubstr("8 micro-batches were requested; 4 samples make 4, of a sample each")));
}

TEST_F(Experiments, ValidateCalibratesWithARunBeforeEachRun) {
    const auto object =
        user.succeeds("validate " + kSmallModel + " -m 2 --batch 4 --rounds 1 --steps 1 --calibrated --busy 1 --json")
            .json();
    ASSERT_EQ(object.at("candidates").size(), 6u);
    EXPECT_EQ(object.at("candidates").at(5).at("schedule"), "1f1b");
    EXPECT_EQ(object.at("allowed_step_error"), 0.04) << "beside a busy process";
    EXPECT_THAT(refused("validate --emulated --calibrated"), HasSubstr("whose times are known"));
    EXPECT_THAT(refused("validate " + kSmallModel + " --busy -1"), HasSubstr("--busy is -1"));
}

TEST_F(Experiments, AblationMeasuresThePaperDriversPartsAndSaysWhatACpuCannotShow) {
    const auto object =
        user.succeeds("ablation " + kSmallModel + " --balance 2,2 --batch 4 -m 2 --rounds 1 --steps 1 --json").json();
    const auto& rows = object.at("rows");
    ASSERT_EQ(rows.size(), 5u);
    EXPECT_EQ(rows.at(0).at("name"), "none");
    EXPECT_EQ(rows.at(0).at("dependency"), false);
    EXPECT_THAT(rows.at(2).at("skipped_because").get<std::string>(), HasSubstr("no copies"));
    EXPECT_EQ(rows.at(3).at("portals"), true);
    EXPECT_EQ(rows.at(4).at("driver"), "scheduled");
    for (const int k : {0, 1, 3, 4}) {
        EXPECT_GT(rows.at(k).at("samples_per_second").get<double>(), 0);
        EXPECT_GT(rows.at(k).at("utilization").get<double>(), 0);
        EXPECT_EQ(rows.at(k).at("peak_bytes").size(), 2u);
    }
    EXPECT_THAT(user.succeeds("ablation mlp:layers=2,width=16 --balance 1,1 --batch 2 -m 4 --rounds 1 --steps 1").out,
                AllOf(HasSubstr("batch 2, 2 micro-batches,"),
                      HasSubstr("4 micro-batches were requested; 2 samples make 2, of a sample each")));
    EXPECT_THAT(refused("ablation " + kSmallModel + " --rounds 0 --balance 2,2"), HasSubstr("use 1 or more"));
    EXPECT_THAT(refused("ablation " + kSmallModel + " -n 9"), HasSubstr("use fewer"));
    EXPECT_THAT(refused("ablation mlp -n 0"), HasSubstr("-n is 0; it counts lanes"));
}

TEST_F(Experiments, WrongCountsAreRefusedBeforeAnyWork) {
    for (const std::string& line :
         {"validate " + kSmallModel + " --rounds 0", std::string("validate --emulated --rounds 0"),
          "validate " + kSmallModel + " --steps 0", "ablation " + kSmallModel + " --rounds 0"}) {
        const auto start = std::chrono::steady_clock::now();
        EXPECT_THAT(refused(line), HasSubstr("use 1 or more")) << line;
        EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds{10})
            << "nothing was profiled: " << line;
    }
}

TEST_F(Experiments, AnInterruptedValidationKeepsTheWholeRuns) {
    const CommandResult run = user.stops(
        "validate mlp:layers=2,width=16 -n 2 -m 2 --batch 2 --rounds 100000 --steps 1 --json", "sleep 8", "INT");
    EXPECT_EQ(run.code, 130) << run.err;
    EXPECT_EQ(run.json().at("interrupted"), true);
    EXPECT_GE(run.json().at("candidates").size(), 1u);
}

TEST_F(Experiments, AnInterruptedAblationPrintsTheRowsItMeasured) {
    const CommandResult run =
        user.stops("ablation mlp:layers=2,width=16 --balance 1,1 --batch 2 -m 2 --rounds 100000 --steps 1 --json",
                   "sleep 3", "INT");
    EXPECT_EQ(run.code, 130) << run.err;
    EXPECT_EQ(run.json().at("interrupted"), true);
    EXPECT_GE(run.json().at("rows").size(), 1u);
}
}  // namespace
}  // namespace pipescope
