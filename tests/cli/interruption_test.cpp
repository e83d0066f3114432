// Effects of Ctrl-C and SIGTERM on long-running commands.

#include "tests/cli/user.h"

#include <gmock/gmock.h>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Two layers that only wait: a step of two micro-batches takes 9 ms.
constexpr const char* kProfile = R"({"format": "pipescope.profile", "version": 1, "samples": [1], "layers": [
    {"name": "a", "forward_ns": [1000000], "backward_ns": [2000000], "output_bytes": [8],
     "parameter_bytes": 4096},
    {"name": "b", "forward_ns": [1000000], "backward_ns": [2000000], "output_bytes": [8],
     "parameter_bytes": 4096}]})";

// The same, a hundred times as slow: the second signal arrives within the step that the first one arrived in.
constexpr const char* kSlowProfile = R"({"format": "pipescope.profile", "version": 1, "samples": [1], "layers": [
    {"name": "a", "forward_ns": [100000000], "backward_ns": [200000000], "output_bytes": [8],
     "parameter_bytes": 4096},
    {"name": "b", "forward_ns": [100000000], "backward_ns": [200000000], "output_bytes": [8],
     "parameter_bytes": 4096}]})";

class Interruption : public testing::Test {
protected:
    Interruption() {
        user.writes("e.json", kProfile);
        user.writes("slow.json", kSlowProfile);
    }

    User user;
};

const std::string kLongRun = "run emulated:e.json --balance 1,1 -m 2 --batch 2 --steps 100000 --trace t.sqlite";
const std::string kBegun = "test $(stat -c %s t.sqlite-wal || echo 0) -gt 50000";
const std::string kSeveralSteps = "test $(stat -c %s t.sqlite-wal || echo 0) -gt 200000";

TEST_F(Interruption, ARunPrintsItsStepsAndClosesItsTrace) {
    for (const auto& [name, code] : {std::pair{"INT", 130}, {"TERM", 143}}) {
        const CommandResult run = user.stops(kLongRun + " --json --force", kSeveralSteps, name);
        EXPECT_EQ(run.code, code) << run.err;
        EXPECT_THAT(run.err, HasSubstr("stopping; a training stops after the current step"));
        const auto object = run.json();
        EXPECT_EQ(object.at("interrupted"), true);
        EXPECT_GE(object.at("steps").size(), 3u);
        EXPECT_TRUE(object.at("bubble_fraction").is_number());
        EXPECT_FALSE(user.has("t.sqlite-wal"));
        EXPECT_EQ(user.succeeds("recover t.sqlite --json").json().at("was_open"), false);
        const auto compared = user.succeeds("compare t.sqlite --json").json();
        EXPECT_EQ(compared.at("steps").size(), object.at("steps").size() - 2) << "two were warm-up";
        EXPECT_EQ(compared.at("tasks_unmatched"), 0) << "no step is cut in half";
    }
    const CommandResult text = user.stops(kLongRun + " --force", kSeveralSteps, "INT");
    EXPECT_THAT(text.out, AllOf(HasSubstr("warm-up"), HasSubstr("interrupted after"), HasSubstr("of 100000 steps"),
                                HasSubstr("trace t.sqlite")));
}

TEST_F(Interruption, TheSecondSignalEndsARunAtOnce) {
    const CommandResult run = user.stops(
        "run emulated:slow.json --balance 1,1 -m 2 --batch 2 --steps 100000 --trace t.sqlite", kBegun, "INT TERM");
    EXPECT_THAT(run.err, HasSubstr("stopping; a training stops after the current step"));
    EXPECT_THAT(run.out, Not(HasSubstr("interrupted")));
    EXPECT_TRUE(user.succeeds("recover t.sqlite --json").json().at("was_open").get<bool>());
}

TEST_F(Interruption, TheSecondSignalLeavesNoTemporaryTrace) {
    const std::filesystem::path temporary = user.folder() / "tmp";
    std::filesystem::create_directory(temporary);
    ::setenv("TMPDIR", temporary.c_str(), 1);
    const CommandResult run = user.stops("run emulated:slow.json --balance 1,1 -m 2 --batch 2 --steps 100000",
                                         "ls tmp/pipescope-scratch-*/run.sqlite-wal", "INT TERM");
    ::unsetenv("TMPDIR");
    EXPECT_THAT(run.err, HasSubstr("stopping; a training stops after the current step"));
    EXPECT_TRUE(std::filesystem::is_empty(temporary));
}

TEST_F(Interruption, WarmUpAloneHasNoBubble) {
    const CommandResult run = user.stops(kLongRun + " --warmup 99999", kSeveralSteps, "INT");
    EXPECT_EQ(run.code, 130);
    EXPECT_THAT(run.out, AllOf(HasSubstr("every step was a warm-up"), Not(HasSubstr("incomplete"))));
}

TEST_F(Interruption, ADemoPrintsThePartThatIsMeasuredAndTheNextOneReplacesItsFiles) {
    const CommandResult first = user.stops("demo --json --model mlp:layers=4,width=64 --batch 8 -m 4 --steps 100000",
                                           "test $(stat -c %s demo/trace.sqlite-wal || echo 0) -gt 1000000", "INT");
    EXPECT_EQ(first.code, 130) << first.err;
    const auto object = first.json();
    EXPECT_EQ(keys_of(object), (std::vector<std::string>{"real", "interrupted"}));
    EXPECT_TRUE(object.at("real").at("in_turns").is_null());
    EXPECT_THAT(user.reads("demo/report.md"), AllOf(HasSubstr("did not finish"), HasSubstr("step time |")));
    EXPECT_FALSE(user.has("demo/trace.sqlite-wal"));

    // Its profiling takes seconds on every machine.
    const CommandResult second = user.stops("demo --json --model emulated:slow.json --batch 1 -m 1 --steps 100000",
                                            "grep -q profiling .stderr", "INT");
    EXPECT_EQ(second.code, 130) << second.err;
    EXPECT_THAT(second.err, AllOf(Not(HasSubstr("exists already")), HasSubstr("interrupted before")));
    EXPECT_FALSE(user.has("demo/trace.sqlite")) << "the files of the first are gone";
}

TEST_F(Interruption, ARunOfSecondsRecordsTheMachinesLoad) {
    const CommandResult run = user.stops(
        "run mlp:layers=2,width=16 --balance 1,1 -m 2 --batch 2 --steps 10000000 --trace t.sqlite --json --force",
        kSeveralSteps + " && sleep 1.5", "INT");
    EXPECT_EQ(run.code, 130) << run.err;
    EXPECT_TRUE(run.json().at("load").is_object());
    EXPECT_TRUE(user.succeeds("compare t.sqlite --json").json().at("load").at("run").is_object());
}
}  // namespace
}  // namespace pipescope
