#include "gui/document/document_loader.h"

#include "analysis/stored_simulation.h"
#include "analysis/trace_comparison.h"
#include "base/error.h"
#include "base/stop_check.h"
#include "cluster/step_parts.h"
#include "gui/document/baseline.h"
#include "gui/document/headlines.h"
#include "gui/document/scenario.h"
#include "gui/document/step_history.h"
#include "gui/document/task_loading.h"
#include "gui/document/throughput.h"
#include "gui/document/viewed_files.h"
#include "gui/style/number_format.h"
#include "gui/tables/selection_facts.h"
#include "gui/tables/task_details.h"
#include "profiler/profile/profile_file.h"
#include "simulator/search/automatic_schedule.h"
#include "tests/gui/sample_trace.h"
#include "tests/thrown.h"
#include "tests/trace/rank_files.h"
#include "trace/foreign/chrome_export.h"
#include "trace/open_trace.h"
#include "trace/store/trace_reader.h"
#include "trace/store/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <stop_token>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::shared_ptr<const TraceDocument> load(const std::string& name, const SampleRun& run = {}) {
    const auto path = temporaryPath(name);
    writeSampleTrace(path, run);
    return loadTrace(QString::fromStdString(path.string()));
}

QString pathOf(const std::string& name, const std::string& content) {
    const auto path = temporaryPath(name);
    std::ofstream(path, std::ios::binary) << content;
    return QString::fromStdString(path.string());
}

TEST(DocumentLoader, SimulatesWhatWasMeasuredAndCompares) {
    const auto document = load("both.sqlite");
    ASSERT_TRUE(document->measured && document->simulated && document->comparison);
    EXPECT_EQ(document->measured->numSlices(), 3 * document->simulated->numSlices());
    EXPECT_EQ(document->comparison->tasks_unmatched, 0);
    EXPECT_EQ(document->comparison->steps, (std::vector<std::int32_t>{1, 2}));  // step 0 is warm-up
    EXPECT_FALSE(document->measuredMemory->empty());
    ASSERT_TRUE(document->run.profile);
    EXPECT_EQ(*document->run.profile, sampleProfile({}));
    EXPECT_THAT(document->memoryLimits, testing::Each(Bytes{1} << 30));
    EXPECT_FALSE(document->memoryLimits.empty());
    EXPECT_TRUE(document->messages().isEmpty()) << document->messages().join(QLatin1Char('\n')).toStdString();
}

// Hundreds of simulations of a large pipeline take a minute.
TEST(DocumentLoader, ShowsALargePipelineBeforeItsNoiseIsKnown) {
    SampleRun run;
    run.partitions = 4;
    run.chunks = 520;
    run.steps = 2;
    run.cv = 0.05;
    run.memory = false;
    for (const bool measured : {true, false}) {
        const auto path = temporaryPath(measured ? "large_measured.sqlite" : "large_simulated.sqlite");
        measured ? writeSampleTrace(path, run) : writeSimulatedTrace(path, run);
        std::vector<std::shared_ptr<const TraceDocument>> published;
        loadDocument(QString::fromStdString(path.string()),
                     [&](std::shared_ptr<const TraceDocument> document) { published.push_back(std::move(document)); });
        ASSERT_GE(published.size(), 2U);
        const TraceDocument& first = *published[published.size() - 2];
        const TraceDocument& last = *published.back();
        ASSERT_TRUE(first.simulation && last.simulation);
        EXPECT_FALSE(first.complete);
        EXPECT_TRUE(first.simulated);
        EXPECT_FALSE(first.simulation->noise);
        EXPECT_TRUE(first.noiseLeftOut);
        EXPECT_THAT(simulatedHeadline(first, 0).toStdString(), HasSubstr("without noise so far"));
        EXPECT_TRUE(last.complete);
        EXPECT_FALSE(last.noiseLeftOut);
        ASSERT_TRUE(last.simulation->noise);
        const Simulation whole = simulate(sampleProfile(run), sampleOptions(run));
        EXPECT_EQ(last.simulation->noise, whole.noise);
        if (measured) {
            ASSERT_TRUE(first.comparison && last.comparison);
            EXPECT_FALSE(first.comparison->judged().is_mean);
            EXPECT_TRUE(last.comparison->judged().is_mean);
        } else {
            EXPECT_THAT(comparisonHeadline(first).toStdString(), HasSubstr("expected step follows"));
            EXPECT_EQ(comparisonHeadline(last).toStdString(), "");
        }
    }
}

TEST(DocumentLoader, LeavesTheNoiseOfALargePipelineOutOnRequest) {
    SampleRun run;
    run.partitions = 4;
    run.chunks = 520;
    run.steps = 2;
    run.cv = 0.05;
    run.memory = false;
    const auto measured = temporaryPath("quick.sqlite");
    writeSampleTrace(measured, run);
    const auto exported = temporaryPath("quick.json");
    std::ofstream out(exported);
    export_chrome(open_trace(measured), out);
    out.close();
    for (const auto& path : {measured, exported}) {
        const auto quick = loadTrace(QString::fromStdString(path.string()), 4 * 520 - 1);
        EXPECT_TRUE(quick->complete);
        EXPECT_TRUE(quick->noiseLeftOut);
        ASSERT_TRUE(quick->simulation && quick->comparison);
        EXPECT_FALSE(quick->simulation->noise);
        EXPECT_THAT(simulatedHeadline(*quick, 0).toStdString(),
                    HasSubstr("without noise, whose simulation takes long"));
        const auto whole = loadTrace(QString::fromStdString(path.string()), 4 * 520);
        EXPECT_FALSE(whole->noiseLeftOut);
        EXPECT_TRUE(whole->simulation->noise);
        EXPECT_TRUE(whole->comparison->judged().is_mean);
    }
}

// The noise is that of the simulation, whose tasks are others.
TEST(DocumentLoader, AddsNoNoiseToStoredTasksThatDiffer) {
    SampleRun run;
    run.partitions = 4;
    run.chunks = 520;
    run.cv = 0.05;
    run.memory = false;
    const auto path = temporaryPath("large_changed.sqlite");
    writeSimulatedTrace(path, run);
    SQLite::Database(path.string(), SQLite::OPEN_READWRITE)
        .exec("UPDATE PIPESCOPE_TASK SET end = end + 1000 WHERE kind = 'loss'");
    const auto document = loadTrace(QString::fromStdString(path.string()));
    ASSERT_TRUE(document->simulation);
    EXPECT_TRUE(document->complete);
    EXPECT_FALSE(document->simulation->noise);
    EXPECT_FALSE(document->noiseLeftOut);
}

TEST(DocumentLoader, KnowsHowBusyThreadsAre) {
    const auto document = loadTrace(pathOf("busy_threads.json", R"([
        {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 0, "dur": 100},
        {"ph": "X", "name": "b", "pid": 1, "tid": 1, "ts": 10, "dur": 20},
        {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 300, "dur": 50},
        {"ph": "b", "cat": "io", "id": 1, "name": "r", "pid": 1, "tid": 2, "ts": 0},
        {"ph": "b", "cat": "io", "id": 2, "name": "r", "pid": 1, "tid": 2, "ts": 50},
        {"ph": "e", "cat": "io", "id": 1, "name": "r", "pid": 1, "tid": 2, "ts": 100},
        {"ph": "e", "cat": "io", "id": 2, "name": "r", "pid": 1, "tid": 2, "ts": 150}])"));
    const std::vector<LaneFacts> threads = threadFacts(*document);
    ASSERT_EQ(threads.size(), 2U);
    EXPECT_EQ(threads[0].measuredBusy, Nanoseconds{150'000}) << "a nested range counts once";
    EXPECT_EQ(threads[1].measuredBusy, Nanoseconds{150'000}) << "ranges that overlap count once";
    EXPECT_EQ(busyIn(*document->tracks, threadsOf(*document->tracks)[0], {50'000, 320'000}), 70'000);
}

TEST(DocumentLoader, DoesNotTakeAProfilersMarksOfStepsForWork) {
    const auto document = loadTrace(pathOf("marked_threads.json", R"([
        {"ph": "X", "name": "ProfilerStep#0", "pid": 1, "tid": 1, "ts": 0, "dur": 100},
        {"ph": "X", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 20},
        {"ph": "X", "name": "ProfilerStep#0", "pid": 1, "tid": 2, "ts": 0, "dur": 100}])"));
    const std::vector<LaneFacts> threads = threadFacts(*document);
    ASSERT_EQ(threads.size(), 2U);
    EXPECT_EQ(threads[0].measuredBusy, Nanoseconds{20'000});
    EXPECT_EQ(threads[1].measuredBusy, Nanoseconds{100'000}) << "the thread holds nothing else";
}

// PyTorch's profiler shows a range of the host on the stream, from its first kernel to its last one.
TEST(DocumentLoader, TakesOnlyWorkForAStreamsBusyTime) {
    const auto document = loadTrace(pathOf("annotated_stream.json", R"([
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7"}},
        {"ph": "X", "cat": "user_annotation", "name": "block", "pid": 1, "tid": 1, "ts": 0, "dur": 40},
        {"ph": "X", "cat": "gpu_user_annotation", "name": "block", "pid": 0, "tid": 7, "ts": 10, "dur": 90},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 5},
        {"ph": "X", "cat": "gpu_memcpy", "name": "copy", "pid": 0, "tid": 7, "ts": 20, "dur": 4},
        {"ph": "X", "cat": "gpu_memset", "name": "fill", "pid": 0, "tid": 7, "ts": 23, "dur": 3},
        {"ph": "X", "cat": "cuda_sync", "name": "wait", "pid": 0, "tid": 7, "ts": 30, "dur": 60},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 95, "dur": 5}])"));
    const std::vector<LaneFacts> threads = threadFacts(*document);
    ASSERT_EQ(threads.size(), 3U);
    EXPECT_TRUE(threads[0].lane.endsWith(QStringLiteral("stream 7")));
    EXPECT_EQ(threads[0].measuredBusy, Nanoseconds{16'000});
    EXPECT_TRUE(threads[1].lane.endsWith(QStringLiteral("stream 7, annotations")));
    EXPECT_EQ(threads[1].measuredBusy, std::nullopt);
    EXPECT_EQ(threads[2].measuredBusy, Nanoseconds{40'000});
}

TEST(DocumentLoader, SaysThatOnlyOneRunsStepsIncludeTheUpdate) {
    const auto document = load("updates.sqlite");
    auto staggered = std::make_shared<Baseline>(*baselineOf(*document));
    EXPECT_THAT(withBaseline(*document, staggered)->messages().join(QLatin1Char('\n')).toStdString(),
                Not(HasSubstr("include the update")));
    staggered->compared.run.options->update = Update::staggered;
    EXPECT_THAT(withBaseline(*document, staggered)->messages().join(QLatin1Char('\n')).toStdString(),
                HasSubstr("steps of the run before include the update of the parameters"));
}

TEST(DocumentLoader, ShowsTheMeasuredSideAloneWithoutAProfileAndSaysWhy) {
    SampleRun run;
    run.profile = false;
    const auto document = load("no_profile.sqlite", run);
    EXPECT_TRUE(document->measured);
    EXPECT_FALSE(document->simulated);
    EXPECT_THAT(document->messages().join(QLatin1Char('\n')).toStdString(), HasSubstr("holds no profile"));
}

TEST(DocumentLoader, ShowsTheThreadsAloneOfATraceWithRangesAndNoTask) {
    const auto path = temporaryPath("ranges_only.sqlite");
    {
        TraceWriter writer(path, IfExists::replace);
        NvtxRecord range;
        range.text = "read a batch";
        range.start = 2000;
        range.end = 9000;
        range.global_tid = 9;
        writer.add_range(range);
        writer.close();
    }
    const auto document = loadTrace(QString::fromStdString(path.string()));
    EXPECT_FALSE(document->measured);
    EXPECT_FALSE(document->simulated);
    ASSERT_TRUE(document->tracks);
    EXPECT_TRUE(document->complete);
    EXPECT_THAT(document->messages().join(QLatin1Char('\n')).toStdString(), HasSubstr("no task of a pipeline"));
    TraceWriter(path, IfExists::replace).close();
    EXPECT_THAT(thrown<Error>([&] { loadTrace(QString::fromStdString(path.string())); }),
                AllOf(HasSubstr("ranges_only.sqlite"), HasSubstr("holds no task and no range")));
}

TEST(DocumentLoader, ShowsATraceOfCountersAlone) {
    const auto path = temporaryPath("counters.json");
    std::ofstream(path) << R"([{"ph": "C", "name": "queue", "pid": 1, "ts": 15, "args": {"length": 3}}])";
    const auto document = loadTrace(QString::fromStdString(path.string()));
    ASSERT_TRUE(document->tracks);
    EXPECT_EQ(document->tracks->counters.size(), 1U);
    EXPECT_THAT(document->messages().join(QLatin1Char('\n')).toStdString(), HasSubstr("holds no measured task"));
}

TEST(DocumentLoader, SaysThatATaskIsOfAPartitionThatThePipelineLacks) {
    const auto path = temporaryPath("partition.sqlite");
    writeSampleTrace(path);
    const auto told = [&] {
        return loadTrace(QString::fromStdString(path.string()))->messages().join(QLatin1Char(' '));
    };
    EXPECT_THAT(told().toStdString(), Not(HasSubstr("a task is of partition")));
    SQLite::Database(path.string(), SQLite::OPEN_READWRITE)
        .exec("UPDATE PIPESCOPE_TASK SET partition = 9 WHERE id = (SELECT max(id) FROM PIPESCOPE_TASK)");
    EXPECT_THAT(told().toStdString(), AllOf(HasSubstr("a task is of partition 9"), HasSubstr("record it again")));
    EXPECT_THAT(texts_of(compare_trace(path).warnings), testing::Contains(HasSubstr("a task is of partition 9")));
}

TEST(DocumentLoader, ComparesTheStepsThatAreWholeAndNamesTheOthers) {
    const auto path = temporaryPath("halves.sqlite");
    writeSampleTrace(path, {}, 3);
    const auto lose = [&](const std::string& what) {
        SQLite::Database(path.string(), SQLite::OPEN_READWRITE).exec("DELETE FROM PIPESCOPE_TASK WHERE " + what);
        return loadTrace(QString::fromStdString(path.string()));
    };
    const auto whole = lose("0");
    EXPECT_EQ(whole->comparison->steps, (std::vector<std::int32_t>{1, 2}));
    const auto half = lose("step = 1 AND kind = 'backward'");
    ASSERT_TRUE(half->comparison);
    EXPECT_EQ(half->comparison->steps, (std::vector<std::int32_t>{2}));
    EXPECT_EQ(half->comparableSteps, 1u);
    EXPECT_THAT(half->messages().join(QLatin1Char('\n')).toStdString(),
                AllOf(HasSubstr("was not recorded, or takes no time: step 1"), HasSubstr("lost 3 of")));
    const auto none = lose("step = 2 AND kind = 'forward'");
    EXPECT_FALSE(none->comparison);
    EXPECT_THAT(none->messages().join(QLatin1Char('\n')).toStdString(), HasSubstr("No comparison"));
}

TEST(DocumentLoader, TellsApartWhatEachSourceLost) {
    const auto path = temporaryPath("sources.sqlite");
    writeSampleTrace(path);
    SQLite::Database(path.string(), SQLite::OPEN_READWRITE)
        .exec(
            "INSERT INTO PIPESCOPE_DROPS (source, thread, recorded, dropped, truncated, openAtExit) VALUES "
            "('cupti', 1, 100, 7, 0, 0), ('trace', 0, 0, 9, 0, 0)");
    const auto document = loadTrace(QString::fromStdString(path.string()));
    EXPECT_THAT(document->messages().join(QLatin1Char('\n')).toStdString(),
                AllOf(HasSubstr("CUPTI lost 7 records of device work"), HasSubstr("9 rows could not be written"),
                      testing::Not(HasSubstr("recorder lost"))));
    EXPECT_THAT(measuredHeadline(*document, 1).toStdString(), HasSubstr("not given, records were lost"));
}

TEST(DocumentLoader, GivesNoBubbleInTheTraceOfOneRankAloneAndSaysWhy) {
    const auto path = temporaryPath("one_rank.sqlite");
    writeSampleTrace(path);
    SQLite::Database(path.string(), SQLite::OPEN_READWRITE)
        .exec("INSERT INTO PIPESCOPE_RUN VALUES ('process', '{\"rank\": 1, \"size\": 2}')");
    const auto document = loadTrace(QString::fromStdString(path.string()));
    EXPECT_EQ(document->whyNoBubble(1), QStringLiteral("this is the trace of one rank alone"));
}

TEST(DocumentLoader, FindsClocksThatDifferInARunThatCannotBeSimulated) {
    const auto path = temporaryPath("clocks_without_profile.sqlite");
    writeSampleTrace(path);
    SQLite::Database(path.string(), SQLite::OPEN_READWRITE)
        .exec(
            "DELETE FROM PIPESCOPE_PROFILE; INSERT INTO PIPESCOPE_RUN VALUES ('processes', "
            "'[{\"rank\": 0, \"size\": 2, \"bound_ns\": 0}, {\"rank\": 1, \"size\": 2, \"bound_ns\": 9}]');"
            "UPDATE PIPESCOPE_TASK SET start = start + 2000000000, end = end + 2000000000 WHERE lane = 1");
    const auto document = loadTrace(QString::fromStdString(path.string()));
    EXPECT_THAT(document->whyNotCompared, HasSubstr("holds no profile"));
    EXPECT_THAT(document->messages().join(QLatin1Char('\n')).toStdString(),
                HasSubstr("the lanes' times do not fit together"));
    EXPECT_EQ(document->whyNoBubble(1), QStringLiteral("times of different lanes do not fit together"));
}

// A kill leaves the last step incomplete: missing tasks would count as idle time.
TEST(DocumentLoader, GivesNoBubbleOfAStepThatAKillCutShort) {
    const auto path = temporaryPath("killed.sqlite");
    writeSampleTrace(path);
    const auto with = [&](const std::string& sql) {
        SQLite::Database(path.string(), SQLite::OPEN_READWRITE).exec(sql);
        return loadTrace(QString::fromStdString(path.string()));
    };
    const auto expectOnlyStep2Cut = [](const TraceDocument& document) {
        EXPECT_THAT(measuredHeadline(document, 2).toStdString(), HasSubstr("bubble not given, the recording was cut"));
        EXPECT_FALSE(laneFacts(document, 2).at(0).measuredBubble);
        EXPECT_THAT(measuredHeadline(document, 1).toStdString(), testing::Not(HasSubstr("not given")));
        EXPECT_TRUE(laneFacts(document, 1).at(0).measuredBubble);
        EXPECT_THAT(comparisonHeadline(document).toStdString(), HasSubstr("bubble"));
    };
    EXPECT_TRUE(laneFacts(*with("DELETE FROM PIPESCOPE_STEP WHERE step = 2"), 2).at(0).measuredBubble)
        << "it is closed";
    const auto killed = with("DELETE FROM PIPESCOPE_RUN WHERE key = 'closed'");
    expectOnlyStep2Cut(*killed);
    EXPECT_EQ(killed->comparison->steps, (std::vector<std::int32_t>{1}));
    const auto silent = with("DELETE FROM PIPESCOPE_STEP");
    expectOnlyStep2Cut(*silent);
    EXPECT_EQ(silent->comparison->steps, (std::vector<std::int32_t>{0, 1}));
    const auto only = with("DELETE FROM PIPESCOPE_TASK WHERE step < 2");
    EXPECT_EQ(only->comparison->steps, (std::vector<std::int32_t>{2}));
    EXPECT_THAT(comparisonHeadline(*only).toStdString(), testing::Not(HasSubstr("bubble")));
}

TEST(DocumentLoader, StartsTheSimulatedStepWhereTheMeasuredOneStarts) {
    const auto document = load("shift.sqlite");
    for (const std::int32_t step : {0, 1, 2}) {
        EXPECT_EQ(document->simulated->steps().front().range().start + simulatedShift(*document, step),
                  document->measured->step(step)->range().start);
    }
}

TEST(DocumentLoader, GivesEveryTaskItsTwin) {
    const auto document = load("twins.sqlite");
    for (std::uint32_t row = 0; row < document->measured->rows().size(); ++row) {
        for (std::uint32_t i = 0; i < document->measured->rows()[row].start.size(); ++i) {
            const TaskKey key = document->measured->slice({row, i}).key;
            const auto twin = twinOf(*document, Source::measured, {row, i}, key.step);
            ASSERT_TRUE(twin) << to_string(key);
            TaskKey expected = key;
            expected.step = 0;
            EXPECT_EQ(document->simulated->slice(*twin).key, expected);
            EXPECT_EQ(twinOf(*document, Source::simulated, *twin, key.step), (SliceRef{row, i}));
        }
    }
}

TEST(DocumentLoader, DescribesATaskAgainstItsTwin) {
    const auto document = load("facts.sqlite");
    const TaskKey key{1, TaskKind::backward, 1, 2, -1};
    const SliceRef slice = *document->measured->find(key);
    const auto twin = twinOf(*document, Source::measured, slice, 1);
    const TaskFacts facts = taskFacts(*document, {Source::measured, slice, twin}, 1);
    EXPECT_EQ(facts.title, QStringLiteral("backward of micro-batch 2 on partition 1"));
    EXPECT_TRUE(facts.twin);
    EXPECT_TRUE(facts.whyNoTwin.isEmpty());
    EXPECT_TRUE(facts.change.duration.contains(QLatin1Char('%'))) << facts.change.duration.toStdString();
    EXPECT_FALSE(taskFacts(*document, {Source::measured, slice, std::nullopt}, 1).whyNoTwin.isEmpty());
}

// A trace of simulate --cluster has the step, rates and modes that the command prints.
TEST(DocumentLoader, ShowsTheWholeStepOfALayoutOnACluster) {
    const auto path = temporaryPath("cluster.sqlite");
    const LayoutStep step = writeClusterTrace(path);
    const auto document = loadTrace(QString::fromStdString(path.string()));
    const Nanoseconds whole{std::llround(step.step_ns())};
    ASSERT_GT(whole, step.simulation.step_time);
    EXPECT_THAT(
        simulatedHeadline(*document, 0).toStdString(),
        AllOf(HasSubstr("checkpoint always"), HasSubstr("step time " + formatDuration(whole.count()).toStdString()),
              HasSubstr("its pipeline " + formatDuration(step.simulation.step_time.count()).toStdString()),
              HasSubstr(formatPerSecond(step.tokens_per_second()).toStdString() + " tokens/s")));
    const SelectionFacts facts = factsOf(*document, StepAnalysis(document, 0), 0, {}, {});
    const std::vector<FactRow>& rows = facts.sections.front().rows;
    EXPECT_EQ(rows.at(0).simulated, formatDuration(whole.count())) << rows.at(0).name.toStdString();
    EXPECT_EQ(rows.at(1).name, QStringLiteral("Its pipeline"));
    EXPECT_EQ(rows.at(1).simulated, formatDuration(step.simulation.step_time.count()));
    EXPECT_EQ(stepHistory(*document).steps.front().time, whole);
    const auto after = withBaseline(*load("after_cluster.sqlite"), baselineOf(*document));
    EXPECT_THAT(simulatedHeadline(*after, 1).toStdString(),
                HasSubstr("step time " + formatDuration(whole.count()).toStdString() + ", its pipeline "));
    EXPECT_EQ(after->baseline->compared.figures->step_mean, whole);
    const auto rates = ratesOf(throughputOf(*after, Source::simulated, whole));
    EXPECT_EQ(rates[1].value, formatPerSecond(step.tokens_per_second())) << "of the whole step, counted once";
    const Throughput found = throughputOf(*document, Source::simulated, whole);
    EXPECT_NEAR(*found.tflops, step.tflops_per_device().value() * 16, 1e-6 * *found.tflops);
    EXPECT_NEAR(*found.utilization, step.tflops_per_device().value() * 1e12 / *device_peak("A100", "bfloat16"), 1e-6);
    EXPECT_EQ(optimizerText(document->run, *document->run.options), QStringLiteral("adam"));
    EXPECT_THAT(document->messages().join(QLatin1Char('\n')).toStdString(),
                HasSubstr("the pipeline of one tensor-parallel rank of one replica"));
}

TEST(DocumentLoader, SaysThatRulesNameNoSteps) {
    const QString path = pathOf("unnamed_steps.json", R"([
        {"ph": "X", "name": "iteration 0", "ts": 0, "dur": 90, "pid": 1, "tid": 1},
        {"ph": "X", "name": "Forward 0", "ts": 1, "dur": 10, "pid": 1, "tid": 2},
        {"ph": "X", "name": "Backward 0", "ts": 20, "dur": 10, "pid": 1, "tid": 2},
        {"ph": "X", "name": "iteration 1", "ts": 100, "dur": 90, "pid": 1, "tid": 1},
        {"ph": "X", "name": "Forward 1", "ts": 101, "dur": 10, "pid": 1, "tid": 2},
        {"ph": "X", "name": "Backward 1", "ts": 120, "dur": 10, "pid": 1, "tid": 2}])");
    const auto document = loadTrace(path);
    ASSERT_TRUE(document->measured);
    EXPECT_EQ(document->measured->steps().size(), 1U);
    EXPECT_THAT(document->messages().join(QLatin1Char('\n')).toStdString(),
                HasSubstr("ranges of 2 steps, but no task rule names them"));
}

// Another run may take a file's name while it is shown.
TEST(DocumentLoader, QueriesOnlyTheFileThatItRead) {
    const auto path = temporaryPath("replaced.sqlite");
    const auto other = temporaryPath("another.sqlite");
    writeSampleTrace(path);
    writeSampleTrace(other);
    ViewedFiles files({QString::fromStdString(path.string())});
    files.fileToRead();
    EXPECT_EQ(files.database(), files.files().front());
    std::filesystem::rename(other, path);
    EXPECT_THAT(thrown<Error>([&] { files.database(); }), HasSubstr("another one took its place"));
    files.fileToRead();
    EXPECT_EQ(files.database(), files.files().front());
    std::filesystem::remove(path);
    EXPECT_THAT(thrown<Error>([&] { files.database(); }), HasSubstr("was deleted or moved"));
}

TEST(DocumentLoader, TellsHowMuchOfSeveralFilesIsJoined) {
    QStringList paths;
    for (int rank = 0; rank < 2; ++rank) {
        const auto path = temporaryPath("joined.rank" + std::to_string(rank) + ".json");
        paths << QString::fromStdString(
            RankFile(rank, 2).range("Forward 0", 10, 20).write(path, 1'790'857'026'000'000'000).string());
    }
    std::vector<double> told;
    ViewedFiles(paths).fileToRead([&](double share) { told.push_back(share); });
    EXPECT_TRUE(std::ranges::is_sorted(told));
    ASSERT_FALSE(told.empty());
    EXPECT_EQ(told.back(), 1);
}

TEST(DocumentLoader, GivesNoBusyTimeOfALaneWhoseTasksAreMissing) {
    const auto path = temporaryPath("missing_lane.sqlite");
    writeSampleTrace(path);
    SQLite::Database(path.string(), SQLite::OPEN_READWRITE).exec("DELETE FROM PIPESCOPE_TASK WHERE lane = 1");
    const auto document = loadTrace(QString::fromStdString(path.string()));
    const std::vector<LaneFacts> lanes = laneFacts(*document, 1);
    EXPECT_GT(lanes.at(0).measuredBusy, Nanoseconds{0});
    EXPECT_EQ(lanes.at(1).measuredBusy, std::nullopt);
    const auto after = withBaseline(*load("all_lanes.sqlite"), baselineOf(*document));
    EXPECT_GT(laneFacts(*after, 1).at(0).simulatedBusy, Nanoseconds{0});
    EXPECT_EQ(laneFacts(*after, 1).at(1).simulatedBusy, std::nullopt);
}

// What simulate --schedule auto --trace writes. No what-if is needed to see how good it is.
TEST(DocumentLoader, ShowsBoundAndHalvesOfASimulatedOrder) {
    SampleRun run;
    run.partitions = 4;
    const Profile profile = sampleProfile(run);
    PipelineOptions options = sampleOptions(run);
    options.schedule = Schedule::automatic;
    options.checkpoint = Checkpoint::never;
    const Simulation found = find_and_simulate(CheckedProfile(profile), options);
    ASSERT_TRUE(found.options.schedule.file());
    const auto path = temporaryPath("found.sqlite");
    write_simulation(path, profile, found);
    const auto document = loadTrace(QString::fromStdString(path.string()));
    EXPECT_EQ(document->run.lower_bound, found.lower_bound);
    EXPECT_EQ(document->lowerBound(), found.lower_bound);
    EXPECT_THAT(simulatedHeadline(*document, 0).toStdString(),
                HasSubstr("lower bound " + formatDuration(found.lower_bound->count()).toStdString() + ", gap "));
    const SliceRef half = *document->simulated->find({0, TaskKind::backward, 3, 0, -1});
    EXPECT_EQ(taskFacts(*document, {Source::simulated, half, std::nullopt}, 0).title,
              QStringLiteral("backward of inputs of micro-batch 0 on partition 3"));

    // As much of it as a version can show that does not understand the profile.
    {
        SQLite::Database file(path.string(), SQLite::OPEN_READWRITE);
        file.exec("UPDATE PIPESCOPE_PROFILE SET profile = '{}'");
    }
    const auto bare = loadTrace(QString::fromStdString(path.string()));
    ASSERT_TRUE(bare->simulated && !bare->simulation);
    EXPECT_EQ(bare->lowerBound(), found.lower_bound);
    EXPECT_THAT(simulatedHeadline(*bare, 0).toStdString(), HasSubstr("lower bound "));
}

TEST(Headlines, NameStepTimeBubbleAndError) {
    const auto document = load("headlines.sqlite");
    EXPECT_THAT(measuredHeadline(*document, 1).toStdString(),
                AllOf(HasSubstr("step 1"), HasSubstr("step time"), HasSubstr("bubble")));
    EXPECT_THAT(simulatedHeadline(*document, 1).toStdString(),
                AllOf(HasSubstr("balance 1,1"), HasSubstr("step time"),
                      HasSubstr("% against the median of the measured steps)"), HasSubstr("points against ")));
    EXPECT_THAT(comparisonHeadline(*document).toStdString(), HasSubstr("Median of 2 steps"));
}

TEST(Headlines, NameWhatAStepComesToInASecond) {
    TraceDocument document = *load("rates.sqlite");
    const auto step = static_cast<double>(document.measured->step(1)->statistics.step_time().count());
    const double samples = static_cast<double>(document.run.options->batch) / step * 1e9;
    EXPECT_THAT(measuredHeadline(document, 1).toStdString(),
                HasSubstr((formatPerSecond(samples) + QStringLiteral(" samples/s")).toStdString()));
    Profile profile = *document.run.profile;
    profile.tokens_per_sample = 50;
    profile.device = "A100";
    for (LayerProfile& layer : profile.layers) {
        layer.flops.assign(profile.samples.size(), 1e9);
    }
    document.run.profile = CheckedProfile(profile);
    const double work = 3e9 * static_cast<double>(profile.layers.size() * document.run.options->chunks);
    const Throughput found =
        throughputOf(document, Source::measured, document.measured->step(1)->statistics.step_time());
    EXPECT_DOUBLE_EQ(*found.tokens, 50 * samples);
    EXPECT_DOUBLE_EQ(*found.tflops, work / step / 1e3);
    EXPECT_THAT(measuredHeadline(document, 1).toStdString(),
                AllOf(HasSubstr((formatPerSecond(50 * samples) + QStringLiteral(" tokens/s")).toStdString()),
                      HasSubstr("MFU"), Not(HasSubstr("samples/s")), Not(HasSubstr("FLOP/s"))));
    EXPECT_TRUE(throughputOf(document, Source::simulated, Nanoseconds{1000}).samples);
    document.run.of_another_program = true;  // its batch is made up
    EXPECT_FALSE(throughputOf(document, Source::simulated, Nanoseconds{1000}).samples);
    EXPECT_THAT(measuredHeadline(document, 1).toStdString(), Not(HasSubstr("tokens/s")));
}

TEST(DocumentLoader, RefusesWhatIsNoTraceAndSaysWhatToDo) {
    EXPECT_THAT(thrown<Error>([] { loadTrace(QStringLiteral("/nowhere/x.sqlite")); }),
                AllOf(HasSubstr("/nowhere/x.sqlite"), HasSubstr("no such file")));
    const QString text = pathOf("text.sqlite", "this is no database at all, but long enough to look at");
    EXPECT_THAT(thrown<Error>([&] { loadTrace(text); }), HasSubstr("text.sqlite"));
    for (const char* name : {"run.nsys-rep", "old.qdstrm"}) {
        const QString report = pathOf(name, "some bytes that only nsys knows");
        EXPECT_THAT(thrown<Error>([&] { loadTrace(report); }),
                    HasSubstr("nsys export -t sqlite " + report.toStdString()));
    }
    const QString nothing = pathOf("nothing.nsys-rep", "");
    EXPECT_THAT(thrown<Error>([&] { loadTrace(nothing); }), HasSubstr("nsys export -t sqlite"));
    const std::string profile = to_json(sampleProfile({}));
    for (const std::size_t length : {profile.size() / 2, profile.size() - 2}) {
        const QString half = pathOf("half.json", profile.substr(0, length));
        EXPECT_THAT(thrown<Error>([&] { loadTrace(half); }),
                    AllOf(HasSubstr("half.json"), Not(HasSubstr("recover")), testing::ContainsRegex("profile again"),
                          Not(testing::ContainsRegex("correct.*correct"))));
    }
    EXPECT_THAT(thrown<Error>([] { loadTrace(pathOf("empty.sqlite", "")); }), HasSubstr("is empty, not a trace"));
    const QString folder = QString::fromStdString(temporaryPath("").string());
    EXPECT_THAT(thrown<Error>([&] { loadTrace(folder); }), HasSubstr("folder"));
}

TEST(DocumentLoader, SimulatesABareProfile) {
    SampleRun run;
    run.partitions = 6;
    const auto document = loadTrace(pathOf("profile.json", to_json(sampleProfile(run))));
    EXPECT_FALSE(document->measured);
    ASSERT_TRUE(document->simulated && document->simulation);
    EXPECT_EQ(document->simulation->lanes.size(), 4U);
    ASSERT_TRUE(document->lowerBound());
    EXPECT_LE(*document->lowerBound(), document->simulation->step_time);
    EXPECT_EQ(document->run.model, "sample");
    EXPECT_THAT(document->messages().join(QLatin1Char(' ')).toStdString(), HasSubstr("nothing was measured"));
}

/// The trace of a simulation, and then changed.
QString simulatedTrace(const std::string& name, const std::string& sql = {}) {
    const auto path = temporaryPath(name);
    writeSimulatedTrace(path);
    SQLite::Database(path.string(), SQLite::OPEN_READWRITE).exec(sql);
    return QString::fromStdString(path.string());
}

std::string messagesOf(const TraceDocument& document) {
    return document.messages().join(QLatin1Char('\n')).toStdString();
}

TEST(DocumentLoader, TellsASimulationFromAnEarlierRun) {
    const auto simulated = loadTrace(simulatedTrace("earlier.sqlite"));
    const std::shared_ptr<const Baseline> before = baselineOf(*simulated);
    EXPECT_THAT(texts_of(before->compared.warnings),
                ::testing::Contains(::testing::HasSubstr("this is a simulation, not a recording")));
    EXPECT_THAT(thrown<Error>([&] { withBaseline(*simulated, before); }),
                ::testing::HasSubstr("give the simulation as the earlier run"));
}

TEST(DocumentLoader, ShowsASimulatedTraceAsItWasSimulated) {
    const auto document = loadTrace(simulatedTrace("simulated.sqlite"));
    const Simulation simulation = simulate(sampleProfile({}), sampleOptions({}));
    EXPECT_EQ(messagesOf(*document), "");
    EXPECT_FALSE(document->measured);
    ASSERT_TRUE(document->simulated && document->simulation);
    EXPECT_EQ(document->simulated->numSlices(), simulation.timeline.slices.size());
    EXPECT_EQ(document->simulation->step_time, simulation.step_time);
    EXPECT_EQ(document->simulation->bubble_fraction, simulation.bubble_fraction);
    EXPECT_FALSE(document->simulatedMemory.empty());
    for (std::size_t lane = 0; lane < simulation.lanes.size(); ++lane) {
        EXPECT_EQ(document->simulation->lanes[lane].peak_bytes, simulation.lanes[lane].peak_bytes);
    }
    EXPECT_TRUE(recordedScenario(*document));
}

TEST(DocumentLoader, ShowsTheTasksThatASimulatedTraceHoldsAndSaysThatTheyAreOthers) {
    const auto intact = loadTrace(simulatedTrace("simulated.sqlite"));
    const struct {
        const char* sql;
        std::ptrdiff_t slices;  // more than in the intact trace
        const char* says;
    } kCases[] = {
        {"DELETE FROM PIPESCOPE_TASK WHERE kind = 'backward' AND microBatch = 0", -2, "0 added or changed, 2 removed"},
        {"INSERT INTO PIPESCOPE_TASK (step, kind, partition, microBatch, lane, start, end, source, bytes) SELECT step, "
         "kind, partition, microBatch, lane, start + 7, end + 7, source, 0 FROM PIPESCOPE_TASK WHERE kind = 'forward' "
         "AND microBatch = 0",
         2, "2 added or changed, 0 removed"},
        {"UPDATE PIPESCOPE_TASK SET start = start + 1000000000, end = end + 1000000000 WHERE kind = 'backward'", 0,
         "8 added or changed, 8 removed"}};
    for (const auto& each : kCases) {
        SCOPED_TRACE(each.sql);
        const QString path = simulatedTrace("other.sqlite", each.sql);
        const auto document = loadTrace(path);
        ASSERT_TRUE(document->simulated && document->simulation);
        EXPECT_EQ(static_cast<std::ptrdiff_t>(document->simulated->numSlices()),
                  static_cast<std::ptrdiff_t>(intact->simulated->numSlices()) + each.slices);
        EXPECT_THAT(messagesOf(*document), HasSubstr(each.says));
        const Timeline stored = TraceReader(path.toStdString()).timeline(Source::simulated);
        const StepStatistics figures = step_statistics(stored, 0);
        EXPECT_EQ(document->simulation->step_time, figures.step_time());
        EXPECT_EQ(document->simulation->bubble_fraction, figures.bubble_fraction);
        EXPECT_EQ(document->simulated->steps().front().statistics, figures);
        EXPECT_TRUE(recordedScenario(*document)) << "what-if needs only profile and configuration";
    }
}

TEST(DocumentLoader, ShowsTheMemoryThatASimulatedTraceHolds) {
    const auto document =
        loadTrace(simulatedTrace("memory.sqlite", "UPDATE PIPESCOPE_MEMORY SET peak = 123456789000 WHERE lane = 1"));
    EXPECT_EQ(document->simulatedMemory.at(1).highest(), 123456789000);
    EXPECT_EQ(document->simulation->lanes.at(1).peak_bytes, 123456789000);
}

TEST(DocumentLoader, SaysThatTheProfileOfASimulatedTraceCannotBeUsed) {
    const auto document = loadTrace(simulatedTrace(
        "bad_profile.sqlite", "UPDATE PIPESCOPE_PROFILE SET profile = replace(profile, '10000000', '-1')"));
    ASSERT_TRUE(document->simulated);
    EXPECT_EQ(document->simulated->numSlices(), simulate(sampleProfile({}), sampleOptions({})).timeline.slices.size());
    EXPECT_FALSE(document->simulatedMemory.empty());
    EXPECT_FALSE(recordedScenario(*document));
    EXPECT_THAT(messagesOf(*document),
                AllOf(HasSubstr("No what-if"), HasSubstr("cannot be simulated"), HasSubstr("forward_ns")));
}

TEST(DocumentLoader, SaysThatASimulatedTraceWasNotClosed) {
    const auto document = loadTrace(simulatedTrace("cut.sqlite",
                                                   "DELETE FROM PIPESCOPE_RUN WHERE key = 'closed'; DELETE FROM "
                                                   "PIPESCOPE_TASK WHERE id > 5"));
    EXPECT_THAT(messagesOf(*document), AllOf(HasSubstr("was not closed"), HasSubstr("0 added or changed")));
    EXPECT_EQ(document->simulated->numSlices(), 5U);
}

TEST(DocumentLoader, ReadsAChromeExportBackWithItsComparison) {
    const auto trace = temporaryPath("exported.sqlite");
    writeSampleTrace(trace);
    const auto json = temporaryPath("exported.json");
    std::ofstream out(json);
    export_chrome(open_trace(trace), out);
    out.close();
    const auto document = loadTrace(QString::fromStdString(json.string()));
    const auto original = loadTrace(QString::fromStdString(trace.string()));
    ASSERT_TRUE(document->measured);
    EXPECT_EQ(document->measured->numSlices(), original->measured->numSlices());
    EXPECT_EQ(document->measured->range(), original->measured->range());
}

TEST(DocumentLoader, ShowsAnotherProfilersJsonByItsTracks) {
    const auto document =
        loadTrace(pathOf("kineto.json", R"({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 10, "dur": 30},
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 2, "ts": 15, "dur": 5},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 20, "dur": 12}]})"));
    EXPECT_FALSE(document->measured);
    EXPECT_FALSE(document->simulated);
    ASSERT_TRUE(document->tracks);
    std::size_t ranges = 0;
    for (const TrackRow& row : document->tracks->rows) {
        ranges += row.start.size();
    }
    EXPECT_EQ(ranges, 3U);
    EXPECT_EQ(wholeRange(*document, 0).length() / 1000, document->tracks->range().length() / 1000 + 1);
    EXPECT_THAT(document->messages().join(QLatin1Char(' ')).toStdString(), HasSubstr("holds no measured task"));
}

TEST(DocumentLoader, PublishesALargeTraceInPartsThatGrow) {
    const auto path = temporaryPath("large.sqlite");
    SampleRun run;
    run.partitions = 8;
    run.chunks = 32;
    run.steps = 120;  // 146,000 tasks: too many to come at once
    run.memory = false;
    writeSampleTrace(path, run);
    std::vector<std::shared_ptr<const TraceDocument>> parts;
    loadDocument(QString::fromStdString(path.string()), [&](auto document) { parts.push_back(std::move(document)); });
    ASSERT_GE(parts.size(), 2U);
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        EXPECT_FALSE(parts[i]->complete);
        EXPECT_LE(parts[i]->measured->numSlices(), parts[i + 1]->measured->numSlices());
    }
    EXPECT_TRUE(parts.back()->complete);
    EXPECT_TRUE(parts.back()->comparison);
    EXPECT_EQ(parts.back()->loaded, 1);
    EXPECT_EQ(parts.back()->measured->numSlices(), sampleTimeline(run).slices.size());
    EXPECT_LE(parts.back()->measured->sizeBytes(), 40 * parts.back()->measured->numSlices());
}

TEST(TaskLoading, ReadsInPartsWhatTheTraceHoldsAtOnce) {
    const auto path = temporaryPath("parts.sqlite");
    SampleRun run;
    run.steps = 40;
    writeSampleTrace(path, run);
    TaskLoading loading(path, Source::measured, TraceReader(path).lanes());
    loading.readFor(std::chrono::milliseconds{0});  // one batch
    EXPECT_FALSE(loading.finished());
    const TimelineStore first = loading.snapshot();
    EXPECT_GT(first.numSlices(), 0U);
    loading.readRest({});
    EXPECT_TRUE(loading.finished());
    const TimelineStore all = loading.finish();
    const TimelineStore whole(TraceReader(path).timeline(Source::measured));
    ASSERT_LT(first.numSlices(), all.numSlices());
    ASSERT_EQ(all.rows().size(), whole.rows().size());
    for (std::size_t row = 0; row < all.rows().size(); ++row) {
        EXPECT_EQ(all.rows()[row].start, whole.rows()[row].start);
        EXPECT_EQ(all.rows()[row].key, whole.rows()[row].key);
        EXPECT_EQ(all.rows()[row].bytes, whole.rows()[row].bytes);
    }
}

TEST(DocumentLoader, NeverCrashesOnADamagedTrace) {
    const auto path = temporaryPath("damaged.sqlite");
    SampleRun run;
    run.steps = 1;
    writeSampleTrace(path, run);
    std::ifstream in(path, std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(in)), {});
    const QString damaged = pathOf("damaged_copy.sqlite", "");
    std::uint64_t random = 1;
    for (int i = 0; i < 60; ++i) {
        std::string bytes = whole;
        for (int k = 0; k < 40; ++k) {
            random = random * 6364136223846793005ULL + 1442695040888963407ULL;
            bytes[(random >> 20) % bytes.size()] = static_cast<char>(random >> 50);
        }
        if (i % 3 == 0) {
            bytes.resize(bytes.size() / 2);
        }
        pathOf("damaged_copy.sqlite", bytes);
        try {
            loadTrace(damaged);
        } catch (const Error&) {  // anything else ends the test
        }
    }
}
// A merged run of another program holds no profile; its simulated twin is of one measured from its own tasks.
TEST(DocumentLoader, SimulatesARunOfAnotherProgramFromItsOwnTasks) {
    const std::filesystem::path path = temporaryPath("merged.sqlite");
    writeSampleTrace(path);
    SQLite::Database(path.string(), SQLite::OPEN_READWRITE)
        .exec(
            "DELETE FROM PIPESCOPE_PROFILE; DELETE FROM PIPESCOPE_RUN WHERE key IN ('configuration', 'pipeline');"
            "INSERT INTO PIPESCOPE_RUN VALUES ('source', '\"a trace\"')");
    const auto document = loadTrace(QString::fromStdString(path.string()));
    ASSERT_TRUE(document->simulated && document->comparison && document->run.profile);
    EXPECT_TRUE((*document->run.profile)->from_trace);
    EXPECT_TRUE(recordedScenario(*document)) << "what-if starts from it";
    EXPECT_THAT(simulatedHeadline(*document, 1).toStdString(), HasSubstr("profile measured from this trace"));
    const QStringList all = document->messages();
    const QStringList grave = document->messages({.remarks = true});
    EXPECT_TRUE(all.filter(QStringLiteral("profile is measured from this trace")).size() == 1);
    EXPECT_TRUE(grave.filter(QStringLiteral("profile is measured from this trace")).isEmpty());
    EXPECT_EQ(all.mid(0, grave.size()), grave) << "remarks come last";
    EXPECT_TRUE(document->simulatedMemory.empty()) << "memory is unknown";
    EXPECT_EQ(laneFacts(*document, 1).front().simulatedPeak, std::nullopt);
}
TEST(DocumentLoader, TellsHowMuchOfAJsonWasReadAndStopsInside) {
    std::string text = "[";
    for (int k = 0; k < 40'000; ++k) {
        text += (k > 0 ? ",\n" : "") + std::string(R"({"ph": "X", "name": "work", "pid": 1, "tid": 1, "ts": )") +
                std::to_string(10 * k) + R"(, "dur": 5})";
    }
    const QString path = pathOf("much.json", text + "]");
    std::vector<double> shares;
    loadDocument(
        path, [](const auto&) {}, {}, 0, [&](double share) { shares.push_back(share); });
    ASSERT_GT(shares.size(), 5U);
    EXPECT_TRUE(std::ranges::is_sorted(shares));
    EXPECT_GT(shares.back(), 0.9);
    std::stop_source stop;
    double last = 0;
    const auto load = [&] {
        loadDocument(
            path, [](const auto&) { FAIL() << "there is nothing to show"; }, stop.get_token(), 0,
            [&](double share) {
                stop.request_stop();
                last = share;
            });
    };
    EXPECT_THROW(load(), ComputationStopped);
}

}  // namespace
}  // namespace pipescope
