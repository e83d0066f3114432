// The files of another program's ranks, as a user opens them.

#include "tests/trace/rank_files.h"
#include "tests/cli/user.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class RankFiles : public testing::Test {
protected:
    RankFiles() {
        std::filesystem::create_directory(user.folder() / "traces");
        for (int rank = 0; rank < 2; ++rank) {
            RankFile(rank, 2)
                .range("ProfilerStep#5", 0, 200)
                .range("Forward 0", 10, 35)
                .range("Backward 0", 100, 160)
                .write(user.folder() / ("traces/rank" + std::to_string(rank) + ".json"));
        }
    }
    User user;
};

TEST_F(RankFiles, NeedAFolderForTheirTraceAndSayWhichWasMeant) {
    ::setenv("TMPDIR", "/nope", 1);
    const CommandResult compared = user.types("compare traces");
    const CommandResult doctor = user.types("doctor");
    ::unsetenv("TMPDIR");
    EXPECT_EQ(compared.code, 1);
    const std::string remedy = "TMPDIR is '/nope', which is no folder; temporary files go there; set it to a writable";
    EXPECT_THAT(compared.err, HasSubstr(remedy));
    EXPECT_THAT(doctor.out, HasSubstr(remedy));
}

// JSON does not order the fields of an object. Programs that filter a trace may write the events first.
TEST_F(RankFiles, AreOfOneRunInAnyOrderOfTheirFields) {
    std::filesystem::create_directory(user.folder() / "moved");
    for (const char* name : {"rank0.json", "rank1.json"}) {
        auto fields = nlohmann::json::parse(std::ifstream(user.folder() / "traces" / name));
        const std::string events = fields.at("traceEvents").dump();
        fields.erase("traceEvents");
        user.writes(std::string("moved/") + name, "{\"traceEvents\": " + events + ", " + fields.dump().substr(1));
    }
    const auto compared = user.succeeds("compare moved/rank0.json moved/rank1.json --json").json();
    EXPECT_TRUE(compared.at("profile_from_trace")) << "one run";
    EXPECT_EQ(compared.at("lanes").size(), 2U);
}

TEST_F(RankFiles, OfAFolderBecomeOneTrace) {
    const auto merged = user.succeeds("merge traces -o out.sqlite --json").json();
    EXPECT_EQ(merged.at("tasks"), 4);
    EXPECT_EQ(merged.at("processes").size(), 2U);
    EXPECT_THAT(user.succeeds("export out.sqlite --format csv -o -").out, HasSubstr("measured,5,backward,1,0,-1,1,"));
    const auto compared = user.succeeds("compare traces --json").json();
    EXPECT_TRUE(compared.at("profile_from_trace"));
    EXPECT_EQ(compared.at("lanes").size(), 2U);
    EXPECT_TRUE(compared.at("measured_samples_per_second").is_null()) << "the size of a micro-batch is not known";
}

TEST_F(RankFiles, AreImportedAsTheyAreMerged) {
    user.succeeds("merge traces -o merged.sqlite");
    const auto imported = user.succeeds("import traces -o run.sqlite --json").json();
    EXPECT_EQ(imported.at("tasks"), 4);
    EXPECT_EQ(user.succeeds("export run.sqlite --format csv -o -").out,
              user.succeeds("export merged.sqlite --format csv -o -").out);
    EXPECT_EQ(user.succeeds("import traces/rank1.json -o one.sqlite --json").json().at("tasks"), 2);
    EXPECT_EQ(user.types("import traces -o run.sqlite --force").code, 0);
}

// A rank whose ranges only launch kernels is compared by the kernels; without them it is not compared at all.
TEST_F(RankFiles, OfAGpuAreComparedByTheirKernels) {
    for (const char* folder : {"kernels", "launches", "lost"}) {
        user.types_to_shell(std::string("mkdir ") + folder);
        for (int rank = 0; rank < 2; ++rank) {
            RankFile file(rank, 2);
            for (int step = 0; step < 2; ++step) {
                const double t = 1000 * step;
                const double work = t + 50 + 100 * rank;
                file.range("ProfilerStep#" + std::to_string(step), t, t + 900);
                for (const auto& [name, launch, start] :
                     {std::tuple(std::string("F0"), t + 10, work), {"B0", t + 30, t + 350 - 100 * rank}}) {
                    file.range("PP:" + std::to_string(rank) + name, launch, launch + 10);
                    if (folder == std::string("kernels") || (folder == std::string("lost") && rank == 0)) {
                        file.launched(launch + 1, start, start + 100);
                    } else if (folder == std::string("launches")) {
                        file.work_without_call(start, start + 100);
                    }
                }
            }
            file.write(user.folder() / (std::string(folder) + "/rank" + std::to_string(rank) + ".json"));
        }
    }
    const auto compared = user.succeeds("compare kernels --json").json();
    EXPECT_NEAR(compared.at("measured_bubble_fraction").get<double>(), 0.5, 0.001) << "2 lanes, 200 of 400 us each";
    EXPECT_EQ(compared.at("lanes").at(0).at("measured_busy_ns"), 200'000);
    EXPECT_THAT(user.types("compare lost").err, HasSubstr("only launch work on a device")) << "rank 1 has no kernels";
    EXPECT_THAT(user.types("compare launches").err,
                HasSubstr("holds ranges that only launch work on a device, and not the kernels of whole steps"));
    EXPECT_THAT(user.succeeds("import launches -o launches.sqlite").err,
                HasSubstr("the ranges of ranks 0, 1 only launch work on a device"));
    EXPECT_THAT(user.types("profile --from-trace launches.sqlite -o p.json").err, HasSubstr("only launch work"));
}

TEST_F(RankFiles, BesideOtherFilesAreStillOneRun) {
    user.writes("traces/config.json", R"({"layers": 4})");
    EXPECT_EQ(user.succeeds("compare traces --json").json().at("lanes").size(), 2U);
}

TEST_F(RankFiles, StateNoBoundOfClocksThatDrift) {
    const auto drifting = [](int rank, double sent, double came) {
        return RankFile(rank, 2)
            .range(rank == 0 ? "Forward 0" : "Backward 0", sent - 10, sent + 10)
            .message("gloo:send", sent, sent + 20)
            .range(rank == 0 ? "Backward 0" : "Forward 0", came - 10, came + 10)
            .message("gloo:recv", came - 5, came);
    };
    drifting(0, 100, 200).write(user.folder() / "traces/rank0.json");
    drifting(1, 300, 50).write(user.folder() / "traces/rank1.json");
    const auto json = user.succeeds("merge traces -o out.sqlite --json").json();
    EXPECT_THAT(json.at("warnings").dump(), HasSubstr("2 messages"));
    EXPECT_TRUE(json.at("clock_bound_ns").is_null());
    EXPECT_TRUE(json.at("processes").at(1).at("bound_ns").is_null());
}

// Files that say different ranks are one run, folders of the same ranks are two.
TEST_F(RankFiles, OfTwoFoldersAreTwoRuns) {
    std::filesystem::create_directory(user.folder() / "slower");
    for (int rank = 0; rank < 2; ++rank) {
        RankFile(rank, 2)
            .range("ProfilerStep#5", 0, 300)
            .range("Forward 0", 10, 60)
            .range("Backward 0", 100, 160)
            .write(user.folder() / ("slower/rank" + std::to_string(rank) + ".json"));
    }
    const auto compared = user.succeeds("compare traces slower --json").json();
    EXPECT_EQ(compared.at("joined_by"), "task");
    EXPECT_EQ(compared.at("matched"), 4);
    EXPECT_EQ(compared.at("after").at("processes"), 2);
    EXPECT_EQ(compared.at("kinds").at(0).at("before_ns"), 2 * 25'000);
    EXPECT_EQ(compared.at("kinds").at(0).at("after_ns"), 2 * 50'000);
    EXPECT_EQ(
        user.succeeds("compare slower/rank0.json slower/rank1.json --baseline traces/rank0.json traces/rank1.json "
                      "--json")
            .json()
            .at("matched"),
        4);
    EXPECT_TRUE(user.succeeds("compare traces/rank0.json traces/rank1.json --json").json().at("profile_from_trace"))
        << "one run";
}

// The forwards take 25 us and the backwards 60 us on both ranks, one after the other.
TEST_F(RankFiles, GiveAProfile) {
    const CommandResult made = user.succeeds("profile --from-trace traces -o p.json --micro-batch-size 4");
    const std::size_t line = made.out.find("pipescope simulate ");
    const std::string command = made.out.substr(line + std::string("pipescope ").size());
    const auto simulated = user.succeeds(command.substr(0, command.find('\n')) + " --json").json();
    EXPECT_EQ(simulated.at("memory_unknown"), true);
    EXPECT_GE(simulated.at("step_ns"), 2 * (25'000 + 60'000));
    EXPECT_EQ(user.succeeds("advise traces --json").json().at("base").at("memory_unknown"), true);
}

/// Four steps of 200 us in two ranks. `lost`: of these, the rank lacks the backward of micro-batch 1. `last`: the
/// micro-batches of the last step.
void write_steps(const std::filesystem::path& folder, const std::set<int>& lost, int last) {
    std::filesystem::create_directory(folder);
    for (int rank = 0; rank < 2; ++rank) {
        RankFile file(rank, 2);
        for (int step = 0; step < 4; ++step) {
            const double begin = 200.0 * step;
            file.range("ProfilerStep#" + std::to_string(step), begin, begin + 190);
            for (int i = 0; i < (step == 3 ? last : 2); ++i) {
                const double later = begin + 20 * i;
                file.range("Forward " + std::to_string(i), later + 20 * rank, later + 20 * rank + 15);
                if (rank == 0 || i == 0 || !lost.contains(step)) {
                    file.range("Backward " + std::to_string(i), later + 100 - 30 * rank, later + 119 - 30 * rank);
                }
            }
        }
        file.write(folder / fmt::format("rank{}.json", rank));
    }
}

// As with a loader's last, short mini-batch, and with a file that was cut off.
TEST_F(RankFiles, AreComparedInWholeStepsOfOneSize) {
    write_steps(user.folder() / "short", {1, 2}, 1);
    const CommandResult compared = user.succeeds("compare short --json");
    EXPECT_EQ(compared.json().at("steps"), nlohmann::json({0}));
    EXPECT_EQ(compared.json().at("tasks_unmatched"), 0);
    const std::string size = "not compared, since the mini-batch has more or fewer: step 3";
    const std::string lack =
        "tasks of a lane are missing or were recorded twice, so that idle time is not known: "
        "step 1, 2";
    EXPECT_THAT(compared.out, AllOf(HasSubstr(size), HasSubstr(lack)));
    const CommandResult profile = user.succeeds("profile --from-trace short");
    EXPECT_THAT(profile.out, HasSubstr("measured from 1 step of short"));
    EXPECT_THAT(profile.err, AllOf(HasSubstr(size), HasSubstr(lack)));
    EXPECT_THAT(user.succeeds("profile --from-trace short --steps 3").out,
                AllOf(HasSubstr("measured from 1 step"), HasSubstr("batch of 1 in 1 micro-batch")));

    write_steps(user.folder() / "whole", {}, 2);
    const auto two = user.succeeds("compare whole short --json").json();
    EXPECT_EQ(two.at("before").at("steps"), nlohmann::json({0, 1, 2, 3}));
    EXPECT_EQ(two.at("after").at("steps"), nlohmann::json({0}));
    EXPECT_THAT(two.at("after").at("warnings").dump(), AllOf(HasSubstr(size), HasSubstr(lack)));
    EXPECT_EQ(two.at("matched"), 8);

    write_steps(user.folder() / "none", {0, 1, 2, 3}, 2);
    EXPECT_THAT(user.types("compare none").err,
                HasSubstr("tasks of a lane are missing or were recorded twice, and step 0 has 1 of 2 tasks of the kind "
                          "backward of partition 1"));
}

/// Three stages on three ranks that each wait for a message within the range of their task, with two micro-batches, in
/// three steps. A forward takes 20 us, a backward 40 us. `last`: samples of a micro-batch in the last step, which takes
/// less time.
void write_stages(const std::filesystem::path& folder, int last = 8) {
    std::filesystem::create_directory(folder);
    for (int rank = 0; rank < 3; ++rank) {
        RankFile file(rank, 3);
        for (int step = 0; step < 4; ++step) {
            const int samples = step == 3 ? last : 8;
            const double t = 1000.0 * step;
            const double unit = samples == 8 ? 20 : 10;
            file.range("ProfilerStep#" + std::to_string(step), t, t + 900);
            double free_from = t + 1;
            const auto run = [&](const std::string& name, double arrives, double takes, bool waits, bool sends) {
                const double begin = waits ? std::max(free_from, arrives) : free_from;
                const double end = begin + takes;
                file.range(fmt::format("PP:{}{}", rank, name), free_from, end + (sends ? 1 : 0));
                if (waits) {
                    file.message("gloo:recv", free_from + 0.5, arrives, samples);
                }
                if (sends) {
                    file.message("gloo:send", end, end + 5, samples);
                }
                free_from = end + 2;
            };
            for (const int i : {0, 1}) {
                const double arrives = t + 1 + (i + rank) * (unit + 10);
                run("F" + std::to_string(i), arrives, unit, rank > 0, rank < 2);
            }
            for (const int i : {0, 1}) {
                const double arrives = t + 300 + (i + 2 - rank) * (2 * unit + 10);
                run("B" + std::to_string(i), arrives, 2 * unit, rank<2, rank> 0);
            }
        }
        file.write(folder / fmt::format("rank{}.json", rank));
    }
}

// The first rank's backwards wait for the second one's. Nothing in the first one's file says how long the second works.
TEST_F(RankFiles, GiveNoCostsWithoutTheRanksThatTheyWaitFor) {
    write_stages(user.folder() / "stages");
    using Files = std::pair<std::string, std::string>;
    for (const auto& [files, missing] : {Files{"stages/rank0.json", "ranks 1, 2 of 3"},
                                         {"stages/rank1.json", "ranks 0, 2 of 3"},
                                         {"stages/rank0.json stages/rank1.json", "rank 2 of 3"},
                                         {"stages/rank1.json stages/rank2.json", "rank 0 of 3"}}) {
        for (const std::string command : {"profile --from-trace ", "compare ", "advise "}) {
            const CommandResult refused = user.types(command + files);
            EXPECT_EQ(refused.code, 1) << command << files;
            EXPECT_THAT(refused.err, HasSubstr(missing)) << command << files;
        }
        user.succeeds("import " + files + " -o some.sqlite --force");
        EXPECT_THAT(user.types("compare some.sqlite").err, HasSubstr(missing)) << files;
    }
    user.succeeds("import stages/rank0.json stages/rank1.json -o some.sqlite --force");
    EXPECT_THAT(user.succeeds("export some.sqlite --format csv -o -").err, HasSubstr("rank 2 of 3"));
    EXPECT_EQ(user.types("profile --from-trace stages").code, 0);
}

TEST_F(RankFiles, OfAShortMiniBatchAreLeftOutByTheirMessages) {
    write_stages(user.folder() / "stages", 5);
    const auto compared = user.succeeds("compare stages --json").json();
    EXPECT_EQ(compared.at("steps"), nlohmann::json({0, 1, 2}));
    EXPECT_THAT(compared.at("warnings").dump(), HasSubstr("as those of a mini-batch of other samples: step 3"));
    EXPECT_THAT(compared.at("warnings").dump(), Not(HasSubstr("how many samples")));
    EXPECT_GT(compared.at("measured_samples_per_second"), 0);
    EXPECT_THAT(user.succeeds("profile --from-trace stages").out, HasSubstr("batch of 16 in 2 micro-batches"));
    EXPECT_THAT(user.succeeds("profile --from-trace stages --steps 3").out,
                HasSubstr("batch of 10 in 2 micro-batches"));
}

// Messages are all that the trace says of memory.
TEST_F(RankFiles, HaveNoSimulatedPeaks) {
    write_stages(user.folder() / "stages");
    const auto compared = user.succeeds("compare stages --json").json();
    for (const auto& lane : compared.at("lanes")) {
        EXPECT_TRUE(lane.at("simulated_peak_bytes").is_null());
        EXPECT_TRUE(lane.at("replayed_peak_bytes").is_null());
    }
    const auto without_bytes = [](const auto& simulation) {
        EXPECT_EQ(simulation.at("memory_unknown"), true);
        for (const auto& lane : simulation.at("lanes")) {
            EXPECT_TRUE(lane.at("peak_bytes").is_null());
            EXPECT_TRUE(lane.at("peak").is_null());
        }
        EXPECT_TRUE(simulation.at("partitions").at(0).at("parameter_bytes").is_null());
    };
    const auto advice = user.succeeds("advise stages --json").json();
    without_bytes(advice.at("base"));
    for (const auto& move : advice.at("moves")) {
        without_bytes(move.at("simulation"));
        EXPECT_TRUE(move.at("highest_peak_bytes").is_null());
    }
    EXPECT_EQ(advice.at("base").at("samples_per_second"), compared.at("simulated_samples_per_second"));
    user.succeeds("profile --from-trace stages -o p.json");
    without_bytes(user.succeeds("simulate p.json --balance 1,1,1 -m 2 --batch 16 --json").json());
    EXPECT_TRUE(user.succeeds("balance p.json -n 2 -m 2 --batch 16 --json").json().at("peak_bytes").is_null());
}

TEST_F(RankFiles, OfUnknownMicroBatchesHaveNoRates) {
    const auto compared = user.succeeds("compare traces --json").json();
    EXPECT_TRUE(compared.at("simulated_samples_per_second").is_null());
    const auto advice = user.succeeds("advise traces --json").json();
    EXPECT_TRUE(advice.at("base").at("samples_per_second").is_null());
    for (const auto& move : advice.at("moves")) {
        EXPECT_TRUE(move.at("simulation").at("samples_per_second").is_null());
    }
}

// 1f1b, except that rank 1 runs its second forward before its first backward.
TEST_F(RankFiles, InAnOrderWithoutANameAreAdvisedInTheirOwnOrder) {
    std::filesystem::create_directory(user.folder() / "odd");
    const auto write = [&](int rank, std::vector<double> starts) {
        RankFile file(rank, 2);
        file.range("ProfilerStep#5", 0, 500);
        const std::vector<std::string> order{"Forward 0", "Forward 1",  "Backward 0",
                                             "Forward 2", "Backward 1", "Backward 2"};
        for (std::size_t k = 0; k < order.size(); ++k) {
            file.range(order[k], starts[k], starts[k] + (order[k].starts_with("Forward") ? 25 : 60));
        }
        file.write(user.folder() / ("odd/rank" + std::to_string(rank) + ".json"));
    };
    write(0, {10, 35, 145, 205, 315, 375});
    write(1, {35, 60, 85, 230, 255, 315});
    const auto compared = user.succeeds("compare odd --json").json();
    const auto advice = user.succeeds("advise odd --json").json();
    EXPECT_EQ(advice.at("base").at("step_ns"), compared.at("simulated_step_ns"));
    EXPECT_EQ(compared.at("simulated_step_ns"), 425'000) << "as recorded; 1f1b takes less";
    const auto& moves = advice.at("moves");
    EXPECT_TRUE(std::ranges::any_of(moves, [](const auto& move) {
        return move.at("simulation").at("schedule") == "1f1b" && move.at("effect") == "faster";
    })) << moves;
}

// The same two ranks, whose clocks are two seconds apart and which exchange no messages.
TEST_F(RankFiles, WhoseClocksContradictTheirTasksHaveNoBubbles) {
    std::filesystem::create_directory(user.folder() / "apart");
    for (int rank = 0; rank < 2; ++rank) {
        const double wrong = rank * 2e6;
        RankFile(rank, 2)
            .range("ProfilerStep#5", wrong, wrong + 200)
            .range("Forward 0", wrong + (rank == 0 ? 10 : 35), wrong + (rank == 0 ? 35 : 60))
            .range("Backward 0", wrong + (rank == 0 ? 120 : 60), wrong + (rank == 0 ? 180 : 120))
            .write(user.folder() / ("apart/rank" + std::to_string(rank) + ".json"));
    }
    const auto compared = user.succeeds("compare apart --json").json();
    EXPECT_TRUE(compared.at("measured_bubble_fraction").is_null());
    EXPECT_TRUE(compared.at("bubbles").at("measured").is_null());
    EXPECT_THAT(compared.at("warnings").dump(),
                AllOf(HasSubstr("backward (0, 0) ends"), HasSubstr("before step 5 backward (0, 1) ends"),
                      HasSubstr("do not fit together")));
    const CommandResult advice = user.succeeds("advise apart --json");
    EXPECT_TRUE(advice.json().at("model_error").is_null()) << "those steps judge no change";
    EXPECT_THAT(advice.err, AllOf(HasSubstr("do not fit together"), HasSubstr("no change is judged by it")));
}

TEST_F(RankFiles, FollowRulesOfTheUser) {
    user.writes("rules.json", R"json({"format": "pipescope.task-rules", "version": 1, "rules": [
        {"name": "no loss", "pattern": "Loss (?<micro_batch>\\d+)", "kind": "loss"},
        {"name": "mine", "pattern": "Forward (?<micro_batch>\\d+)", "kind": "recompute"}]})json");
    const auto merged = user.succeeds("merge traces --task-rules rules.json -o out.sqlite --json").json();
    EXPECT_THAT(merged.at("warnings").dump(), HasSubstr("no loss"));
    EXPECT_THAT(user.succeeds("export traces/rank1.json --task-rules rules.json --format csv -o -").out,
                HasSubstr("measured,5,recompute,1,0"));
}
}  // namespace
}  // namespace pipescope
