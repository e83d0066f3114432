#include "trace/shared_disk.h"

#include "tests/temporary_folder.h"
#include "trace/open_trace.h"
#include "trace/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

class SharedDisk : public testing::Test {
protected:
    SharedDisk() { setenv("PIPESCOPE_SHARED_DISKS", ("/nowhere:" + fs::path(folder_ / "").string()).c_str(), 1); }
    ~SharedDisk() override { unsetenv("PIPESCOPE_SHARED_DISKS"); }

    const TemporaryFolder folder_;
};

/// Adds a row to both tables in each transaction, and moves its log into the database all the time.
[[noreturn]] void write_for_ever(const fs::path& path) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends with the test, however that ends
    SQLite::Database db(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    db.exec("PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; PRAGMA wal_autocheckpoint=20");
    db.exec("CREATE TABLE one (text TEXT); CREATE TABLE other (text TEXT)");
    for (;;) {
        db.exec(
            "BEGIN; INSERT INTO one VALUES (hex(randomblob(500))); INSERT INTO other VALUES (hex(randomblob(500))); "
            "COMMIT");
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
}

TEST_F(SharedDisk, IsKnownByItsFolder) {
    EXPECT_TRUE(is_on_shared_disk(folder_ / "x.sqlite"));
    EXPECT_TRUE(is_on_shared_disk(folder_ / "sub" / ".." / "x.sqlite"));
    EXPECT_FALSE(is_on_shared_disk("/proc/self/stat"));
    EXPECT_FALSE(grows_on_shared_disk(folder_ / "x.sqlite")) << "it has no log";
}

// The writer is another process, and begins its log anew dozens of times a second.
TEST_F(SharedDisk, GivesWholeCopiesWhileAnotherProcessWrites) {
    const fs::path path = folder_ / "growing.sqlite";
    const pid_t writer = fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) {
        write_for_ever(path);
    }
    constexpr int kCopies = 30;
    std::int64_t before = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (int copies = 0; copies < kCopies && std::chrono::steady_clock::now() < end;) {
        if (!grows_on_shared_disk(path)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            continue;
        }
        copy_growing_trace(path, folder_ / "copy.sqlite");
        const SQLite::Database copy((folder_ / "copy.sqlite").string());
        if (!copy.tableExists("other")) {
            continue;
        }
        SQLite::Statement check(copy, "PRAGMA integrity_check");
        ASSERT_TRUE(check.executeStep());
        ASSERT_EQ(check.getColumn(0).getString(), "ok") << "copy " << copies;
        SQLite::Statement count(copy, "SELECT (SELECT count(*) FROM one), (SELECT count(*) FROM other)");
        ASSERT_TRUE(count.executeStep());
        ASSERT_EQ(count.getColumn(0).getInt64(), count.getColumn(1).getInt64());
        ASSERT_GE(count.getColumn(0).getInt64(), before);
        before = count.getColumn(0).getInt64();
        ++copies;
    }
    EXPECT_GT(before, 0);
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
}

TEST_F(SharedDisk, IsReadWithoutTouchingWhatItsWriterHas) {
    TraceWriter writer(folder_ / "own.sqlite", IfExists::refuse);
    writer.set_lanes({{"lane 0", "cpu"}});
    writer.add_task({{0, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds{0}, Nanoseconds{5}, 0}, Source::measured);
    writer.commit();
    // As a host sees it that does not share the writer's memory.
    const fs::path seen = folder_ / "seen.sqlite";
    fs::copy_file(folder_ / "own.sqlite", seen);
    fs::copy_file(folder_ / "own.sqlite-wal", folder_ / "seen.sqlite-wal");
    EXPECT_EQ(open_trace(seen).measured.slices.size(), 1U);
    EXPECT_FALSE(fs::exists(folder_ / "seen.sqlite-shm")) << "SQLite opened it";
    EXPECT_EQ(fs::file_size(seen), fs::file_size(folder_ / "own.sqlite"));
    fs::path copy;
    {
        const OpenablePath openable(seen);
        EXPECT_NE(openable.path(), seen);
        copy = openable.path();
        EXPECT_TRUE(fs::exists(copy));
    }
    EXPECT_FALSE(fs::exists(copy));
    writer.close();
    EXPECT_FALSE(grows_on_shared_disk(folder_ / "own.sqlite"));
    EXPECT_EQ(open_trace(folder_ / "own.sqlite").measured.slices.size(), 1U);
}
}  // namespace
}  // namespace pipescope
