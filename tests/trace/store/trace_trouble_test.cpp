#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "trace/open_trace.h"
#include "trace/store/sql_query.h"
#include "trace/store/sqlite_guard.h"
#include "trace/store/trace_reader.h"
#include "trace/store/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

Slice slice(int k) {
    return {{0, TaskKind::forward, 0, k % 60'000, -1}, LaneId{0}, Nanoseconds{k}, Nanoseconds{k + 1}, 0};
}

TEST(TraceTrouble, AFullDiskIsNamedCountedAndLeavesWhatWasCommitted) {
    const TemporaryFolder folder;
    TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
    writer.add_task(slice(0), Source::measured);
    writer.commit();
    writer.change([](SQLite::Database& db) {
        const int pages = db.execAndGet("PRAGMA page_count").getInt();
        db.exec("PRAGMA max_page_count = " + std::to_string(pages + 20));
    });
    EXPECT_THAT(thrown<TraceError>([&] {
                    for (int k = 1; k < 100'000; ++k) {
                        writer.add_task(slice(k), Source::measured);
                    }
                }),
                AllOf(HasSubstr("t.sqlite"), HasSubstr("free some space")));
    EXPECT_THROW(writer.add_step({}), TraceError);  // nothing is accepted that might be lost too
    EXPECT_THAT(thrown<TraceError>([&] { writer.close(); }), HasSubstr("rows are missing"));
    const OpenedTrace trace = open_trace(folder / "t.sqlite");
    EXPECT_EQ(trace.measured.slices.size(), 1u);
    // The space of the lost rows suffices to report the loss.
    EXPECT_GT(trace.dropped(), 100);
    ASSERT_EQ(trace.diagnostics.size(), 1u);
    EXPECT_THAT(trace.diagnostics[0].text, HasSubstr("rows could not be written"));
}

TEST(TraceTrouble, ADiskThatFillsUpWhileTheTraceIsFinishedLeavesItReadable) {
    const TemporaryFolder folder;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
        for (int k = 0; k < 5000; ++k) {
            writer.add_task(slice(k), Source::measured);
        }
        writer.commit();
        const rlimit limit{400'000, 400'000};  // no file may grow beyond: what a full disk looks like to SQLite
        setrlimit(RLIMIT_FSIZE, &limit);
        try {
            writer.close();
            _exit(1);
        } catch (const TraceError&) {
            _exit(0);
        }
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_EQ(open_trace(folder / "t.sqlite").measured.slices.size(), 5000u);
    EXPECT_EQ(recover_trace(folder / "t.sqlite").tasks, 5000);
}

std::string remedy_for(int code, std::string_view doing) {
    return thrown<TraceError>([&] { rethrow_sqlite(SQLite::Exception("it failed", code), doing, "t.sqlite"); });
}

TEST(TraceTrouble, OfEachKindHasARemedyOfItsOwn) {
    errno = 0;
    EXPECT_THAT(remedy_for(SQLITE_TOOBIG, "read"), HasSubstr("no text of a trace is that long; the file is damaged"));
    EXPECT_THAT(remedy_for(SQLITE_TOOBIG, "write"), HasSubstr("use a smaller profile"));
    EXPECT_THAT(remedy_for(SQLITE_ERROR, "recover"), HasSubstr("every trace has it; the file is damaged"));
    EXPECT_THAT(remedy_for(SQLITE_NOMEM, "read"), HasSubstr("more memory"));
    EXPECT_THAT(remedy_for(SQLITE_CANTOPEN, "open"), HasSubstr("check that the file and its folder may be written"));
    errno = EMFILE;
    EXPECT_THAT(remedy_for(SQLITE_CANTOPEN, "open"), HasSubstr("too many files are open"));
}

int refuse_locks(int /*file*/, int command, ...) {
    errno = EOPNOTSUPP;
    return command == F_GETLK || command == F_SETLK ? -1 : 0;
}

/// What SQLite meets on a network disk without locks.
class DiskWithoutLocks {
public:
    DiskWithoutLocks() { set(reinterpret_cast<sqlite3_syscall_ptr>(&refuse_locks)); }
    DiskWithoutLocks(const DiskWithoutLocks&) = delete;
    DiskWithoutLocks& operator=(const DiskWithoutLocks&) = delete;
    ~DiskWithoutLocks() { set(nullptr); }

private:
    static void set(sqlite3_syscall_ptr call) {
        sqlite3_vfs* vfs = sqlite3_vfs_find(nullptr);
        vfs->xSetSystemCall(vfs, "fcntl", call);
    }
};

TEST(TraceTrouble, OfADiskThatCannotLockFilesIsNamed) {
    const TemporaryFolder folder;
    TraceWriter(folder / "t.sqlite", IfExists::refuse).close();
    const DiskWithoutLocks network;
    EXPECT_THAT(
        thrown<TraceError>([&] { open_trace(folder / "t.sqlite"); }),
        AllOf(HasSubstr("t.sqlite"), HasSubstr("cannot lock files"), HasSubstr("copy the file to a local disk")));
    EXPECT_THAT(thrown<SqlError>([&] { query_sql(folder / "t.sqlite", "SELECT * FROM PIPESCOPE_RUN"); }),
                HasSubstr("copy the file to a local disk"));
    EXPECT_THAT(thrown<TraceError>([&] { TraceWriter(folder / "new.sqlite", IfExists::refuse); }),
                HasSubstr("write to a local disk"));
}

TEST(TraceTrouble, AFileThatAnotherWriterHoldsIsAnErrorAndNoHang) {
    const TemporaryFolder folder;
    TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
    writer.add_task(slice(0), Source::measured);
    writer.commit();
    SQLite::Database other(folder / "t.sqlite", SQLite::OPEN_READWRITE);
    other.exec("BEGIN IMMEDIATE");
    EXPECT_THAT(thrown<TraceError>([&] { writer.add_task(slice(1), Source::measured); }),
                HasSubstr("another process has it open"));
    other.exec("ROLLBACK");
    writer.add_task(slice(2), Source::measured);  // and it goes on when the other has gone
    writer.close();
    EXPECT_EQ(TraceReader(folder / "t.sqlite").timeline(Source::measured).slices.size(), 2u);
    EXPECT_EQ(open_trace(folder / "t.sqlite").dropped(), 1);
}

TEST(TraceTrouble, AReaderInTheMiddleOfAQueryDoesNotStopTheWriter) {
    const TemporaryFolder folder;
    TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
    writer.add_task(slice(0), Source::measured);
    writer.commit();
    SQLite::Database reader(folder / "t.sqlite", SQLite::OPEN_READONLY);
    reader.exec("BEGIN");
    EXPECT_EQ(reader.execAndGet("SELECT count(*) FROM PIPESCOPE_TASK").getInt(), 1);
    for (int k = 1; k < 100; ++k) {
        writer.add_task(slice(k), Source::measured);
    }
    writer.close();
    EXPECT_EQ(reader.execAndGet("SELECT count(*) FROM PIPESCOPE_TASK").getInt(), 1);  // as it was when it began
    reader.exec("COMMIT");
    EXPECT_EQ(reader.execAndGet("SELECT count(*) FROM PIPESCOPE_TASK").getInt(), 100);
}
}  // namespace
}  // namespace pipescope
