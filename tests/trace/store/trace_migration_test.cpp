#include "trace/store/trace_migration.h"

#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "trace/store/trace_reader.h"
#include "trace/store/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// A file written by a PipeScope of version 1, from SQL.
std::filesystem::path version_1(const TemporaryFolder& folder) {
    std::ostringstream sql;
    sql << std::ifstream(PIPESCOPE_TRACE_DATA "/version_1.sql").rdbuf();
    SQLite::Database(folder / "old.sqlite", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec(sql.str());
    return folder / "old.sqlite";
}

MemorySample sample(int lane, int time, Bytes allocated, Bytes peak, Bytes reserved, std::int64_t task) {
    return {LaneId{lane}, Nanoseconds{time}, allocated, peak, reserved, task};
}

void expect_all_of_version_1(const std::filesystem::path& path) {
    const TraceReader reader(path);
    EXPECT_EQ(reader.run().at("model"), "\"mlp\"");
    EXPECT_THAT(reader.lanes(), ElementsAre(LaneInfo{"lane 0", "cpu"}, LaneInfo{"lane 1", "cpu"}));
    EXPECT_EQ(reader.profile_json(), R"({"format": "pipescope.profile"})");
    EXPECT_EQ(reader.utc_epoch_ns(), 1'700'000'000'123'456'789);
    const Timeline timeline = reader.timeline(Source::measured);
    ASSERT_EQ(timeline.slices.size(), 2u);
    EXPECT_EQ(timeline.slices[1],
              (Slice{{3, TaskKind::forward, 1, 0, -1}, LaneId{1}, Nanoseconds{60}, Nanoseconds{100}, 0}));
    EXPECT_THAT(reader.steps(), ElementsAre(StepRecord{3, Nanoseconds{10}, Nanoseconds{100}, Nanoseconds{5},
                                                       Nanoseconds{120}, 0.25, true}));
    const auto task = static_cast<std::int64_t>(pack({3, TaskKind::forward, 0, 0, -1}));
    EXPECT_THAT(reader.memory(), ElementsAre(sample(0, 50, 1000, 2000, 4096, task), sample(1, 60, 10, 20, 0, -1)));
    EXPECT_FALSE(reader.memory()[0].composition.known());
    EXPECT_THAT(reader.drops(), ElementsAre(DropRecord{"nvtx", (7 << 24) | 8, 5, 2, 1, 3}));
    EXPECT_THAT(reader.clocks(), ElementsAre(ClockRecord{1'700'000'000'000'000'000, 2, 3, 4}));
    EXPECT_THAT(reader.overheads(), ElementsAre(OverheadRecord{"drain thread", "cpu_ns", 42}));
    EXPECT_THAT(reader.diagnostics(), ElementsAre(DiagnosticRecord{"warning", "cupti", "off: no driver"}));
}

/// Names and types of all columns, by table.
std::string schema_of(const std::filesystem::path& path) {
    SQLite::Database db(path);
    SQLite::Statement query(db,
                            "SELECT t.name || ' ' || c.name || ' ' || c.type FROM sqlite_master AS t "
                            "JOIN pragma_table_info(t.name) AS c WHERE t.type = 'table' ORDER BY t.name, c.cid");
    std::string all;
    while (query.executeStep()) {
        all += query.getColumn(0).getString() + "\n";
    }
    return all;
}

TEST(TraceMigration, ReadsAnOlderVersionWithoutTouchingTheFile) {
    const TemporaryFolder folder;
    const auto path = version_1(folder);
    const auto written = std::filesystem::last_write_time(path);
    const std::string schema = schema_of(path);
    expect_all_of_version_1(path);
    EXPECT_EQ(std::filesystem::last_write_time(path), written);
    EXPECT_EQ(schema_of(path), schema);
}

TEST(TraceMigration, RewritesAnOlderFileWhenAskedToRecoverIt) {
    const TemporaryFolder folder;
    const auto path = version_1(folder);
    const Recovery recovery = recover_trace(path);
    EXPECT_EQ(recovery.from_version, 1);
    EXPECT_FALSE(recovery.was_open);
    EXPECT_EQ(recovery.tasks, 2);
    expect_all_of_version_1(path);
    TraceWriter(folder / "new.sqlite", IfExists::refuse).close();
    EXPECT_EQ(schema_of(path), schema_of(folder / "new.sqlite"));
    EXPECT_EQ(TraceReader(path).run().at("format"), TraceReader(folder / "new.sqlite").run().at("format"));
    EXPECT_EQ(recover_trace(path).from_version, 2);
}

TEST(TraceMigration, FinishesAnOlderRecordingThatWasCutOff) {
    const TemporaryFolder folder;
    const auto path = version_1(folder);
    SQLite::Database(path, SQLite::OPEN_READWRITE).exec("DELETE FROM PIPESCOPE_RUN WHERE key = 'closed'");
    const Recovery recovery = recover_trace(path);
    EXPECT_TRUE(recovery.was_open);
    EXPECT_EQ(recovery.from_version, 1);
    EXPECT_EQ(TraceReader(path).memory().size(), 2u);
    EXPECT_EQ(TraceReader(path).run().at("closed"), "true");
}

TEST(TraceMigration, RefusesACurrentFileThatSaysItWereOlder) {
    const TemporaryFolder folder;
    TraceWriter(folder / "t.sqlite", IfExists::refuse).close();
    SQLite::Database(folder / "t.sqlite", SQLite::OPEN_READWRITE)
        .exec("UPDATE PIPESCOPE_RUN SET value = json_set(value, '$.version', 1) WHERE key = 'format'");
    const auto says = AllOf(HasSubstr("PIPESCOPE_MEMORY.parameters"), HasSubstr("record it again"));
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader reader(folder / "t.sqlite"); }), says);
    EXPECT_THAT(thrown<TraceFormatError>([&] { recover_trace(folder / "t.sqlite"); }), says);
}
}  // namespace
}  // namespace pipescope
