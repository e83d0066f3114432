#include "trace/foreign/chrome_import.h"
#include "base/stop_check.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "trace/foreign/chrome_json.h"
#include "trace/foreign/json_mending.h"
#include "trace/open_trace.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <clocale>
#include <ctime>
#include <fstream>
#include <sstream>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

// A file of PyTorch's profiler: ts in us since the epoch minus baseTimeNanoseconds, with decimals.
constexpr const char* kKineto = R"json({
  "schemaVersion": 1,
  "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150000000000}],
  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1700000000000000000,
  "traceEvents": [
  {"ph": "M", "name": "process_name", "ts": 100.000, "pid": 17, "tid": 0, "args": {"name": "python"}},
  {"ph": "M", "name": "process_labels", "ts": 100.000, "pid": 17, "tid": 0, "args": {"labels": "CPU"}},
  {"ph": "M", "name": "process_name", "ts": 100.000, "pid": 0, "tid": 0, "args": {"name": "python"}},
  {"ph": "M", "name": "process_labels", "ts": 100.000, "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
  {"ph": "M", "name": "thread_name", "ts": 100.000, "pid": 0, "tid": 7, "args": {"name": "stream 7"}},
  {"ph": "M", "name": "thread_name", "ts": 100.000, "pid": 17, "tid": 18, "args": {"name": "thread 18 (python)"
}
},
  {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 17, "tid": 18, "ts": 1000.001, "dur": 50.5,
   "args": {"External id": 1, "Input Dims": [[2, 3], [3, 3]], "Concrete Inputs": {"a": [1]}}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 17, "tid": 18, "ts": 1010, "dur": 5,
   "args": {"correlation": 99}},
  {"ph": "X", "cat": "kernel", "name": "void gemm<float>()", "pid": 0, "tid": 7, "ts": 1020.25, "dur": 100.125,
   "args": {"correlation": 99, "stream": 7, "device": 0}},
  {"ph": "s", "id": 99, "pid": 17, "tid": 18, "ts": 1010, "cat": "ac2g", "name": "ac2g"},
  {"ph": "f", "id": 99, "pid": 0, "tid": 7, "ts": 1020.25, "cat": "ac2g", "name": "ac2g", "bp": "e"},
  {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 17, "tid": 18, "ts": 1011,
   "args": {"Total Reserved": 400, "Total Allocated": 300, "Bytes": 300, "Device Type": 1, "Device Id": 0}},
  {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 1000.001,
   "dur": 500}
  ],
  "traceName": "trace.json"
})json";

class ChromeImport : public testing::Test {
protected:
    std::filesystem::path file_with(const std::string& text) {
        std::ofstream(folder_ / "t.json", std::ios::binary) << text;
        return folder_ / "t.json";
    }
    OpenedTrace opened(const std::string& text) { return open_trace(file_with(text)); }

    const TemporaryFolder folder_;
};

std::vector<std::string> names_of(const OpenedTrace& trace, const RangeTrack& track) {
    std::vector<std::string> names;
    for (const TraceRange& range : track.ranges) {
        names.push_back(trace.names[range.name] + "@" + std::to_string(range.row));
    }
    return names;
}

void expect_the_kineto_trace(const OpenedTrace& trace) {
    EXPECT_EQ(trace.origin, TraceOrigin::kineto);
    EXPECT_EQ(trace.utc_epoch_ns, 1'700'000'000'001'000'001);
    ASSERT_EQ(trace.tracks.size(), 3u);
    EXPECT_EQ(trace.tracks[0].group, "GPU 0 (NVIDIA H200)");
    EXPECT_EQ(trace.tracks[0].name, "stream 7");
    EXPECT_EQ(trace.tracks[0].kind, RangeTrack::Kind::stream);
    ASSERT_EQ(trace.tracks[0].ranges.size(), 1u);
    EXPECT_EQ(trace.tracks[0].ranges[0].start, Nanoseconds{20'249});  // since the first event
    EXPECT_EQ(trace.tracks[0].ranges[0].duration(), Nanoseconds{100'125});
    EXPECT_EQ(trace.tracks[0].ranges[0].correlation, 99u);
    EXPECT_EQ(trace.tracks[1].group, "Spans");
    EXPECT_EQ(trace.tracks[2].group, "process 17 (python)");
    EXPECT_EQ(trace.tracks[2].name, "thread 18 (python)");
    EXPECT_THAT(names_of(trace, trace.tracks[2]), ElementsAre("aten::linear@0", "cudaLaunchKernel@1"));
    ASSERT_EQ(trace.counters.size(), 2u);
    EXPECT_EQ(trace.counters[0].name, "memory of GPU 0");
    EXPECT_EQ(trace.counters[0].points.at(0).value, 300);
    EXPECT_EQ(trace.counters[1].name, "memory of GPU 0, reserved");
}

TEST_F(ChromeImport, PairsEndsWithAndWithoutNames) {
    // The end without a name closes b, the later one of a name that is closed already closes the last that is open.
    const OpenedTrace trace = opened(
        R"([{"ph":"B","pid":1,"tid":1,"ts":1,"name":"a"}, {"ph":"B","pid":1,"tid":1,"ts":2,"name":"b"},
            {"ph":"B","pid":1,"tid":1,"ts":3,"name":"a"}, {"ph":"E","pid":1,"tid":1,"ts":4,"name":"a"},
            {"ph":"E","pid":1,"tid":1,"ts":5}, {"ph":"E","pid":1,"tid":1,"ts":6,"name":"b"},
            {"ph":"E","pid":1,"tid":1,"ts":7,"name":"a"}])");
    ASSERT_EQ(trace.tracks.size(), 1u);
    std::vector<std::int64_t> durations;
    for (const TraceRange& range : trace.tracks[0].ranges) {
        durations.push_back((range.end - range.start).count() / 1000);
    }
    EXPECT_THAT(durations, ElementsAre(5, 3, 1));
}

TEST_F(ChromeImport, RefusesWhatFollowsAByteThatIs0) {
    const std::string event = R"([{"ph":"X","pid":1,"tid":1,"ts":1,"dur":1,"name":"a"}])";
    for (const std::string& text : {event + '\0' + event, event + '\0', '\0' + event}) {
        EXPECT_THAT(thrown<TraceFormatError>([&] { opened(text); }), HasSubstr("t.json")) << "refused with its name";
    }
    EXPECT_THAT(thrown<TraceFormatError>([&] { opened(event + '\0' + event); }), HasSubstr("a byte 0"));
}

TEST_F(ChromeImport, SortsCountersByTheNumbersInTheirNames) {
    std::string events;
    for (const int number : {10, 9, 100, 1}) {
        events +=
            R"({"ph": "C", "name": "c)" + std::to_string(number) + R"(", "pid": 1, "ts": 1, "args": {"value": 1}},)";
    }
    const OpenedTrace trace =
        opened("[" + events + R"({"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}])");
    std::vector<std::string> names;
    for (const CounterTrack& counter : trace.counters) {
        names.push_back(counter.name);
    }
    EXPECT_THAT(names, ElementsAre("c1", "c9", "c10", "c100"));
}

TEST_F(ChromeImport, OpensATraceOfPyTorchsProfiler) {
    expect_the_kineto_trace(opened(kKineto));
}

TEST_F(ChromeImport, OpensItPackedToo) {
    const auto path = folder_ / "t.json.gz";
    gzFile file = gzopen(path.c_str(), "wb");
    gzputs(file, kKineto);
    gzclose(file);
    expect_the_kineto_trace(open_trace(path));
}

TEST_F(ChromeImport, KeepsTheEventsBeforeTheBreakOfAPackedFile) {
    std::string text = "{\"traceEvents\": [";
    for (int k = 0; k < 5000; ++k) {
        text += R"({"ph": "X", "name": "n)" + std::to_string(k * 7919) + R"(", "ts": )" + std::to_string(k) +
                R"(, "dur": 1},)";
    }
    text.back() = ']';
    const auto path = folder_ / "t.json.gz";
    gzFile file = gzopen(path.c_str(), "wb");
    gzputs(file, (text + "}").c_str());
    gzclose(file);
    EXPECT_EQ(open_trace(path).tracks.at(0).ranges.size(), 5000U);
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
    const OpenedTrace trace = open_trace(path);
    EXPECT_GT(trace.tracks.at(0).ranges.size(), 1000U);
    EXPECT_LT(trace.tracks.at(0).ranges.size(), 4000U);
    ASSERT_EQ(trace.diagnostics.size(), 1U);
    EXPECT_THAT(trace.diagnostics[0].text, HasSubstr("the file was cut off"));
}

TEST_F(ChromeImport, ReadsAPlainListWithBeginsEndsAndCounters) {
    const OpenedTrace trace = opened(R"([
        {"ph": "B", "name": "outer", "pid": 1, "tid": 1, "ts": 10},
        {"ph": "B", "name": "inner", "pid": 1, "tid": 1, "ts": 11},
        {"ph": "E", "pid": 1, "tid": 1, "ts": 12},
        {"ph": "E", "pid": 1, "tid": 1, "ts": 20},
        {"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 30},
        {"ph": "b", "cat": "io", "id": "0x1", "name": "request", "pid": 1, "tid": 1, "ts": 10},
        {"ph": "e", "cat": "io", "id": "0x1", "name": "request", "pid": 1, "tid": 1, "ts": 40},
        {"ph": "C", "name": "queue", "pid": 1, "ts": 15, "args": {"length": 3}},
        {"ph": "i", "name": "mark", "pid": 1, "tid": 1, "ts": 25}])");
    EXPECT_EQ(trace.origin, TraceOrigin::chrome);
    ASSERT_EQ(trace.tracks.size(), 2u);
    EXPECT_THAT(names_of(trace, trace.tracks[0]), ElementsAre("outer@0", "inner@1", "mark@0", "open@0"));
    EXPECT_EQ(trace.tracks[0].ranges[0].duration(), Nanoseconds{10'000});
    EXPECT_TRUE(trace.tracks[0].ranges.back().open);
    EXPECT_EQ(trace.tracks[1].kind, RangeTrack::Kind::other);
    EXPECT_EQ(trace.tracks[1].ranges.at(0).duration(), Nanoseconds{30'000});
    EXPECT_EQ(trace.counters.at(0).name, "queue: length");
    ASSERT_EQ(trace.diagnostics.size(), 1u);
    EXPECT_THAT(trace.diagnostics[0].text, HasSubstr("1 range that began and never ended"));
}

/// "a > b" for each arrow.
std::vector<std::string> arrows_of(const OpenedTrace& trace) {
    const auto name = [&](const RangeArrow::End& end) {
        return trace.names.at(trace.tracks.at(end.track).ranges.at(end.range).name);
    };
    std::vector<std::string> arrows;
    for (const RangeArrow& arrow : trace.arrows) {
        arrows.push_back(name(arrow.from) + " > " + name(arrow.to));
    }
    return arrows;
}

TEST_F(ChromeImport, BindsArrowsToTheRangesAroundTheirEnds) {
    // Two chains with the same id but another name; an end without "bp" belongs to the next range; an id is used twice.
    const OpenedTrace trace = opened(R"([
        {"ph": "X", "name": "outer", "pid": 1, "tid": 1, "ts": 10, "dur": 20},
        {"ph": "X", "name": "send", "pid": 1, "tid": 1, "ts": 12, "dur": 5},
        {"ph": "X", "name": "middle", "pid": 1, "tid": 2, "ts": 20, "dur": 5},
        {"ph": "X", "name": "receive", "pid": 2, "tid": 1, "ts": 40, "dur": 5},
        {"ph": "X", "name": "later", "pid": 2, "tid": 1, "ts": 60, "dur": 5},
        {"ph": "f", "bp": "e", "cat": "c", "name": "chain", "id": 7, "pid": 2, "tid": 1, "ts": 42},
        {"ph": "s", "cat": "c", "name": "chain", "id": 7, "pid": 1, "tid": 1, "ts": 13},
        {"ph": "t", "cat": "c", "name": "chain", "id": 7, "pid": 1, "tid": 2, "ts": 25},
        {"ph": "s", "cat": "c", "name": "other", "id": 7, "pid": 1, "tid": 1, "ts": 29},
        {"ph": "f", "cat": "c", "name": "other", "id": 7, "pid": 2, "tid": 1, "ts": 50},
        {"ph": "s", "cat": "c", "name": "chain", "id": 7, "pid": 1, "tid": 1, "ts": 10},
        {"ph": "s", "cat": "c", "name": "nowhere", "id": 8, "pid": 1, "tid": 1, "ts": 1},
        {"ph": "f", "cat": "c", "name": "nowhere", "id": 8, "pid": 9, "tid": 9, "ts": 100},
        {"ph": "s", "cat": "c", "name": "no time", "id": 9}])");
    EXPECT_THAT(arrows_of(trace), UnorderedElementsAre("send > middle", "middle > receive", "outer > later"));
    ASSERT_EQ(trace.diagnostics.size(), 1u);
    EXPECT_THAT(trace.diagnostics[0].text, HasSubstr("1 event was omitted"));
}

// Events of Chrome name the arrows that begin or end at them; one may lead to several.
TEST_F(ChromeImport, BindsArrowsOfEventsWithABindId) {
    const OpenedTrace trace = opened(R"([
        {"ph": "X", "name": "post", "pid": 1, "tid": 1, "ts": 10, "dur": 5, "bind_id": "0x1", "flow_out": true},
        {"ph": "X", "name": "inside", "pid": 1, "tid": 1, "ts": 10, "dur": 2},
        {"ph": "X", "name": "run", "pid": 1, "tid": 2, "ts": 20, "dur": 5, "bind_id": "0x1", "flow_in": true},
        {"ph": "B", "name": "again", "pid": 2, "tid": 1, "ts": 25, "bind_id": "0x1", "flow_in": true},
        {"ph": "E", "pid": 2, "tid": 1, "ts": 30},
        {"ph": "X", "name": "last", "pid": 1, "tid": 3, "ts": 40, "dur": 1, "bind_id": 7, "flow_in": true},
        {"ph": "X", "name": "middle", "pid": 1, "tid": 2, "ts": 35, "dur": 1, "bind_id": 7, "flow_in": "true",
         "flow_out": "true"},
        {"ph": "b", "cat": "io", "id": "0x9", "name": "request", "pid": 1, "tid": 1, "ts": 31, "bind_id": 7,
         "flow_out": true},
        {"ph": "X", "name": "unbound", "pid": 1, "tid": 1, "ts": 50, "dur": 1, "bind_id": 7},
        {"ph": "X", "name": "no time", "pid": 5, "tid": 1, "bind_id": 7, "flow_in": true}])");
    EXPECT_THAT(arrows_of(trace),
                UnorderedElementsAre("post > run", "post > again", "request > middle", "middle > last"));
    for (const RangeTrack& track : trace.tracks) {
        EXPECT_FALSE(track.ranges.empty());
    }
}

TEST_F(ChromeImport, ReadsInstantsOfAsynchronousRangesAndQuotedValues) {
    const OpenedTrace trace = opened(R"([
        {"ph": "b", "cat": "io", "id": 1, "name": "request", "pid": 1, "ts": 10},
        {"ph": "n", "cat": "io", "id": 1, "name": "half", "pid": 1, "ts": 15},
        {"ph": "e", "cat": "io", "id": 1, "pid": 1, "ts": 20},
        {"ph": "C", "name": "queue", "pid": 1, "ts": 15, "args": {"value": "3.5", "state": "idle"}}])");
    ASSERT_EQ(trace.tracks.size(), 1U);
    EXPECT_THAT(names_of(trace, trace.tracks[0]), ElementsAre("request@0", "half@1"));
    ASSERT_EQ(trace.counters.size(), 1U);
    EXPECT_EQ(trace.counters[0].points.at(0).value, 3.5);
}

TEST_F(ChromeImport, KeepsCountersOfTwoProcessesApart) {
    const OpenedTrace trace = opened(R"([
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "first"}},
        {"ph": "C", "name": "queue", "pid": 1, "ts": 15, "args": {"value": 3, "text": "no number"}},
        {"ph": "C", "name": "queue", "pid": 2, "ts": 15, "args": {"value": -4.5}},
        {"ph": "C", "name": "queue", "id": "b", "pid": 2, "ts": 16, "args": {"value": 1}}])");
    ASSERT_EQ(trace.counters.size(), 3u);
    EXPECT_EQ(trace.counters[0].group, "process 1 (first)");
    EXPECT_EQ(trace.counters[1].group, "process 2");
    EXPECT_EQ(trace.counters[1].points.at(0).value, -4.5);
    EXPECT_EQ(trace.counters[2].name, "queue [b]");
}

TEST_F(ChromeImport, ReadsOneEventWithAllItsArguments) {
    const OpenedTrace trace =
        opened(R"({"otherData": {"traceEvents": [{"not": "this"}], "list": [[{}]]}, "traceEvents": [7,
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "p"}},
        {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {"deep": {"list": [[1, 2], {"x": null}]}, "big": 1.5}},
        {"ph": "X", "name": "b", "pid": 1, "tid": 1, "ts": 5, "dur": 1}], "after": "the events"})");
    const TraceRange& first = trace.tracks.at(0).ranges.at(0);
    ASSERT_NE(first.event, 0u);
    const nlohmann::json event = event_of_chrome(folder_ / "t.json", first.event - 1);
    EXPECT_EQ(event.at("name"), "a");
    EXPECT_EQ(event.at("args").dump(), R"({"big":1.5,"deep":{"list":[[1,2],{"x":null}]}})");
    EXPECT_EQ(event_of_chrome(folder_ / "t.json", trace.tracks.at(0).ranges.at(1).event - 1).at("name"), "b");
    EXPECT_TRUE(event_of_chrome(folder_ / "t.json", 99).is_null());
}

TEST_F(ChromeImport, ReadsNoHalfEvent) {
    const auto path = file_with(R"([{"ph": "X", "name": "a", "ts": 1}, {"ph": "X", "args": {"b": 1)");
    EXPECT_EQ(event_of_chrome(path, 0).at("name"), "a");
    EXPECT_TRUE(event_of_chrome(path, 1).is_null()) << "the file was cut off";
    const auto broken = file_with(R"([{"ph": "X", "args": {"b": 1 2}}])");
    EXPECT_THAT(thrown<TraceFormatError>([&] { event_of_chrome(broken, 0); }),
                AllOf(HasSubstr("t.json"), HasSubstr("line 1")));
}

TEST_F(ChromeImport, CountsTheEventsItLeavesOut) {
    const OpenedTrace trace = opened(R"([{"ph": "X", "name": "no time"}, {"ph": "E", "ts": 1}, {"ph": "?"}, 7,
        {"ph": "X", "name": "good", "ts": 1e3, "dur": 0}, {"ph": "X", "name": "back", "ts": 1e3, "dur": -5}, {"ph": "X", "name": "far", "ts": 99999999999999999999}])");
    ASSERT_EQ(trace.diagnostics.size(), 1u);
    EXPECT_THAT(trace.diagnostics[0].text, HasSubstr("5 events were omitted"));
    ASSERT_EQ(trace.tracks.size(), 1u);
    EXPECT_THAT(names_of(trace, trace.tracks[0]), ElementsAre("good@0"));
}

TEST_F(ChromeImport, KnowsNoStartWhereTheBaseTimeIsBeyondAllClocks) {
    const OpenedTrace trace = opened(R"({"baseTimeNanoseconds": 9223372036854775807, "traceEvents": [
        {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1000, "dur": 1}]})");
    EXPECT_EQ(trace.utc_epoch_ns, std::nullopt);
    EXPECT_EQ(opened(R"({"baseTimeNanoseconds": 9000000000000000000, "traceEvents": [
        {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1000, "dur": 1}]})")
                  .utc_epoch_ns,
              std::nullopt);
}

// Qt sets the locale of the whole program.
TEST_F(ChromeImport, ReadsDecimalPointsUnderALocaleWithDecimalCommas) {
    const std::string before = std::setlocale(LC_NUMERIC, nullptr);
    const bool has_comma = std::ranges::any_of(
        std::initializer_list<const char*>{"de_DE.UTF-8", "de_DE.utf8", "de_DE", "fr_FR.UTF-8", "fr_FR"},
        [](const char* name) { return std::setlocale(LC_NUMERIC, name) != nullptr; });
    if (!has_comma) {
        GTEST_SKIP() << "no such locale is installed";
    }
    std::istringstream in(R"([{"ph": "X", "name": "a", "ts": 1, "dur": 1, "args": {"a": 1.75, "b": 1e-999}}])");
    struct Values : ChromeListener {
        void event(const ChromeEvent& event, const ChromeHeader&) override {
            a = event.arguments.find("a")->real;
            b = event.arguments.find("b")->real;
        }
        double a = 0;
        double b = 1;
    } values;
    read_chrome_json(in, values);
    std::setlocale(LC_NUMERIC, before.c_str());
    EXPECT_EQ(values.a, 1.75);
    EXPECT_EQ(values.b, 0) << "next to zero";
}

TEST_F(ChromeImport, MayBeStoppedWhileItLooksForThePlaceOfDamage) {
    std::string text = "[";
    for (int k = 0; k < 2'000'000; ++k) {
        text += "[],";
    }
    const auto path = file_with(text + "?]");
    const StopCheck stop([] { return false; });
    EXPECT_THROW(open_trace(path), ComputationStopped);
}

TEST_F(ChromeImport, NamesThePlaceOfDamage) {
    EXPECT_THAT(
        thrown<TraceFormatError>([&] { opened("{\"traceEvents\": [\n{\"ph\": \"X\", \"ts\": 1},\n{\"ph\" \"X\"}]}"); }),
        AllOf(HasSubstr("t.json"), HasSubstr("line 3, column 9")));
    EXPECT_THAT(thrown<TraceFormatError>([&] { opened("{\"traceEvents\": [{\"ph\": \"X\""); }),
                HasSubstr("unexpected end of input"));
}

// One such number in any argument made the whole file unreadable.
TEST_F(ChromeImport, LeavesOutNumbersBeyondADouble) {
    const std::string digits(400, '7');
    for (const std::string& number : {std::string("1e309"), std::string("-1E+400"), digits, "-" + digits + ".5",
                                      "1" + std::string(308, '0') + "e9", std::string("2.5e99999")}) {
        const OpenedTrace trace = opened(R"([{"ph": "C", "name": "c", "ts": 1, "args": {"value": )" + number +
                                         R"(}}, {"ph": "C", "name": "c", "ts": 2, "args": {"value": 1e-400, "b": true}},
            {"ph": "X", "name": "a", "ts": 1e2, "dur": 1.7e1, "args": {"n": [)" +
                                         number + "]}}]");
        EXPECT_EQ(trace.counters.at(0).points.size(), 1U) << number;
        EXPECT_EQ(trace.tracks.at(0).ranges.at(0).duration(), Nanoseconds{17'000}) << number;
        EXPECT_THAT(trace.diagnostics.at(0).text, HasSubstr("2 places were mended")) << number;
    }
    // Wherever the border of a piece lies within the number.
    for (const std::size_t before : {65'400U, 65'520U, 65'533U, 65'534U, 65'535U, 65'536U, 65'537U}) {
        const std::string text = R"([{"ph": "X", "ts": 1, "dur": 1, "args": {"v": )";
        const std::string space(before - text.size(), ' ');
        EXPECT_EQ(opened(text + space + "-12345.5e306}}]").tracks.size(), 1U) << before;
        EXPECT_EQ(opened(text + space + "123e3}}]").diagnostics.size(), 0U) << before;
    }
}

TEST_F(ChromeImport, LeavesOutEventsWithAListForANumber) {
    const OpenedTrace trace = opened(R"([{"ph": "X", "name": "list", "ts": 1, "dur": [1]},
        {"ph": "X", "name": "object", "ts": 1, "dur": {}}, {"ph": "X", "name": "time", "ts": [1], "dur": 1},
        {"ph": "X", "name": "process", "pid": {"n": 1}, "ts": 1, "dur": 1},
        {"ph": "X", "name": "thread", "tid": [], "ts": 1, "dur": 1}, {"ph": "X", "name": "good", "ts": 1, "dur": 1}])");
    ASSERT_EQ(trace.tracks.size(), 1U);
    EXPECT_THAT(names_of(trace, trace.tracks[0]), ElementsAre("good@0"));
    EXPECT_THAT(trace.diagnostics.at(0).text, HasSubstr("5 events were omitted"));
}

TEST_F(ChromeImport, KeepsIdsThatAreNoWholeNumbersApart) {
    const OpenedTrace trace = opened(R"([{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1},
        {"ph": "X", "name": "b", "pid": 1.5, "tid": 1, "ts": 1, "dur": 1},
        {"ph": "X", "name": "c", "pid": 1.0, "tid": 1, "ts": 5, "dur": 1},
        {"ph": "X", "name": "d", "pid": 18446744073709551615, "tid": 1, "ts": 1, "dur": 1}])");
    std::vector<std::string> groups;
    for (const RangeTrack& track : trace.tracks) {
        groups.push_back(track.group);
    }
    EXPECT_THAT(groups, ElementsAre("1.5", "18446744073709551615", "process 1"));
}

TEST_F(ChromeImport, RefusesTextsThatWouldFillTheMemory) {
    const std::string head = R"([{"ph": "X", "ts": 1, "dur": 1, "name": ")";
    const std::string most(kMostJsonText, 'x');
    EXPECT_EQ(opened(head + most.substr(1) + "\"}]").names.back().size(), kMostJsonText - 1);
    for (const std::string& text : {head + most + "xy\"}]", head + "\", \"" + most + "xy\": 1}]"}) {
        EXPECT_THAT(
            thrown<TraceFormatError>([&] { opened(text); }),
            AllOf(HasSubstr("t.json"), HasSubstr("a text of over 16.00 MiB"), HasSubstr("leave the event out")));
    }
    EXPECT_THAT(thrown<TraceFormatError>([&] { opened(R"([{"ts": )" + std::string(200'000, '1') + "}]"); }),
                HasSubstr("a number of over 64.00 KiB"));
}

TEST_F(ChromeImport, RefusesASmallFileThatUnpacksWithoutEnd) {
    const auto path = folder_ / "bomb.json.gz";
    gzFile file = gzopen(path.c_str(), "wb9");
    const std::string space(1 << 20, ' ');
    gzputs(file, "[");
    for (int k = 0; k < 300; ++k) {
        gzwrite(file, space.data(), static_cast<unsigned>(space.size()));
        gzputs(file, R"({"ph": "i", "ts": 1},)");
    }
    gzclose(file);
    EXPECT_THAT(thrown<TraceFormatError>([&] { open_trace(path); }),
                AllOf(HasSubstr("bomb.json.gz"), HasSubstr("unpacks to over 256"),
                      HasSubstr("at most 200 times its size"), HasSubstr("gunzip")));
}

// A search from the comma again for each piece took a minute.
TEST_F(ChromeImport, ReadsAnyWhiteSpaceAfterACommaOnce) {
    std::istringstream in("[1," + std::string(16 << 20, ' ') + "2]");
    JsonMending mending(in);
    std::istream mended(&mending);
    const std::clock_t begin = std::clock();
    EXPECT_EQ(nlohmann::json::parse(mended).dump(), "[1,2]");
    EXPECT_LT(std::clock() - begin, 10 * CLOCKS_PER_SEC) << "it takes a second at most";
    EXPECT_EQ(opened(R"([{"ph": "X", "ts": 1, "dur": 1},)" + std::string(60'000, '\n') + "]").tracks.size(), 1U);
}

TEST_F(ChromeImport, ReadsQuotedTimesAndOmitsThoseThatAreNoNumbers) {
    const OpenedTrace trace = opened(R"([
        {"ph": "X", "name": "quoted", "ts": "10", "dur": "5.25"},
        {"ph": "X", "name": "a word", "ts": 10, "dur": "long"},
        {"ph": "X", "name": "empty", "ts": 10, "dur": ""},
        {"ph": "X", "name": "truth", "ts": true, "dur": 1},
        {"ph": "X", "name": "true length", "ts": 10, "dur": true},
        {"ph": "X", "name": "null length", "ts": 10, "dur": null},
        {"ph": "X", "name": "too long", "ts": 10, "dur": 1e30},
        {"ph": "X", "name": "wrapped", "ts": 18446744073709551615, "dur": 1},
        {"ph": "X", "name": "two points", "ts": "1.2.3", "dur": 1},
        {"ph": "X", "name": "small", "ts": 1.5e-2147483648, "dur": 1},
        {"ph": "X", "name": "a unit", "ts": "1ms", "dur": 1}])");
    ASSERT_EQ(trace.tracks.size(), 1u);
    EXPECT_THAT(names_of(trace, trace.tracks[0]), ElementsAre("quoted@0"));
    EXPECT_EQ(trace.tracks[0].ranges[0].duration(), Nanoseconds{5250});
    ASSERT_EQ(trace.diagnostics.size(), 1u);
    EXPECT_THAT(trace.diagnostics[0].text, HasSubstr("10 events were omitted"));
}

TEST_F(ChromeImport, KeepsEveryNanosecondOfTimesSinceTheEpoch) {
    const OpenedTrace trace = opened(R"([
        {"ph": "X", "name": "a", "ts": 1700000000000000.123, "dur": 1},
        {"ph": "X", "name": "b", "ts": 1.700000000000001457e15, "dur": 1.001e+3},
        {"ph": "X", "name": "c", "ts": 17000000000000024580E-4, "dur": 1e-3},
        {"ph": "X", "name": "d", "ts": 1700000000000003, "dur": 0.9999999999}])");
    EXPECT_EQ(trace.utc_epoch_ns, 1'700'000'000'000'000'123);
    ASSERT_EQ(trace.tracks.size(), 1u);
    const std::vector<TraceRange>& ranges = trace.tracks[0].ranges;
    ASSERT_EQ(ranges.size(), 4u);
    EXPECT_EQ(ranges[1].start, Nanoseconds{1334});
    EXPECT_EQ(ranges[1].duration(), Nanoseconds{1'001'000});
    EXPECT_EQ(ranges[2].start, Nanoseconds{2335});
    EXPECT_EQ(ranges[2].duration(), Nanoseconds{1});
    EXPECT_EQ(ranges[3].start, Nanoseconds{2877});
    EXPECT_EQ(ranges[3].duration(), Nanoseconds{1000});
}

TEST_F(ChromeImport, PairsBeginsAndEndsByTime) {
    const OpenedTrace trace = opened(R"([
        {"ph": "E", "pid": 1, "tid": 1, "ts": 20},
        {"ph": "E", "pid": 1, "tid": 2, "ts": 8},
        {"ph": "B", "name": "inner", "pid": 1, "tid": 1, "ts": 11},
        {"ph": "E", "pid": 1, "tid": 1, "ts": 12},
        {"ph": "B", "name": "outer", "pid": 1, "tid": 1, "ts": 10},
        {"ph": "B", "name": "other", "pid": 1, "tid": 2, "ts": 5},
        {"ph": "e", "cat": "io", "id": "1", "name": "request", "pid": 1, "tid": 1, "ts": 40},
        {"ph": "b", "cat": "io", "id": "1", "name": "request", "pid": 1, "tid": 1, "ts": 10}])");
    EXPECT_TRUE(trace.diagnostics.empty());
    ASSERT_EQ(trace.tracks.size(), 3u);
    EXPECT_THAT(names_of(trace, trace.tracks[0]), ElementsAre("outer@0", "inner@1"));
    EXPECT_EQ(trace.tracks[0].ranges[0].duration(), Nanoseconds{10'000});
    EXPECT_EQ(trace.tracks[0].ranges[1].duration(), Nanoseconds{1'000});
    EXPECT_EQ(trace.tracks[1].ranges.at(0).duration(), Nanoseconds{3'000});
    EXPECT_EQ(trace.tracks[2].ranges.at(0).duration(), Nanoseconds{30'000});
}

TEST_F(ChromeImport, OpensAListThatAKilledProgramLeftOpen) {
    const std::string events = R"([{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1},
        {"ph": "X", "name": "b", "pid": 1, "tid": 1, "ts": 3, "dur": 1})";
    for (const char* rest : {"", "\n", ",", ",\n{", ",{\"ph\": \"X", ",{\"ph\": \"X\", \"ts\": 1", ",{\"ph\": nu"}) {
        const OpenedTrace trace = opened(events + rest);
        ASSERT_EQ(trace.tracks.size(), 1u) << rest;
        EXPECT_THAT(names_of(trace, trace.tracks[0]), ElementsAre("a@0", "b@0")) << rest;
        ASSERT_EQ(trace.diagnostics.size(), 1u) << rest;
        EXPECT_THAT(trace.diagnostics[0].text, HasSubstr("the file was cut off")) << rest;
    }
    EXPECT_TRUE(opened(events + "]").diagnostics.empty());
    EXPECT_THROW(opened(events + R"( {"ph": "X"}])"), TraceFormatError);
}

TEST_F(ChromeImport, SaysFirstThatTheFileWasCutOff) {
    const OpenedTrace trace = opened(R"([{"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 1},
        {"ph": "X", "name": "b", "pid": 1, "tid": 1},)");
    ASSERT_EQ(trace.diagnostics.size(), 3U);
    EXPECT_THAT(trace.diagnostics[0].text, HasSubstr("the file was cut off")) << "lesser matters follow from that";
}

TEST_F(ChromeImport, OpensAnObjectThatWasCutOff) {
    const std::string events =
        R"({"displayTimeUnit": "ms", "traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1})";
    for (const char* rest : {"", ",{\"ph\": \"X", "]", "], \"otherData\": {\"a"}) {
        const OpenedTrace trace = opened(events + rest);
        ASSERT_EQ(trace.tracks.size(), 1u) << rest;
        EXPECT_THAT(names_of(trace, trace.tracks[0]), ElementsAre("a@0")) << rest;
        ASSERT_EQ(trace.diagnostics.size(), 1u) << rest;
        EXPECT_THAT(trace.diagnostics[0].text, HasSubstr("the file was cut off")) << rest;
    }
}

/// `value` in place of the name of the first of two events, and what is read.
struct Mended {
    std::string value;
    std::string name;
    int places = 1;
};

TEST_F(ChromeImport, MendsStringsThatAreNoText) {
    const std::string bad = "\xef\xbf\xbd";
    for (const Mended& each : std::vector<Mended>{{"a\xff"
                                                   "b",
                                                   "a" + bad + "b"},
                                                  {"\xc3", bad},
                                                  {"\xe2\x82", bad + bad, 2},
                                                  {"\xed\xa0\x80", bad + bad + bad, 3},
                                                  {"\xf0\x9f\x98\x80\xc3\xa9", "\xf0\x9f\x98\x80\xc3\xa9", 0},
                                                  {"\\ud83d!", bad + "!"},
                                                  {"\\ude00\\ud83d", bad + bad, 2},
                                                  {"\\ud83d\\ude00", "\xf0\x9f\x98\x80", 0},
                                                  {"C:\\model", "C:\\model"},
                                                  {"\\u12", "\\u12"},
                                                  {"a\nb\t", "a b ", 2},
                                                  {"NaN -inf \\\"", "NaN -inf \"", 0}}) {
        const OpenedTrace trace = opened(R"([{"ph": "X", "ts": 1, "dur": 1, "name": ")" + each.value +
                                         R"("}, {"ph": "X", "name": "b", "ts": 3, "dur": 1}])");
        ASSERT_EQ(trace.tracks.size(), 1u) << each.value;
        ASSERT_EQ(trace.tracks[0].ranges.size(), 2u) << each.value;
        EXPECT_EQ(trace.names[trace.tracks[0].ranges[0].name], each.name);
        ASSERT_EQ(trace.diagnostics.size(), each.places > 0 ? 1u : 0u) << each.value;
        if (each.places > 0) {
            EXPECT_THAT(trace.diagnostics[0].text,
                        HasSubstr(std::to_string(each.places) + (each.places > 1 ? " places were" : " place was")));
        }
    }
}

// Wherever the borders between the pieces that are read lie.
TEST_F(ChromeImport, MendsAtTheBordersOfPieces) {
    const std::string bad = "\xff\\ud83d\xe2\x82\xac\\ud83d\\ude00\\q";
    std::string text = "[";
    for (int k = 0; k < 8000; ++k) {
        text += R"({"ph": "X", "ts": 1, "dur": 1, "args": {"v": -Infinity}, "name": ")" + bad + "\"," +
                std::string(static_cast<std::size_t>(k % 7), ' ') + "},";
    }
    text += "\n]";
    const OpenedTrace trace = opened(text);
    ASSERT_EQ(trace.tracks.at(0).ranges.size(), 8000u);
    EXPECT_EQ(trace.names.size(), 2u + (trace.names.front().empty() ? 0 : 1)) << "all events have one name";
    EXPECT_THAT(trace.diagnostics.at(0).text, HasSubstr(std::to_string(8000 * 5 + 1) + " places"));
}

TEST_F(ChromeImport, LeavesOutNumbersThatAreNone) {
    const OpenedTrace trace = opened(R"([{"ph": "C", "name": "loss", "ts": 1, "args": {"value": NaN}},
        {"ph": "C", "name": "loss", "ts": 2, "args": {"value": -Infinity}},
        {"ph": "C", "name": "loss", "ts": 3, "args": {"value": 4}},
        {"ph": "C", "name": "loss", "ts": 4, "args": {"value": -nan}},
        {"ph": "X", "name": "a", "ts": -3, "dur": 1, "args": {"n": null, "t": true}}])");
    ASSERT_EQ(trace.counters.size(), 1u);
    EXPECT_EQ(trace.counters[0].points.size(), 1u);
    ASSERT_EQ(trace.diagnostics.size(), 2u);
    EXPECT_THAT(trace.diagnostics[0].text + trace.diagnostics[1].text,
                AllOf(HasSubstr("3 places were mended"), HasSubstr("3 counter events were omitted")));
}

TEST_F(ChromeImport, EndsRangesByTheirNamesAndTellsThoseThatNeverEnd) {
    const OpenedTrace trace = opened(R"([
        {"ph": "B", "name": "A", "pid": 1, "tid": 1, "ts": 60},
        {"ph": "B", "name": "Bb", "pid": 1, "tid": 1, "ts": 70},
        {"ph": "E", "name": "A", "pid": 1, "tid": 1, "ts": 80},
        {"ph": "E", "name": "Bb", "pid": 1, "tid": 1, "ts": 90},
        {"ph": "B", "name": "open", "pid": 1, "tid": 1, "ts": 95},
        {"ph": "B", "name": "last", "pid": 1, "tid": 1, "ts": 97},
        {"ph": "E", "name": "other", "pid": 1, "tid": 1, "ts": 99}])");
    ASSERT_EQ(trace.tracks.size(), 1u);
    const std::vector<TraceRange>& ranges = trace.tracks[0].ranges;
    ASSERT_EQ(ranges.size(), 4u);
    EXPECT_EQ(ranges[0].duration(), Nanoseconds{20'000});
    EXPECT_EQ(ranges[1].duration(), Nanoseconds{20'000});
    ASSERT_EQ(trace.diagnostics.size(), 2u);
    EXPECT_THAT(trace.diagnostics[0].text + trace.diagnostics[1].text,
                AllOf(HasSubstr("1 range that began and never ended"), HasSubstr("1 end names no open range")));
}

TEST_F(ChromeImport, SkipsAByteOrderMark) {
    EXPECT_EQ(opened("\xef\xbb\xbf"
                     R"([{"ph": "X", "name": "a", "ts": 1, "dur": 1}])")
                  .tracks.size(),
              1u);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they multiply what a process takes
TEST_F(ChromeImport, TakesNoMoreMemoryThanTheFileIsLarge) {
    const auto path = folder_ / "t.json";
    {
        std::ofstream out(path, std::ios::binary);
        out << R"({"schemaVersion": 1, "traceEvents": [)";
        for (int k = 0; k < 200'000; ++k) {
            out << (k == 0 ? "" : ",") << R"({"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": )"
                << k % 8 << R"(, "ts": )" << k << R"(.5, "dur": 0.5, "args": {"External id": )" << k
                << R"(, "Input Dims": [[8, 8], [8, 8]]}})";
        }
        out << "]}";
    }
    const pid_t child = fork();
    if (child == 0) {
        rusage before{};
        getrusage(RUSAGE_SELF, &before);
        const bool whole = open_trace(path).tracks.size() == 8;
        rusage after{};
        getrusage(RUSAGE_SELF, &after);
        const auto taken = static_cast<std::uintmax_t>(after.ru_maxrss - before.ru_maxrss) * 1024;
        _exit(!whole ? 2 : taken < std::filesystem::file_size(path) ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

// The end of a range by its name once cost a walk over all that are open.
TEST_F(ChromeImport, PairsEndsByNameHoweverManyRangesAreOpen) {
    constexpr int kDepth = 100'000;
    std::string text = "[";
    for (int k = 0; k < kDepth; ++k) {
        text += fmt::format(R"({{"ph": "B", "name": "a", "ts": {}}},{{"ph": "B", "name": "b", "ts": {}}},)", k, k);
    }
    for (int k = 0; k < kDepth; ++k) {
        text += fmt::format(R"({{"ph": "E", "name": "a", "ts": {}}},)", kDepth + k);
    }
    const std::clock_t begin = std::clock();
    const OpenedTrace trace = opened(text + R"({"ph": "E", "ts": 300000}])");
    EXPECT_LT(std::clock() - begin, 20 * CLOCKS_PER_SEC) << "it takes a second, or minutes if it is quadratic";
    std::int64_t open = 0;
    for (const TraceRange& range : trace.tracks.at(0).ranges) {
        open += range.open ? 1 : 0;
        EXPECT_TRUE(!range.open || trace.names.at(range.name) == "b");
    }
    EXPECT_EQ(open, kDepth - 1);
}

TEST_F(ChromeImport, SaysWhyItDoesNotKnowTheRank) {
    const auto told = [&](const std::string& facts) {
        const OpenedTrace trace = opened(R"({"schemaVersion": 1, "distributedInfo": {)" + facts +
                                         R"(}, "traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]})");
        return trace.rank                  ? fmt::format("rank {} of {}", trace.rank->rank, trace.rank->size)
               : trace.diagnostics.empty() ? std::string()
                                           : trace.diagnostics.front().text;
    };
    const std::string unknown = "; so the rank that recorded the file is not known";
    EXPECT_EQ(told(R"("rank": 1, "world_size": 4)"), "rank 1 of 4");
    EXPECT_EQ(told(R"("rank": 1, "world_size": 4, "pg_config": 3)"), "rank 1 of 4");
    EXPECT_EQ(told(R"("rank": 1)"), "\"distributedInfo\" has no world_size" + unknown);
    EXPECT_EQ(told(R"("world_size": 4)"), "\"distributedInfo\" has no rank" + unknown);
    EXPECT_EQ(told(R"("rank": 3.5, "world_size": 4)"),
              "\"distributedInfo\" has the rank 3.5; it must be a whole number from 0 to 3" + unknown);
    EXPECT_EQ(told(R"("rank": 4294967297, "world_size": 4)"),
              "\"distributedInfo\" has the rank 4294967297; it must be a whole number from 0 to 3" + unknown);
    EXPECT_EQ(told(R"("rank": 0, "world_size": 9000000000)"),
              "\"distributedInfo\" has the world_size 9000000000; it must be a whole number from 1 to 1023" + unknown);
}

TEST_F(ChromeImport, TellsFaultsOfItsFactsWithoutTheNumberOfALibrary) {
    EXPECT_THAT(thrown<TraceFormatError>([&] {
                    opened(R"({"otherData": {"pipescope": {"format": "pipescope.chrome", "version": 1}, "run": 3},
                               "traceEvents": []})");
                }),
                AllOf(HasSubstr("its otherData: "), Not(HasSubstr("json.exception"))));
}

TEST_F(ChromeImport, SurvivesDeepNesting) {
    std::string text = R"([{"ph": "X", "ts": 1, "dur": 1, "args": {"a": )";
    EXPECT_THROW(opened(R"({"traceEvents": )" + text + std::string(200'000, '[')), TraceFormatError);
    EXPECT_EQ(opened(text + std::string(200'000, '[') + std::string(200'000, ']') + "}}]").tracks.size(), 1u);
    text = R"({"otherData": )" + std::string(200'000, '[') + std::string(200'000, ']') + R"(, "traceEvents": []})";
    EXPECT_TRUE(opened(text).tracks.empty());
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    EXPECT_THAT(thrown<TraceFormatError>(
                    [&] { opened(R"({"otherData": {"pipescope": )" + deep + R"(}, "traceEvents": []})"); }),
                HasSubstr("its stamp otherData.pipescope is [[["))
        << "a message writes it";
    std::istringstream in(R"([{"ph": "X", "args": {"deep": )" + deep + R"(, "after": 1}}])");
    const nlohmann::json event = read_chrome_event(in, 0);
    EXPECT_LT(event.dump().size(), 300U);
    EXPECT_EQ(event.at("args").at("after"), 1);
}
}  // namespace
}  // namespace pipescope
