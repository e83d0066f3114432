#include "gui/document/document_verdict.h"

#include "analysis/trace_comparison.h"
#include "gui/document/document_builder.h"
#include "gui/document/step_history.h"
#include "gui/timeline/step_spans.h"

#include <utility>

namespace pipescope {
namespace {
/// Why the share of idle time is not known, in a file with or without a simulation; empty if it is.
QString whyNoIdleTime(const TraceDocument& document, const MeasuredSteps& steps) {
    for (const std::int32_t step : steps.numbers()) {
        if (const QString why = document.whyNoBubble(step); !why.isEmpty()) {
            return why;
        }
    }
    return document.whyNoStepTime();
}

RunVerdict ofMeasured(const TraceDocument& document, const std::function<bool()>& cancelled) {
    const ComparedTasks tasks = comparedTasks(document);
    if (!tasks.steps.why_none.empty()) {
        return unknown_idle("this file " + tasks.steps.why_none);
    }
    if (const QString why = whyNoIdleTime(document, tasks.steps); !why.isEmpty()) {
        return unknown_idle(why.toStdString());
    }
    const RunTasks run = runTasks(document, tasks);
    const Measured measured = run.measured();
    BubbleReport report = bubble_report(measured, document.run.graph, Sends::overlapped, document.run.launches);
    report.roots = document.rootCauses;
    return verdict_of(document.run, report, run_figures(measured).lanes, modelErrorOf(document), cancelled);
}

RunVerdict ofSimulated(const TraceDocument& document, const std::function<bool()>& cancelled) {
    const TimelineStore& store = *document.simulated;
    if (store.steps().empty()) {
        return unknown_idle("the simulation has no step");
    }
    const StepSpan& span = store.steps().front();
    const StepGraph tasks = stepGraphOf(store, span.step, simulatedGraph(document));
    const BubbleSums sums = sum_bubbles(tasks, bubbles_of(tasks, simulatedSends(document)));
    BubbleReport report;
    for (std::size_t cause = 0; cause < sums.ns.size(); ++cause) {
        report.causes[cause] = {Nanoseconds{sums.ns[cause]}, sums.share(sums.ns[cause])};
    }
    std::vector<RunLane> lanes;
    for (const LaneStatistics& lane : span.statistics.lanes) {
        lanes.push_back({lane.busy, lane.bubble_fraction, std::nullopt, true});
    }
    return verdict_of(document.run, report, lanes, std::nullopt, cancelled);
}
}  // namespace

RunVerdict verdictOf(const TraceDocument& document, const std::function<bool()>& cancelled) {
    try {
        if (document.measured) {
            return ofMeasured(document, cancelled);
        }
        return document.simulated && !document.baseline ? ofSimulated(document, cancelled)
                                                        : unknown_idle("this file holds no task of a pipeline");
    } catch (const Error& error) {
        return unknown_idle(error.what());
    }
}

std::optional<ModelError> modelErrorOf(const TraceDocument& document) {
    return document.comparison && document.whyNoBubble().isEmpty() ? model_error(*document.comparison) : std::nullopt;
}

std::optional<LaneDifference> whySlow(const StepAnalysis& analysis, std::int32_t step, LaneId lane,
                                      std::optional<LaneId> other) {
    const StepGraph* tasks = analysis.tasks(Source::measured);
    if (tasks == nullptr) {
        return std::nullopt;
    }
    const std::optional<LaneId> usual = other ? other : median_lane(*tasks);
    if (!usual) {
        return std::nullopt;
    }
    LaneDifference slow = compare_lanes(*tasks, analysis.bubbles(Source::measured), step, lane, *usual);
    return slow.busy.step > 0 && slow.busy.usual > 0 ? std::optional(std::move(slow)) : std::nullopt;
}

std::optional<SlowStep> whySlow(const TraceDocument& document, const StepAnalysis& analysis, const StepHistory& history,
                                std::int32_t step) {
    const StepGraph* own = analysis.tasks(Source::measured);
    if (own == nullptr || !document.measured || !history.median || history.steps.size() < 2 ||
        !document.whyNoTimesAcrossLanes().isEmpty()) {
        return std::nullopt;
    }
    const std::int32_t usual = history.steps[*history.median].step;
    const StepGraph graph = stepGraphOf(*document.measured, usual, document.run.graph);
    if (graph.tasks().size() > StepAnalysis::kMostTasks) {
        return std::nullopt;
    }
    SlowStep slow = compare_steps(*own, graph, step, usual, document.run.launches, document.run.launches);
    add_records(document.run, slow);
    return slow;
}
}  // namespace pipescope
