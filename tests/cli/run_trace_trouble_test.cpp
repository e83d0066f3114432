// Training whose trace cannot be written: it continues, reports the loss, and returns a failure as exit code.

#include "tests/cli/user.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <future>
#include <optional>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string kTrainedModel = "mlp:layers=4,width=64";

// Two layers that wait 1 ms forward and 2 ms backward: a step of two micro-batches takes 9 ms on any machine.
constexpr const char* kEmulatedProfile = R"({"format": "pipescope.profile", "version": 1, "samples": [1], "layers": [
    {"name": "a", "forward_ns": [1000000], "backward_ns": [2000000], "output_bytes": [8],
     "parameter_bytes": 4096},
    {"name": "b", "forward_ns": [1000000], "backward_ns": [2000000], "output_bytes": [8],
     "parameter_bytes": 4096}]})";

/// A training run in the background, while another connection to its trace interferes.
class RunWithOnlooker {
public:
    RunWithOnlooker(const User& user, int steps)
        : user_(user), result_(std::async(std::launch::async, [&user, steps] {
              return user.types(
                  "run emulated:e.json --balance 1,1 -m 2 --batch 2 --warmup 1 --trace t.sqlite --force "
                  "--json --steps " +
                  std::to_string(steps));
          })) {}

    /// Opens the trace once it contains tasks, and starts a transaction. Empty if the recording has already ended.
    std::optional<SQLite::Database> look(const char* begin) {
        while (result_.wait_for(std::chrono::milliseconds{10}) != std::future_status::ready) {
            try {
                SQLite::Database db(user_.folder() / "t.sqlite", SQLite::OPEN_READWRITE, kBusyMilliseconds);
                if (db.execAndGet("SELECT count(*) FROM PIPESCOPE_TASK").getInt() > 0) {
                    db.exec(begin);
                    const char* closed = "SELECT count(*) FROM PIPESCOPE_RUN WHERE key = 'closed'";
                    return db.execAndGet(closed).getInt() == 0 ? std::optional(std::move(db)) : std::nullopt;
                }
            } catch (const SQLite::Exception&) {
                // not there yet
            }
        }
        return std::nullopt;
    }
    CommandResult ends() { return result_.get(); }

private:
    static constexpr int kBusyMilliseconds = 60'000;
    const User& user_;
    std::future<CommandResult> result_;
};

class TraceTroubleOfARun : public testing::Test {
protected:
    TraceTroubleOfARun() { user.writes("e.json", kEmulatedProfile); }

    /// Repeats the run with more steps if the recording ended before the trace was opened.
    void run_beside(const char* begin,
                    const std::function<void(int steps, SQLite::Database&, RunWithOnlooker&)>& check) {
        for (int steps = 300; steps <= 300 << 4; steps *= 2) {
            RunWithOnlooker run(user, steps);
            if (auto onlooker = run.look(begin)) {
                check(steps, *onlooker, run);
                return;
            }
            const CommandResult alone = run.ends();
            ASSERT_EQ(alone.code, 0) << alone.err;
        }
        FAIL() << "no run could be looked at while it went on";
    }

    User user;
};

// A full disk is reported and fails the command, but the training and its figures are kept.
TEST_F(TraceTroubleOfARun, TrainsOnWhereTheDiskIsFullAndSaysSo) {
    const std::string run = "timeout 120 '" PIPESCOPE_BIN_FOLDER "/pipescope' run " + kTrainedModel +
                            " --balance 2,2 -m 4 --batch 8 --steps 300 --profile p.json --trace full.sqlite --json "
                            ">.stdout 2>.stderr";
    user.succeeds("profile " + kTrainedModel + " -o p.json --micro-batch-sizes 2 --time-limit 1s");
    // No file may exceed 600 KiB, which looks like a full disk to SQLite.
    const CommandResult full = user.types_to_shell("trap '' XFSZ; ulimit -f 1200; " + run);
    EXPECT_EQ(full.code, 1);
    EXPECT_EQ(full.json().at("steps").size(), 300u);
    EXPECT_TRUE(full.json().at("bubble_fraction").is_null());
    EXPECT_THAT(full.err, AllOf(HasSubstr("trace is incomplete"), HasSubstr("full.sqlite")));
    const CommandResult exported = user.types("export full.sqlite --format csv -o full.csv");
    EXPECT_THAT(exported.err, HasSubstr("warning"));
}

// The same if the file system itself reports that it is full (SQLITE_FULL).
TEST_F(TraceTroubleOfARun, TrainsOnWhereTheFileSystemHasNoRoomLeftAndSaysSo) {
    const std::string run = "timeout 120 '" PIPESCOPE_BIN_FOLDER
                            "/pipescope' run emulated:e.json --balance 1,1 -m 2 --batch 2 --steps 100 --trace "
                            "full.sqlite --json >.stdout 2>.stderr";
    const CommandResult full = user.types_to_shell("FULL_DISK_BYTES=400000 LD_PRELOAD='" FULL_DISK "' " + run);
    EXPECT_EQ(full.code, 1);
    EXPECT_EQ(full.json().at("steps").size(), 100U);
    for (const auto& step : full.json().at("steps")) {
        EXPECT_GT(step.at("step_ns").get<std::int64_t>(), 0);
    }
    EXPECT_TRUE(full.json().at("bubble_fraction").is_null());
    EXPECT_THAT(full.err, AllOf(HasSubstr("the training continued"), HasSubstr("trace is incomplete"),
                                HasSubstr("full.sqlite"), HasSubstr("free some space")));
    EXPECT_THAT(user.types("export full.sqlite --format csv -o full.csv").err, HasSubstr("warning"));
}

// Nobody may write to the folder, except for root, who must drop that privilege.
TEST_F(TraceTroubleOfARun, TrainsOnWhereTheFolderIsReadOnlyAndSaysSo) {
    const std::string unprivileged = geteuid() == 0 ? "setpriv --bounding-set=-dac_override " : "";
    user.types_to_shell("mkdir there && chmod 555 there");
    if (user.types_to_shell(unprivileged + "true 2>.stderr").code != 0 ||
        user.types_to_shell(unprivileged + "touch there/a 2>.stderr").code == 0) {
        GTEST_SKIP() << "this user may write everywhere, and cannot give that up";
    }
    const CommandResult run = user.types_to_shell(
        unprivileged + "timeout 120 '" PIPESCOPE_BIN_FOLDER
                       "/pipescope' run emulated:e.json --balance 1,1 -m 2 --batch 2 --steps 4 --trace "
                       "there/t.sqlite --json >.stdout 2>.stderr");
    EXPECT_EQ(run.code, 1);
    EXPECT_EQ(run.json().at("steps").size(), 4u);
    EXPECT_TRUE(run.json().at("bubble_fraction").is_number()) << "the figures were recorded elsewhere";
    EXPECT_TRUE(run.json().at("trace").is_null());
    EXPECT_THAT(run.err, AllOf(HasSubstr("the training continued"), HasSubstr("there/t.sqlite"),
                               HasSubstr("its folder may not be written; choose another")));
    EXPECT_TRUE(std::filesystem::is_empty(user.folder() / "there"));
}

TEST_F(TraceTroubleOfARun, TrainsOnWhereItsRingsAreTooSmallAndShowsNoFigureThatWouldBeWrong) {
    const CommandResult lossy = user.types_to_shell(
        "PIPESCOPE_RING_ENTRIES=2 timeout 120 '" PIPESCOPE_BIN_FOLDER "/pipescope' run " + kTrainedModel +
        " --balance 2,2 -m 8 --batch 16 --steps 40 --trace t.sqlite --json >.stdout 2>.stderr");
    ASSERT_EQ(lossy.code, 0) << lossy.err;
    EXPECT_THAT(lossy.err, AllOf(HasSubstr("warning: the recorder lost"), HasSubstr("PIPESCOPE_RING_ENTRIES")));
    const auto run = lossy.json();
    ASSERT_EQ(run.at("steps").size(), 40U);
    for (const auto& step : run.at("steps")) {
        EXPECT_GT(step.at("step_ns").get<std::int64_t>(), 0) << "the loop's own clock saw every step";
    }
    EXPECT_TRUE(run.at("bubble_fraction").is_null());
    for (const auto& lane : run.at("lanes")) {
        EXPECT_TRUE(lane.at("busy_ns").is_null());
    }
    const CommandResult compared = user.types("compare t.sqlite");  // refused, unless a step happens to be whole
    EXPECT_THAT(compared.out + compared.err, HasSubstr("the recorder lost"));
}

TEST_F(TraceTroubleOfARun, ShowsNoFigureWhereAnotherToolHasTheRanges) {
    const CommandResult deaf = user.types_to_shell(
        "NVTX_INJECTION64_PATH=/nowhere/tool.so timeout 120 '" PIPESCOPE_BIN_FOLDER "/pipescope' run " + kTrainedModel +
        " --balance 2,2 -m 2 --batch 4 --steps 4 --json >.stdout 2>.stderr");
    ASSERT_EQ(deaf.code, 0) << deaf.err;
    EXPECT_THAT(deaf.err, AllOf(HasSubstr("no task of 4 of 4 steps was recorded"), HasSubstr("/nowhere/tool.so"),
                                HasSubstr("unset NVTX_INJECTION64_PATH")));
    const auto run = deaf.json();
    EXPECT_TRUE(run.at("bubble_fraction").is_null());
    for (const auto& step : run.at("steps")) {
        EXPECT_GT(step.at("step_ns").get<std::int64_t>(), 0);
    }
    for (const auto& lane : run.at("lanes")) {
        EXPECT_TRUE(lane.at("busy_ns").is_null());
    }
}

TEST_F(TraceTroubleOfARun, LosesNothingToAReaderThatKeepsTheFileOpen) {
    run_beside("BEGIN", [&](int steps, SQLite::Database& reader, RunWithOnlooker& run) {
        const char* tasks = "SELECT count(*) FROM PIPESCOPE_TASK";
        const int seen = reader.execAndGet(tasks).getInt();
        const CommandResult result = run.ends();
        EXPECT_EQ(result.code, 0) << result.err;
        EXPECT_THAT(result.err, Not(HasSubstr("warning")));
        EXPECT_EQ(result.json().at("steps").size(), static_cast<std::size_t>(steps));
        EXPECT_TRUE(result.json().at("bubble_fraction").is_number());
        EXPECT_EQ(reader.execAndGet(tasks).getInt(), seen) << "as it was when the reader began";
        reader.exec("COMMIT");
        EXPECT_EQ(reader.execAndGet("SELECT count(*) FROM PIPESCOPE_STEP").getInt(), steps);
        EXPECT_EQ(reader.execAndGet("SELECT count(*) FROM PIPESCOPE_RUN WHERE key = 'closed'").getInt(), 1);
    });
}

TEST_F(TraceTroubleOfARun, TrainsOnWhereAnotherProgramLocksTheFileAndSaysSo) {
    run_beside("BEGIN IMMEDIATE", [&](int steps, SQLite::Database& locker, RunWithOnlooker& run) {
        const CommandResult result = run.ends();
        EXPECT_EQ(result.code, 1);
        EXPECT_EQ(result.json().at("steps").size(), static_cast<std::size_t>(steps));
        EXPECT_TRUE(result.json().at("bubble_fraction").is_null());
        EXPECT_THAT(result.err, AllOf(HasSubstr("the training continued"), HasSubstr("trace is incomplete"),
                                      HasSubstr("t.sqlite"), HasSubstr("another process has it open")));
        locker.exec("ROLLBACK");
    });
    const CommandResult exported = user.types("export t.sqlite --format csv -o t.csv");
    EXPECT_EQ(exported.code, 0);
    EXPECT_THAT(exported.err, HasSubstr("warning: the recording was not closed"));
}
}  // namespace
}  // namespace pipescope
