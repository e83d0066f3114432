// `pipescope compare` and the viewer say the same of one file, however odd it is: the same figures, the same warnings,
// or the same reason why there is nothing to compare.
#include "analysis/trace_comparison.h"
#include "analysis/two_runs.h"
#include "answers/reports.h"
#include "cluster/step_parts.h"
#include "gui/document/baseline.h"
#include "gui/document/document_loader.h"
#include "gui/document/document_verdict.h"
#include "gui/document/step_analysis.h"
#include "profiler/profile/profile_file.h"
#include "tests/gui/sample_trace.h"
#include "tests/gui/window/nsys_export.h"
#include "trace/foreign/chrome_export.h"
#include "trace/open_trace.h"
#include "trace/store/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <functional>
#include <ostream>

namespace pipescope {
namespace {
using testing::HasSubstr;
using Steps = std::vector<std::int32_t>;
namespace fs = std::filesystem;

/// A file and what must be said of it.
struct OddFile {
    std::string name;
    std::function<void(const fs::path&)> write;
    Steps steps = {};          ///< compared; none: refused
    std::string says = {};     ///< in a warning, or in the refusal
    bool bubble_known = true;  ///< while there are steps

    friend std::ostream& operator<<(std::ostream& out, const OddFile& file) { return out << file.name; }
};

/// The sample run, whose step 0 is warm-up, and then changed.
std::function<void(const fs::path&)> sample(const std::string& sql = {}, const SampleRun& run = {}) {
    return [=](const fs::path& path) {
        writeSampleTrace(path, run);
        SQLite::Database(path.string(), SQLite::OPEN_READWRITE).exec(sql);
    };
}

/// Turns the sample run into one that `merge` makes of another program's files.
constexpr const char* kOfAnotherProgram =
    "DELETE FROM PIPESCOPE_PROFILE; DELETE FROM PIPESCOPE_RUN WHERE key IN ('configuration', 'pipeline', 'model');"
    "INSERT INTO PIPESCOPE_RUN VALUES ('source', '\"a trace\"')";

/// The sample run with another profile.
std::function<void(const fs::path&)> with_profile(const std::function<void(Profile&)>& change) {
    return [=](const fs::path& path) {
        writeSampleTrace(path);
        Profile profile = sampleProfile({});
        change(profile);
        SQLite::Database db(path.string(), SQLite::OPEN_READWRITE);
        SQLite::Statement update(db, "UPDATE PIPESCOPE_PROFILE SET profile = ?");
        update.bind(1, to_json(profile));
        update.exec();
    };
}

/// A pipeline whose simulated step takes 0 ns.
void write_without_costs(const fs::path& path) {
    with_profile([](Profile& profile) {
        for (LayerProfile& layer : profile.layers) {
            for (auto* times : {&layer.forward_ns, &layer.recompute_ns, &layer.backward_ns}) {
                times->assign(times->size(), 0);
            }
        }
        profile.loss_ns.assign(profile.loss_ns.size(), 0);
    })(path);
    PipelineOptions options = sampleOptions({});
    options.hardware.link = {};
    SQLite::Database db(path.string(), SQLite::OPEN_READWRITE);
    SQLite::Statement update(db, "UPDATE PIPESCOPE_RUN SET value = ? WHERE key = 'configuration'");
    update.bind(1, to_json(options));
    update.exec();
}

std::function<void(const fs::path&)> text(const std::string& content) {
    return [=](const fs::path& path) { std::ofstream(path, std::ios::binary) << content; };
}

void write_chrome_export(const fs::path& path) {
    const fs::path trace = path.string() + ".sqlite";
    writeSampleTrace(trace);
    std::ofstream out(path);
    export_chrome(open_trace(trace), out);
}

/// What recording a program beside PipeScope gives: ranges of somebody's NVTX domain, and no task.
void write_foreign_ranges(const fs::path& path) {
    TraceWriter writer(path, IfExists::replace);
    NvtxRecord range;
    range.text = "read a batch";
    range.start = 2000;
    range.end = 9000;
    range.global_tid = 9;
    writer.add_range(range);
    writer.close();
}

void write_nsys_export(const fs::path& path) {
    fs::copy_file(writeNsysExport("nsys_of_" + path.filename().string()), path, fs::copy_options::overwrite_existing);
}

const std::string kKilled = "DELETE FROM PIPESCOPE_RUN WHERE key = 'closed';";
const std::string kSilent = "DELETE FROM PIPESCOPE_STEP;";
const std::string kLose =
    "INSERT INTO PIPESCOPE_DROPS (source, thread, recorded, dropped, truncated, openAtExit) VALUES ";
const std::string kWithoutTime = "UPDATE PIPESCOPE_TASK SET end = start";
const std::string kAtOnce = "UPDATE PIPESCOPE_TASK SET start = 1000, end = 1000";

const std::vector<OddFile> kFiles{
    {"Whole", sample(), {1, 2}},
    {"OneStep", sample("DELETE FROM PIPESCOPE_STEP WHERE step = 2; DELETE FROM PIPESCOPE_TASK WHERE step = 2"), {1}},
    {"WarmUpOnly", sample("UPDATE PIPESCOPE_STEP SET warmup = 1"), {}, "holds warm-up steps only"},
    {"KilledAfterTheWarmUp",
     sample(kKilled + "DELETE FROM PIPESCOPE_STEP WHERE step > 0"),
     {},
     "holds warm-up steps only"},
    {"Killed",
     sample(kKilled + "DELETE FROM PIPESCOPE_STEP WHERE step = 2; DELETE FROM PIPESCOPE_TASK WHERE step = 2 "
                      "AND kind = 'backward' AND partition = 0"),
     {1},
     "was not closed"},
    {"SilentLoop", sample(kSilent), {0, 1, 2}},
    {"SilentLoopKilled", sample(kSilent + kKilled), {0, 1}, "was not closed"},
    {"SilentLoopKilledInItsOnlyStep",
     sample(kSilent + kKilled + "DELETE FROM PIPESCOPE_TASK WHERE step < 2"),
     {2},
     "was cut off in the only step",
     false},
    {"LossyRings",
     sample(kLose + "('nvtx', 1, 100, 7, 0, 0), ('nvtx', 2, 50, 0, 0, 0)"),
     {1, 2},
     "lost 7 of 157",
     false},
    {"LostDeviceRecords", sample(kLose + "('cupti', 1, 100, 7, 0, 0)"), {1, 2}, "CUPTI lost 7 records", false},
    {"LostRows", sample(kLose + "('trace', 0, 0, 9, 0, 0)"), {1, 2}, "9 rows could not be written", false},
    {"TruncatedAndOpenRanges", sample(kLose + "('nvtx', 1, 100, 0, 3, 2)"), {1, 2}},
    {"Diagnostics",
     sample("INSERT INTO PIPESCOPE_DIAGNOSTIC (severity, source, text) VALUES ('info', 'nvtx', 'all is well'), "
            "('warning', 'cupti', 'no device'), ('error', 'memory', 'no samples')"),
     {1, 2},
     "memory: no samples"},
    {"NoForwardInAStep", sample("DELETE FROM PIPESCOPE_TASK WHERE step = 1 AND kind = 'forward'"), {2}, "step 1"},
    {"NoTaskInAStep", sample("DELETE FROM PIPESCOPE_TASK WHERE step = 1"), {2}, "step 1"},
    {"NoBackwardInAnyStep", sample("DELETE FROM PIPESCOPE_TASK WHERE kind = 'backward'"), {}, "holds no whole step"},
    {"TasksWithoutTime", sample(kWithoutTime), {1, 2}},
    {"StepsWithoutTime", sample(kAtOnce), {}, "holds no whole step"},
    {"StepsWithoutTimeAndASilentLoop", sample(kSilent + kAtOnce), {}, "holds no whole step"},
    {"AStepWithoutTime", sample(kAtOnce + " WHERE step = 1"), {2}, "step 1"},
    {"ForwardsWithoutTime", sample(kWithoutTime + " WHERE kind = 'forward'"), {1, 2}},
    {"TasksWithoutATwin",
     sample("INSERT INTO PIPESCOPE_TASK (step, kind, partition, microBatch, lane, start, end, source, bytes) "
            "SELECT step, kind, 7, microBatch, lane, end, end + 9, source, 0 FROM PIPESCOPE_TASK "
            "WHERE kind = 'recompute' AND microBatch = 1;"
            "INSERT INTO PIPESCOPE_TASK (step, kind, partition, lane, start, end, source, bytes) SELECT step, "
            "'optimizer', partition, lane, end, end + 9, source, 0 FROM PIPESCOPE_TASK WHERE kind = 'backward' AND "
            "microBatch = 0"),
     {1, 2},
     "a task is of partition 7"},
    {"NoTaskOfALaneInAStep", sample("DELETE FROM PIPESCOPE_TASK WHERE step = 2 AND lane = 1"), {1}, "step 2;"},
    {"ATaskMissingInAStep",
     sample("DELETE FROM PIPESCOPE_TASK WHERE step = 1 AND lane = 0 AND kind = 'forward' AND microBatch = 2"),
     {2},
     "tasks of a lane are missing"},
    {"ARecomputeMissingInAStep",
     sample("DELETE FROM PIPESCOPE_TASK WHERE step = 1 AND lane = 0 AND kind = 'recompute' AND microBatch = 1"),
     {2},
     "tasks of a lane are missing"},
    {"ClocksThatDiffer",
     sample(std::string(kOfAnotherProgram) +
            "; UPDATE PIPESCOPE_TASK SET start = start + 2000000000, end = end + 2000000000 WHERE lane = 1"),
     {1, 2},
     "the lanes' times do not fit together",
     false},
    {"TasksOfALaneThatOverlap",
     sample("UPDATE PIPESCOPE_TASK SET start = start - 5000000 WHERE kind = 'backward' AND microBatch = 0 AND "
            "partition = 1"),
     {1, 2},
     "of one lane run at the same time"},
    {"LaneShiftedInOneProcess",
     sample("UPDATE PIPESCOPE_TASK SET start = start - 50000000, end = end - 50000000 WHERE lane = 1"),
     {1, 2},
     "all lanes have the same clock",
     false},
    {"NoForwardsOfAMicroBatchInAStep",
     sample("DELETE FROM PIPESCOPE_TASK WHERE step = 1 AND kind = 'forward' AND microBatch = 2"),
     {2},
     "tasks of a lane are missing"},
    {"ATaskMissingInAStepOfAnotherProgram",
     sample(std::string(kOfAnotherProgram) +
            "; DELETE FROM PIPESCOPE_TASK WHERE step = 1 AND lane = 0 AND kind = 'recompute' AND microBatch = 1"),
     {2},
     "tasks of a lane are missing"},
    {"FewerMicroBatchesInAStep",
     sample("DELETE FROM PIPESCOPE_TASK WHERE step = 1 AND microBatch = 3"),
     {2},
     "4 micro-batches are compared"},
    {"FewerMicroBatchesInAStepOfAnotherProgram",
     sample(std::string(kOfAnotherProgram) + "; DELETE FROM PIPESCOPE_TASK WHERE step = 1 AND microBatch = 3"),
     {2},
     "4 micro-batches are compared"},
    {"TasksTwiceInAStep",
     sample("INSERT INTO PIPESCOPE_TASK (step, kind, partition, microBatch, lane, start, end, source, bytes) SELECT "
            "step, kind, partition, microBatch, lane, start, end, source, bytes FROM PIPESCOPE_TASK WHERE step = 1"),
     {2},
     "were recorded twice"},
    {"NoTaskOfALane",
     sample("DELETE FROM PIPESCOPE_TASK WHERE lane = 1"),
     {1, 2},
     "lane 1 of the run's pipeline has no task",
     false},
    {"MoreLanesThanNamed", sample("UPDATE PIPESCOPE_RUN SET value = '[]' WHERE key = 'lanes'"), {1, 2}},
    {"StepsOutOfOrder",
     sample(kSilent + kKilled + "UPDATE PIPESCOPE_TASK SET step = 9 - step"),
     {9, 8},
     "was not closed"},
    {"NoWallTimes", sample("UPDATE PIPESCOPE_STEP SET wallStart = 0, wallEnd = 0"), {1, 2}},
    {"NoMemory", sample("DELETE FROM PIPESCOPE_MEMORY"), {1, 2}},
    {"NoMemoryHeld", sample("UPDATE PIPESCOPE_MEMORY SET allocated = 0, peak = 0 WHERE lane = 0"), {1, 2}},
    {"NoProfile", sample("DELETE FROM PIPESCOPE_PROFILE"), {}, "holds no profile"},
    {"BadProfile", sample("UPDATE PIPESCOPE_PROFILE SET profile = '{\"layers\": 3}'"), {}, "cannot be simulated"},
    {"NoConfiguration",
     sample("DELETE FROM PIPESCOPE_RUN WHERE key = 'configuration'"),
     {},
     "does not say what was run"},
    {"ConfigurationOfAnotherModel",
     with_profile([](Profile& profile) { profile.layers.pop_back(); }),
     {},
     "cannot be simulated"},
    {"LayersThatTakeNoTime", write_without_costs, {}, "cannot be compared"},
    {"EstimatedProfile", with_profile([](Profile& profile) { profile.estimated = true; }), {1, 2}, "are estimated"},
    {"BusyMachine",
     sample(R"(INSERT INTO PIPESCOPE_RUN VALUES ('load', '{"others": 0.5, "stolen": 0}'))"),
     {1, 2},
     "other processes took 50.00 %"},
    {"SimulatedTasksOnly", sample("UPDATE PIPESCOPE_TASK SET source = 'simulated'"), {}, "holds no measured task"},
    {"ForeignRanges", write_foreign_ranges, {}, "holds no measured task"},
    {"NsysExport", write_nsys_export, {}, "of each the forwards or the backwards were not recorded"},
    {"MergedRunOfAnotherProgram", sample(kOfAnotherProgram), {1, 2}, "measured from this trace, from 2 steps"},
    {"ChromeExport", write_chrome_export, {1, 2}},
    {"Kineto",
     text(R"({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 10, "dur": 30}]})"),
     {},
     "a trace of PyTorch's profiler and holds no measured task"},
    {"BareProfile", text(to_json(sampleProfile({}))), {}, "is a profile and holds no measured task"}};

class SameAnswers : public testing::TestWithParam<OddFile> {};

TEST_P(SameAnswers, OfCompareAndTheViewer) {
    const OddFile& file = GetParam();
    const fs::path path = temporaryPath("odd_" + file.name);
    file.write(path);
    const auto document = loadTrace(QString::fromStdString(path.string()));
    std::optional<TraceComparison> compared;
    std::string refusal;
    try {
        compared = compare_trace(path);
    } catch (const TraceFormatError& error) {
        refusal = error.what();
    }
    ASSERT_EQ(compared.has_value(), document->comparison.has_value()) << refusal << document->whyNotCompared;
    ASSERT_EQ(compared ? compared->comparison.steps : Steps{}, file.steps) << refusal;
    if (!compared) {
        EXPECT_THAT(refusal, HasSubstr(file.says));
        EXPECT_FALSE(document->whyNotCompared.empty());
        EXPECT_THAT(refusal, testing::StartsWith(path.string() + " " + document->whyNotCompared));
        return;
    }
    EXPECT_EQ(document->whyNotCompared, "");
    EXPECT_EQ(texts_of(compared->warnings).empty(), file.says.empty());
    EXPECT_THAT(testing::PrintToString(texts_of(compared->warnings)), HasSubstr(file.says));
    EXPECT_EQ(compared->lossy(), !file.bubble_known);
    EXPECT_EQ(document->whyNoBubble().isEmpty(), file.bubble_known);
    // The viewer does not replay, and tells what was recorded in its report.
    compared->comparison.replay.reset();
    TraceComparison viewed{*document->simulation, *document->comparison,          compared->drops,
                           document->warnings,    (*document->run.profile)->load, document->run.load};
    viewed.bubbles = compared->bubbles;
    viewed.kernels = compared->kernels;
    viewed.devices = compared->devices;
    viewed.verdict = verdictOf(*document, [] { return false; });
    viewed.profile_from_trace = document->run.of_another_program;
    if (!document->run.of_another_program || document->run.micro_batch_samples) {
        viewed.batch = document->run.options->batch;
    }
    EXPECT_EQ(dump(comparison_json(viewed)), dump(comparison_json(*compared)));
    // The viewer's bubbles of the step that `compare` lists, and of the simulated one.
    const StepAnalysis analysis(document, compared->bubbles.measured.step);
    for (const Source source : {Source::measured, Source::simulated}) {
        const BubbleReport& report =
            source == Source::measured ? compared->bubbles.measured : compared->bubbles.simulated;
        std::vector<Bubble> bubbles = analysis.bubbles(source);
        std::stable_sort(bubbles.begin(), bubbles.end(),
                         [](const Bubble& a, const Bubble& b) { return a.length() > b.length(); });
        if (source == Source::measured && !file.bubble_known) {
            EXPECT_TRUE(bubbles.empty()) << "what was lost may have run in them";
            continue;
        }
        ASSERT_GE(bubbles.size(), report.largest.size());
        for (std::size_t k = 0; k < report.largest.size(); ++k) {
            const ListedBubble viewedBubble = listed(bubbles[k], *analysis.tasks(source));
            EXPECT_EQ(viewedBubble.start, report.largest[k].start);
            EXPECT_EQ(viewedBubble.length, report.largest[k].length);
            EXPECT_EQ(viewedBubble.cause, report.largest[k].cause);
            EXPECT_EQ(viewedBubble.culprit, report.largest[k].culprit);
        }
    }
}

/// Two runs, before and after a change.
struct TwoFiles {
    std::string name;
    std::function<void(const fs::path&)> before;
    std::function<void(const fs::path&)> after;

    friend std::ostream& operator<<(std::ostream& out, const TwoFiles& files) { return out << files.name; }
};

/// A run of a layout on a cluster, whose tasks take so many times their time.
std::function<void(const fs::path&)> layout(int times) {
    return [=](const fs::path& path) {
        writeClusterTrace(path);
        SQLite::Database(path.string(), SQLite::OPEN_READWRITE)
            .exec("UPDATE PIPESCOPE_TASK SET source = 'measured', start = start * " + std::to_string(times) +
                  ", end = end * " + std::to_string(times));
    };
}

const SampleRun kSlower{.forward_ns = 20'000'000};
const std::vector<TwoFiles> kPairs{
    {"Slower", sample(), sample({}, kSlower)},
    {"OfOneStep", sample(), sample("DELETE FROM PIPESCOPE_STEP WHERE step = 2")},
    {"OfAnotherBalance", sample(), sample({}, {.partitions = 3})},
    {"LossyBefore", sample(kLose + "('nvtx', 1, 100, 7, 0, 0)"), sample({}, kSlower)},
    {"LaneMissingAfter", sample(), sample("DELETE FROM PIPESCOPE_TASK WHERE lane = 1")},
    {"OddSteps", sample("DELETE FROM PIPESCOPE_TASK WHERE step = 1 AND kind = 'forward'"), sample({}, kSlower)},
    {"OverlapsBefore",
     sample("UPDATE PIPESCOPE_TASK SET start = start - 5000000 WHERE kind = 'backward' AND microBatch = 0 AND "
            "partition = 1"),
     sample()},
    {"OfAnotherProgram", sample(kOfAnotherProgram), sample(kOfAnotherProgram, kSlower)},
    {"SimulationBefore", [](const fs::path& path) { writeSimulatedTrace(path); }, sample()},
    {"LayoutsOnAClusterSlower", layout(1), layout(2)},
    {"LayoutsOnAClusterFaster", layout(3), layout(2)}};

class SameAnswersOnTwoRuns : public testing::TestWithParam<TwoFiles> {};

TEST_P(SameAnswersOnTwoRuns, OfCompareAndTheViewer) {
    const fs::path before = temporaryPath("before_" + GetParam().name);
    const fs::path after = temporaryPath("after_" + GetParam().name);
    GetParam().before(before);
    GetParam().after(after);
    const TwoRuns compared = compare_two_runs(before, after);
    const auto load = [](const fs::path& path) { return loadTrace(QString::fromStdString(path.string())); };
    const auto viewed = withBaseline(*load(after), baselineOf(*load(before)));
    const auto expect_same = [](const std::optional<MeanDifference>& own, const std::optional<MeanDifference>& other) {
        ASSERT_EQ(own.has_value(), other.has_value());
        if (own) {
            EXPECT_EQ(own->before, other->before);
            EXPECT_EQ(own->after, other->after);
            EXPECT_EQ(own->exceeds_noise(), other->exceeds_noise());
        }
    };
    expect_same(viewed->stepChange, compared.changes.step);
    expect_same(viewed->bubbleChange, compared.changes.bubble);
    EXPECT_EQ(viewed->whyNoTwins, compared.why_no_tasks);
    EXPECT_EQ(viewed->whyNoBubble().isEmpty(), !compared.after.lossy());
    EXPECT_EQ(viewed->baseline->whyNoBubble.isEmpty(), !compared.before.lossy());
    const std::string notes = viewed->notes.join(u'\n').toStdString();
    for (const std::string& warning : texts_of(compared.before.warnings)) {
        EXPECT_THAT(notes, HasSubstr(warning));
    }
    ASSERT_TRUE(compared.before.figures && compared.after.figures && viewed->comparison);
    const Comparison& comparison = *viewed->comparison;
    EXPECT_EQ(comparison.steps, compared.after.figures->steps);
    EXPECT_EQ(comparison.measured_step_mean, compared.after.figures->step_mean);
    EXPECT_EQ(comparison.simulated_step_mean, compared.before.figures->step_mean);
    if (compared.changes.step) {
        const double change = compared.changes.step->before / compared.changes.step->after - 1;
        EXPECT_NEAR(comparison.step_error, change, 1e-9) << "a layout's step is the whole one, on both sides";
    }
    for (std::size_t lane = 0; lane < comparison.lanes.size(); ++lane) {
        const auto peak_in = [lane](const ComparedRun& run) {
            return lane < run.figures->lanes.size() ? run.figures->lanes[lane].peak_bytes : std::nullopt;
        };
        EXPECT_EQ(comparison.lanes[lane].measured_peak_bytes, peak_in(compared.after)) << lane;
        EXPECT_EQ(comparison.lanes[lane].simulated_peak_bytes, peak_in(compared.before)) << lane;
    }
    const auto differences = [](const std::vector<ComparedTask>& worst) {
        std::vector<std::int64_t> all;
        for (const ComparedTask& each : worst) {
            all.push_back((each.measured - each.simulated).count());
        }
        return all;
    };
    EXPECT_EQ(differences(comparison.worst), differences(compared.worst));
}

INSTANTIATE_TEST_SUITE_P(Changed, SameAnswersOnTwoRuns, testing::ValuesIn(kPairs),
                         [](const auto& test) { return test.param.name; });

TEST(SameAnswersToDamage, OfCompareAndTheViewer) {
    const fs::path path = temporaryPath("damaged_values.sqlite");
    const auto refusal = [](const auto& read) -> std::string {
        try {
            read();
        } catch (const TraceFormatError& error) {
            return error.what();
        }
        return "accepted";
    };
    for (const char* sql :
         {"UPDATE PIPESCOPE_TASK SET start = 'late' WHERE id = 5",
          "UPDATE PIPESCOPE_TASK SET partition = -3 WHERE id = 5",
          "UPDATE PIPESCOPE_TASK SET end = 9223372036854775807 WHERE id = 5", "UPDATE PIPESCOPE_STEP SET start = 1e300",
          "UPDATE PIPESCOPE_MEMORY SET allocated = 'much'"}) {
        sample(sql)(path);
        const std::string compared = refusal([&] { compare_trace(path); });
        EXPECT_THAT(compared, HasSubstr("is damaged")) << sql;
        EXPECT_EQ(refusal([&] { loadTrace(QString::fromStdString(path.string())); }), compared) << sql;
    }
}

INSTANTIATE_TEST_SUITE_P(Odd, SameAnswers, testing::ValuesIn(kFiles), [](const auto& test) { return test.param.name; });
}  // namespace
}  // namespace pipescope
