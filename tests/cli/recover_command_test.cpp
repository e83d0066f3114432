// `pipescope recover` on the trace of a process that ended without closing it.

#include "tests/cli/user.h"
#include "trace/store/trace_writer.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace pipescope {
namespace {
class Recover : public testing::Test {
protected:
    /// Writes t.sqlite in a process that is killed before it commits `lost` and closes the file.
    void leave_trace(const std::function<void(TraceWriter&)>& committed,
                     const std::function<void(TraceWriter&)>& lost) const {
        const pid_t child = fork();
        if (child == 0) {
            TraceWriter writer(user.folder() / "t.sqlite", IfExists::refuse);
            committed(writer);
            writer.commit();
            lost(writer);
            kill(getpid(), SIGKILL);
        }
        int status = 0;
        waitpid(child, &status, 0);
        ASSERT_TRUE(WIFSIGNALED(status));
    }
    static void add_range(TraceWriter& writer, std::int64_t start, std::int64_t end) {
        NvtxRecord range;
        range.start = start;
        range.end = end;
        range.text = "r";
        range.global_tid = 1;
        writer.add_range(range);
    }
    static void add_clock(TraceWriter& writer, std::int64_t realtime, std::int64_t monotonic) {
        ClockRecord clock;
        clock.realtime = realtime;
        clock.monotonic = monotonic;
        writer.add_clock(clock);
    }
    /// Ranges up to 1.5 s, one of which started first and ended last; 3 losses; clocks with a drift of 250 ns.
    void leave_usual_trace() const {
        leave_trace(
            [](TraceWriter& writer) {
                add_range(writer, 1'000'000, 2'000'000);
                add_range(writer, 500'000, 1'500'000'000);
                add_range(writer, 3'000'000, 4'000'000);
                writer.add_step({});
                writer.add_drop({"nvtx", 1, 3, 3, 0, 0});
                add_clock(writer, 5'000, 1'000);
                add_clock(writer, 6'250, 2'000);
            },
            [](TraceWriter& writer) { add_range(writer, 2'000'000'000, 2'100'000'000); });
    }

    const User user;
};

TEST_F(Recover, SaysWhatItDidAndWhatIsLost) {
    leave_usual_trace();
    EXPECT_EQ(
        user.succeeds("recover t.sqlite").out,
        "t.sqlite: 0 tasks, 1 step; the run had not closed it; it is one plain file now\n"
        "lost: everything that ended after 1500 ms, where the file ends; at most the last two drain periods "
        "(40 ms) before the kill, if the machine kept up; for CUDA devices also records still in CUPTI, which can "
        "be more\n"
        "dropped while recording: 3; drift of the wall clock: 250 ns\n");
    EXPECT_FALSE(user.has("t.sqlite-wal"));
    EXPECT_EQ(user.succeeds("recover t.sqlite").out,
              "t.sqlite: 0 tasks, 1 step; it was closed already and is unchanged\n"
              "dropped while recording: 3; drift of the wall clock: 250 ns\n");
}

TEST_F(Recover, TellsUntilWhenTheFileHoldsWhatHappened) {
    leave_usual_trace();
    const auto recovery = user.succeeds("recover t.sqlite --json").json();
    EXPECT_EQ(recovery.at("recorded_until_ns"), 1'500'000'000);
    EXPECT_EQ(recovery.at("was_open"), true);
    EXPECT_EQ(recovery.at("dropped"), 3);
    EXPECT_EQ(recovery.at("clock_drift_ns"), 250);
}

TEST_F(Recover, RefusesToCloseATraceWithoutItsLog) {
    leave_usual_trace();
    std::filesystem::remove(user.folder() / "t.sqlite-wal");
    const CommandResult refused = user.types("recover t.sqlite");
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err,
                testing::AllOf(testing::HasSubstr("its -wal file is missing"), testing::HasSubstr("--without-wal")));
    EXPECT_EQ(user.types("recover t.sqlite").code, 1) << "it is as it was";
    const CommandResult recovered = user.succeeds("recover t.sqlite --without-wal");
    EXPECT_THAT(recovered.out, testing::HasSubstr("how much is unknown, since its -wal file is missing"));
    EXPECT_EQ(user.succeeds("recover t.sqlite --json").json().at("was_open"), false);
}

// SQLite makes an empty log where a file that should have one is read without it.
TEST_F(Recover, RefusesALogThatAReaderMade) {
    leave_usual_trace();
    std::filesystem::remove(user.folder() / "t.sqlite-wal");
    std::filesystem::remove(user.folder() / "t.sqlite-shm");
    user.types("compare t.sqlite");
    ASSERT_TRUE(user.has("t.sqlite-wal"));
    const CommandResult refused = user.types("recover t.sqlite");
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err,
                testing::AllOf(testing::HasSubstr("its -wal file is empty"), testing::HasSubstr("--without-wal")));
    EXPECT_EQ(user.succeeds("recover t.sqlite --json --without-wal").json().at("log_trouble"),
              "its -wal file is empty");
}

TEST_F(Recover, NoticesThatALogWasCutOff) {
    for (const bool has_index : {true, false}) {
        leave_usual_trace();
        const auto log = user.folder() / "t.sqlite-wal";
        std::filesystem::resize_file(log, std::filesystem::file_size(log) / 2 + 7);
        if (!has_index) {
            std::filesystem::remove(user.folder() / "t.sqlite-shm");
        }
        const auto recovery = user.succeeds("recover t.sqlite --json --without-wal").json();
        EXPECT_EQ(recovery.at("log_trouble"), "its -wal file is cut off");
        std::filesystem::remove(user.folder() / "t.sqlite");
    }
}

// It cannot be told from a trace whose log is elsewhere.
TEST_F(Recover, TellsZeroWhereNothingHadBeenWritten) {
    leave_trace([](TraceWriter&) {}, [](TraceWriter& writer) { add_range(writer, 5, 6); });
    EXPECT_EQ(user.succeeds("recover t.sqlite --json --without-wal").json().at("recorded_until_ns"), 0);
}
}  // namespace
}  // namespace pipescope
