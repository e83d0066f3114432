// The traces of a run in several processes, from recording to picture.

#include "base/sample_statistics.h"
#include "tests/cli/user.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

const std::string kRun = "run mlp:layers=8,width=64 --balance 4,4 -m 4 --batch 32 --steps 5 --trace out.sqlite";

class ProcessTraces : public testing::Test {
protected:
    std::string refused(const std::string& line) const {
        const CommandResult result = user.types(line);
        EXPECT_EQ(result.code, 1) << line << "\n" << result.err;
        return result.err;
    }
    std::int64_t number(const std::string& trace, const std::string& sql) const {
        SQLite::Database db(user.folder() / trace);
        return db.execAndGet(sql).getInt64();
    }

    User user;
};

TEST_F(ProcessTraces, MergeIntoOneThatIsComparedAndDrawn) {
    EXPECT_THAT(user.succeeds("launch -n 2 -- " + kRun).out, HasSubstr("pipescope compare out.rank*.sqlite"));
    const auto merged = user.succeeds("merge out.rank1.sqlite out.rank0.sqlite -o out.sqlite --json").json();
    EXPECT_EQ(merged.at("clock_bound_ns"), 0);  // one host, one clock
    EXPECT_EQ(merged.at("copies"), 5 * 8);
    EXPECT_EQ(merged.at("processes").size(), 2U);
    EXPECT_EQ(number("out.sqlite",
                     "SELECT count(*) FROM PIPESCOPE_COPY AS c JOIN PIPESCOPE_TASK AS t ON t.id = c.taskId WHERE "
                     "c.received < t.start OR t.end < c.received"),
              0);
    EXPECT_EQ(number("out.sqlite", "SELECT count(*) FROM PIPESCOPE_TASK"), merged.at("tasks"));

    const auto compared = user.succeeds("compare out.sqlite --json").json();
    EXPECT_EQ(compared.at("processes"), 2);
    EXPECT_EQ(compared.at("tasks_unmatched"), 0);
    EXPECT_EQ(compared.at("replay_with_gaps_error"), 0);
    EXPECT_NEAR(compared.at("replay_error").get<double>(),
                compared.at("replay_step_ns").get<double>() / compared.at("measured_step_ns").get<double>() - 1, 1e-9);
    EXPECT_EQ(user.succeeds("compare out.rank*.sqlite --json").json(), compared);
    user.writes("links.json", R"({"format": "pipescope.links", "version": 1,
                                  "times": [{"bytes": 1, "ns": 20000000}, {"bytes": 1000000, "ns": 30000000}]})");
    user.succeeds("merge out.rank0.sqlite out.rank1.sqlite --links links.json -o slow.sqlite");
    const auto slow = user.succeeds("compare slow.sqlite --json").json();
    EXPECT_EQ(slow.at("measured_step_ns"), compared.at("measured_step_ns"));
    // The copies of at least two micro-batches follow one another, there and back.
    EXPECT_GT(slow.at("simulated_step_ns"), compared.at("simulated_step_ns").get<double>() + 4 * 20e6);
    EXPECT_THAT(user.types("merge out.rank0.sqlite out.rank1.sqlite --link-sharing none -o n.sqlite").err,
                HasSubstr("--link-sharing requires --links"));

    EXPECT_THAT(user.succeeds("compare out.rank0.sqlite").out,
                HasSubstr("warning: this is the trace of rank 0 of 2 alone"));
    EXPECT_THAT(refused("compare out.rank1.sqlite"), HasSubstr("is the trace of rank 1 of 2"));

    EXPECT_THAT(refused("merge out.rank*.sqlite -o out.sqlite"), HasSubstr("--force"));
    EXPECT_THAT(refused("merge out.rank*.sqlite -o out.rank1.sqlite --force"), HasSubstr("out.rank1.sqlite"));
    EXPECT_THAT(refused("merge out.rank0.sqlite -o new.sqlite"), HasSubstr("rank 1 of the 2 ranks of this run is"));
    EXPECT_FALSE(user.has("new.sqlite"));

    user.succeeds("export out.sqlite --format chrome -o out.json");
    EXPECT_THAT(user.reads("out.json"), AllOf(HasSubstr(R"("name":"rank 1, host )"), HasSubstr("clock_bound_ns")));
    if (is_installed("pipescope-gui")) {
        user.succeeds("view out.rank*.sqlite --render ranks.svg");
        user.succeeds("view out.sqlite --render merged.svg");
        EXPECT_THAT(user.reads("ranks.svg"), AllOf(HasSubstr("out.rank0 + out.rank1.sqlite"), HasSubstr("rank 1")));
        EXPECT_THAT(user.reads("merged.svg"), HasSubstr("2 processes, clocks within"));
    }
}

TEST_F(ProcessTraces, CountTensorsOfOtherProcessesToTheirLanes) {
    const nlohmann::json layer{{"name", "layer"},           {"forward_ns", {1e6}},     {"backward_ns", {2e6}},
                               {"output_bytes", {1 << 20}}, {"parameter_bytes", 4096}, {"saved_bytes", {4096}}};
    user.writes(
        "p.json",
        nlohmann::json{{"format", "pipescope.profile"}, {"version", 1}, {"samples", {1}}, {"layers", {layer, layer}}}
            .dump());
    user.succeeds(
        "launch -n 2 -- run emulated:p.json --profile p.json --balance 1,1 -m 4 --batch 4 --checkpoint never --steps 4 "
        "--trace e.sqlite");
    for (const auto& lane : user.succeeds("compare e.rank0.sqlite e.rank1.sqlite --json").json().at("lanes")) {
        const double simulated = lane.at("simulated_peak_bytes");
        EXPECT_NEAR(lane.at("measured_peak_bytes").get<double>(), simulated, 0.1 * simulated);
        EXPECT_GT(simulated, 4 << 20);
    }
}

TEST(Launch, RefusesMoreProcessesThanLanesBeforeItStartsThem) {
    const User user;
    const CommandResult result = user.types("launch -n 90000 -- run mlp --balance 4,4 -m 2 --batch 4 --replicas=2");
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("90000 processes would run 4 lanes of all replicas with --balance 4,4"));
}

TEST(Launch, RefusesCommandsForOneProcess) {
    const User user;
    for (const char* command : {"compare", "pipescope compare", "launch"}) {
        const CommandResult result = user.types(std::string("launch -n 2 -- ") + command + " out.sqlite");
        EXPECT_EQ(result.code, 2) << command;
        EXPECT_THAT(result.err, HasSubstr("a command of pipescope for one process; it starts run, profile --links or"));
    }
    EXPECT_EQ(user.types("launch -n 9 -- pipescope run mlp --balance 4,4 -m 2 --batch 4").code, 2);
}

TEST(Launch, LetsEachProcessLookForTheDevicesOfItsOwnLanes) {
    const User user;
    const auto errors = [&user](const std::string& devices) {
        const CommandResult result =
            user.types("launch -n 2 -- run mlp --balance 4,4 -m 2 --batch 4 --devices " + devices);
        EXPECT_NE(result.code, 0);
        return result.err;
    };
    EXPECT_THAT(errors("cpu,cuda:63"), AllOf(HasSubstr("rank 1 (host "), testing::Not(HasSubstr("rank 0 (host "))));
    EXPECT_THAT(errors("cuda:63,cpu"), AllOf(HasSubstr("rank 0 (host "), testing::Not(HasSubstr("rank 1 (host "))));
}

TEST(Launch, EndsAtOnceWhileItsProcessWaitsForTheFirst) {
    const User user;
    const std::string port = std::to_string(20000 + getpid() % 10000);  // nobody listens there
    const CommandResult result =
        user.stops("launch -n 1 --nodes 2 --node-rank 1 --patience 90 --rendezvous 127.0.0.1:" + port +
                       " -- run mlp --balance 4,4 -m 2 --batch 4",
                   "sleep 1", "TERM");
    EXPECT_EQ(result.code, 143);
    EXPECT_THAT(result.err, HasSubstr("interrupted before there was a result"));
}

TEST(Launch, SaysWhichProcessItKilled) {
    const User user;
    user.writes("e.json", emulated_profile(1));
    const CommandResult result = user.types_to_shell(
        "timeout 60 '" PIPESCOPE_BIN_FOLDER
        "/pipescope' launch -n 2 --silence 2 -- run emulated:e.json --balance 4,4 -m 2 --batch 2 --steps 100000 "
        "--trace t.sqlite >.stdout 2>.stderr & waiter=$!\n"
        "for i in $(seq 300); do sleep 0.1; test -s t.rank1.sqlite-wal && break; done\n"
        "kill -STOP $(pgrep -P $(pgrep -P $waiter) | tail -n 1)\nwait $waiter");
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, HasSubstr("rank 1 still ran 3 s after the first had ended, so it was killed"));
    EXPECT_THAT(result.err, testing::Not(HasSubstr("was ended by signal")));
}

TEST(Launch, NoticesModelsThatDifferUnderOneName) {
    const User user;
    for (const int rank : {0, 1}) {
        user.types_to_shell("mkdir " + std::to_string(rank));
        user.writes(std::to_string(rank) + "/e.json", emulated_profile(1 + rank));
    }
    const CommandResult result =
        user.types_to_shell("timeout 60 '" PIPESCOPE_BIN_FOLDER
                            "/pipescope' launch -n 2 -- sh -c 'cd $PIPESCOPE_RANK && exec \"" PIPESCOPE_BIN_FOLDER
                            "/pipescope\" run emulated:e.json --balance 4,4 -m 2 --batch 2' >.stdout 2>.stderr");
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, HasSubstr("the processes differ in the digest of the model's file: rank 0 (host "));
}

TEST(Launch, IsSurvivedByNothingThatAScriptStarted) {
    const User user;
    const CommandResult result = user.types_to_shell(
        "'" PIPESCOPE_BIN_FOLDER
        "/pipescope' launch -n 2 -- sh -c 'sleep 300 & echo $! >>started; sleep 300' >.stdout 2>.stderr & launcher=$!\n"
        "for i in $(seq 300); do sleep 0.1; test $(cat started 2>.none | wc -l) -eq 2 && break; done\n"
        "kill -KILL $launcher\n"
        "for i in $(seq 300); do sleep 0.1; kill -0 $(cat started) 2>.none || exit 0; done\nexit 1");
    EXPECT_EQ(result.code, 0) << user.reads("started");
}

TEST(Launch, StartsAProgramAgainWhateverItsExitCode) {
    const User user;
    const auto launch = [&user](const std::string& command) {
        return user.types_to_shell("timeout 60 '" PIPESCOPE_BIN_FOLDER "/pipescope' launch -n 1 --restarts 2 -- " +
                                   command + " >.stdout 2>.stderr");
    };
    const CommandResult failed = launch("sh -c 'echo try >>tries; exit 7'");
    EXPECT_EQ(failed.code, 7);
    EXPECT_THAT(failed.err,
                AllOf(HasSubstr("rank 0 ended with exit code 7"), HasSubstr("starting again (2 of 2 restarts)")));
    EXPECT_EQ(user.reads("tries"), "try\ntry\ntry\n");
    EXPECT_THAT(launch("./missing").err, testing::Not(HasSubstr("starting again")));
    EXPECT_THAT(launch("sh -c 'exit 2'").err, testing::Not(HasSubstr("starting again")));
}

TEST(Launch, LeavesNothingBehindIfItCannotStartAll) {
    const User user;
    const CommandResult result = user.types_to_shell(
        "ulimit -n 24\ntimeout 60 '" PIPESCOPE_BIN_FOLDER
        "/pipescope' launch -n 40 -- sh -c 'echo $$ >>started; sleep 300' >.stdout 2>.stderr\n"
        "echo $? >code; kill -0 $(cat started) 2>.none && exit 1\ntest -s started && exit $(cat code)");
    EXPECT_EQ(result.code, 1);
    EXPECT_THAT(result.err, AllOf(HasSubstr("no pipe can be opened"), testing::Not(HasSubstr("was ended by signal"))));
}

TEST(Launch, LeavesNoTemporaryFileOfAKilledProcess) {
    const User user;
    user.writes("e.json", emulated_profile(1));
    for (const char* victim : {"$(pgrep -P $launcher | tail -n 1)", "$launcher"}) {
        const CommandResult result = user.types_to_shell(
            "mkdir -p tmp; export TMPDIR=$PWD/tmp\n'" PIPESCOPE_BIN_FOLDER
            "/pipescope' launch -n 2 -- run emulated:e.json --balance 4,4 -m 2 --batch 2 --steps 100000 "
            ">.stdout 2>.stderr & launcher=$!\n"
            "for i in $(seq 300); do sleep 0.1; ls tmp/*/*/run.sqlite-wal && break; done >.none 2>&1\n"
            "ls tmp/*/*/run.sqlite-wal >.none || exit 2\n"
            "kill -KILL " +
            std::string(victim) +
            "\n"
            "for i in $(seq 300); do sleep 0.1; rmdir tmp 2>.none && exit 0; done\nexit 1");
        EXPECT_EQ(result.code, 0) << victim << result.err;
    }
}

TEST(Launch, NeedsAddressAndPortOfTheFirst) {
    const User user;
    ::setenv("MASTER_PORT", "29999", 1);
    ::setenv("RANK", "0", 1);
    ::setenv("WORLD_SIZE", "2", 1);
    const CommandResult result = user.types("run mlp --balance 4,4 -m 2 --batch 4");
    for (const char* name : {"MASTER_PORT", "RANK", "WORLD_SIZE"}) {
        ::unsetenv(name);
    }
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("MASTER_PORT is set and MASTER_ADDR is not"));
}

TEST_F(ProcessTraces, GiveTheFiguresThatTheRunPrinted) {
    const auto run = user.succeeds("launch -n 2 -- " + kRun + " --json").json();
    const auto compared = user.succeeds("compare out.rank*.sqlite --json").json();
    EXPECT_NEAR(run.at("bubble_fraction").get<double>(), compared.at("measured_bubble_fraction").get<double>(), 1e-9);
    std::vector<std::int64_t> steps;
    for (std::size_t k = 2; k < 5; ++k) {  // after the warm-up
        steps.push_back(run.at("steps").at(k).at("step_ns"));
    }
    EXPECT_EQ(median(steps), compared.at("measured_step_ns"));
    for (std::size_t lane = 0; lane < 2; ++lane) {
        const auto& ran = run.at("lanes").at(lane);
        const auto& judged = compared.at("lanes").at(lane);
        EXPECT_EQ(ran.at("busy_ns"), judged.at("measured_busy_ns"));
        EXPECT_EQ(ran.at("peak_bytes"), judged.at("measured_peak_bytes"));
    }
}

TEST_F(ProcessTraces, OfOneRankAloneHaveNoFiguresOfTheOthersLanes) {
    user.succeeds("launch -n 2 -- " + kRun);
    const auto alone = user.succeeds("compare out.rank0.sqlite --json").json();
    EXPECT_GT(alone.at("lanes")[0].at("measured_busy_ns"), 0);
    EXPECT_TRUE(alone.at("lanes")[1].at("measured_busy_ns").is_null());
    EXPECT_TRUE(alone.at("measured_bubble_mean").is_null());
    EXPECT_TRUE(alone.at("bubbles").at("measured").is_null());
    EXPECT_THAT(user.succeeds("compare out.rank0.sqlite").out, testing::ContainsRegex("lane 1 busy +not recorded"));
    for (const std::string command :
         {"profile --from-trace out.rank0.sqlite", "profile --calibrate out.rank0.sqlite"}) {
        EXPECT_THAT(user.types(command).err, HasSubstr("lacks rank 1 of 2: tasks there are not recorded")) << command;
    }
    user.succeeds("run mlp:layers=8,width=64 --balance 4,4 -m 4 --batch 32 --steps 5 --trace one.sqlite");
    const auto runs = user.succeeds("compare one.sqlite --baseline out.rank0.sqlite --json").json();
    EXPECT_TRUE(runs.at("why_no_tasks").is_null()) << "both have two partitions";
    EXPECT_THAT(runs.at("differences").dump(), HasSubstr(R"({"what":"processes","before":"2","after":"1"})"));
    EXPECT_TRUE(runs.at("before").at("lanes")[1].at("busy_ns").is_null());
}

TEST_F(ProcessTraces, OfAReplicaLackNoLane) {
    user.succeeds(
        "launch -n 2 -- run mlp:layers=4 --balance 2,2 -m 2 --batch 8 --replicas 2 --steps 3 --trace r.sqlite");
    EXPECT_THAT(user.succeeds("compare r.rank0.sqlite").out, testing::Not(HasSubstr("lanes' tasks are missing")));
    EXPECT_EQ(user.succeeds("compare r.rank1.sqlite --json").json().at("tasks_unmatched"), 0);
}

// The gradients of one lane of the first fit into a bucket; those of the second fill one and a part of the next.
TEST_F(ProcessTraces, OfReplicasPeakWhereTheSimulationDoes) {
    for (const std::string model : {"mlp:layers=4,width=128", "mlp:layers=4,width=1900"}) {
        // Each process would profile the model until the times are certain, but the bytes are certain at once.
        user.succeeds("profile " + model + " --micro-batch-sizes 2 --batch 4 --time-limit 1ms -o p.json --force");
        user.succeeds("launch -n 2 -- run " + model +
                      " --balance 2,2 -m 2 --batch 8 --replicas 2 --steps 3 --profile p.json --force --trace r.sqlite");
        const auto compared = user.succeeds("compare r.rank*.sqlite --json").json();
        for (const auto& lane : compared.at("lanes")) {
            const auto measured = lane.at("measured_peak_bytes").get<double>();
            EXPECT_NEAR(lane.at("simulated_peak_bytes").get<double>() / measured, 1, 0.01) << model;
        }
        EXPECT_EQ(number("r.rank0.sqlite", "SELECT count(*) FROM PIPESCOPE_TASK WHERE kind = 'all_reduce'"), 2 * 3);
    }
}

TEST_F(ProcessTraces, OfReplicasAreShownOneByOne) {
    user.succeeds(
        "launch -n 4 -- run mlp:layers=4 --balance 2,2 -m 2 --batch 8 --replicas 2 --steps 3 --trace r.sqlite");
    const CommandResult all = user.succeeds("compare r.rank*.sqlite --json");
    EXPECT_THAT(all.json().at("warnings").dump(), HasSubstr("only replica 0 of 2 is shown, of ranks 0 to 1"));
    EXPECT_EQ(all.json().at("tasks_unmatched"), 0);
    const CommandResult second = user.succeeds("compare r.rank2.sqlite r.rank3.sqlite --json");
    EXPECT_THAT(second.json().at("warnings").dump(), testing::Not(HasSubstr("replica")));
    EXPECT_EQ(second.json().at("tasks_unmatched"), 0);
    EXPECT_EQ(second.json().at("processes"), 2);
    EXPECT_NE(second.json().at("measured_step_ns"), all.json().at("measured_step_ns"));
    const auto merged = user.succeeds("merge r.rank2.sqlite r.rank3.sqlite -o second.sqlite --json").json();
    EXPECT_EQ(merged.at("processes")[0].at("rank"), 2);
    EXPECT_EQ(number("second.sqlite", "SELECT count(*) FROM PIPESCOPE_TASK WHERE kind = 'all_reduce'"), 2 * 3);
}

/// Runs in two processes, whose clocks differ by 1000 s.
class OtherClock : public ProcessTraces {
protected:
    void SetUp() override {
        if (user.types_to_shell("unshare --time --monotonic 1000 --fork true").code != 0) {
            GTEST_SKIP() << "time namespaces cannot be made here; that needs root and a kernel with them";
        }
    }
    /// Trains with these variables of rank 1, and merges the traces.
    nlohmann::ordered_json merged(const std::string& run, const std::string& variables) const {
        const std::string program = "timeout 100 '" PIPESCOPE_BIN_FOLDER "/pipescope' ";
        const CommandResult ran = user.types_to_shell(
            "export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$(shuf -i 20000-29999 -n 1)\n"
            "RANK=0 " +
            program + run + " >.stdout 2>.stderr &\nRANK=1 " + variables +
            " timeout 100 unshare --time --monotonic 1000 --fork " + program + run +
            " >rank1.txt 2>&1\n"
            "other=$?\nwait $! && exit $other");
        EXPECT_EQ(ran.code, 0) << ran.err << user.reads("rank1.txt");
        return user.succeeds("merge out.rank*.sqlite -o out.sqlite --json").json();
    }
    /// A number of the reading of rank 1's clock before ("[0]") or after ("[1]") the steps.
    std::int64_t reading(const std::string& which, const std::string& key) const {
        return number("out.rank1.sqlite", "SELECT json_extract(value, '$.clock" + which + "." + key +
                                              "') FROM PIPESCOPE_RUN WHERE key = 'process'");
    }
    void expect_copies_in_order(std::int64_t copies) const {
        EXPECT_EQ(number("out.sqlite",
                         "SELECT count(*) FROM PIPESCOPE_COPY AS c JOIN PIPESCOPE_TASK AS t ON t.id = c.taskId WHERE "
                         "c.received < t.start OR t.end < c.received"),
                  0);
        EXPECT_EQ(number("out.sqlite", "SELECT count(*) FROM PIPESCOPE_COPY"), copies);
    }
};

TEST_F(OtherClock, OfAThousandSecondsFitsWithinTheBound) {
    const auto trace = merged(kRun, "");
    // Time namespaces leave the wall clock alone, so the wall clocks at time zero tell the true offset.
    const auto epoch = [&](const std::string& of) {
        return number(of, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME");
    };
    const std::int64_t truth = epoch("out.rank1.sqlite") - epoch("out.rank0.sqlite");
    constexpr std::int64_t kClocksReadTogether = 20'000;  // ns, on a loaded machine
    for (const char* which : {"[0]", "[1]"}) {
        EXPECT_GT(reading(which, "bound_ns"), 0);
        EXPECT_LE(std::abs(reading(which, "offset_ns") - truth), reading(which, "bound_ns") + kClocksReadTogether);
        RecordProperty("error_ns", std::to_string(reading(which, "offset_ns") - truth));
    }
    EXPECT_GT(trace.at("clock_bound_ns"), 0);
    EXPECT_TRUE(trace.at("warnings").empty()) << trace.at("warnings");
    expect_copies_in_order(5 * 8);
}

TEST_F(OtherClock, ThatDriftsFitsWithinTheBound) {
    user.writes("e.json", emulated_profile(5));
    const auto trace = merged(
        "run emulated:e.json --profile e.json --balance 4,4 -m 4 --batch 4 --checkpoint never --steps 10 --trace "
        "out.sqlite",
        "LD_PRELOAD='" DRIFTING_CLOCK "'");
    // Between the two readings, rank 0's clock has advanced by less than rank 1's.
    const std::int64_t apart = reading("[1]", "at_ns") - reading("[0]", "at_ns");
    ASSERT_GT(apart, 2'500'000'000);
    const std::int64_t truth = -apart / 20'001;
    const std::int64_t change = reading("[1]", "offset_ns") - reading("[0]", "offset_ns");
    EXPECT_LE(std::abs(change - truth), reading("[0]", "bound_ns") + reading("[1]", "bound_ns"));
    RecordProperty("drift_ns", std::to_string(change));
    RecordProperty("bound_ns", std::to_string(reading("[0]", "bound_ns") + reading("[1]", "bound_ns")));
    EXPECT_TRUE(trace.at("warnings").empty()) << trace.at("warnings");
    expect_copies_in_order(10 * 8);
}
}  // namespace
}  // namespace pipescope
