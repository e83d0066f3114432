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
}

void showSimulated(const TraceDocument& before, Baseline& baseline) {
    baseline.step = before.simulated->steps().front().step;
    baseline.timeline = before.simulated;
    baseline.memory = before.simulatedMemory;
    for (const MemoryTrack& track : baseline.memory) {
        baseline.peaks.push_back(track.empty() ? std::nullopt : std::optional(track.highest()));
    }
}

void addFigures(const QString& path, const RunTasks& tasks, Baseline& baseline) {
    baseline.compared = compared_run(tasks);
    if (!baseline.compared.figures) {
        throw Error(path.toStdString() + " " + baseline.compared.why_none);
    }
    baseline.typical = typical_step(tasks.measured());
    const std::vector<TraceWarning>& warnings = baseline.compared.warnings;
    baseline.whyNoBubble = QString::fromStdString(why_no_bubbles(warnings));
    baseline.whyNoStepTime = QString::fromStdString(why_no_step_times(warnings));
    baseline.whyNoTimesAcrossLanes = QString::fromStdString(why_no_times_across_lanes(warnings));
}

void compareRuns(const Baseline& baseline, TraceDocument& document) {
    const ComparedTasks own = comparedTasks(document);
    const RunTasks tasks = runTasks(document, own);
    const ComparedRun after = compared_run(tasks);
    document.whyNoTwins = why_tasks_differ(baseline.compared, after);
    document.comparableSteps = own.steps.comparable;
    document.whyNotCompared = after.why_none;
    if (!after.figures) {
        return;
    }
    document.comparison = compare(tasks.measured(), *after.figures, *baseline.compared.figures,
                                  document.whyNoTwins.empty() ? baseline.typical : Timeline{});
    const StepChanges changes = step_changes(baseline.compared, after);
    document.stepChange = changes.step;
    document.bubbleChange = changes.bubble;
    if (!document.whyNoTwins.empty()) {
        document.comparison->tasks_unmatched = 0;  // none was looked for
        document.comparison->tasks_only_simulated = 0;
    }
}
}  // namespace

std::shared_ptr<const Baseline> baselineOf(const TraceDocument& before) {
    auto baseline = std::make_shared<Baseline>();
    baseline->path = before.path;
    if (before.measured) {
        showMeasured(before, *baseline);
        addFigures(before.path, runTasks(before, comparedTasks(before)), *baseline);
    } else if (before.simulated && !before.simulated->steps().empty()) {
        showSimulated(before, *baseline);
        const Timeline timeline = timelineOf(*before.simulated);
        const RunCheck unchecked;
        const MeasuredSteps steps = whole_steps(before.run, timeline, unchecked);
        addFigures(before.path, {before.run, unchecked, steps, timeline, peaksOf(before.simulatedMemory)}, *baseline);
    } else {
        throw Error(before.path.toStdString() +
                    " holds no task of a pipeline, so there is no step to compare with; record a run with 'pipescope "
                    "run --trace', or compare ranges by name with 'pipescope compare'");
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
    changed->warnings = about_run(changed->warnings);
    for (std::string& warning : load_warnings(document.run.load, "the run was recorded")) {
        changed->warnings.push_back({Severity::caution, std::move(warning)});
    }
    for (const std::string& warning : texts_of(baseline->compared.warnings)) {
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
    if (const std::string text = update_warning(baseline->compared.run, document.run); !text.empty()) {
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
