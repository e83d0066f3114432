#include "gui/document/baseline.h"

#include "base/error.h"
#include "gui/document/document_builder.h"
#include "gui/document/step_history.h"
#include "gui/style/number_format.h"

#include <QFileInfo>

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
/// The step alone, from time 0.
Timeline stepFromZero(const TimelineStore& store, std::int32_t number, std::int64_t start) {
    StepRecord record;
    record.step = number;
    MeasuredSteps one;
    one.steps = {record};
    Timeline timeline = timelineOf(store, one);
    timeline.source = Source::simulated;
    for (Slice& slice : timeline.slices) {
        slice.start -= Nanoseconds{start};
        slice.end -= Nanoseconds{start};
    }
    return timeline;
}

void showMeasured(const TraceDocument& before, Baseline& baseline) {
    baseline.step = typicalStep(before);
    const StepSpan* span = before.measured->step(baseline.step);
    if (span == nullptr) {
        throw Error(before.path.toStdString() + " holds no whole step to compare with; record a run with more steps");
    }
    const TimeRange range = span->range();
    const Timeline fromZero = stepFromZero(*before.measured, baseline.step, span->statistics.start.count());
    if (before.measured->overlaps()) {
        StepStatistics statistics = span->statistics;
        statistics.end -= statistics.start;
        statistics.start = Nanoseconds{0};
        baseline.timeline = std::make_shared<const TimelineStore>(fromZero, statistics, baseline.step);
    } else {
        baseline.timeline = std::make_shared<const TimelineStore>(fromZero);
    }
    for (const MemoryTrack& track : *before.measuredMemory) {
        baseline.memory.push_back(track.cut(range, span->statistics.start.count()));
        baseline.peaks.push_back(track.highestIn(range));
    }
    MeasuredSteps steps = stepsToCompare(before);
    const Timeline timeline = timelineOf(*before.measured, steps);
    leave_out_broken(before.check, timeline, steps);
    if (!steps.why_none.empty()) {
        throw Error(before.path.toStdString() + " " + steps.why_none);
    }
    const std::vector<MemorySample> noMemory;
    const Measured measured{timeline, noMemory, steps.numbers(), steps.wall_times(), update_of(before.run)};
    baseline.figures = figures_of(before.run, measured);
    for (std::size_t lane = 0; lane < std::min(before.measuredMemory->size(), baseline.figures.lanes.size()); ++lane) {
        baseline.figures.lanes[lane].peak_bytes =
            highestOver((*before.measuredMemory)[lane], *before.measured, baseline.figures.steps);
    }
    baseline.typical = typical_step(measured);
    baseline.whyNoStepTime = before.whyNoStepTime();
    baseline.whyNoTimesAcrossLanes = before.whyNoTimesAcrossLanes();
    for (std::string& warning : left_out_warnings(steps)) {
        baseline.warnings.push_back(std::move(warning));
    }
    for (const std::int32_t step : baseline.figures.steps) {
        if (baseline.whyNoBubble.isEmpty()) {
            baseline.whyNoBubble = before.whyNoBubble(step);
        }
    }
}

void showSimulated(const TraceDocument& before, Baseline& baseline) {
    const Timeline timeline = timelineOf(*before.simulated);
    if (steps_of(timeline).size() != 1 && !before.simulated->overlaps()) {
        throw Error(before.path.toStdString() +
                    " is a simulation of a schedule that never drains, which has no single step to compare with; "
                    "choose another file");
    }
    baseline.step = before.simulated->steps().front().step;
    baseline.timeline = before.simulated;
    baseline.memory = before.simulatedMemory;
    for (const MemoryTrack& track : baseline.memory) {
        baseline.peaks.push_back(track.empty() ? std::nullopt : std::optional(track.highest()));
    }
    const std::vector<MemorySample> noMemory;
    const Measured measured{timeline, noMemory, {baseline.step}, {}, update_of(before.run)};
    baseline.figures = figures_of(before.run, measured);
    for (std::size_t lane = 0; lane < std::min(baseline.peaks.size(), baseline.figures.lanes.size()); ++lane) {
        baseline.figures.lanes[lane].peak_bytes = baseline.peaks[lane];
    }
    baseline.typical = typical_step(measured);
    baseline.warnings.emplace_back("this is a simulation, not a recording: one step without noise");
}

void compareRuns(const Baseline& baseline, TraceDocument& document) {
    MeasuredSteps steps = stepsToCompare(document);
    const Timeline timeline = timelineOf(*document.measured, steps);
    leave_out_broken(document.check, timeline, steps);
    document.whyNoTwins = why_tasks_differ(baseline.run, baseline.shape, document.run, task_shape(timeline));
    document.comparableSteps = steps.comparable;
    document.whyNotCompared = steps.why_none;
    if (!steps.why_none.empty()) {
        return;
    }
    const std::vector<MemorySample> noMemory;
    const Measured after{timeline, noMemory, steps.numbers(), steps.wall_times(), update_of(document.run)};
    const RunFigures figures = figures_of(document.run, after);
    document.comparison =
        compare(after, figures, baseline.figures, document.whyNoTwins.empty() ? baseline.typical : Timeline{});
    addPeaks(document);
    if (baseline.whyNoStepTime.isEmpty() && document.whyNoStepTime().isEmpty()) {
        document.stepChange = step_difference(baseline.figures, figures);
    }
    document.bubbleChange = mean_difference(baseline.figures.bubbles, figures.bubbles);
    if (!document.whyNoTwins.empty()) {
        document.comparison->tasks_unmatched = 0;  // none was looked for
        document.comparison->tasks_only_simulated = 0;
    }
}
}  // namespace

std::shared_ptr<const Baseline> baselineOf(const TraceDocument& before) {
    auto baseline = std::make_shared<Baseline>();
    baseline->path = before.path;
    baseline->run = before.run;
    if (before.measured) {
        showMeasured(before, *baseline);
    } else if (before.simulated && !before.simulated->steps().empty()) {
        showSimulated(before, *baseline);
    } else {
        throw Error(before.path.toStdString() +
                    " holds no task of a pipeline, so there is no step to compare with; record a run with 'pipescope "
                    "run --trace', or compare ranges by name with 'pipescope compare'");
    }
    baseline->shape = task_shape(baseline->typical);
    std::vector<std::string> warnings = texts_of(before.run.warnings);
    warnings.insert(warnings.end(), baseline->warnings.begin(), baseline->warnings.end());
    baseline->warnings = std::move(warnings);
    for (std::string& warning : load_warnings(before.run.load, "the run was recorded")) {
        baseline->warnings.push_back(std::move(warning));
    }
    return baseline;
}

std::shared_ptr<const TraceDocument> withBaseline(const TraceDocument& document,
                                                  std::shared_ptr<const Baseline> baseline) {
    if (!document.measured && document.simulated) {
        throw Error(document.path.toStdString() +
                    " is a simulation, and an earlier run takes the place of a recorded run's simulation; give the "
                    "simulation as the earlier run, or compare the two by 'pipescope compare'");
    }
    if (!document.measured) {
        throw Error(
            document.path.toStdString() +
            " holds no task of a pipeline, so there is no step to compare with an earlier run; compare ranges by "
            "name with 'pipescope compare'");
    }
    auto changed = std::make_shared<TraceDocument>(document);
    changed->simulated = baseline->timeline;
    changed->simulatedMemory = baseline->memory;
    changed->simulation.reset();
    changed->simulatedBefore.reset();
    changed->comparison.reset();
    if (document.complete) {
        compareRuns(*baseline, *changed);
    }
    std::erase_if(changed->warnings, [](const TraceWarning& warning) { return warning.of_prediction; });
    for (std::string& warning : load_warnings(document.run.load, "the run was recorded")) {
        changed->warnings.push_back({Severity::caution, std::move(warning)});
    }
    for (const std::string& warning : baseline->warnings) {
        changed->notes
            << translated("Before (%1): %2").arg(QFileInfo(baseline->path).fileName(), QString::fromStdString(warning));
    }
    QStringList missing;
    for (std::size_t lane = document.measured->lanes().size(); lane < baseline->timeline->lanes().size(); ++lane) {
        missing << QString::fromStdString(baseline->timeline->lanes()[lane].name);
    }
    if (!missing.isEmpty()) {
        changed->notes << translated("Only the earlier run has %1: overlay and difference leave it out.")
                              .arg(missing.join(QStringLiteral(", ")));
    }
    if (const std::string text = update_warning(baseline->run, document.run); !text.empty()) {
        changed->notes << QString::fromStdString(text);
    }
    if (!changed->whyNoTwins.empty()) {
        changed->notes << translated("Tasks are not compared one by one: %1. Steps, bubbles and memory are.")
                              .arg(QString::fromStdString(changed->whyNoTwins));
    }
    changed->baseline = std::move(baseline);
    return changed;
}
}  // namespace pipescope
