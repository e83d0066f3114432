// A user's whole workflow in an empty folder with small models: profile, balance, simulate, run, compare, export,
// picture.

#include "tests/cli/user.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string_view>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kModel = "mlp:layers=4,width=64";

// Absent from the trace of a CPU run in one process: device work, names of resources, other processes.
constexpr const char* kAbsent[] = {"CUPTI_",
                                   "CUDA_",
                                   "PIPESCOPE_TASK_DEVICE",
                                   "PIPESCOPE_DEVICE_WORK",
                                   "PIPESCOPE_LANE_WORK",
                                   "TARGET_INFO_GPU",
                                   "PIPESCOPE_MESSAGE",
                                   "PIPESCOPE_RESOURCE",
                                   "PIPESCOPE_COPY",
                                   "'processes'"};

/// Compares simulation and measurement of layers that only wait. A run takes at least the simulated time, plus the
/// delays that other programs cause.
void expect_error_of_a_waiting_pipeline(double step_error) {
    EXPECT_LT(step_error, 0.2);
    EXPECT_GT(step_error, -0.9);
}

class EndToEnd : public testing::Test {
protected:
    std::string refused(int code, const std::string& line) const {
        const CommandResult result = user.types(line);
        EXPECT_EQ(result.code, code) << line << "\n" << result.err;
        EXPECT_THAT(result.err, StartsWith("pipescope: ")) << line;
        return result.err;
    }
    nlohmann::json embedded_profile(const std::string& trace) const {
        SQLite::Database file(user.folder() / trace);
        return nlohmann::json::parse(file.execAndGet("SELECT profile FROM PIPESCOPE_PROFILE").getString());
    }

    User user;
};

TEST_F(EndToEnd, WarnsOnceOfTheFirstLossThatIsNoNumber) {
    const std::string line = "run mlp:layers=2,width=8 --balance 1,1 -m 2 --batch 4 --steps 4";
    const CommandResult diverged = user.succeeds(line + " --learning-rate 1e30");
    EXPECT_EQ(diverged.err.find("warning: the loss is "), diverged.err.rfind("warning: the loss is ")) << diverged.err;
    EXPECT_THAT(diverged.err, AllOf(HasSubstr("in step 1: the model learns nothing"), HasSubstr("--learning-rate")));
    EXPECT_THAT(user.succeeds(line).err, Not(HasSubstr("the loss is")));
}

TEST_F(EndToEnd, AsksForASmallerBatchWhereMemoryIsTooSmall) {
    const std::string line = "run mlp:layers=2,width=8 --balance 1,1 -m 2 --steps 1 --batch ";
    for (const std::string batch : {"100000000000000", "9000000000000000000"}) {
        EXPECT_THAT(refused(1, line + batch), HasSubstr("a smaller batch, smaller micro-batches"));
    }
}

TEST_F(EndToEnd, SaysThatLibTorchDoesNotFitTheLimitOfMemory) {
    for (const char* limit : {"200000", "400000"}) {  // in KiB
        const CommandResult result =
            user.types_to_shell(std::string("ulimit -v ") + limit + "\n'" + PIPESCOPE_BIN_FOLDER +
                                "/pipescope' run mlp --balance 2,2 >.stdout 2>.stderr");
        EXPECT_EQ(result.code, 1) << limit;
        EXPECT_THAT(result.err, testing::MatchesRegex("pipescope: the limit of memory .ulimit -v. is [0-9]+ MB; 'run' "
                                                      "needs LibTorch, which takes more than 420 MB .*; raise the "
                                                      "limit\n"));
    }
}

TEST_F(EndToEnd, RefusesWrongCountsBeforeAnyWork) {
    EXPECT_THAT(refused(2, "demo --batch 0"), HasSubstr("batch is 0"));
    EXPECT_THAT(refused(2, "demo -m 0"), HasSubstr("chunks is 0"));
    EXPECT_FALSE(user.has("demo"));
}

TEST_F(EndToEnd, NeverReplacesTheModelsFile) {
    user.writes("net.pt", "precious");
    EXPECT_THAT(refused(1, "profile net.pt:input=3 -o net.pt --force"), HasSubstr("net.pt is the input"));
    user.writes("c.json", "{}");
    EXPECT_THAT(refused(1, "profile mlp --device meta --device-type A100 --device-catalogue c.json -o c.json --force"),
                HasSubstr("c.json is the input"));
}

TEST_F(EndToEnd, CheckRunsBothInTurnsAndSaysWhichIsFaster) {
    user.writes("p.json", emulated_profile(2));
    const std::string present = "emulated:p.json --balance 4,4 -m 4 --batch 4 --steps 5";
    const auto slower = user.succeeds("check --rounds 3 --json " + present + " -- --balance 1,7").json();
    EXPECT_EQ(slower.at("verdict"), "slower");  // lane 1 has 7 of 8 layers: about 1.5 times the time
    EXPECT_GT(slower.at("step").at("low"), 1.1);
    EXPECT_EQ(slower.at("before").at("turns").size(), 3u);
    EXPECT_EQ(slower.at("after").at("turns").at(0).at("steps"), 3) << "without the warm-up";
    EXPECT_THAT(slower.at("after").at("command").get<std::string>(), HasSubstr("--balance 1,7"));

    user.succeeds("run " + present + " --trace out.sqlite");
    const CommandResult once = user.succeeds("check --rounds 1 out.sqlite -- --checkpoint never");
    EXPECT_THAT(once.out, AllOf(HasSubstr("before: pipescope run emulated:p.json --balance 4,4 -m 4 --batch 4"),
                                HasSubstr("--checkpoint never"), HasSubstr("not decided")));
    EXPECT_THAT(user.succeeds("advise out.sqlite").out, HasSubstr("pipescope check out.sqlite -- "));
    const auto beside = user.succeeds("check --rounds 1 --json out.sqlite --steps 6 -m 2 -- --checkpoint never").json();
    EXPECT_EQ(beside.at("before").at("turns").at(0).at("steps"), 4);
    EXPECT_THAT(beside.at("before").at("command").get<std::string>(), AllOf(HasSubstr("-m 2"), HasSubstr("--steps 6")));
}

TEST_F(EndToEnd, CheckRefusesWhatCannotRepeat) {
    user.writes("p.json", emulated_profile(2));
    const std::string present = "check emulated:p.json --balance 4,4 -m 4 --batch 4 ";
    EXPECT_THAT(refused(2, present), HasSubstr("given one configuration"));
    EXPECT_THAT(refused(2, present + "-- -m 8 --json"), HasSubstr("before the model"));
    EXPECT_THAT(refused(2, present + "--trace t.sqlite -- -m 8"), HasSubstr("keeps no files"));
    EXPECT_THAT(refused(2, present + "--profile p.json -- -m 8"), HasSubstr("check records none"));
    EXPECT_THAT(refused(2, present + "-- -m 8 --resume"), HasSubstr("from the beginning"));
    user.succeeds("simulate p.json --balance 4,4 -m 4 --batch 4 --trace simulated.sqlite");
    EXPECT_THAT(refused(2, "check simulated.sqlite -- -m 2"), HasSubstr("holds a simulated step"));
    user.succeeds("launch -n 2 -- run emulated:p.json --balance 4,4 -m 4 --batch 4 --steps 3 --trace two.sqlite");
    user.succeeds("merge two.rank0.sqlite two.rank1.sqlite -o merged.sqlite");
    for (const std::string trace : {"two.rank0.sqlite", "merged.sqlite"}) {
        EXPECT_THAT(refused(2, "check " + trace + " -- -m 2"), HasSubstr("run in 2 processes")) << trace;
        EXPECT_THAT(user.succeeds("advise " + trace).out, Not(HasSubstr("pipescope check"))) << trace;
    }
    EXPECT_THAT(refused(2, present + "-- --balanc 4,4"), HasSubstr("--balanc is no option of run"));
    EXPECT_THAT(user.types(present + "-- --balance 9").err, HasSubstr("'pipescope run emulated:p.json --balance 9"));
}

TEST_F(EndToEnd, FromProfileToPicture) {
    user.succeeds("profile " + kModel + " -o p.json --micro-batch-sizes 2,4 --time-limit 3s");
    const auto profile = nlohmann::json::parse(user.reads("p.json"));
    EXPECT_EQ(profile.at("layers").size(), 4u);
    EXPECT_EQ(profile.at("samples"), (nlohmann::json{2, 4}));

    const auto balanced = user.succeeds("balance p.json -n 2 -m 4 --batch 16 --json").json();
    EXPECT_THAT(keys_of(balanced),
                ElementsAre("balance", "step_ns", "step_mean_ns", "bubble_mean", "lower_bound_ns", "optimal",
                            "algorithm", "ranked_by_simulation", "peak_bytes", "micro_batches", "dtype", "optimizer",
                            "estimated", "extrapolated", "assumed"));
    const auto& cut = balanced.at("balance");
    ASSERT_EQ(cut.size(), 2u);
    const std::string pipeline = "--balance " + std::to_string(cut.at(0).get<int>()) + "," +
                                 std::to_string(cut.at(1).get<int>()) + " -m 4 --batch 16";
    const auto simulated = user.succeeds("simulate p.json " + pipeline + " --json").json();
    EXPECT_EQ(simulated.at("step_ns"), balanced.at("step_ns"));

    const auto ran =
        user.succeeds("run " + kModel + " " + pipeline + " --steps 4 --trace out.sqlite --profile p.json --json")
            .json();
    EXPECT_THAT(keys_of(ran), ElementsAre("micro_batches", "steps", "bubble_fraction", "lanes", "load", "trace",
                                          "batch", "optimizer", "update"));
    ASSERT_EQ(ran.at("steps").size(), 4u);
    for (const auto& step : ran.at("steps")) {
        EXPECT_THAT(keys_of(step), ElementsAre("loss", "step_ns", "wall_step_ns", "warmup"));
        EXPECT_GT(step.at("step_ns").get<std::int64_t>(), 0);
        EXPECT_GE(step.at("wall_step_ns").get<std::int64_t>(), step.at("step_ns").get<std::int64_t>());
    }
    EXPECT_EQ(ran.at("trace"), "out.sqlite");
    ASSERT_EQ(ran.at("lanes").size(), 2u);
    EXPECT_GT(ran.at("lanes").at(1).at("peak_bytes").get<std::int64_t>(), 2 * 64 * 64 * 4);

    const auto compared = user.succeeds("compare out.sqlite --json").json();
    EXPECT_EQ(compared.at("steps").size(), 2u);  // two of the four are warm-up
    EXPECT_EQ(compared.at("tasks_unmatched"), 0);
    EXPECT_GT(compared.at("tasks_matched").get<int>(), 0);
    EXPECT_EQ(compared.at("lanes").at(0).at("measured_peak_bytes"), ran.at("lanes").at(0).at("peak_bytes"));
    EXPECT_EQ(compared.at("drops").at(0).at("dropped"), 0);

    user.succeeds("export out.sqlite --format chrome");
    EXPECT_TRUE(nlohmann::json::parse(user.reads("out.chrome.json")).contains("traceEvents"));
    if (is_installed("pipescope-gui")) {
        user.succeeds("view out.sqlite --render out.png --size 1200x800");
        EXPECT_THAT(user.reads("out.png"), StartsWith("\x89PNG"));
        EXPECT_THAT(refused(1, "view out.sqlite --render out.png"), HasSubstr("--force"));
    }
}

/// The commands of docs/first-steps.md in order, without "./pipescope ", comments and continuation lines.
std::vector<std::string> commands_of_first_steps() {
    std::istringstream page(read_text(PIPESCOPE_DOCS "/first-steps.md"));
    std::vector<std::string> commands;
    bool continues = false;
    for (std::string line; std::getline(page, line);) {
        constexpr std::string_view kStart = "    ./pipescope ";
        const bool starts = line.starts_with(kStart);
        if (!starts && !continues) {
            continue;
        }
        std::string words = starts ? line.substr(kStart.size()) : line;
        words.erase(std::min(words.size(), words.find("  #")));
        continues = words.ends_with('\\');
        if (continues) {
            words.pop_back();
        }
        starts ? commands.push_back(words) : (void)commands.back().append(words);
    }
    return commands;
}

// compare uses the prediction that simulate prints for the same pipeline. Tested with a smaller model of as many
// layers.
TEST_F(EndToEnd, FirstStepsAgreeWithEachOther) {
    std::map<std::string, nlohmann::json> first;  // of each command
    std::vector<std::string> names;
    for (std::string line : commands_of_first_steps()) {
        const std::string name = line.substr(0, line.find(' '));
        if (name == "view") {
            continue;
        }
        if (const std::size_t model = line.find("width=128"); model != std::string::npos) {
            line.replace(model, 9, "width=32,sequence=8,vocabulary=50");
        }
        line += name == "profile" ? " --time-limit 2s" : "";
        const CommandResult result = user.types(line + " --json");
        EXPECT_EQ(result.code, 0) << line << "\n" << result.err;
        first.emplace(name, nlohmann::json::parse(result.out));
        names.push_back(name);
    }
    EXPECT_THAT(names,
                ElementsAre("profile", "balance", "simulate", "simulate", "plan", "plan", "run", "compare", "advise"));
    const nlohmann::json& simulated = first.at("simulate");
    EXPECT_EQ(simulated.at("step_ns"), first.at("compare").at("simulated_step_ns"));
    EXPECT_EQ(simulated.at("step_ns"), first.at("advise").at("base").at("step_ns"));
    for (std::size_t lane = 0; lane < 2; ++lane) {
        EXPECT_EQ(simulated.at("lanes").at(lane).at("peak_bytes"),
                  first.at("compare").at("lanes").at(lane).at("simulated_peak_bytes"));
    }
    EXPECT_EQ(simulated.at("optimizer"), "adam");
    EXPECT_EQ(simulated.at("optimizer"), first.at("run").at("optimizer"));
    EXPECT_EQ(first.at("balance").at("optimizer"), "adam");
    EXPECT_EQ(simulated.at("assumed").at("devices"), "cpu");
    if (first.at("balance").at("balance") == simulated.at("balance")) {
        EXPECT_EQ(first.at("balance").at("step_ns"), simulated.at("step_ns"));
    }
}

TEST_F(EndToEnd, ARecordedRunProfilesItselfSoThatItsTraceNeedsNothingElse) {
    EXPECT_THAT(user.succeeds("run " + kModel + " --balance 2,2 -m 8 --batch 4 --steps 3 --trace 'few $.sqlite'").out,
                AllOf(HasSubstr("8 micro-batches were requested; 4 samples make 4, of a sample each"),
                      HasSubstr("next: 'pipescope compare 'few $.sqlite'' or 'pipescope view 'few $.sqlite''")));
    user.succeeds("run " + kModel + " --balance 2,2 -m 2 --batch 5 --steps 3 --trace out.sqlite");
    const auto compared = user.succeeds("compare out.sqlite --json").json();
    EXPECT_GT(compared.at("simulated_step_ns").get<std::int64_t>(), 0);
    // Replay with the run's own durations and gaps gives the run's own step, however busy the machine was.
    EXPECT_LE(std::abs(compared.at("replay_with_gaps_error").get<double>()), 0.001);
    const nlohmann::json profile = embedded_profile("out.sqlite");
    EXPECT_EQ(profile.at("co_running_lanes"), std::min(2, profile.at("host_cores").get<int>()))
        << "profiled with as many lanes busy as will run at once";
    EXPECT_EQ(profile.at("samples"), (nlohmann::json{2, 3})) << "the sizes of its micro-batches";
    EXPECT_EQ(embedded_profile("few $.sqlite").at("samples"), (nlohmann::json{1}));
}

TEST_F(EndToEnd, TrainingLowersTheLossAndRepeatsExactly) {
    const std::string line = "run " + kModel + " --balance 1,3 -m 4 --batch 16 --steps 30 --json";
    const auto steps = user.succeeds(line).json().at("steps");
    EXPECT_LT(steps.back().at("loss").get<double>(), 0.9 * steps.front().at("loss").get<double>());
    const auto again = user.succeeds(line).json().at("steps");
    for (std::size_t i = 0; i < steps.size(); ++i) {
        EXPECT_EQ(steps.at(i).at("loss"), again.at(i).at("loss"));
    }
}

std::vector<double> losses(const nlohmann::ordered_json& run) {
    std::vector<double> all;
    for (const auto& step : run.at("steps")) {
        all.push_back(step.at("loss").get<double>());
    }
    return all;
}

TEST_F(EndToEnd, ComparedRunsNameTheirSeedsAndLearningRates) {
    const std::string run = "run mlp:layers=4,width=16 --balance 2,2 -m 2 --batch 8 --steps 3 --trace ";
    user.succeeds(run + "a.sqlite");
    user.succeeds(run + "b.sqlite --seed 7 --learning-rate 0.1");
    const std::string differences = user.succeeds("compare a.sqlite b.sqlite --json").json().at("differences").dump();
    EXPECT_THAT(differences, HasSubstr(R"({"what":"seed","before":"0","after":"7"})"));
    EXPECT_THAT(differences, HasSubstr(R"({"what":"learning_rate","before":"0.05","after":"0.1"})"));
}

TEST_F(EndToEnd, RecordingChangesNothingOfTheTraining) {
    user.succeeds("profile " + kModel + " -o p.json --micro-batch-sizes 4 --time-limit 1ms");
    const std::string line = "run " + kModel + " --balance 1,3 -m 4 --batch 16 --steps 5 --json";
    const std::string recorded = line + " --profile p.json --trace ";
    const std::vector<double> plain = losses(user.succeeds(line).json());
    EXPECT_EQ(losses(user.succeeds(recorded + "t.sqlite").json()), plain);
#ifdef FAKE_CUPTI
    // Another tool uses CUPTI, or it is missing.
    const std::string driver = "LD_LIBRARY_PATH='" FAKE_DRIVER_FOLDER "' ";
    const std::string held =
        driver + "PIPESCOPE_CUPTI='" FAKE_CUPTI "' FAKE_CUPTI_SUBSCRIBE=39 FAKE_CUPTI_HOLDER=Nsight ";
    const std::map<std::string, std::string> reasons = {
        {held, "CUPTI is held by Nsight"},
        {driver + "PIPESCOPE_CUPTI=/nowhere/cupti.so ", "/nowhere/cupti.so is not found"}};
    for (const auto& [environment, reason] : reasons) {
        const std::string program = environment + "timeout 120 '" PIPESCOPE_BIN_FOLDER "/pipescope' ";
        const CommandResult run = user.types_to_shell(program + recorded + "other.sqlite --force >.stdout 2>.stderr");
        ASSERT_EQ(run.code, 0) << run.err;
        EXPECT_EQ(losses(run.json()), plain);
        EXPECT_TRUE(run.json().at("bubble_fraction").is_number()) << "nothing of the ranges is missing";
        SQLite::Database trace(user.folder() / "other.sqlite");
        EXPECT_THAT(trace.execAndGet("SELECT text FROM PIPESCOPE_DIAGNOSTIC WHERE source = 'cupti'").getString(),
                    HasSubstr(reason));
        EXPECT_THAT(user.types_to_shell(program + "doctor >.stdout 2>.stderr").out, HasSubstr(reason));
    }
#endif
}

TEST_F(EndToEnd, ARunTellsWhatEachLanesPeakConsistsOf) {
    const auto lanes = [&](const std::string& optimizer) {
        return user
            .succeeds("run " + kModel + " --balance 2,2 -m 2 --batch 8 --steps 4 --json --optimizer " + optimizer)
            .json()
            .at("lanes");
    };
    constexpr std::int64_t kParameters = 2 * (64 * 64 + 64) * 4;  // of a lane's two layers
    for (const auto& lane : lanes("adam")) {
        const auto& peak = lane.at("peak");
        EXPECT_THAT(keys_of(peak), ElementsAre("parameters", "gradients", "optimizer", "boundary", "saved", "skip",
                                               "transient", "copy", "output"));
        std::int64_t sum = 0;
        for (const auto& [category, bytes] : peak.items()) {
            sum += bytes.get<std::int64_t>();
        }
        EXPECT_EQ(sum, lane.at("peak_bytes"));
        EXPECT_EQ(peak.at("parameters"), kParameters);
        EXPECT_EQ(peak.at("gradients"), kParameters);
        EXPECT_GE(peak.at("optimizer"), 2 * kParameters) << "two moments of each";
        EXPECT_LT(peak.at("optimizer"), 3 * kParameters);
    }
    for (const auto& lane : lanes("sgd")) {
        EXPECT_EQ(lane.at("peak").at("optimizer"), 0);
    }
}

TEST_F(EndToEnd, LanesTakeTheCoresInTurnsAsSimulated) {
    const auto ran = user.succeeds("run " + kModel +
                                   " --balance 1,1,2 -m 4 --batch 8 --cores 1 --steps 4 "
                                   "--trace out.sqlite --json")
                         .json();
    EXPECT_GE(ran.at("bubble_fraction").get<double>(), 2.0 / 3) << "never two lanes at once";
    const auto compared = user.succeeds("compare out.sqlite --json").json();
    EXPECT_EQ(compared.at("tasks_unmatched"), 0);
    EXPECT_GE(compared.at("simulated_bubble_fraction").get<double>(), 2.0 / 3 - 1e-6);
    EXPECT_THAT(refused(2, "run " + kModel + " --balance 2,2 -m 2 --batch 4 --cores -1"), HasSubstr("cores is -1"));
    EXPECT_THAT(refused(2, "run " + kModel + " --balance 2,2 -m 2 --batch 4 --learning-rate 1e308"),
                AllOf(HasSubstr("--learning-rate is 1e+308"), HasSubstr("from 0 to")));
}

TEST_F(EndToEnd, ARunOfAnotherScheduleMatchesItsSimulationTaskByTask) {
    user.writes("mine.csv",
                "0F0,2F0,0F1,0F2,2B0,2F1,0B0,2B1,0F3,0B1,2F2,2F3,2B3,2B2,0B3,0B2\n"
                "1F0,1F1,1B0,1F2,1B1,1F3,1B3,1B2\n");
    user.succeeds("profile " + kModel + " --micro-batch-sizes 2,3,8 --time-limit 1ms -o p.json");
    for (const std::string flags :
         {"--schedule 1f1b --balance 2,2", "--schedule zero-bubble-h1 --balance 2,2",
          "--schedule zero-bubble-v --balance 1,1,1,1", "--schedule interleaved --devices cpu,cpu --balance 1,1,1,1",
          "--schedule interleaved --placement 0,1,0,1 --balance 1,1,1,1", "--placement 0,0,1 --balance 1,1,2",
          "--schedule looped-bfs --balance 1,1,1,1", "--schedule mine.csv --balance 2,1,1"}) {
        const auto ran = user.succeeds("run " + kModel + " " + flags +
                                       " -m 4 --batch 10 --steps 4 --profile p.json --trace out.sqlite --force --json")
                             .json();
        EXPECT_EQ(ran.at("lanes").size(), 2u) << flags;
        const auto compared = user.succeeds("compare out.sqlite --json").json();
        EXPECT_EQ(compared.at("tasks_unmatched"), 0) << flags;
        EXPECT_GT(compared.at("tasks_matched").get<int>(), 0) << flags;
    }
    const std::string rest = " --balance 1,1,1,1 -m 4 --batch 8 --trace none.sqlite";
    user.writes("split.csv", "0F0,0I0,0W0\n");
    user.succeeds("run " + kModel +
                  " --schedule split.csv --balance 4 --batch 8 --steps 2 --profile p.json --trace split.sqlite");
    EXPECT_EQ(user.succeeds("compare split.sqlite --json").json().at("tasks_unmatched"), 0);
    EXPECT_THAT(refused(2, "run " + kModel + " --schedule auto" + rest), HasSubstr("--schedule-output"));
    EXPECT_THAT(
        refused(2, "run " + kModel + " --schedule interleaved --devices cpu,cpu -m 5 --batch 8 --balance 1,1,1,1"),
        HasSubstr("5 do not divide into 2 groups; use 4 or 6"));
    EXPECT_THAT(refused(2, "run " + kModel + " --schedule pipedream" + rest), HasSubstr("use one of them"));
    EXPECT_THAT(refused(2, "run " + kModel + " --schedule dualpipe" + rest), HasSubstr("such as dualpipe-v"));
    EXPECT_THAT(refused(2, "run " + kModel + " --schedule 1f1b --placement 0,1,0,1 --devices cpu" + rest),
                HasSubstr("one device for each lane"));
    EXPECT_FALSE(user.has("none.sqlite"));
}

TEST_F(EndToEnd, TheTraceOfAKilledRunIsRecovered) {
    user.writes("e.json", emulated_profile(1));
    // Kills the run after several steps are in the write-ahead log; it would continue for a minute.
    user.types_to_shell("'" PIPESCOPE_BIN_FOLDER
                        "/pipescope' run emulated:e.json --balance 4,4 -m 8 --batch 8 "
                        "--steps 2000 --trace k.sqlite >.stdout 2>.stderr & run=$!\n"
                        "for i in $(seq 300); do\n"
                        "  sleep 0.1; test $(stat -c %s k.sqlite-wal 2>.none || echo 0) -gt 1000000 && break\n"
                        "done\n"
                        "kill -9 $run; wait $run 2>.none");
    ASSERT_TRUE(user.has("k.sqlite"));
    const auto recovery = user.succeeds("recover k.sqlite --json").json();
    EXPECT_EQ(recovery.at("was_open"), true);
    EXPECT_GE(recovery.at("steps").get<int>(), 3);
    EXPECT_FALSE(user.has("k.sqlite-wal"));
    user.writes("new.sqlite-wal", "last steps");
    const std::string again = "run emulated:e.json --balance 4,4 -m 8 --batch 8 --steps 1 --trace new.sqlite";
    EXPECT_THAT(refused(1, again), HasSubstr("new.sqlite-wal exists without the trace new.sqlite"));
    EXPECT_EQ(user.reads("new.sqlite-wal"), "last steps");
    user.succeeds(again + " --force");
    EXPECT_FALSE(user.has("new.sqlite-wal"));
    EXPECT_GE(user.succeeds("compare k.sqlite --json").json().at("steps").size(), 1u);
}

TEST_F(EndToEnd, TheDemoDoesItAllAndKeepsWhatIsNotItsOwn) {
    std::filesystem::create_directory(user.folder() / "demo");
    user.writes("demo/notes.txt", "mine");
    const CommandResult demo = user.succeeds("demo --force --json --model " + kModel + " --batch 8 -m 16 --steps 2");
    const auto parts = demo.json();
    EXPECT_THAT(keys_of(parts), ElementsAre("real", "emulated"));
    EXPECT_EQ(parts.at("real").at("tasks_unmatched"), 0);
    EXPECT_TRUE(parts.at("real").at("uncertainty").is_number());
    // Profiled in turns, the second run's steps and their prediction are of one size on any machine.
    const double in_turns = parts.at("real").at("in_turns").at("step_error");
    EXPECT_GT(in_turns, -0.9);
    EXPECT_LT(in_turns, 9);
    EXPECT_EQ(parts.at("emulated").at("lanes").size(), 8u);
    expect_error_of_a_waiting_pipeline(parts.at("emulated").at("step_error"));
    for (const std::string name : {"profile.json", "trace.sqlite", "emulated-profile.json", "emulated-trace.sqlite"}) {
        EXPECT_TRUE(user.has("demo/" + name)) << name;
    }
    EXPECT_EQ(user.has("demo/timeline.png"), is_installed("pipescope-gui"));
    EXPECT_THAT(user.reads("demo/report.md"), AllOf(HasSubstr("| step time |"), HasSubstr("pipescope compare")));
    EXPECT_EQ(user.reads("demo/notes.txt"), "mine");
    EXPECT_THAT(demo.err, HasSubstr("16 micro-batches were requested; 8 samples make 8, of a sample each"));
    EXPECT_THAT(user.reads("demo/report.md"), HasSubstr("batch of 8 in 8 micro-batches"));
}

TEST_F(EndToEnd, ModelsAreListedAndDescribed) {
    const auto zoo = user.succeeds("models --json").json().at("models");
    EXPECT_GE(zoo.size(), 3u);
    const auto model = user.succeeds("models " + kModel + " --json").json().at("models").at(0);
    EXPECT_THAT(keys_of(model), ElementsAre("name", "layers", "parameters"));
    EXPECT_EQ(model.at("layers"), 4);
    EXPECT_EQ(model.at("parameters"), 4 * (64 * 64 + 64));
}

TEST_F(EndToEnd, WrongRequestsNameValueRuleAndRemedyAndWriteNothing) {
    const std::string rest = " -m 2 --batch 4 --steps 2 --trace out.sqlite";
    EXPECT_THAT(refused(2, "run " + kModel + " --balance 2,3" + rest), AllOf(HasSubstr("sums to 5"), HasSubstr("4")));
    EXPECT_THAT(refused(2, "run nosuchmodel --balance 2,2" + rest), AllOf(HasSubstr("nosuchmodel"), HasSubstr("mlp")));
    EXPECT_THAT(refused(2, "run mlp:depth=3 --balance 2,2" + rest), HasSubstr("depth"));
    EXPECT_THAT(refused(2, "run " + kModel + " --balance 2,2 --devices cpu,quantum:0" + rest), HasSubstr("quantum"));
    EXPECT_THAT(refused(2, "run " + kModel + " --balance 2,2 --devices cpu" + rest), HasSubstr("one device for each"));
    EXPECT_THAT(refused(2, "run " + kModel + " --balance 2,2 -m 0 --batch 4"), HasSubstr("chunks is 0"));
    EXPECT_THAT(refused(2, "run " + kModel + " --balance 2,2 --optimizer lion" + rest), HasSubstr("lion"));
    EXPECT_THAT(refused(2, "run " + kModel + " --balance 2,2 --warmup 2" + rest), HasSubstr("--warmup is 2"));
    EXPECT_THAT(refused(1, "run " + kModel + " --balance 2,2 --profile none.json" + rest), HasSubstr("none.json"));
    EXPECT_THAT(refused(1, "run " + kModel + " --balance 2,2 -m 2 --batch 4 --trace none/out.sqlite"),
                HasSubstr("none"));
    EXPECT_THAT(refused(2, "profile " + kModel + " --micro-batch-sizes 0,1"), HasSubstr("at least 1"));
    EXPECT_THAT(refused(2, "models nosuchmodel"), HasSubstr("nosuchmodel"));
    EXPECT_FALSE(user.has("out.sqlite"));
}

TEST_F(EndToEnd, WhatIsWrongIsRefusedBeforeAnyWork) {
    EXPECT_THAT(refused(2, "run " + kModel + " --balance 2,2 -m 2 --batch 4 --seed -1"), HasSubstr("not a seed"));
    EXPECT_THAT(refused(2, "run " + kModel + " --balance 2,2 -m 2 --batch 4 --steps 99999999999999999999"),
                HasSubstr("at most 2^63 - 1"));
    const std::string help = user.succeeds("run --help").out;
    EXPECT_THAT(help, HasSubstr("interleaved"));
    EXPECT_THAT(help, Not(HasSubstr("pipedream")));
    EXPECT_EQ(user.succeeds("help run").out, help);
}

/// The queries of docs/trace-format.md, which are indented blocks there.
std::vector<std::string> documented_queries() {
    std::ifstream page(PIPESCOPE_DOCS "/trace-format.md");
    std::vector<std::string> found;
    bool inside = false;
    for (std::string line; std::getline(page, line); inside = line.starts_with("    ")) {
        if (line.starts_with("    ")) {
            inside ? void(found.back() += line + "\n") : found.push_back(line + "\n");
        }
    }
    return found;
}

TEST_F(EndToEnd, DocumentedQueriesGiveRowsOnARealRun) {
    user.succeeds("profile " + kModel + " -o p.json --micro-batch-sizes 4 --time-limit 1ms");
    const std::string pipeline = " --balance 2,2 -m 2 --batch 8 ";
    user.succeeds("run " + kModel + pipeline + "--steps 3 --profile p.json --trace run.sqlite");
    user.succeeds("simulate p.json" + pipeline + "--trace sim.sqlite");
    SQLite::Database trace(user.folder() / "run.sqlite");
    trace.exec("ATTACH '" + (user.folder() / "sim.sqlite").string() + "' AS predicted");
    int asked = 0;
    for (const std::string& sql : documented_queries()) {
        const bool is_of_devices = std::any_of(std::begin(kAbsent), std::end(kAbsent),
                                               [&](const char* table) { return sql.find(table) != std::string::npos; });
        if (!is_of_devices) {
            SQLite::Statement query(trace, sql);
            EXPECT_TRUE(query.executeStep()) << "finds nothing: " << sql;
            ++asked;
        }
    }
    EXPECT_GE(asked, 15);
    SQLite::Statement pipelines(trace,
                                "SELECT measured.value = simulated.value FROM PIPESCOPE_RUN AS measured "
                                "JOIN predicted.PIPESCOPE_RUN AS simulated USING (key) WHERE key = 'pipeline'");
    ASSERT_TRUE(pipelines.executeStep());
    EXPECT_EQ(pipelines.getColumn(0).getInt(), 1) << "the engine's task graph is the simulator's";
}

TEST_F(EndToEnd, ExistingFilesAreKept) {
    user.writes("out.sqlite", "precious");
    user.writes("p.json", "precious");
    std::filesystem::create_directory(user.folder() / "demo");
    EXPECT_THAT(refused(1, "run " + kModel + " --balance 2,2 -m 2 --batch 4 --trace out.sqlite"), HasSubstr("--force"));
    EXPECT_THAT(refused(1, "profile " + kModel + " -o p.json"), HasSubstr("--force"));
    EXPECT_THAT(refused(1, "demo"), HasSubstr("--force"));
    EXPECT_EQ(user.reads("out.sqlite"), "precious");
    EXPECT_EQ(user.reads("p.json"), "precious");
    EXPECT_TRUE(std::filesystem::is_empty(user.folder() / "demo"));
}

TEST_F(EndToEnd, HelpOfForwardedCommandsSpeaksOfPipescope) {
    for (const std::string command : {"models", "profile", "run", "demo"}) {
        EXPECT_THAT(user.succeeds(command + " --help").out,
                    AllOf(HasSubstr("Usage: pipescope " + command), HasSubstr("Example")));
    }
}

// 8 partitions, 32 micro-batches, except_last.
TEST_F(EndToEnd, AnEmulatedPipelineRunsAsSimulated) {
    user.writes("e.json", emulated_profile(10));
    user.succeeds("run emulated:e.json --balance 1,1,1,1,1,1,1,1 -m 32 --batch 32 --steps 2 --trace e.sqlite");
    const auto compared = user.succeeds("compare e.sqlite --json").json();
    expect_error_of_a_waiting_pipeline(compared.at("step_error"));
    EXPECT_NEAR(compared.at("measured_bubble_fraction").get<double>(),
                compared.at("simulated_bubble_fraction").get<double>(), 0.3);
    EXPECT_EQ(compared.at("tasks_unmatched"), 0);
    EXPECT_EQ(compared.at("lanes").size(), 8u);
}

// A skip is a copy of its own and bytes on both lanes: emulated as a real one.
TEST_F(EndToEnd, AnEmulatedSkipRunsAsSimulated) {
    nlohmann::ordered_json profile = nlohmann::ordered_json::parse(emulated_profile(5));
    profile.at("layers").at(0)["stash"] = {{"wide", {4'000'000}}};
    profile.at("layers").at(2)["pop"] = {"wide"};
    user.writes("s.json", profile.dump());
    const std::size_t layers = profile.at("layers").size();
    nlohmann::json compared;
    for (const std::string checkpoint : {"except_last", "never"}) {
        user.succeeds("run emulated:s.json --balance 1,1," + std::to_string(layers - 2) +
                      " -m 4 --batch 4 --steps 2 --trace s.sqlite --force --checkpoint " + checkpoint);
        compared = user.succeeds("compare s.sqlite --json").json();
        EXPECT_EQ(compared.at("tasks_unmatched"), 0);
        // A gradient may arrive a task earlier or later than simulated.
        for (const auto& lane : compared.at("lanes")) {
            EXPECT_NEAR(lane.at("simulated_peak_bytes").get<double>(), lane.at("measured_peak_bytes").get<double>(),
                        4.1e6)
                << checkpoint << lane.dump();
        }
    }
    EXPECT_GT(compared.at("lanes").at(2).at("measured_peak_bytes").get<double>(), 4 * 4e6) << "four skips wait there";
}

// The prediction counts the optimizer's state, so the lanes hold it, without updating anything.
TEST_F(EndToEnd, AnEmulatedPipelineHoldsTheOptimizersState) {
    nlohmann::ordered_json profile = nlohmann::ordered_json::parse(emulated_profile(2));
    for (auto& layer : profile.at("layers")) {
        layer["parameter_bytes"] = 4'000'000;
        layer["gradient_bytes"] = 3'000'000;  // the rest is frozen
    }
    user.writes("e.json", profile.dump());
    const std::int64_t gradients = 4 * 3'000'000;  // of a lane's four layers
    for (const auto& [optimizer, factor] : {std::pair("sgd", 0), std::pair("momentum", 1), std::pair("adam", 2)}) {
        const auto ran = user.succeeds(std::string("run emulated:e.json --balance 4,4 -m 2 --batch 2 --steps 3 ") +
                                       "--trace e.sqlite --force --json --optimizer " + optimizer)
                             .json();
        for (const auto& lane : ran.at("lanes")) {
            EXPECT_EQ(lane.at("peak").at("optimizer"), factor * gradients) << optimizer;
            EXPECT_EQ(lane.at("peak").at("gradients"), gradients) << optimizer;
        }
        for (const auto& lane : user.succeeds("compare e.sqlite --json").json().at("lanes")) {
            EXPECT_EQ(lane.at("measured_peak_bytes"), lane.at("simulated_peak_bytes")) << optimizer << lane.dump();
        }
    }
}

TEST_F(EndToEnd, AnEmulatedLanguageModelHasTheOptimizerThatSimulateAssumes) {
    nlohmann::ordered_json profile = nlohmann::ordered_json::parse(emulated_profile(1));
    profile["token_input"] = true;
    user.writes("e.json", profile.dump());
    const std::string pipeline = " --balance 4,4 -m 2 --batch 2 --json";
    EXPECT_EQ(user.succeeds("run emulated:e.json --steps 2" + pipeline).json().at("optimizer"), "adam");
    EXPECT_EQ(user.succeeds("simulate e.json" + pipeline).json().at("assumed").at("optimizer"), "adam");
    const auto again = user.succeeds("profile emulated:e.json --micro-batch-sizes 1 -o again.json --json").json();
    EXPECT_EQ(nlohmann::json::parse(user.reads("again.json")).at("token_input"), true);
}

/// The first command that a text suggests in quotation marks, as one types it behind "pipescope".
std::string suggested_command(const std::string& text) {
    const std::string start = "'pipescope ";
    const std::size_t from = text.find(start);
    EXPECT_NE(from, std::string::npos) << text;
    return from == std::string::npos
               ? ""
               : text.substr(from + start.size(), text.find('\'', from + 1) - from - start.size());
}

TEST_F(EndToEnd, TheProfileThatAHintAsksForIsUsable) {
    const auto meta = [&](const std::string& what) {
        return user.succeeds("profile " + kModel + " --device meta --micro-batch-sizes 2 -o p.json " + what);
    };
    meta("");
    for (const std::string command : {"simulate p.json --balance 2,2 -m 2 --batch 16",
                                      "simulate p.json --balance 2,2 -m 2 --batch 16 --schedule all",
                                      "balance p.json -n 2 -m 2 --batch 16", "plan p.json -n 2 -m 2 --batch 16"}) {
        meta("--force");
        user.succeeds(suggested_command(user.succeeds(command).out));
        const auto profile = nlohmann::json::parse(user.reads("p.json"));
        EXPECT_EQ(profile.at("samples"), (nlohmann::json{2, 8})) << command;
        EXPECT_EQ(profile.at("estimated"), true) << command;
        EXPECT_THAT(user.succeeds(command).out, Not(HasSubstr("extrapolated"))) << command;
    }
    const std::string simulate = " --balance 2,2 -m 2 --batch 4 --dtype bfloat16";
    user.succeeds(suggested_command(refused(2, "simulate p.json" + simulate)));
    user.succeeds("simulate p-bfloat16.json" + simulate);
    EXPECT_EQ(nlohmann::json::parse(user.reads("p.json")).value("dtype", "float32"), "float32") << "it is kept";
}

TEST_F(EndToEnd, WarnsOfAProfileThatDoesNotNameItsModel) {
    user.succeeds("profile mlp:layers=2,width=8 --device meta --micro-batch-sizes 2 -o p.json");
    auto profile = nlohmann::json::parse(user.reads("p.json"));
    const std::string run = "run mlp:layers=2,width=8 --balance 1,1 -m 2 --batch 4 --steps 1 --profile p.json --trace ";
    EXPECT_THAT(user.succeeds(run + "a.sqlite").err, Not(HasSubstr("the profile")));
    profile.erase("model");
    user.writes("p.json", profile.dump());
    EXPECT_THAT(user.succeeds(run + "b.sqlite").err,
                HasSubstr("the profile does not name its model, and the run is of mlp:layers=2,width=8"));
}
}  // namespace
}  // namespace pipescope
