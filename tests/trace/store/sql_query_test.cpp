#include "trace/store/sql_query.h"

#include "tests/temporary_folder.h"
#include "trace/store/trace_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace pipescope {
namespace {
using testing::HasSubstr;

class SqlQuery : public testing::Test {
protected:
    void SetUp() override {
        TraceWriter writer(path(), IfExists::refuse);
        Timeline timeline{Source::measured, {{"lane 0", "cpu"}}, {}};
        for (int k = 0; k < 10; ++k) {
            timeline.slices.push_back(
                {{0, TaskKind::forward, 0, k, -1}, LaneId{0}, Nanoseconds{10 * k}, Nanoseconds{10 * k + 7}, 0});
        }
        writer.add_timeline(timeline);
        writer.close();
    }

    std::filesystem::path path() const { return folder_ / "trace.sqlite"; }

    SqlError error_of(const std::string& sql) {
        try {
            query_sql(path(), sql);
        } catch (const SqlError& error) {
            return error;
        }
        ADD_FAILURE() << "no error for " << sql;
        return {"", std::nullopt};
    }

    TemporaryFolder folder_;
};

TEST_F(SqlQuery, GivesColumnsWithTheirOriginAndRows) {
    const SqlResult result =
        query_sql(path(), "SELECT id AS task, end - start AS ns, kind, skip, 0.5 FROM PIPESCOPE_TASK ORDER BY id");
    ASSERT_EQ(result.rows.size(), 10u);
    EXPECT_EQ(result.columns[0], (SqlColumn{"task", "PIPESCOPE_TASK", "id"}));
    EXPECT_EQ(result.columns[1], (SqlColumn{"ns", "", ""}));
    EXPECT_EQ(result.rows[3],
              (std::vector<SqlValue>{std::int64_t{4}, std::int64_t{7}, std::string("forward"), std::monostate{}, 0.5}));
    EXPECT_FALSE(result.more);
}

TEST_F(SqlQuery, ReadsTablesThatExistOnlyForTheQuery) {
    SqlOptions options;
    options.tables = {
        {"EXTRA", {"number INTEGER", "real REAL", "text TEXT"}, {{std::int64_t{7}, 0.5, "seven"}, {{}, {}, {}}}}};
    const SqlResult result = query_sql(path(), "SELECT number, real, text FROM extra", options);
    ASSERT_EQ(result.rows.size(), 2U);
    EXPECT_EQ(result.rows[0], (std::vector<SqlValue>{std::int64_t{7}, 0.5, "seven"}));
    EXPECT_EQ(result.rows[1], (std::vector<SqlValue>(3)));
    EXPECT_THROW(query_sql(path(), "DELETE FROM extra", options), SqlError);
    EXPECT_THROW(query_sql(path(), "SELECT * FROM extra"), SqlError);
}

TEST_F(SqlQuery, StopsAtTheAskedNumberOfRowsAndSaysThatThereAreMore) {
    const SqlResult cut = query_sql(path(), "SELECT id FROM PIPESCOPE_TASK", {.most_rows = 4, .cancelled = {}});
    EXPECT_EQ(cut.rows.size(), 4u);
    EXPECT_TRUE(cut.more);
    EXPECT_FALSE(query_sql(path(), "SELECT id FROM PIPESCOPE_TASK", {.most_rows = 10, .cancelled = {}}).more);
}

TEST_F(SqlQuery, StopsBeforeLongTextsFillTheMemory) {
    const SqlResult cut = query_sql(path(), "SELECT printf('%.*c', 100000, 'x') FROM PIPESCOPE_TASK",
                                    {.most_bytes = 250'000, .cancelled = {}});
    EXPECT_EQ(cut.rows.size(), 3u);
    EXPECT_TRUE(cut.more);
}

TEST_F(SqlQuery, ChangesNothingWhateverIsAsked) {
    for (const char* sql :
         {"DELETE FROM PIPESCOPE_TASK", "DROP TABLE PIPESCOPE_TASK", "CREATE TABLE x (y)", "VACUUM",
          "PRAGMA journal_mode = DELETE", "PRAGMA user_version = 7", "ATTACH 'other.sqlite' AS other",
          "WITH a AS (SELECT 1) INSERT INTO PIPESCOPE_STEP (step) SELECT * FROM a", "CREATE TEMP TABLE t (u)"}) {
        try {
            query_sql(path(), sql);
        } catch (const SqlError&) {
        }
    }
    EXPECT_THAT(error_of("DELETE FROM PIPESCOPE_TASK").what(), HasSubstr("only read"));
    EXPECT_THAT(error_of("ATTACH 'other.sqlite' AS other").what(), HasSubstr("attached"));
    EXPECT_EQ(query_sql(path(), "SELECT count(*) FROM PIPESCOPE_TASK").rows[0][0], SqlValue(std::int64_t{10}));
    EXPECT_EQ(query_sql(path(), "PRAGMA user_version").rows[0][0], SqlValue(std::int64_t{0}));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "other.sqlite"));
    EXPECT_FALSE(std::filesystem::exists("other.sqlite"));
}

TEST_F(SqlQuery, TellsWhereItDoesNotUnderstandTheQuery) {
    const SqlError unknown = error_of("SELECT nonsense FROM PIPESCOPE_TASK");
    EXPECT_THAT(unknown.what(), HasSubstr("nonsense"));
    EXPECT_EQ(unknown.position, 7u);
    EXPECT_EQ(error_of("SELECT 1; SELECT 2").position, 9u);
    EXPECT_THAT(error_of("  -- nothing").what(), HasSubstr("empty"));
    EXPECT_EQ(query_sql(path(), "SELECT 1;  -- a remark").rows.size(), 1u);
}

TEST_F(SqlQuery, EndsAnEndlessQueryWhenItIsCancelled) {
    int asked = 0;
    try {
        query_sql(path(), "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
                  {.cancelled = [&] { return ++asked > 10; }});
        FAIL() << "it ended by itself";
    } catch (const SqlError& error) {
        EXPECT_THAT(error.what(), HasSubstr("cancelled"));
    }
}

TEST_F(SqlQuery, ReadsATraceThatIsStillBeingWritten) {
    TraceWriter writer(folder_ / "live.sqlite", IfExists::refuse);
    writer.add_task({{0, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds{1}, Nanoseconds{2}, 0}, Source::measured);
    writer.commit();
    EXPECT_EQ(query_sql(folder_ / "live.sqlite", "SELECT count(*) FROM PIPESCOPE_TASK").rows[0][0],
              SqlValue(std::int64_t{1}));
    writer.close();
}

TEST_F(SqlQuery, RefusesWhatIsNoDatabase) {
    std::ofstream(folder_ / "text.sqlite") << "certainly not one";
    EXPECT_THROW(query_sql(folder_ / "text.sqlite", "SELECT 1"), TraceError);
    EXPECT_THROW(query_sql(folder_ / "missing.sqlite", "SELECT 1"), TraceError);
}
}  // namespace
}  // namespace pipescope
