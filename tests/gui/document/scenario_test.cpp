#include "gui/document/scenario.h"
#include "gui/document/baseline.h"

#include "gui/document/document_loader.h"
#include "gui/document/headlines.h"
#include "gui/style/elided_label.h"
#include "gui/style/number_format.h"
#include "gui/tables/selection_facts.h"
#include "schedule/schedules.h"
#include "tests/gui/sample_trace.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using Kind = ScenarioMessage::Kind;

constexpr int kLayers = 12;

/// Layers with different costs, so that the cuts matter.
Profile unevenProfile() {
    SampleRun run;
    run.partitions = kLayers;
    Profile profile = sampleProfile(run);
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        profile.layers[l].forward_ns[0] *= 1.0 + static_cast<double>(l % 5);
    }
    return profile;
}

Scenario scenarioOf(const Profile& profile) {
    Scenario scenario = defaultScenario(profile);
    scenario.options.hardware.devices.clear();
    return scenario;
}

std::string textOf(const SimulatedScenario& simulated) {
    std::string text;
    for (const ScenarioMessage& message : simulated.messages) {
        text += message.text.toStdString() + "\n";
    }
    return text;
}

// As simulate and plan assume them.
TEST(Scenario, BeginsWithTheDefaultsOfTheCommands) {
    Profile profile = unevenProfile();
    profile.device = "cpu";
    profile.host_cores = 2;
    profile.token_input = true;
    profile.estimated = false;
    const PipelineOptions measured = defaultScenario(profile).options;
    EXPECT_EQ(measured.optimizer, "adam");
    EXPECT_EQ(measured.hardware.host_cores, 2);
    EXPECT_EQ(measured.hardware.devices, std::vector<std::string>(measured.balance.num_partitions(), "cpu"));
    profile.estimated = true;
    profile.token_input = false;
    const PipelineOptions estimated = defaultScenario(profile).options;
    EXPECT_EQ(estimated.optimizer, "sgd");
    EXPECT_TRUE(estimated.hardware.devices.empty());
    EXPECT_EQ(estimated.hardware.host_cores, 0);
}

TEST(Scenario, IsWhatTheSimulatorSays) {
    const CheckedProfile profile = unevenProfile();
    const Scenario scenario = scenarioOf(profile);
    const Simulation expected = simulate(profile, scenario.options);
    const SimulatedScenario simulated = simulateScenario(profile, scenario);
    ASSERT_TRUE(simulated.runs());
    EXPECT_EQ(simulated.simulation.step_time, expected.step_time);
    EXPECT_EQ(simulated.simulation.bubble_fraction, expected.bubble_fraction);
    EXPECT_EQ(simulated.timeline->numSlices(), expected.timeline.slices.size());
    ASSERT_EQ(simulated.memory.size(), expected.lanes.size());
    for (std::size_t lane = 0; lane < expected.lanes.size(); ++lane) {
        EXPECT_EQ(simulated.memory[lane].highest(), expected.lanes[lane].peak_bytes);
    }
    EXPECT_TRUE(simulated.messages.empty()) << textOf(simulated);
}

TEST(Scenario, OfABareProfileRuns) {
    for (const int layers : {1, 2, 3, 9}) {
        SampleRun run;
        run.partitions = layers;
        const CheckedProfile profile = sampleProfile(run);
        const Scenario scenario = defaultScenario(profile);
        EXPECT_EQ(lanesOf(scenario), std::min(layers, 4));
        EXPECT_TRUE(simulateScenario(profile, scenario).runs());
    }
}

TEST(Scenario, RunsEveryScheduleItCanSwitchTo) {
    const CheckedProfile profile = unevenProfile();
    for (const Schedule& schedule : all_schedules()) {
        const Scenario changed = withSchedule(profile, scenarioOf(profile), schedule);
        const SimulatedScenario simulated = simulateScenario(profile, changed);
        EXPECT_TRUE(simulated.runs()) << to_string(schedule) << ": " << textOf(simulated);
        EXPECT_EQ(lanesOf(changed), 4);
        EXPECT_EQ(partitionsPerLane(changed), static_cast<int>(usual_partitions(schedule, 4)) / 4);
        const Scenario back = withSchedule(profile, changed, Schedule::gpipe);
        EXPECT_EQ(back.options.balance.num_partitions(), 4U);
        EXPECT_TRUE(back.options.placement.empty());
    }
}

TEST(Scenario, TakesLanesAndMicroBatchesFromAScheduleFile) {
    const CheckedProfile profile = unevenProfile();
    const Schedule bfs = Schedule::from_csv("bfs.csv", "0F0,0F1,2F0,2F1,2B1,2B0,0B1,0B0\n1F0,1F1,1B1,1B0\n");
    Scenario few = scenarioOf(profile);
    few.options.batch = 1;
    const Scenario changed = withSchedule(profile, few, bfs);
    EXPECT_EQ(lanesOf(changed), 2);
    EXPECT_EQ(changed.options.balance.num_partitions(), 3U);
    EXPECT_EQ(changed.options.chunks, 2);
    EXPECT_EQ(changed.options.batch, 2) << "a sample for each micro-batch";
    EXPECT_TRUE(simulateScenario(profile, changed).runs());
    Scenario other = changed;
    other.options.chunks = 1;
    EXPECT_THAT(textOf(simulateScenario(profile, other)), HasSubstr("1 micro-batch; the schedule bfs.csv is for 2"));
    const Scenario back = withSchedule(profile, changed, Schedule::v_half);
    EXPECT_EQ(lanesOf(back), 2);
    EXPECT_EQ(back.options.placement, (std::vector<LaneId>{LaneId{0}, LaneId{1}, LaneId{1}, LaneId{0}}));
    EXPECT_TRUE(simulateScenario(profile, back).runs());
    std::string wide;
    for (int j = 0; j < 100; ++j) {
        wide += std::to_string(j) + "F0," + std::to_string(j) + "B0\n";
    }
    EXPECT_THAT(thrown<UsageError>([&] { withSchedule(profile, few, Schedule::from_csv("wide.csv", wide)); }),
                HasSubstr("wide.csv has 100 partitions; the model has"));
}

// Any sequence of changes with the controls gives either a timeline or one message with the reason.
TEST(Scenario, EitherRunsOrSaysWhyForRandomChanges) {
    const Profile profile = unevenProfile();
    std::mt19937 random(7);
    const auto below = [&](std::uint32_t count) { return static_cast<int>(random() % count); };
    Scenario scenario = scenarioOf(profile);
    const std::vector<Schedule> schedules = all_schedules();
    for (int round = 0; round < 300; ++round) {
        switch (below(7)) {
            case 0: scenario = withLanes(profile, scenario, below(20), 1 + below(4)); break;
            case 1: scenario.options.chunks = 1 + below(40); break;
            case 2: scenario.options.batch = 1 + below(64); break;
            case 3: scenario = withSchedule(profile, scenario, schedules[random() % schedules.size()]); break;
            case 4: scenario.options.hardware.link = {1e9 * below(20), 1e3 * below(100)}; break;
            case 5: scenario.options.hardware.speeds.assign(static_cast<std::size_t>(lanesOf(scenario)), 0.5); break;
            default: scenario.options.checkpoint = static_cast<Checkpoint>(below(3)); break;
        }
        const SimulatedScenario simulated = simulateScenario(CheckedProfile(profile), scenario);
        EXPECT_EQ(scenario.options.balance.num_layers(), profile.layers.size());
        if (simulated.runs()) {
            EXPECT_GT(simulated.simulation.step_time.count(), 0);
        } else {
            ASSERT_EQ(simulated.messages.size(), 1U);
            EXPECT_EQ(simulated.messages.front().kind, Kind::error);
        }
    }
}

TEST(Scenario, KeepsSpeedsDevicesAndLimitsWhenLanesAreAdded) {
    const Profile profile = unevenProfile();
    Scenario scenario = scenarioOf(profile);
    scenario.options.hardware.speeds = {1, 1, 1, 0.5};
    scenario.options.hardware.devices = {"a", "b", "c", "c"};
    scenario.options.hardware.memory_limits = {4, 3, 2, 1};
    const Scenario more = withLanes(profile, scenario, 6, 1);
    EXPECT_EQ(more.options.hardware.speeds, (std::vector<double>{1, 1, 1, 0.5, 0.5, 0.5}));
    EXPECT_EQ(more.options.hardware.devices, (std::vector<std::string>{"a", "b", "c", "c", "c", "c"}));
    EXPECT_EQ(more.options.hardware.memory_limits, (std::vector<Bytes>{4, 3, 2, 1, 1, 1}));
    EXPECT_EQ(withLanes(profile, scenario, 2, 1).options.hardware.memory_limits, (std::vector<Bytes>{4, 3}));
    EXPECT_EQ(withLanes(profile, scenario, 2, 1).options.hardware.speeds, (std::vector<double>{1, 1}));
    EXPECT_EQ(withLanes(profile, scenario, 4, 1).options.balance, scenario.options.balance);
}

TEST(Scenario, SaysWhatItCannotDo) {
    const CheckedProfile profile = unevenProfile();
    Scenario scenario = scenarioOf(profile);
    scenario.options.chunks = 100;  // of 16 samples
    EXPECT_THAT(textOf(simulateScenario(profile, scenario)), HasSubstr("100 micro-batches of 16 samples"));
    scenario = scenarioOf(profile);
    scenario.options.hardware.memory_limit = 1 << 20;
    const SimulatedScenario tight = simulateScenario(profile, scenario);
    EXPECT_TRUE(tight.runs());
    EXPECT_THAT(textOf(tight), HasSubstr("Does not fit"));
    EXPECT_EQ(tight.messages.front().kind, Kind::warning);
    scenario = scenarioOf(profile);
    scenario.options.hardware.memory_limits.assign(4, Bytes{1} << 40);
    scenario.options.hardware.memory_limits[2] = 1024;
    EXPECT_THAT(textOf(simulateScenario(profile, scenario)),
                AllOf(HasSubstr("above its limit of 1.00"), HasSubstr("(lanes over the limit: 2)")));
    scenario = scenarioOf(profile);
    scenario.options.chunks = 0;
    const SimulatedScenario none = simulateScenario(profile, scenario);
    EXPECT_FALSE(none.runs());
    EXPECT_EQ(none.messages.front().kind, Kind::error);
    scenario = withSchedule(profile, scenarioOf(profile), Schedule::interleaved_1f1b);
    scenario.options.chunks = 9;  // do not divide into two groups
    scenario.options.batch = 9;
    EXPECT_FALSE(simulateScenario(profile, scenario).runs());
}

TEST(Scenario, FindsABalanceThatStepsNoSlowerThanAnyOther) {
    const CheckedProfile profile = unevenProfile();
    const Scenario scenario = scenarioOf(profile);
    const auto stepWith = [&](BalanceAlgorithm algorithm) {
        Scenario changed = scenario;
        changed.options.balance = foundBalance(profile, scenario, algorithm);
        return simulateScenario(profile, changed).simulation.step_time;
    };
    for (const auto algorithm : {BalanceAlgorithm::minmax, BalanceAlgorithm::block, BalanceAlgorithm::variance}) {
        EXPECT_LE(stepWith(BalanceAlgorithm::optimal), stepWith(algorithm));
    }
}

TEST(Scenario, ReplacesTheSimulatedHalfOfADocumentAndNothingElse) {
    SampleRun run;
    run.partitions = 4;
    const auto path = temporaryPath("scenario.sqlite");
    writeSampleTrace(path, run);
    const auto document = loadTrace(QString::fromStdString(path.string()));
    Scenario scenario = *recordedScenario(*document);
    const auto same = withScenario(*document, simulateScenario(*document->run.profile, scenario));
    EXPECT_EQ(same->simulation->step_time, document->simulation->step_time);
    EXPECT_EQ(same->measured, document->measured);
    EXPECT_EQ(same->measuredMemory, document->measuredMemory);
    const auto again = compareWithMeasured(*document, simulateScenario(*document->run.profile, scenario));
    ASSERT_TRUE(again && document->comparison);
    EXPECT_EQ(again->step_error, document->comparison->step_error);
    EXPECT_EQ(again->tasks_matched, document->comparison->tasks_matched);

    scenario.options.checkpoint = Checkpoint::never;
    const SimulatedScenario faster = simulateScenario(*document->run.profile, scenario);
    const auto changed = withScenario(*document, faster);
    EXPECT_LT(changed->simulation->step_time, document->simulation->step_time);
    EXPECT_EQ(changed->simulated, faster.timeline);
    EXPECT_GT(compareWithMeasured(*document, faster)->tasks_unmatched, 0);  // no recompute any more
}

TEST(Headlines, CompareAScenarioWithWhatItStartedFromAndAPredictionWithWhatWasMeasured) {
    SampleRun run;
    run.partitions = 4;
    writeSampleTrace(temporaryPath("headline.sqlite"), run);
    const auto document = loadTrace(QString::fromStdString(temporaryPath("headline.sqlite").string()));
    EXPECT_THAT(simulatedHeadline(*document, 1).toStdString(), HasSubstr("against the median of the measured steps"));
    const Scenario recorded = *recordedScenario(*document);
    Scenario slower = recorded;
    slower.options.hardware.link.bytes_per_second /= 50;
    const SimulatedScenario before = simulateScenario(*document->run.profile, recorded);
    const SimulatedScenario after = simulateScenario(*document->run.profile, slower);
    auto changed = std::make_shared<TraceDocument>(*withScenario(*document, after));
    changed->comparison = compareWithMeasured(*document, after);
    // The same percentage as in the what-if panel, and no other.
    const double longer = static_cast<double>(after.simulation.step_time.count()) /
                              static_cast<double>(before.simulation.step_time.count()) -
                          1;
    const std::string headline = simulatedHeadline(*changed, 1).toStdString();
    EXPECT_THAT(
        headline,
        AllOf(
            HasSubstr(formatShareChange(longer).toStdString()),
            HasSubstr(formatPoints(after.simulation.bubble_fraction, before.simulation.bubble_fraction).toStdString()),
            HasSubstr("against the recorded pipeline, simulated")));
    ASSERT_TRUE(changed->comparison);
    const std::string summary = comparisonHeadline(*changed).toStdString();
    EXPECT_THAT(summary, AllOf(HasSubstr("what if"), testing::MatchesRegex("[^(]*\\(optimizer not counted\\)")));
    EXPECT_THAT(comparisonHeadline(*document).toStdString(),
                AllOf(HasSubstr("simulated ("), HasSubstr("0 unmatched (optimizer not counted)")));
}

TEST(Headlines, GiveNoPercentageWithoutWhatItIsAgainst) {
    writeSampleTrace(temporaryPath("against.sqlite"), {});
    const auto document = loadTrace(QString::fromStdString(temporaryPath("against.sqlite").string()));
    const QStringList shorter = withoutLastParts(simulatedHeadline(*document, 1));
    const auto gives = [](const QString& line) {
        return line.contains(QLatin1Char('%')) && line.contains(QStringLiteral("step time"));
    };
    ASSERT_TRUE(std::any_of(shorter.begin(), shorter.end(), gives));
    for (const QString& line : shorter) {
        EXPECT_TRUE(!gives(line) || line.contains(QStringLiteral("% against the "))) << line.toStdString();
    }
}

TEST(Headlines, ShortenTheVerdictOnTwoRunsToItsChange) {
    SampleRun run;
    run.steps = 5;
    writeSampleTrace(temporaryPath("verdict.sqlite"), run);
    const auto document = loadTrace(QString::fromStdString(temporaryPath("verdict.sqlite").string()));
    const auto same = withBaseline(*document, baselineOf(*document));
    ASSERT_TRUE(same->stepChange && same->stepChange->noise_is_known);
    ASSERT_TRUE(comparisonHeadline(*same).contains(QStringLiteral("(0.0\u00a0%), within the noise of the steps")))
        << comparisonHeadline(*same).toStdString();
    EXPECT_EQ(shorterHeadlines(*same).back(), QStringLiteral("0.0\u00a0%, within noise"));
    EXPECT_FALSE(shorterHeadlines(*document).back().contains(QStringLiteral("noise"))) << "it is no verdict";
}

TEST(Headlines, SayWhichStepTheFiguresAreOfIfItIsNotTheDrawnOne) {
    SampleRun run;
    run.partitions = 4;
    run.cv = 0.4;
    writeSampleTrace(temporaryPath("drawn.sqlite"), run);
    TraceDocument document = *loadTrace(QString::fromStdString(temporaryPath("drawn.sqlite").string()));
    const QString without = formatDuration(document.simulation->step_time.count());
    const auto kept = [&] {  // in the narrowest form with a step time
        return withPart(simulatedHeadline(document, 1), QStringLiteral("step time")).back();
    };
    EXPECT_TRUE(kept().contains(QStringLiteral("drawn without noise: ") + without)) << kept().toStdString();
    document.simulation->noise->mean = document.simulation->step_time;
    EXPECT_FALSE(simulatedHeadline(document, 1).contains(QStringLiteral("drawn without noise"))) << "they are the same";
    document.simulation->noise.reset();
    document.noiseLeftOut = true;
    document.complete = false;
    EXPECT_TRUE(kept().contains(QStringLiteral("without noise so far"))) << kept().toStdString();
}

TEST(Headlines, SayTheSameStepAndPercentageOfANoisyRunInEveryLine) {
    SampleRun run;
    run.partitions = 4;
    run.cv = 0.4;
    writeSampleTrace(temporaryPath("noisy.sqlite"), run);
    const auto document = loadTrace(QString::fromStdString(temporaryPath("noisy.sqlite").string()));
    ASSERT_TRUE(document->comparison && document->simulation->noise);
    const JudgedStep judged = document->comparison->judged();
    ASSERT_TRUE(judged.is_mean);
    const std::string step = formatDuration(judged.simulated.count()).toStdString();
    const std::string longer = formatShareChange(document->comparison->step_error).toStdString();
    const std::string without = formatDuration(document->simulation->step_time.count()).toStdString();
    ASSERT_NE(step, without);
    for (const std::string& line :
         {comparisonHeadline(*document).toStdString(), simulatedHeadline(*document, 1).toStdString(),
          simulatedHeadline(*document, 2).toStdString()}) {
        const std::string figures = line.substr(0, line.find("drawn without noise: " + without));
        EXPECT_THAT(figures, AllOf(HasSubstr(step), HasSubstr(longer), testing::Not(HasSubstr(without))));
    }
    EXPECT_THAT(simulatedHeadline(*document, 1).toStdString(), HasSubstr("against the mean of the measured steps"));

    Scenario slower = *recordedScenario(*document);
    slower.options.hardware.link.bytes_per_second /= 50;
    const SimulatedScenario pending = simulateScenario(*document->run.profile, slower);
    EXPECT_TRUE(pending.noisePending);
    const SimulatedScenario noisy = withNoise(pending, *stepBand(*document->run.profile, slower));
    EXPECT_FALSE(noisy.noisePending);
    auto changed = std::make_shared<TraceDocument>(*withScenario(*document, noisy));
    changed->comparison = compareWithMeasured(*document, noisy);
    const std::string expected = formatDuration(noisy.simulation.noise->mean.count()).toStdString();
    const double more = static_cast<double>(noisy.simulation.noise->mean.count()) /
                            static_cast<double>(document->simulation->noise->mean.count()) -
                        1;
    EXPECT_THAT(simulatedHeadline(*changed, 1).toStdString(),
                AllOf(HasSubstr(expected), HasSubstr(formatShareChange(more).toStdString())));
    EXPECT_THAT(comparisonHeadline(*changed).toStdString(), HasSubstr(expected + " what if"));
}

TEST(Scenario, WithStaggeredUpdatesIsAStepBetweenThoseThatOverlapIt) {
    const CheckedProfile profile = unevenProfile();
    Scenario scenario = scenarioOf(profile);
    scenario.options.schedule = Schedule::zero_bubble_2p;
    scenario.options.update = Update::staggered;
    const SimulatedScenario simulated = simulateScenario(profile, scenario);
    ASSERT_TRUE(simulated.runs()) << textOf(simulated);
    const TimelineStore& store = *simulated.timeline;
    ASSERT_TRUE(store.overlaps());
    ASSERT_EQ(store.steps().size(), 1U);
    const StepSpan& step = store.steps().front();
    EXPECT_EQ(step.step, simulated.simulation.step);
    EXPECT_EQ(step.statistics.step_time(), simulated.simulation.step_time);
    EXPECT_GT(step.range().start, store.range().start) << "the step before it is drawn";
    EXPECT_LT(step.range().end, store.range().end);
    EXPECT_EQ(store.busyIn(LaneId{0}, step.range()), step.statistics.lanes[0].busy.count());
    const TaskKey first{step.step, TaskKind::forward, 0, 0, -1};
    const std::optional<SliceRef> own = store.find(first);
    ASSERT_TRUE(own);
    EXPECT_TRUE(store.isOf(store.slice(*own).key, step.step));
    TaskKey next = first;
    ++next.step;
    ASSERT_TRUE(store.find(next));
    EXPECT_FALSE(store.isOf(next, step.step));
    EXPECT_NE(*store.find(next), *own);
    // As a recording, its steps are as long, and the same tasks are twins.
    Timeline recorded = simulate(profile, scenario.options, {.noise = false}).timeline;
    recorded.source = Source::measured;
    TraceDocument document;
    document.measured = std::make_shared<const TimelineStore>(recorded, Update::staggered);
    document.simulated = simulated.timeline;
    ASSERT_EQ(document.measured->steps().size(), 3U);
    EXPECT_EQ(document.measured->step(1)->statistics, step.statistics);
    EXPECT_EQ(simulatedShift(document, 1), 0);
    // What a picture of the step shows: its tasks, not those of its neighbours.
    TimeRange tasks = step.range();
    for (const Slice& slice : recorded.slices) {
        if (slice.key.step == 1 && !is_copy(slice.key.kind)) {
            tasks = {std::min(tasks.start, slice.start.count()), std::max(tasks.end, slice.end.count())};
        }
    }
    const TimeRange shtasks = stepRange(document, 1);
    EXPECT_LE(shtasks.start, tasks.start);
    EXPECT_GE(shtasks.end, tasks.end);
    EXPECT_LT(shtasks.length(), tasks.length() * 11 / 10);
    for (const std::int32_t number : {0, 1, 2}) {
        TaskKey key = first;
        key.step = number;
        const std::optional<SliceRef> slice = document.measured->find(key);
        const std::optional<SliceRef> twin = twinOf(document, Source::measured, slice.value(), 1);
        ASSERT_TRUE(twin);
        EXPECT_EQ(store.slice(*twin).key, key) << "of the step that lies beside it";
    }
}

/// The rows of the layers in facts about a task.
std::vector<FactRow> layersIn(const TraceDocument& document, const TaskSelection& selection) {
    const auto shared = std::make_shared<const TraceDocument>(document);
    for (const FactSection& section : factsOf(document, StepAnalysis(shared, 1), 1, selection, {}).sections) {
        if (section.heading == QStringLiteral("Layers, as profiled")) {
            return section.rows;
        }
    }
    return {};
}

TEST(Scenario, HasTheSameLayersFromEitherTwin) {
    writeSampleTrace(temporaryPath("layers.sqlite"));
    const auto document = loadTrace(QString::fromStdString(temporaryPath("layers.sqlite").string()));
    Scenario slower = *recordedScenario(*document);
    slower.options.hardware.speeds = {0.5, 0.5};
    const auto changed = withScenario(*document, simulateScenario(*document->run.profile, slower));
    const SliceRef measured = *changed->measured->find({1, TaskKind::forward, 0, 1, -1});
    const SliceRef simulated = *twinOf(*changed, Source::measured, measured, 1);
    const auto own = layersIn(*changed, {Source::simulated, simulated, measured});
    const auto other = layersIn(*changed, {Source::measured, measured, simulated});
    ASSERT_FALSE(own.empty());
    ASSERT_EQ(own.size(), other.size());
    for (std::size_t row = 0; row < own.size(); ++row) {
        EXPECT_EQ(own[row].simulated, other[row].simulated);
        EXPECT_EQ(other[row].measured, QString());
    }
    const auto recorded = layersIn(*changed, {Source::measured, measured, std::nullopt});
    ASSERT_EQ(recorded.size(), own.size());
    EXPECT_EQ(recorded.back().simulated, QString()) << "of the pipeline as recorded, not of the scenario";
    EXPECT_NE(recorded.back().measured, own.back().simulated);
}
}  // namespace
}  // namespace pipescope
