// The commands without torch, with valid and invalid command lines.

#include "tests/cli/user.h"

#include <gmock/gmock.h>

#include <set>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Four layers, each with a forward of 10 ms and a backward of 20 ms, on any lane.
constexpr const char* kProfile = R"({"format": "pipescope.profile", "version": 1, "model": "chain", "samples": [1],
  "layers": [
    {"name": "a", "forward_ns": [10000000], "backward_ns": [20000000], "output_bytes": [1000], "parameter_bytes": 4096},
    {"name": "b", "forward_ns": [10000000], "backward_ns": [20000000], "output_bytes": [1000]},
    {"name": "c", "forward_ns": [10000000], "backward_ns": [20000000], "output_bytes": [1000]},
    {"name": "d", "forward_ns": [10000000], "backward_ns": [20000000], "output_bytes": [1000]}]})";

class Commands : public testing::Test {
protected:
    Commands() { user.writes("p.json", kProfile); }

    /// Expects that exit code, one line on stderr, and nothing on stdout.
    std::string refused(int code, const std::string& line) const {
        const CommandResult result = user.types(line);
        EXPECT_EQ(result.code, code) << line << "\n" << result.err;
        EXPECT_THAT(result.err, StartsWith("pipescope: ")) << line;
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
        EXPECT_EQ(result.out, "") << line;
        return result.err;
    }

    User user;
};

TEST_F(Commands, SimulateGivesTheStepOfEqualPartitions) {
    // never: m = 4 micro-batches on n = 2 lanes of 20 + 40 ms: (m + n - 1) * 60 ms, bubble (n - 1) / (m + n - 1).
    const auto object = user.succeeds("simulate p.json --balance 2,2 -m 4 --batch 4 --checkpoint never --json").json();
    EXPECT_EQ(object.at("step_ns"), 300'000'000);
    EXPECT_DOUBLE_EQ(object.at("bubble_fraction").get<double>(), 0.2);
    EXPECT_EQ(object.at("balance"), (nlohmann::ordered_json{2, 2}));
    EXPECT_EQ(object.at("feasible"), true);
}

TEST_F(Commands, BalanceLooksForTheStepOfTheScheduleNamed) {
    const auto found = user.succeeds("balance p.json -n 2 -m 4 --batch 4 --schedule 1f1b --json").json();
    const auto simulated = user.succeeds("simulate p.json --balance 2,2 -m 4 --batch 4 --schedule 1f1b --json").json();
    EXPECT_EQ(found.at("balance"), (nlohmann::ordered_json{2, 2}));
    EXPECT_EQ(found.at("step_ns"), simulated.at("step_ns"));
    EXPECT_EQ(found.at("peak_bytes").at(1), simulated.at("lanes").at(1).at("peak_bytes"));
}

void collect_keys(const nlohmann::ordered_json& json, std::set<std::string>& keys) {
    for (const auto& item : json.items()) {
        if (json.is_object()) {
            keys.insert(item.key());
        }
        if (item.value().is_structured()) {
            collect_keys(item.value(), keys);
        }
    }
}

TEST_F(Commands, EveryKeyOfTheirJsonIsDocumented) {
    const std::string simulate_page = read_text(PIPESCOPE_DOCS "/cli/simulate.md");
    ASSERT_THAT(simulate_page, HasSubstr("# pipescope simulate"));
    const std::string pipeline = " p.json -m 4 --batch 4 --devices cpu,cpu --json ";
    auto noisy = nlohmann::json::parse(user.reads("p.json"));
    noisy["step_cv"] = 0.05;
    user.writes("noisy.json", noisy.dump());
    const auto object = user.succeeds("simulate noisy.json --balance 2,2 -m 4 --batch 4 --json").json();
    EXPECT_LT(object.at("step_band_ns").at(0), object.at("step_mean_ns"));
    EXPECT_LT(object.at("step_mean_ns"), object.at("step_band_ns").at(1));
    for (const std::string& line :
         {"balance" + pipeline + "-n 2", "balance" + pipeline + "-n 2 --memory-limit 1B",
          "balance" + pipeline + "-n 2 --memory-limit 1B,2B", "simulate" + pipeline + "--balance 2,2 --replicas 2",
          "simulate" + pipeline + "--balance 2,2 --schedule all",
          std::string("simulate noisy.json --balance 2,2 -m 4 --batch 4 --json"),
          std::string("balance noisy.json -n 2 -m 4 --batch 4 --json"),
          std::string("plan noisy.json -n 2 -m 4 --batch 4 --json"),
          std::string("plan p.json -n 2 -m 4 --batch 4 --json")}) {
        std::set<std::string> keys;
        collect_keys(user.types(line).json(), keys);
        EXPECT_GT(keys.size(), 5U) << line;
        const std::string command = line.substr(0, line.find(' '));
        // The page of plan refers to that of simulate for a candidate's keys.
        const std::string docs =
            read_text(PIPESCOPE_DOCS "/cli/" + command + ".md") + (command == "plan" ? simulate_page : "");
        for (const std::string& key : keys) {
            EXPECT_THAT(docs, HasSubstr("`" + key + "`")) << line;
        }
    }
}

TEST_F(Commands, SameInputGivesTheSameBytes) {
    const std::string line = "simulate p.json --balance 1,3 -m 3 --batch 7 --link-bandwidth 1GB/s --json";
    EXPECT_EQ(user.succeeds(line).out, user.succeeds(line).out);
}

TEST_F(Commands, SimulateComparesAllSchedulesInOneTable) {
    const std::string line = "simulate p.json --balance 2,2 -m 4 --batch 4 --schedule all";
    const auto object = user.succeeds(line + " --json").json();
    ASSERT_GE(object.at("schedules").size(), 8u);
    for (const auto& each : object.at("schedules")) {
        EXPECT_TRUE(each.contains("name") && each.contains("step_ns") && each.contains("synchronous") &&
                    each.contains("communicated_bytes"))
            << each;
    }
    EXPECT_TRUE(object.at("left_out").empty());
}

TEST_F(Commands, SimulateTakesCoresInTurns) {
    const std::string line = "simulate p.json --balance 2,2 -m 4 --batch 4 --checkpoint never --devices cpu,cpu --json";
    const auto shared = user.succeeds(line + " --cores 1").json();
    EXPECT_EQ(shared.at("step_ns"), 480'000'000) << "the work of both lanes";
    EXPECT_DOUBLE_EQ(shared.at("device_idle_fraction").get<double>(), 0);
    EXPECT_EQ(user.succeeds(line + " --cores 2").json().at("step_ns"), 300'000'000);
}

TEST_F(Commands, CoresTakeEffectWithoutNamedDevices) {
    // The profile names no cores, but its device is cpu.
    for (const std::string line : {"simulate p.json --balance 2,2", "balance p.json -n 2", "plan p.json -n 2"}) {
        const CommandResult result = user.succeeds(line + " -m 4 --batch 4 --checkpoint never --cores 1 --json");
        const auto object = line.starts_with("plan") ? result.json().at("candidates").at(0) : result.json();
        EXPECT_EQ(object.at("step_ns"), 480'000'000) << line << ": the work of both lanes";
        EXPECT_EQ(result.json().at("assumed").at("devices"), "cpu");
    }
}

TEST_F(Commands, BalanceAndPlanTakeCoresInTurnsToo) {
    const std::string lanes = " --batch 4 --checkpoint never --devices cpu,cpu --json";
    const auto own = user.succeeds("balance p.json -n 2 -m 4" + lanes).json();
    const auto turns = user.succeeds("balance p.json -n 2 -m 4 --cores 1" + lanes).json();
    EXPECT_EQ(own.at("step_ns"), 300'000'000);
    EXPECT_EQ(turns.at("step_ns"), 480'000'000) << "the work of both lanes";
    const auto plan = user.succeeds(
                              "plan p.json -n 2 -m 4 --batch 4 --checkpoint never --devices cpu,cpu --cores 1 "
                              "--json")
                          .json();
    EXPECT_EQ(plan.at("candidates").at(0).at("step_ns"), 480'000'000);
}

TEST_F(Commands, SimulateLimitsTheMicroBatchesInFlight) {
    const std::string line = "simulate p.json --balance 2,2 -m 4 --batch 4 --checkpoint never --schedule 1f1b --json";
    const auto free = user.succeeds(line).json().at("step_ns").get<std::int64_t>();
    EXPECT_GT(user.succeeds(line + " --in-flight 1").json().at("step_ns").get<std::int64_t>(), free)
        << "one micro-batch at a time";
}

TEST_F(Commands, BalanceExitsWith3WhereNothingFitsAndSaysWhatWould) {
    const CommandResult result = user.types("balance p.json -n 2 -m 4 --batch 4 --memory-limit 1B --json");
    EXPECT_EQ(result.code, 3);
    EXPECT_GT(result.json().at("smallest_memory_limit").get<std::int64_t>(), 1);
}

TEST_F(Commands, MemoryLimitsMayDifferByLane) {
    const std::string simulate = "simulate p.json --balance 1,3 -m 2 --batch 2 --json --memory-limit ";
    const auto lanes = user.succeeds(simulate + "1MiB").json().at("lanes");
    const auto first = lanes.at(0).at("peak_bytes").get<std::int64_t>();
    const auto second = lanes.at(1).at("peak_bytes").get<std::int64_t>();
    ASSERT_GT(first, second) << "layer a has all the parameters";
    const std::string limits = std::to_string(first) + "," + std::to_string(second);
    EXPECT_EQ(user.succeeds(simulate + limits).json().at("feasible"), true);
    EXPECT_EQ(user.types(simulate + std::to_string(second) + "," + std::to_string(first)).code, 3);

    const CommandResult none = user.types("balance p.json -n 2 -m 2 --batch 2 --memory-limit 2B,1B --json");
    EXPECT_EQ(none.code, 3);
    const auto needed = none.json().at("smallest_memory_limits");
    EXPECT_EQ(needed.at(0).get<std::int64_t>(), needed.at(1).get<std::int64_t>() + 1);
    EXPECT_EQ(none.json().at("smallest_memory_limit"), needed.at(0));
    user.succeeds("balance p.json -n 2 -m 2 --batch 2 --memory-limit " + needed.at(0).dump() + "," +
                  needed.at(1).dump());
    EXPECT_EQ(user.succeeds("plan p.json -n 2 -m 2 --batch 2 --memory-limit " + limits + " --json").json().at("best"),
              0);
}

TEST_F(Commands, OptimizersStateIsANamesOrSoManyBytesForEachOfTheParameters) {
    const auto state = [&](const std::string& optimizer) {
        const auto lanes = user.succeeds("simulate p.json --balance 1,3 -m 2 --batch 2 --json --optimizer " + optimizer)
                               .json()
                               .at("lanes");
        const auto& peak = lanes.at(0).at("peak");  // layer a has 4096 bytes of parameters, the others none
        return peak.contains("optimizer") ? peak.at("optimizer").get<std::int64_t>() : 0;
    };
    EXPECT_EQ(state("sgd"), 0);
    EXPECT_EQ(state("0"), 0);
    EXPECT_EQ(state("adam"), 2 * 4096);
    EXPECT_EQ(state("2"), 2 * 4096);
    EXPECT_EQ(state("1.5"), 6144);
}

TEST_F(Commands, LinkSharingChangesWhatBalanceAndPlanFind) {
    // A copy takes as long as a forward. On one bus, the copies of three boundaries delay each other.
    const std::string link = " -m 4 --batch 4 --checkpoint never --schedule gpipe --link-bandwidth 100kB/s --json";
    const auto step = [&](const std::string& line) {
        const auto object = user.succeeds(line + link).json();
        return (object.contains("candidates") ? object.at("candidates").at(0) : object)
            .at("step_ns")
            .get<std::int64_t>();
    };
    const std::int64_t apart = step("balance p.json -n 4");
    const std::int64_t bus = step("balance p.json -n 4 --link-sharing all");
    EXPECT_GT(bus, apart);
    EXPECT_EQ(step("plan p.json -n 4"), apart);
    EXPECT_EQ(step("plan p.json -n 4 --link-sharing all"), bus);
    EXPECT_EQ(step("simulate p.json --balance 1,1,1,1 --link-sharing all"), bus);
}

TEST_F(Commands, InfeasibleIsExitCode3WithTheObjectAllTheSame) {
    const CommandResult result = user.types("simulate p.json --balance 2,2 -m 2 --batch 2 --memory-limit 1kB --json");
    EXPECT_EQ(result.code, 3) << result.err;
    EXPECT_EQ(result.json().at("feasible"), false);
}

TEST_F(Commands, PlanTriesAllThatWasAskedForAndNamesTheBest) {
    const std::string line = "plan p.json -n 1,2,4..9 -m 1..4 --batch 4 --memory-limit 16GiB --schedule gpipe --json";
    const auto object = user.succeeds(line).json();
    EXPECT_THAT(keys_of(object), ElementsAre("candidates", "best", "next_loses_because", "infeasible_because",
                                             "remedies", "rank_by", "sizes_to_profile", "cost_unit", "assumed"));
    // n 1, 2, 4; m 1, 2, 4; three modes, two of them the same for m = 1
    ASSERT_EQ(object.at("candidates").size(), 3u * (2 + 3 + 3));
    EXPECT_EQ(object.at("best"), 0);
    EXPECT_TRUE(object.at("infeasible_because").is_null());
    // never, m = n = 4 lanes of 10 + 20 ms: (m + n - 1) * 30 ms; a million samples are 250 000 such steps of 4 lanes.
    const auto& best = object.at("candidates").at(0);
    EXPECT_EQ(best.at("step_ns"), 210'000'000);
    EXPECT_EQ(best.at("balance"), (nlohmann::ordered_json{1, 1, 1, 1}));
    EXPECT_EQ(best.at("micro_batches"), 4);
    EXPECT_EQ(best.at("checkpoint"), "never");
    EXPECT_EQ(best.at("pareto"), true);
    EXPECT_NEAR(best.at("cost").get<double>(), 250'000 * 0.21 / 3600 * 4, 1e-6);
    const auto simulated = user.succeeds("simulate p.json --balance 1,1,1,1 -m 4 --batch 4 --json").json();
    std::vector<std::string> keys = keys_of(simulated);
    EXPECT_EQ(keys.back(), "assumed");
    keys.pop_back();
    std::erase(keys, "lower_bound_ns");  // a plan's is of balances
    std::erase(keys, "gap_above_bound");
    keys.insert(keys.end(), {"device_type", "balance_is_optimal", "lower_bound_ns", "pareto", "cost", "num_devices"});
    EXPECT_EQ(keys_of(best), keys);
    EXPECT_EQ(user.succeeds(line).out, user.succeeds(line).out);
}

TEST_F(Commands, PlanWithoutAFitIsExitCode3WithTheCandidatesAllTheSame) {
    const CommandResult result =
        user.types("plan p.json -n 1..2 -m 1,2 --batch 2 --memory-limit 1kB --schedule gpipe --json");
    EXPECT_EQ(result.code, 3) << result.err;
    EXPECT_EQ(result.json().at("candidates").size(), 2u * (2 + 3));
    EXPECT_TRUE(result.json().at("best").is_null());
}

TEST_F(Commands, AClosedOutputIsAFailure) {
    for (const std::string line : {"--help", "simulate --help", "simulate p.json --balance 2,2 -m 2 --batch 2"}) {
        const CommandResult result =
            user.types_to_shell("'" PIPESCOPE_BIN_FOLDER "/pipescope' " + line + " >&- 2>.stderr");
        EXPECT_EQ(result.code, 1) << line;
        EXPECT_THAT(result.err, HasSubstr("stdout cannot be written")) << line;
    }
}

// Python starts programs with SIGPIPE ignored.
TEST_F(Commands, AReaderThatEndsFirstEndsThemWithoutAWord) {
    user.succeeds("simulate p.json --balance 2,2 -m 2 --batch 2 --trace t.sqlite");
    for (const std::string disposition : {"--ignore-signal=PIPE", "--default-signal=PIPE"}) {
        for (const std::string line : {"schedule gpipe -n 3 -m 6", "export t.sqlite --format csv -o -",
                                       "export t.sqlite --format chrome -o -", "--help"}) {
            const CommandResult result =
                user.types_to_shell("rm -f none; mkfifo none; exec 3<>none 4>none 3<&-\nenv " + disposition +
                                    " '" PIPESCOPE_BIN_FOLDER "/pipescope' " + line + " >&4 2>.stderr");
            EXPECT_EQ(result.code, 128 + SIGPIPE) << disposition << " " << line;
            EXPECT_EQ(result.err, "") << disposition << " " << line;
        }
    }
    const CommandResult full = user.types_to_shell(
        "'" PIPESCOPE_BIN_FOLDER "/pipescope' export t.sqlite --format csv -o - >/dev/full 2>.stderr");
    EXPECT_EQ(full.code, 1);
    EXPECT_THAT(full.err, HasSubstr("check the disk's free space"));
}

TEST_F(Commands, ASimulatedTraceCanBeExported) {
    user.succeeds("simulate p.json --balance 2,2 -m 2 --batch 2 --trace t.sqlite");
    EXPECT_EQ(user.succeeds("export t.sqlite --format chrome -o c\x1b[2J.json").out, "wrote c\\x1b[2J.json\n");
    user.succeeds("simulate p.json --balance 2,2 -m 2 --batch 2 --trace m\x1b[2J.sqlite");
    EXPECT_THAT(user.succeeds("recover m\x1b[2J.sqlite").out, StartsWith("m\\x1b[2J.sqlite: "));
    user.succeeds("export t.sqlite --format chrome");
    EXPECT_TRUE(nlohmann::json::parse(user.reads("t.chrome.json")).contains("traceEvents"));
    const std::string csv = user.succeeds("export t.sqlite --format csv -o -").out;
    EXPECT_THAT(csv, AllOf(StartsWith("source,step,kind,"), HasSubstr("simulated,0,forward,1,1,-1,1,")));
    const auto recovery = user.succeeds("recover t.sqlite --json").json();
    EXPECT_THAT(keys_of(recovery), ElementsAre("was_open", "tasks", "steps", "recorded_until_ns", "dropped",
                                               "clock_drift_ns", "from_version", "log_trouble"));
    EXPECT_EQ(recovery.at("was_open"), false);
}

TEST_F(Commands, CompareSetsTwoRunsSideBySide) {
    const std::string pipeline = "simulate p.json -m 4 --batch 4 --balance ";
    user.succeeds(pipeline + "2,2 --trace a.sqlite");
    user.succeeds(pipeline + "2,2 --checkpoint always --trace b.sqlite");
    const auto positional = user.succeeds("compare a.sqlite b.sqlite --json").out;
    EXPECT_EQ(user.succeeds("compare b.sqlite --baseline a.sqlite --json").out, positional);
    const auto compared = nlohmann::json::parse(positional);
    EXPECT_EQ(compared.at("before").at("name"), "a.sqlite");
    EXPECT_EQ(compared.at("joined_by"), "task");
    EXPECT_EQ(compared.at("only_before"), 0);
    EXPECT_EQ(compared.at("only_after"), 2) << "the recomputes of the last micro-batch";
    EXPECT_EQ(compared.at("differences").at(0).at("what"), "checkpoint");
    const auto swapped = user.succeeds("compare b.sqlite a.sqlite --json").json();
    EXPECT_EQ(swapped.at("step").at("difference_ns").get<std::int64_t>(),
              -compared.at("step").at("difference_ns").get<std::int64_t>());
}

TEST_F(Commands, WhatOtherProfilersRecordedIsExportedButNotCompared) {
    user.writes("kineto.json", R"({"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 2, "ts": 1.5, "dur": 2}]})");
    user.writes("other.json", R"({"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mul", "pid": 1, "tid": 2, "ts": 1.5, "dur": 3}]})");
    EXPECT_EQ(user.succeeds("compare kineto.json other.json --json").json().at("ranges").at(0).at("only_before_ns"),
              2000);
    user.succeeds("simulate p.json --balance 2,2 -m 2 --batch 2 --trace t.sqlite");
    user.succeeds("export t.sqlite --format chrome -o t.json");
    EXPECT_EQ(user.succeeds("export t.json --format csv -o -").out,
              user.succeeds("export t.sqlite --format csv -o -").out);
}

TEST_F(Commands, SayThatAnOutputIsBeyondTheLimitOfFileSizes) {
    const CommandResult full = user.types_to_shell("ulimit -f 1; '" PIPESCOPE_BIN_FOLDER
                                                   "/pipescope' schedule 1f1b -n 4 -m 64 -o s.csv >.stdout 2>.stderr");
    EXPECT_EQ(full.code, 1);
    EXPECT_THAT(full.err, AllOf(HasSubstr("s.csv cannot be written (File too large)"), HasSubstr("free some space")));
    EXPECT_EQ(user.types_to_shell("ls s.csv* >.stdout 2>.stderr").out, "");
}

TEST_F(Commands, DoctorSucceedsHereAndTellsWhatItSaw) {
    const auto checks = user.succeeds("doctor --json").json().at("checks");
    ASSERT_FALSE(checks.empty());
    for (const auto& check : checks) {
        EXPECT_THAT(keys_of(check), ElementsAre("name", "ok", "detail"));
    }
    EXPECT_THAT(user.succeeds("doctor").out, HasSubstr("trace store"));
}

#ifdef FAKE_CUDA_FOLDERS
/// The CUPTI check of doctor in this environment, as "ok: detail".
std::string cupti_check(const User& user, const std::string& environment) {
    const CommandResult result =
        user.types_to_shell("unset PIPESCOPE_CUPTI; " + environment +
                            " '" PIPESCOPE_BIN_FOLDER "/pipescope' doctor --json >.stdout 2>.stderr");
    const auto object = result.json();
    for (const auto& check : object.at("checks")) {
        if (check.at("name") == "cupti") {
            return std::string(check.at("ok").get<bool>() ? "ok: " : "off: ") + check.at("detail").get<std::string>();
        }
    }
    return "no check";
}

TEST_F(Commands, DoctorNamesWhyDevicesAreNotRecorded) {
    const std::string fake = "LD_LIBRARY_PATH='" FAKE_CUDA_FOLDERS "' ";
    EXPECT_THAT(cupti_check(user, fake), StartsWith("ok: "));
    EXPECT_THAT(cupti_check(user, fake + "FAKE_CUDA_DEVICES=0"), AllOf(StartsWith("off: "), HasSubstr("no device")));
    EXPECT_THAT(cupti_check(user, fake + "FAKE_CUDA_INIT=100"), HasSubstr("cuInit gives 100"));
    EXPECT_THAT(cupti_check(user, fake + "PIPESCOPE_CUPTI=/nowhere/c.so"), HasSubstr("/nowhere/c.so is not found"));
    EXPECT_THAT(cupti_check(user, fake + "FAKE_CUPTI_VERSION=140000"), HasSubstr("version 140000"));
    EXPECT_THAT(cupti_check(user, fake + "FAKE_CUPTI_SUBSCRIBE=39 FAKE_CUPTI_HOLDER=Nsight"),
                HasSubstr("CUPTI is held by Nsight"));
    EXPECT_THAT(cupti_check(user, fake + "PIPESCOPE_CUPTI=off"), HasSubstr("PIPESCOPE_CUPTI is off"));
}
#endif

TEST_F(Commands, EveryCommandExplainsItself) {
    const std::string help = user.succeeds("--help").out;
    for (const std::string command : {"simulate", "plan", "export", "view", "recover", "doctor"}) {
        EXPECT_THAT(help, HasSubstr("\n  " + command + " "));
        EXPECT_THAT(user.succeeds(command + " --help").out, HasSubstr("Example")) << command;
    }
    EXPECT_THAT(user.succeeds("--version").out, StartsWith("pipescope 0.2."));
    EXPECT_EQ(user.succeeds("-v").out, user.succeeds("--version").out);
    EXPECT_EQ(user.succeeds("help").out, help);
    EXPECT_EQ(user.succeeds("help plan").out, user.succeeds("plan --help").out);
}

TEST_F(Commands, WithoutTorchTheForwardedCommandsSayWhatIsMissing) {
    if (is_installed("pipescope-torch")) {
        GTEST_SKIP() << "this build has pipescope-torch";
    }
    EXPECT_THAT(refused(1, "run mlp --balance 1,1 -m 1 --batch 1"),
                testing::ContainsRegex("pip install dist/pipescope_torch.*PIPESCOPE_TORCH=ON"));
}
}  // namespace
}  // namespace pipescope
