// An overloaded recording in every command that shows figures of a trace: each reports the loss, and none shows a
// bubble fraction that lost ranges would have changed.

#include "profiler/recorder/recorder.h"
#include "schedule/schedules.h"
#include "simulator/pipeline_options.h"
#include "tests/cli/user.h"
#include "tests/profiler/recorder/nvtx_task.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <nvtx3/nvToolsExt.h>

#include <array>
#include <chrono>
#include <optional>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kRing = 1024;

constexpr const char* kTwoLayers = R"({"format": "pipescope.profile", "version": 1, "samples": [1], "layers": [
    {"name": "a", "forward_ns": [1000], "backward_ns": [2000], "output_bytes": [8]},
    {"name": "b", "forward_ns": [1000], "backward_ns": [2000], "output_bytes": [8]}]})";

PipelineOptions two_lanes() {
    PipelineOptions options;
    options.balance = Balance({1, 1});
    options.chunks = 2;
    options.batch = 2;
    options.hardware.devices = {"cpu", "cpu"};
    return options;
}

/// The ranges of a step, as emitted by an engine with one thread.
void emit_step(const TaskGraph& graph, std::int32_t step, std::optional<TaskKind> lost = {}) {
    for (const Task& task : graph.tasks()) {
        if (task.key.kind == lost) {
            continue;
        }
        TaskKey key = task.key;
        key.step = step;
        const NvtxTask range(key);
    }
}

/// Three steps of a pipeline on two lanes, each without tasks of kind `lost`, with marks beside them: as many as the
/// ring can hold, or more.
void record(const std::filesystem::path& path, std::size_t marks, std::array<std::optional<TaskKind>, 3> lost = {},
            const std::string& profile = kTwoLayers, const std::string& load = {}) {
    const PipelineOptions options = two_lanes();
    const TaskGraph graph =
        make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 2, .checkpoint = options.checkpoint});
    Recorder recorder({.path = path, .ring_entries = kRing, .drain_period = std::chrono::hours{1}, .devices = false});
    recorder.set_run("configuration", to_json(options));
    recorder.set_profile(profile);
    if (!load.empty()) {
        recorder.set_run("load", load);
    }
    recorder.set_pipeline({{"lane 0", "cpu"}, {"lane 1", "cpu"}}, graph.shape());
    for (std::int32_t step = 0; step < 3; ++step) {
        const Nanoseconds start = recorder.now();
        emit_step(graph, step, lost.at(static_cast<std::size_t>(step)));
        recorder.add_step({.step = step, .start = start, .end = recorder.now()});
        recorder.flush();
    }
    for (std::size_t k = 0; k < marks; ++k) {
        nvtxMarkA("mark");
    }
    recorder.stop();
}

class LossyTrace : public testing::Test {
protected:
    LossyTrace() {
        record(user.folder() / "whole.sqlite", kRing / 2);
        record(user.folder() / "lossy.sqlite", 3 * kRing);
    }

    User user;
};

TEST_F(LossyTrace, IsComparedWithoutMeasuredBubbles) {
    const auto whole = user.succeeds("compare whole.sqlite --json").json();
    EXPECT_TRUE(whole.at("measured_bubble_fraction").is_number());
    EXPECT_TRUE(whole.at("lanes").at(0).at("measured_bubble_fraction").is_number());
    EXPECT_TRUE(whole.at("warnings").empty());

    const auto lossy = user.succeeds("compare lossy.sqlite --json").json();
    EXPECT_EQ(lossy.at("tasks_unmatched"), 0) << "what was lost are marks; nobody knows that";
    EXPECT_TRUE(lossy.at("measured_bubble_fraction").is_null());
    EXPECT_TRUE(lossy.at("lanes").at(1).at("measured_bubble_fraction").is_null());
    EXPECT_GT(lossy.at("drops").at(0).at("dropped").get<std::size_t>(), kRing);
    EXPECT_THAT(lossy.at("warnings").at(0).get<std::string>(), HasSubstr("the recorder lost"));
    EXPECT_EQ(lossy.at("refused").size(), 4u);

    EXPECT_THAT(user.succeeds("compare whole.sqlite").out, Not(HasSubstr("warning")));
    EXPECT_THAT(user.succeeds("compare lossy.sqlite").out,
                AllOf(HasSubstr("warning: the recorder lost"), ContainsRegex("bubble fraction +lost")));
}

// With a profile of another run, the error says little about the simulator.
TEST_F(LossyTrace, IsComparedWithAWordOnWhatTheProfileIs) {
    const auto warnings_with = [&](const std::string& fields, const std::string& load) {
        std::string profile = kTwoLayers;
        const std::string samples = "\"samples\": [1],";
        profile.replace(profile.find(samples), samples.size(), fields);
        record(user.folder() / "other.sqlite", 0, {}, profile, load);
        const auto compared = user.succeeds("compare other.sqlite --json").json();
        std::filesystem::remove(user.folder() / "other.sqlite");
        return compared.at("warnings").get<std::vector<std::string>>();
    };
    using testing::ElementsAre;
    EXPECT_THAT(warnings_with("\"samples\": [1], \"estimated\": true, \"host_cores\": 8,", ""),
                ElementsAre(HasSubstr("estimated, not measured")));
    EXPECT_THAT(warnings_with("\"samples\": [2],", ""), ElementsAre(HasSubstr("extrapolated")));
    EXPECT_THAT(warnings_with("\"samples\": [1], \"host_cores\": 8, \"co_running_lanes\": 1,", ""),
                ElementsAre(HasSubstr("taken with 1 lane busy and the run keeps 2 busy")));
    EXPECT_THAT(warnings_with("\"samples\": [1], \"host_cores\": 8, \"co_running_lanes\": 2,", ""), ElementsAre());
    EXPECT_THAT(
        warnings_with("\"samples\": [1], \"load\": {\"others\": 0, \"stolen\": 0},", R"({"others": 0.5, "stolen": 0})"),
        ElementsAre(HasSubstr("other processes took 50.00 %"), HasSubstr("a part of the step error")));
}

TEST_F(LossyTrace, IsComparedByItsWholeSteps) {
    record(user.folder() / "half.sqlite", 0, {std::nullopt, TaskKind::backward, std::nullopt});
    const auto compared = user.succeeds("compare half.sqlite --json").json();
    EXPECT_EQ(compared.at("steps"), (std::vector<int>{0, 2}));
    EXPECT_EQ(compared.at("tasks_unmatched"), 0);
    EXPECT_EQ(compared.at("warnings"),
              std::vector<std::string>{
                  "not compared, since a forward or a backward phase was not recorded, or takes no time: step 1"});

    record(user.folder() / "halves.sqlite", 3 * kRing, {TaskKind::forward, TaskKind::backward, TaskKind::backward});
    const CommandResult refused = user.types("compare halves.sqlite");
    EXPECT_NE(refused.code, 0);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("halves.sqlite holds no whole step"), HasSubstr("the recorder lost")));
}

// A killed run leaves no mark that it was closed, and an incomplete last step.
TEST_F(LossyTrace, IsComparedWithoutTheStepThatAKillCutShort) {
    const auto kill_in_step_2 = [&](const std::string& name, const std::string& sql) {
        record(user.folder() / name, 0);
        SQLite::Database(user.folder() / name, SQLite::OPEN_READWRITE)
            .exec(
                "DELETE FROM PIPESCOPE_STEP WHERE step = 2; DELETE FROM PIPESCOPE_TASK WHERE step = 2 AND kind = "
                "'backward' AND partition = 0; DELETE FROM PIPESCOPE_RUN WHERE key = 'closed';" +
                sql);
        return user.succeeds("compare " + name + " --json").json();
    };
    const auto killed = kill_in_step_2("killed.sqlite", "");
    EXPECT_EQ(killed.at("steps"), (std::vector<int>{0, 1}));
    EXPECT_TRUE(killed.at("measured_bubble_fraction").is_number());
    // A loop that reports no steps.
    EXPECT_EQ(kill_in_step_2("silent.sqlite", "DELETE FROM PIPESCOPE_STEP").at("steps"), (std::vector<int>{0, 1}));
    // A recovered trace is still known to have been cut off.
    kill_in_step_2("recovered.sqlite", "DELETE FROM PIPESCOPE_STEP");
    user.succeeds("recover recovered.sqlite");
    EXPECT_EQ(user.succeeds("compare recovered.sqlite --json").json().at("steps"), (std::vector<int>{0, 1}));
    // With only one step, its times are shown, but not its bubble.
    const auto only =
        kill_in_step_2("only.sqlite", "DELETE FROM PIPESCOPE_STEP; DELETE FROM PIPESCOPE_TASK WHERE step < 2");
    EXPECT_EQ(only.at("steps"), (std::vector<int>{2}));
    EXPECT_TRUE(only.at("measured_bubble_fraction").is_null());
    EXPECT_EQ(only.at("refused").size(), 4u) << "both bubbles, the lanes and the causes";
}

TEST_F(LossyTrace, IsExportedAndRecoveredWithAWarning) {
    for (const std::string format : {"csv", "chrome"}) {
        EXPECT_THAT(user.succeeds("export whole.sqlite --format " + format).err, Not(HasSubstr("warning")));
        EXPECT_THAT(user.succeeds("export lossy.sqlite --format " + format).err, HasSubstr("the recorder lost"));
    }
    // The Chrome export contains the loss too, and an import restores it.
    EXPECT_TRUE(user.succeeds("compare lossy.chrome.json --json").json().at("measured_bubble_fraction").is_null());
    EXPECT_EQ(user.succeeds("recover whole.sqlite --json").json().at("dropped"), 0);
    EXPECT_GT(user.succeeds("recover lossy.sqlite --json").json().at("dropped").get<std::size_t>(), kRing);
}

TEST_F(LossyTrace, IsReportedByTheViewerWithoutMeasuredBubbles) {
    if (!is_installed("pipescope-gui")) {
        GTEST_SKIP() << "this build has no pipescope-gui";
    }
    user.succeeds("view whole.sqlite --report whole.html");
    EXPECT_THAT(user.reads("whole.html"), Not(HasSubstr("not shown: ranges were lost")));
    user.succeeds("view lossy.sqlite --report lossy.html");
    EXPECT_THAT(user.reads("lossy.html"), HasSubstr("not shown: ranges were lost"));
}

// export and the viewer say the same of a simulated trace whose tasks were changed.
TEST_F(LossyTrace, OfASimulationIsExportedWithAWarning) {
    user.writes("p.json", kTwoLayers);
    user.succeeds("simulate p.json --balance 1,1 -m 2 --batch 2 --trace simulated.sqlite");
    EXPECT_EQ(user.succeeds("export simulated.sqlite --format csv -o -").err, "");
    SQLite::Database(user.folder() / "simulated.sqlite", SQLite::OPEN_READWRITE)
        .exec("DELETE FROM PIPESCOPE_TASK WHERE kind = 'loss'");
    EXPECT_THAT(user.succeeds("export simulated.sqlite --format csv -o -").err,
                HasSubstr("not those of its profile and configuration (0 added or changed, 1 removed or changed)"));
}
}  // namespace
}  // namespace pipescope
