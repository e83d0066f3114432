#include "trace/open_trace.h"

#include "one_step_trace.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "trace/foreign/chrome_export.h"
#include "trace/store/trace_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::filesystem::path file_with(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
}

std::string chrome_of(const OpenedTrace& trace) {
    std::ostringstream out;
    export_chrome(trace, out);
    return out.str();
}

/// Replaces NaN, which never compares equal.
std::vector<StepRecord> without_nan(std::vector<StepRecord> steps) {
    for (StepRecord& step : steps) {
        step.training_loss = std::isnan(step.training_loss) ? -1 : step.training_loss;
    }
    return steps;
}

/// "name@row" of each range.
std::vector<std::string> rows_of(const OpenedTrace& trace, const RangeTrack& track) {
    std::vector<std::string> rows;
    for (const TraceRange& range : track.ranges) {
        rows.push_back(trace.names[range.name] + "@" + std::to_string(range.row));
    }
    return rows;
}

/// All fields of each range, with texts instead of their numbers.
std::vector<std::string> ranges_of(const OpenedTrace& trace, const RangeTrack& track) {
    std::vector<std::string> ranges;
    for (const TraceRange& range : track.ranges) {
        std::ostringstream text;
        text << trace.names[range.name] << " of " << trace.names[range.category] << ": " << range.start.count()
             << " to " << range.end.count() << (range.open ? " (open)" : "") << ", row " << range.row
             << ", correlation " << range.correlation << (range.is_task ? ", a task" : "");
        ranges.push_back(text.str());
    }
    return ranges;
}

TEST(OpenTrace, GivesAllATraceHoldsAndTheRangesOfItsThreadsAndStreams) {
    const TemporaryFolder folder;
    write_sample_trace(folder / "t.sqlite");
    const OpenedTrace trace = open_trace(folder / "t.sqlite");
    EXPECT_EQ(trace.origin, TraceOrigin::pipescope);
    EXPECT_EQ(trace.simulated, sample_timeline(Source::simulated));
    EXPECT_EQ(trace.steps.size(), 2u);
    EXPECT_EQ(trace.run.at("model"), R"("mlp, \"deep\"")");
    EXPECT_EQ(trace.dropped(), 2);
    ASSERT_EQ(trace.tracks.size(), 3u);
    EXPECT_EQ(trace.tracks[0].group, "GPU 0");
    EXPECT_EQ(trace.tracks[0].name, "stream 13 (compute)");
    EXPECT_THAT(rows_of(trace, trace.tracks[0]), ElementsAre("add@0"));
    EXPECT_EQ(trace.tracks[1].group, "process 7 (trainer)");
    EXPECT_EQ(trace.tracks[1].name, "thread 9 (main)");
    EXPECT_THAT(rows_of(trace, trace.tracks[1]),
                ElementsAre("outer@0", "forward@1", "inner@2", "inner@2", "never ended@0"));
    EXPECT_EQ(trace.tracks[1].rows, 3);
    EXPECT_EQ(trace.names[trace.tracks[1].ranges[0].category], "user");
    EXPECT_TRUE(trace.tracks[1].ranges.back().open);
    EXPECT_EQ(trace.tracks[2].kind, RangeTrack::Kind::calls);
    EXPECT_EQ(trace.tracks[2].ranges[0].correlation, trace.tracks[0].ranges[0].correlation);
    EXPECT_TRUE(open_trace(folder / "t.sqlite", {.tracks = false}).tracks.empty());
}

TEST(OpenTrace, GivesAPipeScopeTraceBackFromItsChromeExport) {
    const TemporaryFolder folder;
    write_sample_trace(folder / "t.sqlite");
    SQLite::Database(folder / "t.sqlite", SQLite::OPEN_READWRITE)
        .exec(
            "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, pc, bytes, "
            "memKind, memoryOperationType) VALUES (5, 117440512, 0, 1, 64, 0, 4096, 2, 0), "
            "(1000001, 117440512, 0, 1, 128, 0, 512, 2, 0), (2000003, 117440512, 0, 1, 64, 0, 4096, 2, 1)");
    const OpenedTrace original = open_trace(folder / "t.sqlite");
    const std::string chrome_json = chrome_of(original);
    const OpenedTrace back = open_trace(file_with(folder, "t.json", chrome_json));
    EXPECT_EQ(back.origin, TraceOrigin::pipescope_chrome);
    EXPECT_EQ(back.measured, original.measured);
    EXPECT_EQ(back.simulated, original.simulated);
    EXPECT_EQ(without_nan(back.steps), without_nan(original.steps));
    EXPECT_TRUE(std::isnan(back.steps[0].training_loss));
    EXPECT_EQ(back.memory, original.memory);
    EXPECT_EQ(back.run, original.run);
    EXPECT_EQ(back.profile_json, original.profile_json);
    EXPECT_EQ(back.drops, original.drops);
    EXPECT_EQ(back.diagnostics, original.diagnostics);
    EXPECT_EQ(back.clocks, original.clocks);
    EXPECT_EQ(back.overheads, original.overheads);
    EXPECT_EQ(back.utc_epoch_ns, original.utc_epoch_ns);
    ASSERT_EQ(back.tracks.size(), original.tracks.size());
    for (std::size_t k = 0; k < back.tracks.size(); ++k) {
        EXPECT_EQ(back.tracks[k].group, original.tracks[k].group);
        EXPECT_EQ(back.tracks[k].name, original.tracks[k].name);
        EXPECT_EQ(back.tracks[k].kind, original.tracks[k].kind);
        EXPECT_EQ(back.tracks[k].rows, original.tracks[k].rows);
        EXPECT_EQ(ranges_of(back, back.tracks[k]), ranges_of(original, original.tracks[k]));
    }
    ASSERT_EQ(original.counters.size(), 1U);
    EXPECT_EQ(original.counters[0].points.size(), 3U);
    EXPECT_EQ(back.counters, original.counters);
    // and again through JSON: repeated conversion loses nothing
    const OpenedTrace again = open_trace(file_with(folder, "again.json", chrome_of(back)));
    EXPECT_EQ(again.measured, original.measured);
    EXPECT_EQ(again.memory, original.memory);
    EXPECT_EQ(again.run, original.run);
}

TEST(OpenTrace, GivesAnEmptyTraceBackFromItsChromeExport) {
    const TemporaryFolder folder;
    TraceWriter(folder / "t.sqlite", IfExists::refuse).close();
    const OpenedTrace original = open_trace(folder / "t.sqlite");
    const OpenedTrace back = open_trace(file_with(folder, "t.json", chrome_of(original)));
    EXPECT_EQ(back.origin, TraceOrigin::pipescope_chrome);
    EXPECT_EQ(back.run, original.run);
    EXPECT_FALSE(back.has_tasks());
}

TEST(OpenTrace, RefusesAChromeExportOfANewerVersion) {
    const TemporaryFolder folder;
    write_sample_trace(folder / "t.sqlite");
    std::string chrome_json = chrome_of(open_trace(folder / "t.sqlite"));
    const std::string stamp = R"("format":"pipescope.chrome","version":1)";
    chrome_json.replace(chrome_json.find(stamp), stamp.size(), R"("format":"pipescope.chrome","version":3)");
    EXPECT_THAT(thrown<TraceFormatError>([&] { open_trace(file_with(folder, "t.json", chrome_json)); }),
                AllOf(HasSubstr("version 3"), HasSubstr("up to version 2")));
}

TEST(OpenTrace, KnowsAProfile) {
    const TemporaryFolder folder;
    const std::string text = R"({"format": "pipescope.profile", "version": 1, "layers": []})";
    const OpenedTrace trace = open_trace(file_with(folder, "p.json", text));
    EXPECT_EQ(trace.origin, TraceOrigin::profile);
    EXPECT_EQ(trace.profile_json, text);
}

TEST(OpenTrace, SaysWhatIsNoTrace) {
    const TemporaryFolder folder;
    const auto refuses = [](const std::filesystem::path& path, const std::string& why) {
        EXPECT_THAT(thrown<TraceFormatError>([&] { open_trace(path); }),
                    AllOf(HasSubstr(path.filename().string()), HasSubstr(why)));
    };
    refuses(folder / "missing", "does not exist");
    refuses(folder.path(), "folder");
    refuses(file_with(folder, "empty", ""), "empty");
    refuses(file_with(folder, "other.json", R"({"compilerOptions": {}})"), "neither a trace nor a profile");
    refuses(file_with(folder, "text.csv", "step,loss\n"), "not an SQLite file");
    SQLite::Database(folder / "other.sqlite", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("CREATE TABLE a (b)");
    refuses(folder / "other.sqlite", "another program's");
}
}  // namespace
}  // namespace pipescope
