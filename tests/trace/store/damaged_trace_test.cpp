#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "tests/trace/one_step_trace.h"
#include "trace/foreign/chrome_export.h"
#include "trace/open_trace.h"
#include "trace/store/csv_export.h"
#include "trace/store/trace_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

constexpr int kRounds = 100;

std::string bytes_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Opens a damaged file and uses all of it. Detected damage gives one of our errors; merely changed values cannot be
/// detected. Returns false if the file was refused.
bool use(const std::filesystem::path& path) {
    try {
        const OpenedTrace trace = open_trace(path);
        std::ostringstream out;
        export_chrome(trace, out);
        for (const CsvTable table : {CsvTable::tasks, CsvTable::steps, CsvTable::memory, CsvTable::ranges}) {
            export_csv(trace, table, out);
        }
        for (const RangeTrack& track : trace.tracks) {
            for (const TraceRange& range : track.ranges) {
                EXPECT_LT(range.name, trace.names.size());
                EXPECT_LT(range.category, trace.names.size());
                EXPECT_LT(range.row, track.rows);
            }
        }
        return true;
    } catch (const TraceError& error) {
        EXPECT_NE(std::string(error.what()).find(path.filename().string()), std::string::npos) << error.what();
        return false;
    }
}

/// Returns how many of the damaged files were read. The damage is the same on every machine.
int damage_and_use(const std::filesystem::path& path, const std::function<void(std::string&, std::mt19937&)>& damage) {
    const std::string intact = bytes_of(path);
    std::mt19937 random(3);
    int read = 0;
    for (int round = 0; round < kRounds; ++round) {
        std::string bytes = intact;
        damage(bytes, random);
        std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
        read += use(path) ? 1 : 0;
    }
    return read;
}

void cut(std::string& bytes, std::mt19937& random) {
    bytes.resize(random() % bytes.size());
}
void change_bytes(std::string& bytes, std::mt19937& random) {
    for (int k = 0; k < 12; ++k) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
    }
}
/// Typical damage of text files: a digit, a bracket or a quote in the wrong place.
void change_text(std::string& bytes, std::mt19937& random) {
    constexpr std::string_view kSigns = "0123456789-.eE[]{},:\"\\ntrufals";
    for (int k = 0; k < 2; ++k) {
        bytes[random() % bytes.size()] = kSigns[random() % kSigns.size()];
    }
}

class DamagedTrace : public testing::Test {
protected:
    DamagedTrace() { write_sample_trace(folder_ / "t.sqlite"); }

    std::filesystem::path as_json() {
        std::ofstream out(folder_ / "t.json", std::ios::binary);
        export_chrome(open_trace(folder_ / "t.sqlite"), out);
        return folder_ / "t.json";
    }
    std::filesystem::path as_packed_json() {
        const std::string text = bytes_of(as_json());
        gzFile file = gzopen((folder_ / "t.json.gz").c_str(), "wb");
        gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
        gzclose(file);
        return folder_ / "t.json.gz";
    }
    /// A trace as written by nsys, without our tables.
    std::filesystem::path as_nsys() {
        SQLite::Database db(folder_ / "t.sqlite", SQLite::OPEN_READWRITE);
        std::vector<std::string> ours;
        SQLite::Statement tables(db, "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'PIPESCOPE%'");
        while (tables.executeStep()) {
            ours.push_back(tables.getColumn(0).getString());
        }
        tables.reset();
        for (const std::string& table : ours) {
            db.exec("DROP TABLE " + table);
        }
        db.exec("VACUUM");
        return folder_ / "t.sqlite";
    }

    const TemporaryFolder folder_;
};

TEST_F(DamagedTrace, OfOursIsRefusedOrReadWithoutACrash) {
    damage_and_use(folder_ / "t.sqlite", change_bytes);
}
TEST_F(DamagedTrace, OfOursThatWasCutOffIsRefused) {
    EXPECT_EQ(damage_and_use(folder_ / "t.sqlite", cut), 0) << "files were read";
}
TEST_F(DamagedTrace, OfNsysIsRefusedOrReadWithoutACrash) {
    damage_and_use(as_nsys(), change_bytes);
}
TEST_F(DamagedTrace, OfJsonIsRefusedOrReadWithoutACrash) {
    damage_and_use(as_json(), change_text);
}
TEST_F(DamagedTrace, OfJsonWithAnyBytesIsRefusedOrReadWithoutACrash) {
    damage_and_use(as_json(), change_bytes);
}
TEST_F(DamagedTrace, OfJsonThatWasCutOffIsRefused) {
    const auto path = as_json();
    const std::string intact = bytes_of(path);
    for (std::size_t k = 1; k <= 40; ++k) {
        std::ofstream(path, std::ios::binary | std::ios::trunc) << intact.substr(0, (intact.size() - 3) * k / 40);
        EXPECT_THROW(open_trace(path), TraceFormatError) << k;
    }
}
TEST_F(DamagedTrace, OfPackedJsonIsRefusedOrReadWithoutACrash) {
    damage_and_use(as_packed_json(), change_bytes);
}

// A changed value that no recording holds is told by table, value and rule, however the file is read.
TEST_F(DamagedTrace, WithAValueThatNoRecordingHoldsIsRefusedByEveryReader) {
    const std::string intact = bytes_of(folder_ / "t.sqlite");
    const struct {
        const char* sql;
        const char* value;
        const char* rule;
    } kCases[] = {
        {"UPDATE PIPESCOPE_TASK SET start = 'late' WHERE id = 1", "PIPESCOPE_TASK.start is 'late'",
         "whole number of ns"},
        {"UPDATE PIPESCOPE_TASK SET end = 9223372036854775807 WHERE id = 1", "9223372036854775807", "2^62"},
        {"UPDATE PIPESCOPE_TASK SET end = end + 20000000000000000 WHERE id = 1", "and ends at ", "2^53 ns"},
        {"UPDATE PIPESCOPE_TASK SET partition = -3 WHERE id = 1", "partition is '-3'", "or -1 for none"},
        {"UPDATE PIPESCOPE_TASK SET partition = 4711 WHERE id = 1", "the partition 4711", "from 0 to 1022"},
        {"UPDATE PIPESCOPE_TASK SET microBatch = 70000 WHERE id = 1", "the micro-batch 70000", "from 0 to 65534"},
        {"UPDATE PIPESCOPE_TASK SET step = 5000000000 WHERE id = 1", "step is '5000000000'", "2^31 - 1"},
        {"UPDATE PIPESCOPE_TASK SET bytes = -1 WHERE id = 1", "moves -1 bytes", "from 0 to 2^53"},
        {"UPDATE PIPESCOPE_TASK SET lane = 12 WHERE id = 1", "task 1 has the lane 12", "lanes are 0 to "},
        {"UPDATE PIPESCOPE_TASK SET lane = 1.5 WHERE id = 1", "lane is '1.5'", "whole number"},
        {"UPDATE PIPESCOPE_TASK SET lane = 4294967296 WHERE id = 1", "lane is '4294967296'", "2^31 - 1"},
        {"UPDATE PIPESCOPE_TASK SET source = 'bogus' WHERE id = 1", "task 1 has the source 'bogus'",
         "must be measured or simulated"},
        {"UPDATE PIPESCOPE_TASK SET source = 'nobody' WHERE id = 1", "task 1 has the source 'nobody'",
         "must be measured or simulated"},
        {"DROP INDEX PIPESCOPE_TASK_BY_TIME; UPDATE PIPESCOPE_TASK SET source = 'z' WHERE id = 1",
         "task 1 has the source 'z'", "must be measured or simulated"},
        {"UPDATE PIPESCOPE_TASK SET kind = x'00ff' WHERE id = 1", "the kind '\\x00", "must be one"},
        {"UPDATE PIPESCOPE_TASK SET start = x'00' WHERE id = 1", "PIPESCOPE_TASK.start is '\\x00'", "whole number"},
        {"UPDATE PIPESCOPE_TASK SET kind = 'x' WHERE id = 1", "the kind 'x'", "must be one"}};
    for (const auto& each : kCases) {
        SCOPED_TRACE(each.sql);
        std::ofstream(folder_ / "t.sqlite", std::ios::binary | std::ios::trunc) << intact;
        SQLite::Database(folder_ / "t.sqlite", SQLite::OPEN_READWRITE).exec(each.sql);
        const auto damage = AllOf(HasSubstr("t.sqlite' is damaged"), HasSubstr(each.value), HasSubstr(each.rule),
                                  HasSubstr("record it again"));
        EXPECT_THAT(thrown<TraceFormatError>([&] { open_trace(folder_ / "t.sqlite"); }), damage);
        const TraceReader scan(folder_ / "t.sqlite");
        EXPECT_THAT(thrown<TraceFormatError>(
                        [&] { scan.read_tasks(Source::measured, scan.task_ids(), [](auto) { return true; }); }),
                    damage);
    }
}

TEST_F(DamagedTrace, WithAStepSampleOrLossThatNoRecordingHoldsIsRefused) {
    const std::string intact = bytes_of(folder_ / "t.sqlite");
    const std::pair<const char*, const char*> kCases[] = {
        {"UPDATE PIPESCOPE_STEP SET wallEnd = 9223372036854775807", "PIPESCOPE_STEP.wallEnd is '9223372036854775807'"},
        {"INSERT INTO PIPESCOPE_STEP SELECT * FROM PIPESCOPE_STEP LIMIT 1", "twice; each step has one row"},
        {"UPDATE PIPESCOPE_STEP SET trainingLoss = 'small'", "PIPESCOPE_STEP.trainingLoss is 'small'"},
        {"UPDATE PIPESCOPE_MEMORY SET time = 'noon'", "PIPESCOPE_MEMORY.time is 'noon'"},
        {"UPDATE PIPESCOPE_MEMORY SET peak = 9223372036854775807", "PIPESCOPE_MEMORY.peak is '9223372036854775807'"},
        {"UPDATE PIPESCOPE_MEMORY SET lane = -1", "a memory sample has the lane -1"},
        {"UPDATE PIPESCOPE_MEMORY SET lane = 12", "a memory sample has the lane 12; the trace's lanes are 0 to "},
        {"UPDATE PIPESCOPE_MEMORY SET allocated = -5", "a memory sample holds -5 bytes; that is from 0 to 2^53"},
        {"UPDATE PIPESCOPE_MEMORY SET saved = -1", "a memory sample holds -1 bytes; that is from 0 to 2^53"},
        {"UPDATE PIPESCOPE_MEMORY SET lane = 4294967296", "PIPESCOPE_MEMORY.lane is '4294967296'"},
        {"INSERT INTO PIPESCOPE_DROPS VALUES ('nvtx', 99, 9223372036854775807, 1, 0, 0)",
         "PIPESCOPE_DROPS.recorded is"}};
    for (const auto& [sql, value] : kCases) {
        std::ofstream(folder_ / "t.sqlite", std::ios::binary | std::ios::trunc) << intact;
        SQLite::Database(folder_ / "t.sqlite", SQLite::OPEN_READWRITE).exec(sql);
        EXPECT_THAT(thrown<TraceFormatError>([&] { open_trace(folder_ / "t.sqlite"); }), HasSubstr(value)) << sql;
    }
}

TEST_F(DamagedTrace, WithALoadThatIsNoShareIsReadWithoutTheLoad) {
    SQLite::Database(folder_ / "t.sqlite", SQLite::OPEN_READWRITE)
        .exec("UPDATE PIPESCOPE_STEP SET loadOthers = 40, loadStolen = 0, loadTime = 1");
    const OpenedTrace trace = open_trace(folder_ / "t.sqlite");
    ASSERT_FALSE(trace.steps.empty());
    EXPECT_FALSE(trace.steps.front().load);
    ASSERT_FALSE(trace.diagnostics.empty());
    EXPECT_THAT(trace.diagnostics.back().text, HasSubstr("a share is from 0 to 1"));
}

TEST_F(DamagedTrace, WithAStartBeyondAllClocksIsReadWithoutTheStart) {
    SQLite::Database(folder_ / "t.sqlite", SQLite::OPEN_READWRITE)
        .exec(
            "DELETE FROM TARGET_INFO_SESSION_START_TIME; INSERT INTO TARGET_INFO_SESSION_START_TIME (utcEpochNs) "
            "VALUES (9223372036854775807)");
    OpenedTrace trace = open_trace(folder_ / "t.sqlite");
    EXPECT_EQ(trace.utc_epoch_ns, std::nullopt);
    trace.utc_epoch_ns = INT64_MAX;
    std::ofstream out(folder_ / "t.json");
    export_chrome(trace, out);
    out.close();
    EXPECT_EQ(open_trace(folder_ / "t.json").utc_epoch_ns, std::nullopt) << "in our export";
}

TEST_F(DamagedTrace, WithoutAListOfLanesIsRefusedInOurWords) {
    for (const auto& [list, says] : {std::pair("[", "its list of lanes is no JSON array"),
                                     {"{\"a\": 1}", "its list of lanes is no JSON array"},
                                     {"[3]", "its list of lanes holds 3; each lane has the texts name and device"},
                                     {"[{\"name\": \"a\"}]", "holds {\"name\":\"a\"}; each lane has the texts"},
                                     {"[{\"name\": \"a\", \"device\": 1}]", "each lane has the texts"}}) {
        SQLite::Database db(folder_ / "t.sqlite", SQLite::OPEN_READWRITE);
        SQLite::Statement put(db, "UPDATE PIPESCOPE_RUN SET value = ? WHERE key = 'lanes'");
        put.bind(1, list);
        put.exec();
        EXPECT_THAT(thrown<TraceFormatError>([&] { open_trace(folder_ / "t.sqlite"); }), HasSubstr(says)) << list;
    }
}

// JSON is written by recursion, as in messages and tables.
TEST_F(DamagedTrace, WithDeeplyNestedFactsOfTheRunIsRefused) {
    const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
    const std::string intact = bytes_of(folder_ / "t.sqlite");
    for (const auto& [key, says] : {std::pair("format", "has the format stamp [[["),
                                    {"environment", "the value of 'environment' in PIPESCOPE_RUN nests deeper"}}) {
        std::ofstream(folder_ / "t.sqlite", std::ios::binary | std::ios::trunc) << intact;
        SQLite::Database db(folder_ / "t.sqlite", SQLite::OPEN_READWRITE);
        SQLite::Statement put(db, "INSERT OR REPLACE INTO PIPESCOPE_RUN VALUES (?, ?)");
        put.bind(1, key);
        put.bind(2, deep);
        put.exec();
        EXPECT_THAT(thrown<TraceFormatError>([&] { open_trace(folder_ / "t.sqlite"); }), HasSubstr(says));
    }
}

// Ranges beside the tasks are left out one by one: no figure of a step needs them.
TEST_F(DamagedTrace, WithARangeWithoutATimeLeavesItOutAndSaysSo) {
    const auto ranges = [](const OpenedTrace& trace) {
        std::size_t count = 0;
        for (const RangeTrack& track : trace.tracks) {
            count += track.ranges.size();
        }
        return count;
    };
    const std::size_t before = ranges(open_trace(folder_ / "t.sqlite"));
    SQLite::Database(folder_ / "t.sqlite", SQLite::OPEN_READWRITE)
        .exec(
            "UPDATE NVTX_EVENTS SET start = 'late' WHERE rowid = (SELECT min(rowid) FROM NVTX_EVENTS WHERE eventType "
            "IN (34, 59, 60))");
    const OpenedTrace trace = open_trace(folder_ / "t.sqlite");
    EXPECT_EQ(ranges(trace), before - 1);
    ASSERT_FALSE(trace.diagnostics.empty());
    EXPECT_THAT(trace.diagnostics.back().text, HasSubstr("1 range is left out"));
}

TEST_F(DamagedTrace, OfJsonWithAValueThatNoRecordingHoldsIsRefused) {
    const std::string intact = bytes_of(as_json());
    for (const auto& [from, to, says] :
         {std::tuple{"\"partition\":0", "\"partition\":-3", "the partition -3"},
          {"\"partition\":0", "\"partition\":\"none\"", "the partition none"},
          {"\"partition\":0", "\"partition\":8589934592", "the partition 8589934592"},
          {"\"lane\":0", "\"lane\":5000", "the lane 5000"},
          {"\"sample\":{\"lane\":0", "\"sample\":{\"lane\":4294967296", "the lane 4294967296"}}) {
        std::string text = intact;
        const std::size_t at = text.find(from);
        ASSERT_NE(at, std::string::npos) << from;
        std::ofstream(folder_ / "t.json", std::ios::binary | std::ios::trunc)
            << text.replace(at, std::string_view(from).size(), to);
        EXPECT_THAT(thrown<TraceFormatError>([&] { open_trace(folder_ / "t.json"); }),
                    AllOf(HasSubstr("traceEvents["), HasSubstr(says)))
            << to;
    }
}
}  // namespace
}  // namespace pipescope
