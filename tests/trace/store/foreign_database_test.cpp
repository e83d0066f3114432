// Hostile SQLite files: a schema that computes, and tables that never end. Each is refused by every reader, soon.

#include "trace/store/foreign_database.h"

#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "tests/trace/one_step_trace.h"
#include "trace/open_trace.h"
#include "trace/store/sql_query.h"
#include "trace/store/trace_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kEndless =
    "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i AS start, i AS end, i AS step, "
    "i AS eventType, i AS domainId, 'x' AS text, i AS textId, i AS id, 'x' AS value FROM c";

class ForeignTrace : public testing::Test {
protected:
    ForeignTrace() { write_sample_trace(path()); }

    std::filesystem::path path() const { return folder_ / "t.sqlite"; }
    void change(const std::string& sql) const { SQLite::Database(path(), SQLite::OPEN_READWRITE).exec(sql); }
    std::int64_t number(const std::string& sql) const { return SQLite::Database(path()).execAndGet(sql).getInt64(); }
    /// As of a run that was killed, so that recover has something to do.
    void leave_open() const { change("DELETE FROM PIPESCOPE_RUN WHERE key = 'closed'"); }

    void expect_refused_by_all(const std::string& why) const {
        const auto says = AllOf(HasSubstr("t.sqlite' is damaged"), HasSubstr(why), HasSubstr("record it again"));
        EXPECT_THAT(thrown<TraceFormatError>([&] { open_trace(path()); }), says);
        EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader reader(path()); }), says);
        EXPECT_THAT(thrown<TraceFormatError>([&] { recover_trace(path()); }), says);
    }

    const TemporaryFolder folder_;
};

TEST_F(ForeignTrace, WithAViewInPlaceOfATableIsRefused) {
    leave_open();
    for (const std::string table : {"PIPESCOPE_STEP", "NVTX_EVENTS", "StringIds", "PIPESCOPE_DIAGNOSTIC"}) {
        change("ALTER TABLE " + table + " RENAME TO kept; CREATE VIEW " + table + " AS " + kEndless);
        expect_refused_by_all(table + " is a view");
        change("DROP VIEW " + table + "; ALTER TABLE kept RENAME TO " + table);
    }
    EXPECT_TRUE(open_trace(path()).has_tasks());
}

TEST_F(ForeignTrace, WithAnotherViewIsReadWithoutIt) {
    change(std::string("CREATE VIEW endless AS ") + kEndless);
    EXPECT_TRUE(open_trace(path()).has_tasks());
}

TEST_F(ForeignTrace, WithAVirtualTableOrAComputedColumnIsRefused) {
    change("ALTER TABLE PIPESCOPE_DROPS RENAME TO kept; CREATE VIRTUAL TABLE PIPESCOPE_DROPS USING fts5(source)");
    expect_refused_by_all("PIPESCOPE_DROPS is a virtual table");
    change("DROP TABLE PIPESCOPE_DROPS; ALTER TABLE kept RENAME TO PIPESCOPE_DROPS");
    change("ALTER TABLE PIPESCOPE_MEMORY ADD COLUMN long AS (printf('%.*c', 900000000, 'x'))");
    expect_refused_by_all("PIPESCOPE_MEMORY.long is computed by the file");
}

TEST_F(ForeignTrace, WhoseTablesShareAPageIsRefused) {
    change(
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE "
        "name = 'PIPESCOPE_CLOCK') WHERE name = 'PIPESCOPE_TASK'");
    expect_refused_by_all("have the same root page");
}

TEST_F(ForeignTrace, RunsNoTriggerWhenItIsRecovered) {
    leave_open();
    change(
        "CREATE TRIGGER hostile AFTER INSERT ON PIPESCOPE_RUN BEGIN DELETE FROM PIPESCOPE_TASK; END;"
        "CREATE TRIGGER hostile_too BEFORE INSERT ON PIPESCOPE_DIAGNOSTIC BEGIN DELETE FROM PIPESCOPE_STEP; END");
    const std::int64_t tasks = number("SELECT count(*) FROM PIPESCOPE_TASK");
    const Recovery recovery = recover_trace(path());
    EXPECT_TRUE(recovery.was_open);
    EXPECT_EQ(recovery.tasks, tasks);
    EXPECT_EQ(number("SELECT count(*) FROM PIPESCOPE_TASK"), tasks);
    EXPECT_EQ(number("SELECT count(*) FROM PIPESCOPE_STEP"), 2);
}

/// Puts an interior page of a B-tree into the file, each of whose children is the page `child`.
/// Source: sqlite.org/fileformat.html, section 1.6.
void write_interior_page(std::string& file, std::size_t page_size, std::uint32_t page, std::uint32_t child) {
    constexpr std::size_t kHeader = 12;
    constexpr std::size_t kCell = 5;  // the child and a key of one byte
    const std::size_t cells = (page_size - kHeader) / (kCell + 2);
    std::string bytes(page_size, '\0');
    const auto put = [&bytes](std::size_t at, std::uint32_t value, int width) {
        for (int k = 0; k < width; ++k) {
            bytes[at + static_cast<std::size_t>(k)] = static_cast<char>(value >> (8 * (width - 1 - k)));
        }
    };
    bytes[0] = 5;
    put(3, static_cast<std::uint32_t>(cells), 2);
    put(5, static_cast<std::uint32_t>(page_size - cells * kCell), 2);
    put(8, child, 4);
    for (std::size_t k = 0; k < cells; ++k) {
        const std::size_t cell = page_size - (k + 1) * kCell;
        put(kHeader + 2 * k, static_cast<std::uint32_t>(cell), 2);
        put(cell, child, 4);
        bytes[cell + 4] = 1;
    }
    file.replace((page - 1) * page_size, page_size, bytes);
}

// Five pages, and 580^4 rows. SQLite reads such a table without a word.
TEST_F(ForeignTrace, WhoseTableLeadsToItsOwnPagesAgainAndAgainIsRefused) {
    change("CREATE TABLE room (a); CREATE TABLE room_2 (a); CREATE TABLE room_3 (a)");
    const auto root = [&](const std::string& table) {
        return static_cast<std::uint32_t>(number("SELECT rootpage FROM sqlite_schema WHERE name = '" + table + "'"));
    };
    const auto page_size = static_cast<std::size_t>(number("PRAGMA page_size"));
    const std::uint32_t rows = root("PIPESCOPE_CLOCK"), room = root("room"), room_2 = root("room_2"),
                        room_3 = root("room_3");
    std::string file = read_text(path());
    const std::string leaf = file.substr((rows - 1) * page_size, page_size);
    file.replace((room_3 - 1) * page_size, page_size, leaf);
    write_interior_page(file, page_size, room_2, room_3);
    write_interior_page(file, page_size, room, room_2);
    write_interior_page(file, page_size, rows, room);
    write_text(path(), file);
    EXPECT_THAT(thrown<TraceFormatError>([&] { open_trace(path()); }),
                AllOf(HasSubstr("far more steps than a trace of this size needs"), HasSubstr("record it again")));
}

// Each kernel has the number of every call. The join of both would take the product of their rows.
TEST_F(ForeignTrace, WhoseKernelsAllBelongToAllCallsIsRefused) {
    leave_open();
    const std::string many = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 60000) ";
    change("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL; DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME;" + many +
           "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, "
           "globalPid, demangledName, shortName, registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, "
           "staticSharedMemory, dynamicSharedMemory, localMemoryPerThread, localMemoryTotal, gridId) "
           "SELECT i, i + 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM c;" +
           many +
           "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, globalTid, correlationId, nameId, "
           "returnValue) SELECT i, i + 1, 0, 0, 7, 0, 0 FROM c");
    EXPECT_THAT(thrown<TraceFormatError>([&] { recover_trace(path()); }), HasSubstr("far more steps"));
    EXPECT_EQ(number("SELECT count(*) FROM PIPESCOPE_RUN WHERE key = 'closed'"), 0) << "it is as it was";
}

TEST_F(ForeignTrace, IsAskedByAUsersQueryInBounds) {
    change("CREATE VIEW mine AS SELECT count(*) AS n FROM PIPESCOPE_STEP");
    EXPECT_EQ(query_sql(path(), "SELECT n FROM mine").rows[0][0], SqlValue(std::int64_t{2})) << "a view of the user";
    EXPECT_THAT(thrown<SqlError>([&] { query_sql(path(), "SELECT length(zeroblob(200000000))"); }),
                HasSubstr("too big"));
}
}  // namespace
}  // namespace pipescope
