#include "profiler/recorder/recorder.h"

#include "nvtx_task.h"
#include "profiler/recorder/recording_clock.h"
#include "range_emitter.h"
#include "recorded_trace.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace pipescope {
namespace {
using testing::HasSubstr;

nvtxEventAttributes_t attributes(const char* text) {
    nvtxEventAttributes_t event{};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = text;
    return event;
}

void emit_task(const TaskKey& key) {
    const NvtxTask range(key);
}

constexpr std::uint32_t kNoTid = 5'000'000;  // beyond what any system numbers its threads to

std::int64_t global_tid() {
    return std::int64_t{getpid()} << 24 | gettid();
}

TEST(Recorder, RecordsARangeWithItsTimesAndItsThread) {
    Nanoseconds before{0};
    Nanoseconds after{0};
    const RecordedTrace trace([&](Recorder& recorder) {
        before = recorder.now();
        nvtxRangePushA("a range");
        nvtxRangePop();
        after = recorder.now();
    });
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59"), 1);
    EXPECT_EQ(trace.text("SELECT text FROM NVTX_EVENTS WHERE eventType = 59"), "a range");
    EXPECT_EQ(trace.text("SELECT value FROM NVTX_EVENTS JOIN StringIds ON textId = id WHERE eventType = 59"),
              "a range");
    EXPECT_EQ(trace.number("SELECT globalTid FROM NVTX_EVENTS WHERE eventType = 59"), global_tid());
    EXPECT_EQ(trace.number("SELECT domainId FROM NVTX_EVENTS WHERE eventType = 59"), 0);
    EXPECT_GE(trace.number("SELECT start FROM NVTX_EVENTS WHERE eventType = 59"), before.count());
    EXPECT_LE(trace.number("SELECT start FROM NVTX_EVENTS WHERE eventType = 59"),
              trace.number("SELECT end FROM NVTX_EVENTS WHERE eventType = 59"));
    EXPECT_LE(trace.number("SELECT end FROM NVTX_EVENTS WHERE eventType = 59"), after.count());
}

TEST(Recorder, HearsRangesOfAStaticLibrary) {
    const RecordedTrace trace([](Recorder&) { EXPECT_EQ(emit_range_from_library(), 0); });
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE text = 'from a library'"), 1);
}

TEST(Recorder, IgnoresRangesWhileNoneLives) {
    EXPECT_EQ(emit_range_from_library(), -2);  // NVTX_NO_PUSH_POP_TRACKING
    const RecordedTrace trace([](Recorder&) {});
    emit_range_from_library();
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59"), 0);
}

TEST(Recorder, GivesNestedRangesTheirLevelsPerDomain) {
    const nvtxDomainHandle_t other = nvtxDomainCreateA("other domain");
    const nvtxEventAttributes_t event = attributes("in the other domain");
    const RecordedTrace trace([&](Recorder&) {
        EXPECT_EQ(nvtxRangePushA("outer"), 0);
        EXPECT_EQ(nvtxDomainRangePushEx(other, &event), 0);
        EXPECT_EQ(nvtxRangePushA("inner"), 1);
        EXPECT_EQ(nvtxDomainRangePop(other), 0);  // not the innermost of the thread, but of its domain
        EXPECT_EQ(nvtxRangePop(), 1);
        EXPECT_EQ(nvtxRangePop(), 0);
        EXPECT_LT(nvtxRangePop(), 0);  // one pop too many
    });
    EXPECT_EQ(
        trace.text("SELECT group_concat(text) FROM (SELECT text FROM NVTX_EVENTS WHERE eventType = 59 ORDER BY rowid)"),
        "in the other domain,inner,outer");
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS AS i JOIN NVTX_EVENTS AS o ON i.text = 'inner' AND "
                           "o.text = 'outer' WHERE o.start <= i.start AND i.end <= o.end"),
              1);
    EXPECT_EQ(trace.text("SELECT d.text FROM NVTX_EVENTS AS r JOIN NVTX_EVENTS AS d ON r.domainId = d.domainId AND "
                         "d.eventType = 75 WHERE r.text = 'in the other domain'"),
              "other domain");
}

TEST(Recorder, KeepsPayloadsOfEveryTypeInTheirColumns) {
    const RecordedTrace trace([](Recorder&) {
        nvtxEventAttributes_t event = attributes("payload");
        const auto mark = [&](nvtxPayloadType_t type, const auto& set) {
            event.payloadType = type;
            event.payload.ullValue = 0;
            set();
            nvtxMarkEx(&event);
        };
        mark(NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, [&] { event.payload.ullValue = 0xffff'ffff'ffff'fffeu; });
        mark(NVTX_PAYLOAD_TYPE_INT64, [&] { event.payload.llValue = -5; });
        mark(NVTX_PAYLOAD_TYPE_DOUBLE, [&] { event.payload.dValue = 0.125; });
        mark(NVTX_PAYLOAD_TYPE_UNSIGNED_INT32, [&] { event.payload.uiValue = 4'000'000'000u; });
        mark(NVTX_PAYLOAD_TYPE_INT32, [&] { event.payload.iValue = -7; });
        mark(NVTX_PAYLOAD_TYPE_FLOAT, [&] { event.payload.fValue = 2.5F; });
        mark(NVTX_PAYLOAD_UNKNOWN, [] {});
    });
    const auto marks = [&](const std::string& condition) {
        return trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 34 AND end IS NULL AND " + condition);
    };
    EXPECT_EQ(marks("uint64Value = -2"), 1);  // the same 64 bits
    EXPECT_EQ(marks("int64Value = -5"), 1);
    EXPECT_EQ(marks("doubleValue = 0.125"), 1);
    EXPECT_EQ(marks("uint32Value = 4000000000"), 1);
    EXPECT_EQ(marks("int32Value = -7"), 1);
    EXPECT_EQ(marks("floatValue = 2.5"), 1);
    EXPECT_EQ(marks("coalesce(uint64Value, int64Value, doubleValue, uint32Value, int32Value, floatValue) IS NULL"), 1);
}

TEST(Recorder, KeepsCategoriesColoursAndTextsOfEveryKind) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateW(L"weit");
    const RecordedTrace trace([&](Recorder&) {
        nvtxDomainNameCategoryA(domain, 9, "a category");
        nvtxEventAttributes_t event = attributes(nullptr);
        event.category = 9;
        event.colorType = NVTX_COLOR_ARGB;
        event.color = 0xff102030u;
        event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        event.message.registered = nvtxDomainRegisterStringA(domain, "registered");
        nvtxDomainMarkEx(domain, &event);
        event.message.registered = nvtxDomainRegisterStringW(domain, L"gr\u00f6\u00dfer \u20ac \U0001F600");
        nvtxDomainMarkEx(domain, &event);
        nvtxMarkW(L"wide");
        nvtxMarkA(nullptr);
        nvtxMarkEx(nullptr);
    });
    EXPECT_EQ(trace.number("SELECT color FROM NVTX_EVENTS WHERE text = 'registered'"), 0xff102030);
    EXPECT_EQ(trace.text("SELECT c.text FROM NVTX_EVENTS AS r JOIN NVTX_EVENTS AS c ON c.eventType = 33 AND "
                         "c.category = r.category AND c.domainId = r.domainId WHERE r.text = 'registered'"),
              "a category");
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE text = 'gr\u00f6\u00dfer \u20ac \U0001F600'"), 1);
    EXPECT_EQ(
        trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE text = 'wide' AND color IS NULL AND category IS NULL"), 1);
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 34 AND text = ''"), 2);
}

TEST(Recorder, HearsEveryFunctionThatTakesWideTexts) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateW(L"dom\u00e4ne");
    const RecordedTrace trace([&](Recorder&) {
        nvtxNameOsThreadW(kNoTid, L"f\u00e4den");
        nvtxNameCategoryW(5, L"f\u00fcnf");
        nvtxDomainNameCategoryW(domain, 6, L"s\u00e9x");
        nvtxRangePushW(L"geschoben \u2193");
        nvtxRangePop();
        nvtxRangeEnd(nvtxRangeStartW(L"begonnen \u2191"));
        nvtxMarkW(L"markiert \u2022");
        nvtxEventAttributes_t event = attributes(nullptr);
        event.messageType = NVTX_MESSAGE_TYPE_UNICODE;
        event.message.unicode = L"erweitert \u20ac";
        nvtxDomainRangePushEx(domain, &event);
        nvtxDomainRangePop(domain);
    });
    EXPECT_EQ(trace.text("SELECT group_concat(text || ' ' || eventType, ', ') FROM (SELECT * FROM NVTX_EVENTS WHERE "
                         "eventType IN (34, 59, 60) ORDER BY start)"),
              "geschoben \u2193 59, begonnen \u2191 60, markiert \u2022 34, erweitert \u20ac 59");
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS AS r JOIN NVTX_EVENTS AS d ON d.eventType = 75 AND "
                           "d.domainId = r.domainId WHERE r.text = 'erweitert \u20ac' AND d.text = 'dom\u00e4ne'"),
              1);
    EXPECT_EQ(trace.text("SELECT group_concat(category || ' ' || text) FROM (SELECT * FROM NVTX_EVENTS WHERE eventType "
                         "= 33 AND text IN ('f\u00fcnf', 's\u00e9x') ORDER BY category)"),
              "5 f\u00fcnf,6 s\u00e9x");
    EXPECT_EQ(trace.number("SELECT count(*) FROM ThreadNames JOIN StringIds ON id = nameId WHERE value = 'f\u00e4den'"),
              1);
}

TEST(Recorder, CutsALongTextAtAWholeCharacterAndCountsIt) {
    const std::string text = std::string(999, 'x') + "\u20ac and more";
    const RecordedTrace trace([&](Recorder&) { nvtxMarkA(text.c_str()); });
    EXPECT_EQ(trace.text("SELECT text FROM NVTX_EVENTS WHERE eventType = 34"), std::string(999, 'x'));
    EXPECT_EQ(trace.reader().drops().at(0).truncated, 1);
}

TEST(Recorder, ReadsNoMoreOfATextThanItKeeps) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* memory = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_EQ(mprotect(static_cast<char*>(memory) + page, page, PROT_NONE), 0);  // who reads on ends the process
    auto* const endless = static_cast<char*>(memory);
    std::memset(endless, 'x', page);
    const RecordedTrace trace([&](Recorder&) {
        nvtxMarkA(endless);
        nvtxNameCategoryA(77, endless);
        nvtxNameOsThreadA(kNoTid, endless);
    });
    EXPECT_EQ(trace.number("SELECT length(text) FROM NVTX_EVENTS WHERE eventType = 34"), 1000);
    munmap(memory, 2 * page);
}

// Readers of SQLite and JSON reject a file for one byte of invalid UTF-8.
TEST(Recorder, KeepsTextsReadableWhateverBytesAreInThem) {
    const RecordedTrace trace([&](Recorder&) {
        const nvtxDomainHandle_t domain = nvtxDomainCreateA("domain \xff");
        nvtxDomainNameCategoryA(domain, 1, "category \xfe");
        nvtxEventAttributes_t event = attributes(nullptr);
        event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        event.message.registered = nvtxDomainRegisterStringA(domain, "registered \xc3");
        nvtxDomainMarkEx(domain, &event);
        nvtxMarkA("range \xf0\x9f");
        nvtxMarkW(L"half \xd800 a pair");
        std::thread([] {
            pthread_setname_np(pthread_self(), "fourteen bytes\xc3");  // as the system cuts a name
            nvtxMarkA("x");
        }).join();
    });
    SQLite::Database db(trace.path());
    SQLite::Statement texts(db, "SELECT value FROM StringIds UNION ALL SELECT text FROM NVTX_EVENTS");
    std::string all;
    while (texts.executeStep()) {
        const std::string text = texts.getColumn(0).getString();
        EXPECT_NO_THROW(nlohmann::json(text).dump()) << text;
        all += text + "\n";
    }
    EXPECT_THAT(all, HasSubstr("registered \ufffd"));
    EXPECT_THAT(all, HasSubstr("fourteen bytes\ufffd"));
}

TEST(Recorder, KeepsANameOnceHoweverOftenItIsGiven) {
    static int times = 0;  // names stay in the process, so each run of the test needs new things to name
    const std::string domain_name = "of a busy namer " + std::to_string(++times);
    const auto tid = static_cast<std::uint32_t>(kNoTid + times);
    const nvtxDomainHandle_t domain = nvtxDomainCreateA(domain_name.c_str());
    const RecordedTrace trace([&](Recorder&) {
        for (const char* name : {"first", "first", "second", "second", "first"}) {
            nvtxDomainNameCategoryA(domain, 3, name);
            nvtxNameOsThreadA(tid, name);
        }
    });
    EXPECT_EQ(trace.text("SELECT group_concat(c.text) FROM NVTX_EVENTS AS c JOIN NVTX_EVENTS AS d ON d.eventType = 75 "
                         "AND d.domainId = c.domainId WHERE c.eventType = 33 AND d.text = '" +
                         domain_name + "'"),
              "first,second,first");
    EXPECT_EQ(
        trace.text("SELECT group_concat(value) FROM ThreadNames JOIN StringIds ON nameId = id WHERE globalTid = " +
                   std::to_string(std::int64_t{getpid()} << 24 | tid)),
        "first");
}

TEST(Recorder, NamesThreadsAsTheProgramDoesOrElseAsTheSystemDoes) {
    std::int64_t named = 0;
    std::int64_t unnamed = 0;
    const RecordedTrace trace([&](Recorder&) {
        std::thread([&] {
            named = global_tid();
            nvtxNameOsThreadA(static_cast<std::uint32_t>(gettid()), "lane 7");
            nvtxMarkA("x");
        }).join();
        std::thread([&] {
            unnamed = global_tid();
            pthread_setname_np(pthread_self(), "plain");
            nvtxMarkA("x");
        }).join();
    });
    const auto name = [&](std::int64_t tid) {
        return trace.text(
            "SELECT group_concat(value) FROM ThreadNames JOIN StringIds ON nameId = id WHERE globalTid = " +
            std::to_string(tid));
    };
    EXPECT_EQ(name(named), "lane 7");
    EXPECT_EQ(name(unnamed), "plain");
    EXPECT_EQ(trace.number("SELECT pid FROM PROCESSES"), getpid());
}

TEST(Recorder, MakesTasksOfTheEnginesRanges) {
    const TaskKey backward{4, TaskKind::backward, 1, 2, -1};
    const TaskKey optimizer{4, TaskKind::optimizer, -1, -1, -1};
    const RecordedTrace trace([&](Recorder& recorder) {
        recorder.set_pipeline({{"lane 0", "cpu"}, {"lane 1", "cuda:0"}},
                              {.num_partitions = 2, .num_micro_batches = 4, .placement = {LaneId{1}, LaneId{0}}});
        emit_task(backward);
        emit_task(optimizer);
    });
    const Timeline timeline = trace.reader().timeline(Source::measured);
    ASSERT_EQ(timeline.slices.size(), 1u);  // the optimizer belongs to no lane
    EXPECT_EQ(timeline.slices[0].key, backward);
    EXPECT_EQ(timeline.slices[0].lane, LaneId{0});  // partition 1 is placed on lane 0
    EXPECT_EQ(timeline.lanes.at(1).device, "cuda:0");
    EXPECT_EQ(trace.number("SELECT count(*) FROM PIPESCOPE_TASK WHERE kind = 'optimizer' AND lane IS NULL"), 1);
    EXPECT_EQ(trace.text("SELECT device FROM PIPESCOPE_TASK WHERE kind = 'backward'"), "cpu");
    EXPECT_EQ(
        trace.text("SELECT text FROM NVTX_EVENTS AS n JOIN PIPESCOPE_TASK AS t ON t.nvtxId = n.rowid WHERE t.kind = "
                   "'backward' AND t.start = n.start AND t.end = n.end"),
        "backward");
}

TEST(Recorder, PutsATaskOnItsPartitionsLaneUntilItKnowsThePlacement) {
    const RecordedTrace trace([](Recorder&) { emit_task({0, TaskKind::forward, 3, 0, -1}); });
    const Timeline timeline = trace.reader().timeline(Source::measured);
    ASSERT_EQ(timeline.slices.size(), 1u);
    EXPECT_EQ(timeline.slices[0].lane, LaneId{3});
    EXPECT_EQ(timeline.lanes.size(), 4u);
}

TEST(Recorder, MakesNoTasksOfOtherRanges) {
    const nvtxDomainHandle_t other = nvtxDomainCreateA("not the engine");
    const nvtxDomainHandle_t engine = nvtxDomainCreateA("pipescope");
    const RecordedTrace trace([&](Recorder&) {
        nvtxEventAttributes_t event = attributes("x");
        event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
        event.payload.ullValue = pack({0, TaskKind::forward, 0, 0, -1});
        nvtxDomainRangePushEx(other, &event);  // another domain
        nvtxDomainRangePop(other);
        event.payload.ullValue = std::uint64_t{15} << 36;  // no TaskKey: there is no kind 15
        nvtxDomainRangePushEx(engine, &event);
        nvtxDomainRangePop(engine);
        event.payloadType = NVTX_PAYLOAD_TYPE_INT64;  // not the documented type
        event.payload.ullValue = pack({0, TaskKind::forward, 0, 0, -1});
        nvtxDomainRangePushEx(engine, &event);
        nvtxDomainRangePop(engine);
    });
    EXPECT_EQ(trace.number("SELECT count(*) FROM PIPESCOPE_TASK"), 0);
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59"), 3);
}

TEST(Recorder, WritesWhatItIsToldBesideTheRanges) {
    const StepRecord step{1, Nanoseconds{2}, Nanoseconds{3}, Nanoseconds{1}, Nanoseconds{4}, 0.5, false};
    const MemorySample sample{LaneId{0}, Nanoseconds{9}, 1, 2, 3, 44};
    const DiagnosticRecord diagnostic{"info", "cupti", "off"};
    const RecordedTrace trace([&](Recorder& recorder) {
        recorder.set_run("model", R"("mlp")");
        recorder.set_profile("{}");
        recorder.add_step(step);
        recorder.add_memory(sample);
        recorder.add_diagnostic(diagnostic);
        EXPECT_THAT(thrown<TraceError>([&] { recorder.set_run("model", "mlp"); }), HasSubstr("JSON"));
    });
    const TraceReader reader = trace.reader();
    EXPECT_EQ(reader.run().at("model"), R"("mlp")");
    EXPECT_EQ(reader.profile_json(), "{}");
    EXPECT_THAT(reader.steps(), testing::ElementsAre(step));
    EXPECT_THAT(reader.memory(), testing::ElementsAre(sample));
    EXPECT_THAT(reader.diagnostics(), testing::ElementsAre(diagnostic));
}

TEST(Recorder, HasEveryRangeInTheFileAfterAFlush) {
    const TemporaryFolder folder;
    RecorderOptions options;
    options.path = folder / "t.sqlite";
    options.drain_period = std::chrono::hours{1};  // nothing is written unless a flush asks for it
    Recorder recorder(options);
    for (int k = 1; k <= 3; ++k) {
        emit_task({0, TaskKind::forward, 0, k, -1});
        recorder.flush();
        EXPECT_EQ(TraceReader(options.path).timeline(Source::measured).slices.size(), static_cast<std::size_t>(k));
    }
    recorder.stop();
    recorder.flush();  // afterwards it has nothing to wait for
}

TEST(Recorder, TellsItsClocksAndItsCost) {
    const auto wall_before = std::chrono::system_clock::now().time_since_epoch();
    const RecordedTrace trace([](Recorder&) { emit_range_from_library(); });
    const TraceReader reader = trace.reader();
    const auto clocks = reader.clocks();
    ASSERT_GE(clocks.size(), 2u);
    EXPECT_GT(clocks.back().monotonic, clocks.front().monotonic);
    EXPECT_GE(clocks.back().boottime, clocks.front().boottime);
    const Nanoseconds start{reader.utc_epoch_ns().value()};
    EXPECT_LT(start - wall_before, std::chrono::seconds{10});
    EXPECT_GT(start - wall_before, std::chrono::seconds{-1});
    std::map<std::string, std::int64_t> costs;
    for (const OverheadRecord& overhead : reader.overheads()) {
        EXPECT_EQ(overhead.source, "drain thread");
        costs[overhead.what] = overhead.value;
    }
    EXPECT_GT(costs.at("cpu_ns"), 0);
    EXPECT_EQ(costs.at("rows"), 1);
}

TEST(Recorder, RecordsAgainAndAgainInOneProcess) {
    for (int round = 0; round < 20; ++round) {
        const RecordedTrace trace([](Recorder&) {
            emit_task({0, TaskKind::forward, 0, 0, -1});
            std::thread([] { emit_task({0, TaskKind::forward, 1, 0, -1}); }).join();
        });
        EXPECT_EQ(trace.reader().timeline(Source::measured).slices.size(), 2u) << round;
    }
}

TEST(Recorder, DoesNotMistakeARangeFromBeforeForOneOfItsOwn) {
    nvtxRangePushA("before");
    const RecordedTrace trace([](Recorder&) {
        nvtxRangePushA("inside");
        nvtxRangePop();
        nvtxRangePop();  // of "before"
    });
    EXPECT_EQ(trace.text("SELECT group_concat(text) FROM NVTX_EVENTS WHERE eventType = 59"), "inside");
}
}  // namespace
}  // namespace pipescope
