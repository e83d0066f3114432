#include "one_step_trace.h"
#include "tests/temporary_folder.h"
#include "trace/chrome_export.h"
#include "trace/csv_export.h"
#include "trace/open_trace.h"
#include "trace/trace_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

namespace pipescope {
namespace {
/// As many rounds as time allows, with a minimum. The first ones are always the same.
constexpr int kMostRounds = 400;
constexpr int kFewestRounds = 40;
constexpr std::chrono::seconds kTime{5};

std::string bytes_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Opens a damaged file and uses all of it. Detected damage gives one of our errors; merely changed values cannot be
/// detected.
void use(const std::filesystem::path& path) {
    try {
        const OpenedTrace trace = open_trace(path);
        std::ostringstream out;
        export_chrome(trace, out);
        for (const CsvTable table : {CsvTable::tasks, CsvTable::steps, CsvTable::memory, CsvTable::ranges}) {
            export_csv(trace, table, out);
        }
        for (const RangeTrack& track : trace.tracks) {
            for (const TraceRange& range : track.ranges) {
                ASSERT_LT(range.name, trace.names.size());
                ASSERT_LT(range.category, trace.names.size());
                ASSERT_LT(range.row, track.rows);
            }
        }
    } catch (const TraceError& error) {
        EXPECT_NE(std::string(error.what()).find(path.filename().string()), std::string::npos) << error.what();
    }
}

void damage_and_use(const std::filesystem::path& path, const std::function<void(std::string&, std::mt19937&)>& damage) {
    const std::string intact = bytes_of(path);
    std::mt19937 random(3);
    const auto begun = std::chrono::steady_clock::now();
    for (int round = 0; round < kMostRounds; ++round) {
        if (round >= kFewestRounds && std::chrono::steady_clock::now() - begun > kTime) {
            break;
        }
        std::string bytes = intact;
        damage(bytes, random);
        std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
        use(path);
    }
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
    damage_and_use(folder_ / "t.sqlite", cut);
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
}  // namespace
}  // namespace pipescope
