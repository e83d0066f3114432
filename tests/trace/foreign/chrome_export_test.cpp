#include "trace/foreign/chrome_export.h"

#include "schedule/schedules.h"
#include "tests/temporary_folder.h"
#include "trace/open_trace.h"
#include "trace/store/trace_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <sstream>

namespace pipescope {
namespace {
using nlohmann::json;

std::string export_of(const std::filesystem::path& path) {
    std::ostringstream out;
    export_chrome(open_trace(path), out);
    return out.str();
}

/// A GPipe step with m = 2, n = 2. Every task takes 1,001 ns; lanes and channels are serial.
Timeline pipeline(Source source) {
    const TaskGraph graph = make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 2});
    Timeline timeline{source, {{"lane 0", "cpu"}, {"lane 1", "cuda:\"0\""}}, {}};
    Nanoseconds now{0};
    for (const Task& task : graph.tasks()) {
        timeline.slices.push_back({task.key, task.lane, now, now + Nanoseconds{1001}, is_copy(task.key.kind) ? 64 : 0});
        now += Nanoseconds{1001};
    }
    return timeline;
}

std::vector<json> with(const json& trace, const std::string& field, const json& value) {
    std::vector<json> found;
    for (const json& event : trace.at("traceEvents")) {
        if (event.value(field, json()) == value) {
            found.push_back(event);
        }
    }
    return found;
}

class ChromeExport : public testing::Test {
protected:
    json exported(const std::function<void(TraceWriter&)>& fill) {
        {
            TraceWriter writer(folder_ / "t.sqlite", IfExists::replace);
            fill(writer);
            writer.close();
        }
        text_ = export_of(folder_ / "t.sqlite");
        return json::parse(text_);
    }

    const TemporaryFolder folder_;
    std::string text_;
};

TEST_F(ChromeExport, WritesASliceForEveryTaskOfBothSources) {
    const json trace = exported([](TraceWriter& writer) {
        writer.add_timeline(pipeline(Source::measured));
        writer.add_timeline(pipeline(Source::simulated));
    });
    const std::size_t tasks = pipeline(Source::measured).slices.size();
    EXPECT_EQ(with(trace, "ph", "X").size(), 2 * tasks);
    std::map<int, int> per_process;
    for (const json& slice : with(trace, "ph", "X")) {
        ++per_process[slice.at("pid").get<int>()];
    }
    EXPECT_EQ(per_process.size(), 2u);
    std::map<int, std::string> names;
    for (const json& event : with(trace, "name", "process_name")) {
        names[event.at("pid")] = event.at("args").at("name");
    }
    EXPECT_EQ(names, (std::map<int, std::string>{{1, "measured"}, {2, "simulated"}}));
}

TEST_F(ChromeExport, KeepsEveryNanosecond) {
    const json trace = exported([](TraceWriter& writer) {
        Timeline timeline{Source::measured, {{"lane 0", "cpu"}}, {}};
        timeline.slices.push_back({{0, TaskKind::forward, 0, 0, -1},
                                   LaneId{0},
                                   Nanoseconds{9'007'199'254'740'993},
                                   Nanoseconds{9'007'199'254'741'000},
                                   0});
        timeline.slices.push_back(
            {{0, TaskKind::backward, 0, 0, -1}, LaneId{0}, Nanoseconds{-1}, Nanoseconds{2000}, 0});
        writer.add_timeline(timeline);
    });
    EXPECT_THAT(text_, testing::HasSubstr(R"("ts":9007199254740.993,"dur":0.007)"));
    EXPECT_THAT(text_, testing::HasSubstr(R"("ts":-0.001,"dur":2.001)"));
}

TEST_F(ChromeExport, PutsTheTaskKeyAndTheBytesIntoTheArguments) {
    const json trace = exported([](TraceWriter& writer) { writer.add_timeline(pipeline(Source::measured)); });
    const auto copies = with(trace, "cat", "copy_forward");
    ASSERT_FALSE(copies.empty());
    EXPECT_EQ(copies[0].at("args").at("kind"), "copy_forward");
    EXPECT_EQ(copies[0].at("args").at("partition"), 0);
    EXPECT_EQ(copies[0].at("args").at("bytes"), 64);
    EXPECT_EQ(copies[0].at("name"), "copy_forward (0, 0)");
}

TEST_F(ChromeExport, NamesAThreadForEachLaneAndForItsCopies) {
    const json trace = exported([](TraceWriter& writer) { writer.add_timeline(pipeline(Source::measured)); });
    std::vector<std::string> names;
    for (const json& event : with(trace, "name", "thread_name")) {
        names.push_back(event.at("args").at("name"));
    }
    EXPECT_THAT(names, testing::UnorderedElementsAre("lane 0 (cpu)", "copies from lane 0", "lane 1 (cuda:\"0\")",
                                                     "copies from lane 1"));
}

TEST_F(ChromeExport, DrawsAnArrowFromProducerOverCopyToConsumer) {
    const json trace = exported([](TraceWriter& writer) { writer.add_timeline(pipeline(Source::measured)); });
    // m = 2 micro-batches over one boundary: 2 forward and 2 backward copies
    const auto starts = with(trace, "ph", "s");
    ASSERT_EQ(starts.size(), 4u);
    EXPECT_EQ(with(trace, "ph", "t").size(), 4u);
    EXPECT_EQ(with(trace, "ph", "f").size(), 4u);
    for (const json& start : starts) {
        std::vector<json> arrow;
        for (const json& event : with(trace, "id", start.at("id"))) {
            for (const json& slice : with(trace, "ph", "X")) {
                if (slice.at("tid") == event.at("tid") && slice.at("ts") == event.at("ts")) {
                    arrow.push_back(slice.at("args"));
                }
            }
        }
        ASSERT_EQ(arrow.size(), 3u);
        const bool forward = arrow[1].at("kind") == "copy_forward";
        EXPECT_EQ(arrow[0].at("kind"), forward ? "forward" : "backward");
        EXPECT_EQ(arrow[0].at("partition"), forward ? 0 : 1);
        EXPECT_EQ(arrow[2].at("partition"), forward ? 1 : 0);
        EXPECT_EQ(arrow[0].at("micro_batch"), arrow[2].at("micro_batch"));
    }
}

TEST_F(ChromeExport, KeepsOverlappingCopiesOfALaneOnThreadsOfTheirOwn) {
    const json trace = exported([](TraceWriter& writer) {
        Timeline timeline{Source::measured, {{"lane 0", "cpu"}, {"lane 1", "cpu"}}, {}};
        for (int i = 0; i < 3; ++i) {  // [0, 100), [50, 150), [100, 200): the third fits behind the first
            timeline.slices.push_back(
                {{0, TaskKind::copy_forward, 0, i, -1}, LaneId{0}, Nanoseconds{50 * i}, Nanoseconds{50 * i + 100}, 8});
        }
        writer.add_timeline(timeline);
    });
    const auto copies = with(trace, "ph", "X");
    ASSERT_EQ(copies.size(), 3u);
    EXPECT_NE(copies[0].at("tid"), copies[1].at("tid"));
    EXPECT_EQ(copies[0].at("tid"), copies[2].at("tid"));
}

TEST_F(ChromeExport, HasStepsMemoryCountersAndWhatWasLost) {
    const json trace = exported([](TraceWriter& writer) {
        writer.add_timeline(pipeline(Source::measured));
        writer.add_step({4, Nanoseconds{0}, Nanoseconds{10}, Nanoseconds{0}, Nanoseconds{20}, 1.5, false});
        writer.add_memory({LaneId{1}, Nanoseconds{1500}, 10, 20, 30, -1});
        writer.add_drop({"nvtx", 1, 5, 3, 0, 0});
        writer.add_diagnostic({"warning", "nvtx", "3 dropped"});
    });
    const auto counters = with(trace, "ph", "C");
    ASSERT_EQ(counters.size(), 3u);  // series of one counter are drawn on top of each other, so each has its own
    EXPECT_EQ(counters[0].at("name"), "memory of lane 1");
    EXPECT_EQ(counters[0].at("args"), (json{{"allocated", 10}}));
    EXPECT_EQ(counters[1].at("args"), (json{{"peak", 20}}));
    EXPECT_EQ(counters[2].at("args"), (json{{"reserved", 30}}));
    EXPECT_EQ(with(trace, "cat", "step").at(0).at("name"), "ProfilerStep#4");
    EXPECT_EQ(trace.at("otherData").at("dropped_ranges"), 3);
    EXPECT_EQ(trace.at("otherData").at("diagnostics").at(0), "warning: nvtx: 3 dropped");
}

// Holistic Trace Analysis 0.5.0 needs this; otherwise its temporal breakdown fails with an IndexError.
TEST_F(ChromeExport, HasARankAndGivesMeasuredTasksAStream) {
    const json both = exported([](TraceWriter& writer) {
        writer.add_timeline(pipeline(Source::measured));
        writer.add_timeline(pipeline(Source::simulated));
    });
    EXPECT_EQ(both.at("distributedInfo").at("rank"), 0);
    for (const json& slice : with(both, "ph", "X")) {
        const json& task = slice.at("args");
        const bool is_copy = task.at("kind") == "copy_forward" || task.at("kind") == "copy_backward";
        ASSERT_EQ(task.contains("stream"), slice.at("pid") == 1 && !is_copy) << slice;
        if (task.contains("stream")) {
            EXPECT_EQ(task.at("stream"), task.at("lane"));
        }
    }
}

TEST_F(ChromeExport, GivesASimulationsTasksAStreamWhereItIsAlone) {
    const json alone = exported([](TraceWriter& writer) { writer.add_timeline(pipeline(Source::simulated)); });
    EXPECT_EQ(with(alone, "cat", "forward").at(0).at("args").at("stream"), 0);
}

TEST_F(ChromeExport, IsValidForATraceWithoutAnything) {
    const json trace = exported([](TraceWriter&) {});
    EXPECT_TRUE(trace.at("traceEvents").empty());
}
}  // namespace
}  // namespace pipescope
