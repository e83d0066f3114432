#include "trace/store/trace_reader.h"

#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "trace/store/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

std::filesystem::path file_with(const TemporaryFolder& folder, const std::string& text) {
    std::ofstream(folder / "file", std::ios::binary) << text;
    return folder / "file";
}

void run_sql(const std::filesystem::path& path, const std::string& sql) {
    SQLite::Database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec(sql);
}

void write_trace(const std::filesystem::path& path, int tasks) {
    TraceWriter writer(path, IfExists::refuse);
    Timeline timeline{Source::measured, {{"lane 0", "cpu"}, {"lane 1", "cpu"}}, {}};
    for (int k = 0; k < tasks; ++k) {
        timeline.slices.push_back(
            {{k / 100, TaskKind::forward, k % 2, k % 100, -1}, LaneId{k % 2}, Nanoseconds{k}, Nanoseconds{k + 1}, 0});
    }
    writer.add_timeline(timeline);
    writer.close();
}

/// Reads everything in a trace, like the viewer and compare.
void read_everything(const std::filesystem::path& path) {
    const TraceReader reader(path);
    reader.run();
    reader.lanes();
    reader.profile_json();
    reader.steps();
    reader.timeline(Source::measured);
    reader.timeline(Source::simulated);
    reader.memory();
    reader.drops();
    reader.clocks();
    reader.diagnostics();
    reader.overheads();
}

TEST(TraceReader, SaysWhatAFileSeemsToBe) {
    const TemporaryFolder folder;
    const auto refuses = [](const std::filesystem::path& path, const std::string& why) {
        EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader{path}; }),
                    AllOf(HasSubstr(path.filename().string()), HasSubstr(why)));
    };
    refuses(folder / "missing", "does not exist");
    refuses(folder.path(), "folder");
    refuses("/dev/null", "not a regular file");
    refuses(file_with(folder, ""), "empty");
    refuses(file_with(folder, "  {\"format\": \"pipescope.profile\"}"), "JSON");
    refuses(file_with(folder, "PK\x03\x04"), "compressed");
    refuses(file_with(folder, "step,loss\n"), "not an SQLite file");
    refuses(file_with(folder, "SQLite"), "not an SQLite file");
}

TEST(TraceReader, TellsAnNsysExportFromAnotherProgramsDatabase) {
    const TemporaryFolder folder;
    run_sql(folder / "nsys.sqlite", "CREATE TABLE StringIds (id, value); CREATE TABLE NVTX_EVENTS (start, end)");
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader(folder / "nsys.sqlite"); }), HasSubstr("export of nsys"));
    run_sql(folder / "other.sqlite", "CREATE TABLE moz_places (id)");
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader(folder / "other.sqlite"); }),
                HasSubstr("another program's"));
}

TEST(TraceReader, RefusesTimesWhoseDifferencesWouldOverflow) {
    const TemporaryFolder folder;
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
        writer.add_task({{0, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds::min(), Nanoseconds::max(), 0},
                        Source::measured);
        writer.close();
    }
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader(folder / "t.sqlite").timeline(Source::measured); }),
                AllOf(HasSubstr("PIPESCOPE_TASK.start"), HasSubstr("2^62")));
}

TEST(TraceReader, RefusesANewerVersionAndNamesBoth) {
    const TemporaryFolder folder;
    write_trace(folder / "t.sqlite", 1);
    run_sql(folder / "t.sqlite",
            R"(UPDATE PIPESCOPE_RUN SET value = '{"name":"pipescope.trace","version":3}' WHERE key = 'format')");
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader(folder / "t.sqlite"); }),
                AllOf(HasSubstr("version 3"), HasSubstr("up to version 2")));
}

TEST(TraceReader, RefusesAFormatStampItCannotRead) {
    const TemporaryFolder folder;
    write_trace(folder / "t.sqlite", 1);
    for (const char* stamp : {"nonsense", "[]", "{\"name\": 3}", "{\"name\": \"pipescope.trace\", \"version\": \"1\"}",
                              "{\"name\": \"pipescope.trace\", \"version\": 1e400}"}) {
        run_sql(folder / "t.sqlite",
                std::string("UPDATE PIPESCOPE_RUN SET value = '") + stamp + "' WHERE key = 'format'");
        EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader(folder / "t.sqlite"); }),
                    HasSubstr(std::string("format stamp ") + stamp));
    }
}

TEST(TraceReader, LeavesTasksWithoutALaneOutOfTheTimeline) {
    const TemporaryFolder folder;
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
        writer.add_task({{0, TaskKind::optimizer, -1, -1, -1}, LaneId{-1}, Nanoseconds{0}, Nanoseconds{1}, 0},
                        Source::measured);
        writer.add_task({{0, TaskKind::forward, 1, 0, -1}, LaneId{1}, Nanoseconds{0}, Nanoseconds{1}, 0},
                        Source::measured);
        writer.close();
    }
    const Timeline timeline = TraceReader(folder / "t.sqlite").timeline(Source::measured);
    ASSERT_EQ(timeline.slices.size(), 1u);
    EXPECT_EQ(timeline.slices[0].key.kind, TaskKind::forward);
    EXPECT_EQ(timeline.lanes.size(), 2u);  // the lanes were never named, the slice has its row all the same
}

TEST(TraceReader, SortsSlicesByStartThenLane) {
    const TemporaryFolder folder;
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
        for (const auto& [start, lane] : {std::pair{7, 0}, {3, 1}, {3, 0}}) {
            writer.add_task(
                {{0, TaskKind::forward, lane, start, -1}, LaneId{lane}, Nanoseconds{start}, Nanoseconds{9}, 0},
                Source::measured);
        }
        writer.close();
    }
    const Timeline timeline = TraceReader(folder / "t.sqlite").timeline(Source::measured);
    ASSERT_EQ(timeline.slices.size(), 3u);
    EXPECT_EQ(timeline.slices[0].lane, LaneId{0});
    EXPECT_EQ(timeline.slices[1].lane, LaneId{1});
    EXPECT_EQ(timeline.slices[2].start, Nanoseconds{7});
}

TEST(TraceReader, ReadsATraceWhileItIsBeingWritten) {
    const TemporaryFolder folder;
    TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
    const Slice slice{{0, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds{0}, Nanoseconds{1}, 0};
    writer.add_task(slice, Source::measured);
    writer.commit();
    const TraceReader reader(folder / "t.sqlite");
    EXPECT_EQ(reader.timeline(Source::measured).slices.size(), 1u);
    writer.add_task(slice, Source::measured);
    EXPECT_EQ(reader.timeline(Source::measured).slices.size(), 1u);
    writer.commit();
    EXPECT_EQ(reader.timeline(Source::measured).slices.size(), 2u);
    writer.close();  // a reader that looks on is no reason to fail
    EXPECT_EQ(reader.timeline(Source::measured).slices.size(), 2u);
    EXPECT_EQ(TraceReader(folder / "t.sqlite").timeline(Source::measured).slices.size(), 2u);
}

TEST(TraceReader, NamesTheTaskWhoseKindOrLaneIsUnknown) {
    const TemporaryFolder folder;
    write_trace(folder / "t.sqlite", 3);
    run_sql(folder / "t.sqlite", "UPDATE PIPESCOPE_TASK SET kind = 'sideways' WHERE id = 2");
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader(folder / "t.sqlite").timeline(Source::measured); }),
                AllOf(HasSubstr("task 2"), HasSubstr("sideways")));
    run_sql(folder / "t.sqlite", "UPDATE PIPESCOPE_TASK SET kind = 'forward', lane = 2000000000 WHERE id = 2");
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader(folder / "t.sqlite").timeline(Source::measured); }),
                HasSubstr("lane 2000000000"));
}

TEST(TraceReader, RefusesWhatEndsBeforeItStarts) {
    const TemporaryFolder folder;
    {
        TraceWriter writer(folder / "task.sqlite", IfExists::refuse);
        writer.add_task({{0, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds{50}, Nanoseconds{20}, 0},
                        Source::measured);
        writer.close();
    }
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader(folder / "task.sqlite").timeline(Source::measured); }),
                testing::HasSubstr("50 ns"));
    {
        TraceWriter writer(folder / "step.sqlite", IfExists::refuse);
        writer.add_step({3, Nanoseconds{0}, Nanoseconds{10}, Nanoseconds{40}, Nanoseconds{20}, 1.5, false});
        writer.close();
    }
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader(folder / "step.sqlite").steps(); }),
                testing::HasSubstr("step 3 ends before it starts"));
}

TEST(TraceReader, RefusesMoreLanesThanATraceHas) {
    const TemporaryFolder folder;
    TraceWriter(folder / "t.sqlite", IfExists::refuse).close();
    std::string lanes = R"({"name": "", "device": ""})";
    for (int lane = 1; lane < 1023; ++lane) {
        lanes += R"(, {"name": "", "device": ""})";
    }
    const auto set = [&](const std::string& list) {
        run_sql(folder / "t.sqlite",
                "INSERT OR REPLACE INTO PIPESCOPE_RUN (key, value) VALUES ('lanes', '[" + list + "]')");
    };
    set(lanes);
    EXPECT_EQ(TraceReader(folder / "t.sqlite").lanes().size(), 1023u);
    set(lanes + R"(, {"name": "", "device": ""})");
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader(folder / "t.sqlite").lanes(); }), HasSubstr("1024"));
}

TEST(TraceReader, RefusesAByteThatIs0InJson) {
    const TemporaryFolder folder;
    TraceWriter(folder / "t.sqlite", IfExists::refuse).close();
    run_sql(folder / "t.sqlite",
            "INSERT OR REPLACE INTO PIPESCOPE_RUN (key, value) VALUES ('lanes', CAST(X'5b5d005b5d' AS TEXT))");
    const auto says = HasSubstr("'lanes'");
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader(folder / "t.sqlite").run(); }), says);
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader(folder / "t.sqlite").lanes(); }), says);
}

TEST(TraceReader, RefusesNegativeCountsOfDrops) {
    const TemporaryFolder folder;
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
        writer.add_drop({"nvtx", 1, 5, -3, 0, 0});
        writer.close();
    }
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader(folder / "t.sqlite").drops(); }),
                HasSubstr("PIPESCOPE_DROPS has the count -3"));
}

TEST(TraceReader, NamesALogThatIsNoPlainFile) {
    const TemporaryFolder folder;
    write_trace(folder / "t.sqlite", 1);
    for (const char* name : {"t.sqlite-wal", "t.sqlite-shm"}) {
        std::filesystem::create_directory(folder / name);
        EXPECT_THAT(thrown<TraceError>([&] { TraceReader(folder / "t.sqlite"); }),
                    AllOf(HasSubstr(name), HasSubstr("no plain file")));
        std::filesystem::remove(folder / name);
        std::filesystem::create_symlink("t.sqlite", folder / name);
        EXPECT_THAT(thrown<TraceError>([&] { TraceReader(folder / "t.sqlite"); }), HasSubstr(name));
        std::filesystem::remove(folder / name);
    }
}

TEST(TraceReader, ATableThatIsMissingIsTheFilesFault) {
    const TemporaryFolder folder;
    TraceWriter(folder / "t.sqlite", IfExists::refuse).close();
    SQLite::Database(folder / "t.sqlite", SQLite::OPEN_READWRITE).exec("DROP TABLE PIPESCOPE_STEP");
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader(folder / "t.sqlite").steps(); }),
                testing::AllOf(testing::HasSubstr("PIPESCOPE_STEP"), testing::HasSubstr("the file is damaged"),
                               testing::Not(testing::HasSubstr("check the disk"))));
}

TEST(TraceReader, ATraceWithoutItsRunIsNoExportOfNsys) {
    const TemporaryFolder folder;
    TraceWriter(folder / "t.sqlite", IfExists::refuse).close();
    SQLite::Database(folder / "t.sqlite", SQLite::OPEN_READWRITE).exec("DROP TABLE PIPESCOPE_RUN");
    EXPECT_THAT(thrown<TraceFormatError>([&] { TraceReader::open(folder / "t.sqlite"); }),
                testing::AllOf(testing::HasSubstr("no table PIPESCOPE_RUN"), testing::HasSubstr("is damaged")));
}

TEST(TraceReader, ReportsATruncatedFileAsDamaged) {
    const TemporaryFolder folder;
    write_trace(folder / "t.sqlite", 20'000);
    const auto size = std::filesystem::file_size(folder / "t.sqlite");
    for (const double share : {0.95, 0.5, 0.1, 0.01}) {
        std::filesystem::copy_file(folder / "t.sqlite", folder / "cut.sqlite",
                                   std::filesystem::copy_options::overwrite_existing);
        std::filesystem::resize_file(folder / "cut.sqlite",
                                     static_cast<std::uintmax_t>(static_cast<double>(size) * share));
        EXPECT_THROW(read_everything(folder / "cut.sqlite"), TraceFormatError) << share;
    }
}

TEST(TraceReader, SurvivesRandomBytesInTheFile) {
    const TemporaryFolder folder;
    write_trace(folder / "t.sqlite", 300);
    std::ifstream original(folder / "t.sqlite", std::ios::binary);
    const std::string intact{std::istreambuf_iterator<char>(original), {}};
    std::mt19937 random(1);
    for (int round = 0; round < 150; ++round) {
        std::string bytes = intact;
        for (int k = 0; k < 20; ++k) {
            bytes[random() % bytes.size()] = static_cast<char>(random());
        }
        try {
            read_everything(file_with(folder, bytes));
        } catch (const TraceError&) {
            // Detected damage is reported; merely changed values cannot be detected.
        }
    }
}
}  // namespace
}  // namespace pipescope
