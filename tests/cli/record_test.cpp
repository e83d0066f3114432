// `pipescope record` with a program that was not built with PipeScope.

#include "tests/cli/user.h"
#include "trace/store/trace_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

const std::string kProgram = PLAIN_NVTX_PROGRAM;
constexpr int kProgramsOwnCode = 7;

class Record : public testing::Test {
protected:
    TraceReader trace(const std::string& name) const { return TraceReader(user.folder() / name); }
    std::int64_t ranges_of(const std::string& name) const {
        std::int64_t ranges = 0;
        for (const DropRecord& drop : trace(name).drops()) {
            ranges += drop.recorded + drop.open_at_exit;
        }
        return ranges;
    }
    std::string refused(int code, const std::string& line) const {
        const CommandResult result = user.types(line);
        EXPECT_EQ(result.code, code) << line << "\n" << result.err;
        EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
        return result.err;
    }
    const User user;
};

TEST_F(Record, WritesATraceOfAnyProgramAndPassesItsCodeOn) {
    const CommandResult result = user.types("record -o out.sqlite -- " + kProgram);
    EXPECT_EQ(result.code, kProgramsOwnCode);
    EXPECT_EQ(ranges_of("out.sqlite"), 4);
    EXPECT_THAT(result.err, AllOf(HasSubstr("out.sqlite: 4 ranges, 0 tasks")));
    user.types("record -- " + kProgram);
    EXPECT_TRUE(user.has("plain_nvtx_program.sqlite"));
}

TEST_F(Record, TellsHowFarTheClocksDriftedApart) {
    const CommandResult result = user.types("record -o out.sqlite -- " + kProgram);
    SQLite::Database db(user.folder() / "out.sqlite");
    const std::string drift = db.execAndGet(
                                    "SELECT max(realtime - monotonic) - min(realtime - monotonic) FROM "
                                    "PIPESCOPE_CLOCK")
                                  .getString();
    EXPECT_EQ(result.err, "pipescope: " + (user.folder() / "out.sqlite").string() +
                              ": 4 ranges, 0 tasks; clock drift " + drift + " ns\n");
}

TEST_F(Record, KeepsTheLogOfATraceThatWasMoved) {
    user.writes("out.sqlite-wal", "last steps");
    EXPECT_THAT(user.types("record -o out.sqlite -- " + kProgram).err,
                HasSubstr("out.sqlite-wal exists without the trace "));
    EXPECT_EQ(user.reads("out.sqlite-wal"), "last steps");
    EXPECT_FALSE(user.has("out.sqlite"));
    user.types("record -o out.sqlite --force -- " + kProgram);
    EXPECT_EQ(trace("out.sqlite").run().at("closed"), "true");
    EXPECT_FALSE(user.has("out.sqlite-wal"));
}

TEST_F(Record, MakesTasksOfRangesWithATaskKey) {
    user.types("record -o out.sqlite -- " + kProgram + " task");
    const Timeline timeline = trace("out.sqlite").timeline(Source::measured);
    ASSERT_EQ(timeline.slices.size(), 1u);
    EXPECT_EQ(timeline.slices[0].key, (TaskKey{0, TaskKind::forward, 0, 0, -1}));
}

TEST_F(Record, EndsByTheSignalThatEndedTheProgramAndKeepsTheTrace) {
    const CommandResult result = user.types("record -o out.sqlite -- " + kProgram + " abort");
    EXPECT_EQ(result.code, 128 + SIGABRT);  // as the shell and timeout tell it
    EXPECT_FALSE(user.has("out.sqlite-wal"));
    EXPECT_EQ(trace("out.sqlite").run().at("closed"), "true");
}

TEST_F(Record, LeavesAReadableTraceWhenItIsInterrupted) {
    const std::string output = (user.folder() / "stdout").string();
    const std::string trace_path = (user.folder() / "out.sqlite").string();
    const pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        alarm(100);
        if (std::freopen(output.c_str(), "w", stdout) != nullptr) {
            execl(PIPESCOPE_BIN_FOLDER "/pipescope", "pipescope", "record", "-o", trace_path.c_str(), "--",
                  kProgram.c_str(), "wait", nullptr);
        }
        _exit(127);
    }
    while (waitpid(child, nullptr, WNOHANG) == 0 && read_text(output).find("ready") == std::string::npos) {
        usleep(10'000);
    }
    kill(-child, SIGINT);  // as a terminal does at Ctrl-C: to the whole group
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGINT);
    EXPECT_FALSE(user.has("out.sqlite-wal"));
    EXPECT_EQ(trace("out.sqlite").run().at("closed"), "true");
    EXPECT_THAT(trace("out.sqlite").diagnostics(),
                testing::Contains(testing::Field(&DiagnosticRecord::text, HasSubstr("cut off"))));
}

TEST_F(Record, GivesEachFurtherProcessATraceOfItsOwn) {
    const CommandResult result =
        user.types("record -o out.sqlite -- sh -c '" + kProgram + "; " + kProgram + " & echo $! >id; wait'");
    EXPECT_EQ(result.code, 0);  // the shell's
    std::string process = user.reads("id");
    process.erase(process.find('\n'));
    EXPECT_EQ(ranges_of("out.sqlite"), 4);
    EXPECT_EQ(ranges_of("out-" + process + ".sqlite"), 4);
}

TEST_F(Record, GivesEachProgramThatAProcessBecomesATraceOfItsOwn) {
    EXPECT_EQ(user.types("record -o out.sqlite -- sh -c 'echo $$ >id; exec " + kProgram + " exec 2'").code, 0);
    std::string process = user.reads("id");
    process.erase(process.find('\n'));
    for (const std::string& name : {std::string("out"), "out-" + process, "out-" + process + "-2"}) {
        ASSERT_TRUE(user.has(name + ".sqlite")) << name;
        EXPECT_FALSE(user.has(name + ".sqlite-wal"));
        EXPECT_EQ(trace(name + ".sqlite").run().at("closed"), "true");
    }
    EXPECT_FALSE(user.has("out-" + process + "-3.sqlite"));
}

// A ring of two entries, drained every 20 ms, cannot hold 10,000 ranges emitted at once.
TEST_F(Record, SaysWhatItLost) {
    const std::string record = "'" PIPESCOPE_BIN_FOLDER "/pipescope' record -o out.sqlite --force -- " + kProgram;
    const CommandResult lossy = user.types_to_shell("PIPESCOPE_RING_ENTRIES=2 " + record + " many >.stdout 2>.stderr");
    EXPECT_EQ(lossy.code, kProgramsOwnCode);
    EXPECT_THAT(lossy.err, HasSubstr("records were lost"));
    std::int64_t dropped = 0;
    for (const DropRecord& drop : trace("out.sqlite").drops()) {
        dropped += drop.dropped;
    }
    EXPECT_GT(dropped, 0);
    EXPECT_EQ(ranges_of("out.sqlite") + dropped, 4 + 10'000);
    EXPECT_THAT(user.types("export out.sqlite --format csv -o out.csv").err,
                AllOf(HasSubstr("warning: the recorder lost"), HasSubstr("PIPESCOPE_RING_ENTRIES=16")));
    const CommandResult enough =
        user.types_to_shell("PIPESCOPE_RING_ENTRIES=20000 " + record + " many >.stdout 2>.stderr");
    EXPECT_EQ(enough.code, kProgramsOwnCode);
    EXPECT_EQ(ranges_of("out.sqlite"), 4 + 10'000);
    const CommandResult wrong = user.types_to_shell("PIPESCOPE_RING_ENTRIES=many " + record + " >.stdout 2>.stderr");
    EXPECT_EQ(wrong.code, kProgramsOwnCode) << "the program goes on";
    EXPECT_THAT(wrong.err, HasSubstr("PIPESCOPE_RING_ENTRIES is many; it must be a whole number above 0"));
}

TEST_F(Record, LeavesATraceWheneverTheProgramIsKilled) {
    for (const char* seconds : {"0", "0.03", "0.1", "0.25"}) {
        const CommandResult killed = user.types(
            "record -o out.sqlite --force -- sh -c '" + kProgram +
            " busy >ready & until grep -q ready ready; do sleep 0.01; done; sleep " + seconds + "; kill -9 $!; wait'");
        EXPECT_EQ(killed.code, 0) << "the shell's; " << killed.err;
        EXPECT_EQ(trace("out.sqlite").run().at("closed"), "true") << killed.err;
        EXPECT_FALSE(user.has("out.sqlite-wal"));
        EXPECT_THAT(killed.err, HasSubstr("its recording was cut off"));
        user.types_to_shell("rm ready");
    }
}

TEST_F(Record, TakesNamesAsTheyAreTyped) {
    user.types_to_shell("mkdir 'a 50%path'");
    const std::string name = "a 50%path/%p it's \"quoted\" 100%.sqlite";
    EXPECT_EQ(user.types("record -o 'a 50%path/%p it'\\''s \"quoted\" 100%.sqlite' -- " + kProgram).code,
              kProgramsOwnCode);
    EXPECT_EQ(ranges_of(name), 4);
}

TEST_F(Record, KeepsAnExistingFile) {
    user.writes("out.sqlite", "precious");
    EXPECT_THAT(refused(1, "record -o out.sqlite -- " + kProgram), HasSubstr("--force"));
    EXPECT_EQ(user.reads("out.sqlite"), "precious");
    // also if the program turns out to have nothing to record
    EXPECT_THAT(refused(0, "record -o out.sqlite --force -- true"), HasSubstr("true wrote no trace"));
    EXPECT_EQ(user.reads("out.sqlite"), "precious");
    EXPECT_EQ(user.types("record -o out.sqlite --force -- " + kProgram).code, kProgramsOwnCode);
    EXPECT_EQ(ranges_of("out.sqlite"), 4);
    EXPECT_FALSE(user.has("out.sqlite.replaced"));
}

}  // namespace
}  // namespace pipescope
