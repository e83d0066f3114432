#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "trace/store/trace_reader.h"
#include "trace/store/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

constexpr int kTasksPerCommit = 20'000;

/// Writes tasks forever, and reports the number of committed ones through the pipe.
[[noreturn]] void write_until_killed(const std::filesystem::path& path, int pipe) {
    TraceWriter writer(path, IfExists::refuse);
    for (std::int64_t k = 1;; ++k) {
        writer.add_task({{0, TaskKind::forward, 0, static_cast<int>(k % 60'000), -1},
                         LaneId{0},
                         Nanoseconds{k},
                         Nanoseconds{k + 1},
                         0},
                        Source::measured);
        if (k % kTasksPerCommit == 0) {
            writer.commit();
            if (write(pipe, &k, sizeof k) != sizeof k) {
                _exit(1);
            }
        }
    }
}

/// Kills a writing process some tasks after its second commit. Returns the number of tasks that were certainly
/// committed.
std::int64_t kill_a_writer(const std::filesystem::path& path, std::mt19937& random) {
    int ends[2];
    if (pipe(ends) != 0) {
        return -1;
    }
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        write_until_killed(path, ends[1]);
    }
    close(ends[1]);
    std::int64_t committed = 0;
    for (int k = 0; k < 2; ++k) {
        EXPECT_EQ(read(ends[0], &committed, sizeof committed), static_cast<ssize_t>(sizeof committed));
    }
    usleep(random() % 20'000);  // anywhere within a transaction, a commit or a checkpoint
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    std::int64_t later = 0;
    while (read(ends[0], &later, sizeof later) == static_cast<ssize_t>(sizeof later)) {
        committed = later;
    }
    close(ends[0]);
    return committed;
}

TEST(TraceRecovery, KeepsEverythingAKilledRunHadCommitted) {
    std::mt19937 random(7);
    for (int round = 0; round < 8; ++round) {
        const TemporaryFolder folder;
        const auto path = folder / "t.sqlite";
        const std::int64_t committed = kill_a_writer(path, random);
        const Recovery recovery = recover_trace(path);
        EXPECT_TRUE(recovery.was_open);
        EXPECT_GE(recovery.tasks, committed);
        EXPECT_EQ(recovery.tasks % kTasksPerCommit, 0);  // whole transactions only
        EXPECT_EQ(static_cast<std::int64_t>(TraceReader(path).timeline(Source::measured).slices.size()),
                  recovery.tasks);
        EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
    }
}

TEST(TraceRecovery, NotesInTheTraceThatItWasCutOff) {
    const TemporaryFolder folder;
    std::mt19937 random(8);
    kill_a_writer(folder / "t.sqlite", random);
    recover_trace(folder / "t.sqlite");
    const auto diagnostics = TraceReader(folder / "t.sqlite").diagnostics();
    ASSERT_EQ(diagnostics.size(), 1u);
    EXPECT_EQ(diagnostics[0].severity, "warning");
    EXPECT_THAT(diagnostics[0].text, HasSubstr("cut off"));
    EXPECT_FALSE(recover_trace(folder / "t.sqlite").was_open);  // once is enough
    EXPECT_EQ(TraceReader(folder / "t.sqlite").diagnostics().size(), 1u);
}

TEST(TraceRecovery, LeavesAFinishedTraceAsItIs) {
    const TemporaryFolder folder;
    const auto path = folder / "t.sqlite";
    {
        TraceWriter writer(path, IfExists::refuse);
        writer.add_step({});
        writer.close();
    }
    std::ifstream before(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(before), {}};
    const Recovery recovery = recover_trace(path);
    EXPECT_FALSE(recovery.was_open);
    EXPECT_EQ(recovery.steps, 1);
    std::ifstream after(path, std::ios::binary);
    EXPECT_EQ(bytes, std::string(std::istreambuf_iterator<char>(after), {}));
}

TEST(TraceRecovery, RefusesATraceThatIsStillBeingWritten) {
    const TemporaryFolder folder;
    TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
    writer.add_step({});
    writer.commit();
    EXPECT_THAT(thrown<TraceError>([&] { recover_trace(folder / "t.sqlite"); }),
                AllOf(HasSubstr("another process"), HasSubstr("wait")));
    writer.add_step({});
    writer.close();
    EXPECT_EQ(recover_trace(folder / "t.sqlite").steps, 2);
}

TEST(TraceRecovery, RefusesWhatIsNoTrace) {
    const TemporaryFolder folder;
    EXPECT_THROW(recover_trace(folder / "missing"), TraceFormatError);
    std::ofstream(folder / "text") << "hello, this is no trace";
    EXPECT_THROW(recover_trace(folder / "text"), TraceFormatError);
}

TEST(TraceRecovery, ReportsADamagedTraceInsteadOfRecoveringIt) {
    const TemporaryFolder folder;
    const auto path = folder / "t.sqlite";
    std::mt19937 random(9);
    kill_a_writer(path, random);
    SQLite::Database(path, SQLite::OPEN_READWRITE).exec("PRAGMA wal_checkpoint(TRUNCATE)");
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
    EXPECT_THAT(thrown<TraceFormatError>([&] { recover_trace(path); }), HasSubstr("damaged"));
}
}  // namespace
}  // namespace pipescope
