#include "gui/document/step_analysis.h"
#include "gui/document/step_history.h"

#include "gui/document/document_builder.h"
#include "gui/document/document_loader.h"
#include "gui/document/scenario.h"
#include "gui/tables/selection_facts.h"
#include "gui/tables/task_details.h"
#include "tests/gui/sample_trace.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

std::string plain(QString text) {
    return text.replace(QChar(QChar::Nbsp), QLatin1Char(' ')).toStdString();
}

TEST(StepAnalysis, DescribesACopyThatALaneWaitsForByBytesLanesAndRate) {
    SampleRun run;
    run.partitions = 2;
    writeSampleTrace(temporaryPath("analysis.sqlite"), run);
    const auto recorded = loadTrace(QString::fromStdString(temporaryPath("analysis.sqlite").string()));
    Scenario slow = *recordedScenario(*recorded);
    slow.options.hardware.link = {50e6, 0};  // 4 MiB in 84 ms, a forward is 10 ms
    const auto document = withScenario(*recorded, simulateScenario(*recorded->run.profile, slow));
    const StepAnalysis analysis(document, 1);
    const std::vector<Bubble>& bubbles = analysis.bubbles(Source::simulated);
    std::vector<Bubble> copies;
    std::copy_if(bubbles.begin(), bubbles.end(), std::back_inserter(copies),
                 [](const Bubble& piece) { return piece.cause == BubbleCause::copy && piece.lane == LaneId{1}; });
    ASSERT_EQ(copies.size(), 4U);
    const std::string first = plain(analysis.describe(Source::simulated, copies[0]));
    EXPECT_THAT(first,
                AllOf(HasSubstr("waits for a copy"), HasSubstr("lane 0 to lane 1"), HasSubstr("4.00 MiB in 83.89 ms"),
                      HasSubstr("50.0 MB/s"), testing::Not(HasSubstr("link was busy"))));
    EXPECT_THAT(plain(analysis.describe(Source::simulated, copies[1])), HasSubstr("the link was busy before"));
    const auto previous = std::find_if(bubbles.begin(), bubbles.end(), [](const Bubble& piece) {
        return piece.cause == BubbleCause::previous_partition;
    });
    ASSERT_NE(previous, bubbles.end());
    EXPECT_THAT(plain(analysis.describe(Source::simulated, *previous)), HasSubstr("on lane 0"));
    EXPECT_THAT(plain(analysis.criticalPathText(Source::simulated)), HasSubstr("0 ns waiting"));
}

TEST(StepAnalysis, TakesEndsForOnTimeWithinTheClocksError) {
    writeSampleTrace(temporaryPath("on_time.sqlite"));
    const auto one = loadTrace(QString::fromStdString(temporaryPath("on_time.sqlite").string()));
    const std::int64_t step = one->measured->step(1)->statistics.step_time().count();
    EXPECT_EQ(onTimeWithin(*one, 1), step / 1000);
    auto two = std::make_shared<TraceDocument>(*one);
    two->run.processes.resize(2);
    two->run.processes[1].bound = Nanoseconds{step};
    EXPECT_EQ(onTimeWithin(*two, 1), step);
    MarkChoice choice;
    choice.mode = CompareMode::difference;
    const auto marks = StepAnalysis(two, 1).marks(Source::measured, choice, {});
    ASSERT_FALSE(marks->differences.empty());
    for (const TaskPair& pair : marks->differences) {
        EXPECT_EQ(latenessOf(pair.end_change, marks->differenceScale), Lateness::as_simulated);
    }
}

// Lane 1 seems to start before lane 0 has ended. What one waited for, what was late and the critical path are unknown.
TEST(StepAnalysis, SaysNothingAcrossLanesWhoseClocksDoNotFit) {
    const auto path = temporaryPath("clocks.sqlite");
    writeSampleTrace(path);
    SQLite::Database(path.string(), SQLite::OPEN_READWRITE)
        .exec(
            "INSERT INTO PIPESCOPE_RUN VALUES ('processes', '[{\"rank\": 0, \"size\": 2, \"bound_ns\": 0}, "
            "{\"rank\": 1, \"size\": 2, \"bound_ns\": 9}]');"
            "UPDATE PIPESCOPE_TASK SET start = start + 20000000, end = end + 20000000 WHERE lane = 0");
    const auto document = loadTrace(QString::fromStdString(path.string()));
    const std::string why = "times of different lanes do not fit together";
    ASSERT_EQ(document->whyNoTimesAcrossLanes().toStdString(), why);
    ASSERT_TRUE(document->simulated);
    const std::int32_t step = typicalStep(*document);
    const StepAnalysis analysis(document, step);
    EXPECT_TRUE(analysis.bubbles(Source::measured).empty());
    EXPECT_TRUE(analysis.critical(Source::measured).tasks.empty());
    EXPECT_EQ(analysis.criticalPathText(Source::measured).toStdString(), "critical path not given, " + why);
    EXPECT_FALSE(analysis.critical(Source::simulated).tasks.empty());
    MarkChoice choice;
    choice.mode = CompareMode::difference;
    const auto marks = analysis.marks(Source::measured, choice, {});
    EXPECT_TRUE(marks->differences.empty());
    EXPECT_TRUE(marks->recolours());
    // A task: its duration can be compared, its place in the step cannot.
    const SliceRef slice = *document->measured->find({step, TaskKind::backward, 0, 1, -1});
    const TaskSelection task{Source::measured, slice, twinOf(*document, Source::measured, slice, step)};
    ASSERT_TRUE(task.twin);
    const TaskFacts facts = taskFacts(*document, task, step);
    EXPECT_TRUE(facts.change.start.isEmpty() && facts.change.end.isEmpty());
    EXPECT_FALSE(facts.change.duration.isEmpty());
    EXPECT_THAT(factsOf(*document, analysis, step, task, std::nullopt).text.toStdString(),
                testing::Not(HasSubstr("last input")));
    // A simulated bubble: whether the measured lane waited too is unknown.
    PartSelection part;
    part.kind = PartSelection::Kind::bubble;
    part.source = Source::simulated;
    part.bubble = analysis.bubbles(Source::simulated).front();
    part.lane = part.bubble.lane;
    EXPECT_THAT(factsOf(*document, analysis, step, std::nullopt, part).text.toStdString(),
                testing::Not(HasSubstr("did not wait")));
}

// Other steps show that the recorder sees copies.
TEST(StepAnalysis, MissesTheCopiesOfAStepThatRecordedNoneAsTheComparisonDoes) {
    const auto path = temporaryPath("copies_in_some_steps.sqlite");
    writeSampleTrace(path);
    SQLite::Database(path.string(), SQLite::OPEN_READWRITE)
        .exec("DELETE FROM PIPESCOPE_TASK WHERE step = 1 AND kind LIKE 'copy%'");
    const auto document = loadTrace(QString::fromStdString(path.string()));
    ASSERT_TRUE(document->comparison);
    EXPECT_EQ(document->comparison->tasks_only_simulated, 8) << "4 micro-batches, there and back";
    EXPECT_EQ(StepAnalysis(document, 1).matching().unmatched.size(), 8U);
    EXPECT_TRUE(StepAnalysis(document, 2).matching().unmatched.empty());
    const std::vector<UnmatchedTasks> listed = unmatchedTasks(*document);
    ASSERT_EQ(listed.size(), 1U);
    EXPECT_EQ(listed[0].count, 8U);
}

// The figures of `pipescope simulate`: docs/cli/simulate.md.
void expectFiguresOf(const Simulation& simulation, const TraceDocument& document) {
    const std::vector<LaneFacts> facts = laneFacts(document, typicalStep(document));
    ASSERT_EQ(facts.size(), simulation.lanes.size());
    for (std::size_t lane = 0; lane < facts.size(); ++lane) {
        EXPECT_EQ(facts[lane].simulatedBusy, simulation.lanes[lane].busy);
        EXPECT_EQ(facts[lane].simulatedBubble, simulation.lanes[lane].bubble_fraction);
        EXPECT_EQ(facts[lane].simulatedPeak, simulation.lanes[lane].peak_bytes);
    }
    ASSERT_EQ(document.simulated->steps().size(), 1U);
    EXPECT_EQ(document.simulated->steps().front().statistics.step_time(), simulation.step_time);
}

std::shared_ptr<const TraceDocument> documentOf(const Simulation& simulation) {
    auto document = std::make_shared<TraceDocument>();
    showStored(*document, simulation.timeline, simulation.memory, &simulation);
    return document;
}

Simulation steadyState(int chunks) {
    const SampleRun run{.partitions = 4, .chunks = chunks};
    PipelineOptions options = sampleOptions(run);
    options.schedule = Schedule::pipedream;
    return simulate(sampleProfile(run), options);
}

TEST(StepAnalysis, OfAScheduleThatNeverDrainsCountsTheTasksOfAllSteps) {
    for (const int chunks : {1, 4}) {
        const Simulation simulation = steadyState(chunks);
        const auto document = documentOf(simulation);
        expectFiguresOf(simulation, *document);
        const StepAnalysis analysis(document, typicalStep(*document));
        const StepGraph& tasks = *analysis.tasks(Source::simulated);
        EXPECT_EQ(tasks.tasks().size(), document->simulated->numSlices());
        std::vector<std::int64_t> idle(4, 0);
        for (const Bubble& piece : analysis.bubbles(Source::simulated)) {
            EXPECT_NE(piece.cause, BubbleCause::finished) << "every lane goes on";
            idle[piece.lane.index()] += piece.length();
        }
        const std::vector<LaneStatistics>& lanes = document->simulated->steps().front().statistics.lanes;
        for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
            EXPECT_EQ(idle[lane], tasks.range().length() - lanes[lane].busy.count()) << lane;
        }
    }
}

TEST(StepAnalysis, FindsTheTasksOfAWindowWhateverTheirStep) {
    constexpr int kChunks = 4;
    const auto document = documentOf(steadyState(kChunks));
    const TimelineStore& store = *document->simulated;
    for (int microBatch = 0; microBatch < kChunks; ++microBatch) {
        for (const TaskKind kind : {TaskKind::forward, TaskKind::backward}) {
            EXPECT_TRUE(store.find({0, kind, 2, microBatch, -1})) << to_string(kind) << microBatch;
        }
    }
    EXPECT_FALSE(store.find({0, TaskKind::forward, 2, kChunks, -1}));
}

TEST(StepAnalysis, WithReplicasShowsAllReducesWhenTheyRun) {
    const SampleRun run{.partitions = 3};
    PipelineOptions options = sampleOptions(run);
    options.schedule = Schedule::one_f_one_b;
    options.batch *= 2;
    options.replicas = 2;
    const Simulation simulation = simulate(sampleProfile(run), options);
    const auto document = documentOf(simulation);
    expectFiguresOf(simulation, *document);
    const StepAnalysis analysis(document, typicalStep(*document));
    std::int64_t end = 0;
    for (const StepTask& task : analysis.tasks(Source::simulated)->tasks()) {
        end = std::max(end, task.end);
        if (task.key.kind != TaskKind::all_reduce) {
            continue;
        }
        for (const Bubble& piece : analysis.bubbles(Source::simulated)) {
            const bool covers = piece.lane == task.lane && piece.start < task.end && piece.end > task.start;
            EXPECT_TRUE(!covers || piece.cause == BubbleCause::sums_gradients)
                << "lane " << task.lane.value() << " sums gradients";
        }
    }
    EXPECT_EQ(analysis.tasks(Source::simulated)->range().end, end);
}

// Of staggered steps, others are drawn before the simulated one, which therefore does not start at 0.
TEST(StepAnalysis, AlignsTheStartOfAStaggeredStepWithThatOfTheTrainingLoop) {
    const SampleRun run{.partitions = 3};
    PipelineOptions options = sampleOptions(run);
    options.schedule = Schedule::one_f_one_b;
    options.update = Update::staggered;
    const Simulation simulation = simulate(sampleProfile(run), options, {.noise = false});
    const std::shared_ptr<TraceDocument> document = std::make_shared<TraceDocument>(*documentOf(simulation));
    Timeline recorded = simulation.timeline;
    recorded.source = Source::measured;
    document->measured = std::make_shared<const TimelineStore>(recorded, Update::staggered);
    const std::int32_t step = simulation.step;
    const TimeRange measured = document->measured->step(step)->range();
    const TimeRange simulated = document->simulated->steps().front().range();
    ASSERT_GT(simulated.start, 0);
    constexpr std::int64_t kLater = 26'817;
    StepRecord record;
    record.step = step;
    record.wall_start = Nanoseconds{measured.start + kLater};
    record.wall_end = Nanoseconds{measured.end + kLater};
    document->run.steps = {record};
    const StepAnalysis analysis(document, step);
    EXPECT_EQ(simulated.start + analysis.shift(Alignment::first_task, std::nullopt), measured.start);
    EXPECT_EQ(simulated.start + analysis.shift(Alignment::step, std::nullopt), record.wall_start.count());
    // Equal tasks are drawn that much earlier than the simulated ones.
    MarkChoice choice;
    choice.mode = CompareMode::difference;
    choice.alignment = Alignment::step;
    const auto marks = analysis.marks(Source::measured, choice, std::nullopt);
    ASSERT_FALSE(marks->differences.empty());
    for (const TaskPair& pair : marks->differences) {
        EXPECT_EQ(pair.end_change, -kLater);
    }
}
}  // namespace
}  // namespace pipescope
