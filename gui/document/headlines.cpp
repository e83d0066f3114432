#include "gui/document/headlines.h"

#include "gui/document/baseline.h"
#include "gui/document/throughput.h"
#include "gui/style/elided_label.h"
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "trace/store/process_json.h"

#include <QFileInfo>

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
namespace {
/// "4,4,3"; of many partitions only how many layers they have: "64 × 1", "64 partitions of 1 to 3 layers".
QString briefly(const Balance& balance) {
    constexpr std::size_t kMostListed = 16;
    const std::vector<std::int64_t> layers = balance.layers_per_partition();
    if (layers.size() <= kMostListed) {
        return QString::fromStdString(to_string(balance));
    }
    const auto [least, most] = std::minmax_element(layers.begin(), layers.end());
    return *least == *most ? translated("%1 × %2").arg(layers.size()).arg(*least)
                           : translated("%1 partitions of %2 to %3 layers").arg(layers.size()).arg(*least).arg(*most);
}

QStringList figures(const StepFacts& step) {
    if (!step.whyNoTime.isEmpty()) {
        return {translated("step time and bubble not given, %1").arg(step.whyNoTime)};
    }
    const QString bubble =
        step.whyNoBubble.isEmpty() ? formatShare(step.bubble) : translated("not given, %1").arg(step.whyNoBubble);
    return {translated("step time %1").arg(formatDuration(step.time.count())), translated("bubble %1").arg(bubble)};
}

/// "step time 3 ms (+50 % against the measured step)  ·  bubble 12 % (+2 points against 10 %)". What the changes are
/// against is in the first part, since a narrow line leaves out the last ones. The other bubble may be none on screen,
/// as that of a mean.
QStringList compared(const StepFacts& simulated, const StepFacts& other, const QString& against) {
    const auto longer = static_cast<double>(simulated.time.count()) / static_cast<double>(other.time.count());
    const QString bubble = formatShare(simulated.bubble);
    return {translated("step time %1 (%2 %3)")
                .arg(formatDuration(simulated.time.count()), formatShareChange(longer - 1), against),
            other.whyNoBubble.isEmpty()
                ? translated("bubble %1 (%2 against %3)")
                      .arg(bubble, formatPoints(simulated.bubble, other.bubble), formatShare(other.bubble))
                : translated("bubble %1").arg(bubble)};
}

/// Names the step that the figures of a simulation are of, if it is not the drawn one. `parts`: the step time first.
QStringList withKindOfStep(QStringList parts, const TraceDocument& document) {
    constexpr double kWorthSaying = 0.02;
    if (!document.simulation || parts.isEmpty()) {
        return parts;
    }
    const Simulation& simulation = *document.simulation;
    const QString drawn = formatDuration(figures_without_noise(simulation).step.count());
    if (simulation.noise) {
        const auto longer =
            static_cast<double>(simulation.noise->mean.count()) / static_cast<double>(simulation.step_time.count()) - 1;
        if (std::abs(longer) >= kWorthSaying) {  // stays with the step time in a narrow line
            parts.front() += translated(", drawn without noise: %1").arg(drawn);
        }
    } else if (document.noiseLeftOut && !document.simulatedBefore) {
        parts.front() += document.complete ? translated(", without noise, whose simulation takes long")
                                           : translated(", without noise so far …");
    }
    return parts;
}

/// The simulated figures and their distance to the comparison's judged step, as in comparisonHeadline().
QStringList judgedFigures(const TraceDocument& document) {
    const JudgedStep judged = document.comparison->judged();
    return compared({judged.simulated, judged.simulated_bubble, {}, {}},
                    {judged.measured, judged.measured_bubble, {}, document.whyNoBubble()},
                    document.comparison->steps.size() == 1 ? translated("against the measured step")
                    : judged.is_mean                       ? translated("against the mean of the measured steps")
                                                           : translated("against the median of the measured steps"));
}

/// The least time of the pipeline in any order, and how far the simulated one, without noise, is above it.
QString boundText(const TraceDocument& document, Nanoseconds bound) {
    const Nanoseconds pipeline = document.simulation ? document.simulation->step_time
                                                     : document.simulated->steps().front().statistics.step_time();
    const auto least = static_cast<double>(std::max<std::int64_t>(1, bound.count()));
    return (document.run.on_cluster ? translated("lower bound of the pipeline %1, gap %2")
                                    : translated("lower bound %1, gap %2"))
        .arg(formatDuration(bound.count()), formatShare(static_cast<double>(pipeline.count()) / least - 1));
}

/// "Median of 8 steps": what the comparison compares.
QString comparedSteps(const TraceDocument& document) {
    const Comparison& comparison = *document.comparison;
    const QString of = comparison.judged().is_mean ? translated("Mean of %1") : translated("Median of %1");
    const bool some = comparison.steps.size() < document.comparableSteps;
    return some                           ? of.arg(translated("%1 of %2 steps, evenly chosen")
                                                       .arg(comparison.steps.size())
                                                       .arg(document.comparableSteps))
           : comparison.steps.size() == 1 ? translated("One step compared")
                                          : of.arg(translated("%1 steps").arg(comparison.steps.size()));
}

/// The number of matched tasks in all compared steps.
QString matchedText(const Comparison& comparison) {
    return translated("  ·  %1 of %2 matched, %3 unmatched (optimizer not counted)")
        .arg(formatCount(comparison.tasks_matched, translated("task"), translated("tasks")),
             formatCount(comparison.steps.size(), translated("step"), translated("steps")))
        .arg(comparison.tasks_unmatched);
}

/// The comparison with a run before, as in `pipescope compare`.
QString runsHeadline(const TraceDocument& document) {
    const Comparison& comparison = *document.comparison;
    const Baseline& before = *document.baseline;
    const Nanoseconds was = before.compared.figures->step_mean;
    const Nanoseconds is = comparison.measured_step_mean;
    QString line = translated("%1, and %2 before: step time %3 after, %4 before (%5)")
                       .arg(comparedSteps(document))
                       .arg(before.compared.figures->steps.size())
                       .arg(formatDuration(is.count()), formatDuration(was.count()),
                            formatShareChange(static_cast<double>(is.count()) / static_cast<double>(was.count()) - 1));
    if (document.stepChange && document.stepChange->noise_is_known) {
        line += document.stepChange->exceeds_noise() ? translated(", more than the noise of the steps")
                                                     : translated(", within the noise of the steps");
    }
    if (document.whyNoBubble().isEmpty() && before.whyNoBubble.isEmpty()) {
        line +=
            translated("  ·  bubble %1 after, %2 before (%3)")
                .arg(formatShare(comparison.measured_bubble_mean), formatShare(before.compared.figures->bubble_mean),
                     formatPoints(comparison.measured_bubble_mean, before.compared.figures->bubble_mean));
        if (document.bubbleChange && document.bubbleChange->noise_is_known) {
            line += document.bubbleChange->exceeds_noise() ? translated(", more than the noise")
                                                           : translated(", within the noise");
        }
    }
    if (!document.whyNoTwins.empty()) {
        return line + translated("  ·  tasks are not comparable");
    }
    return line + matchedText(comparison);
}

/// Adds the pipeline's time to the first figure, a step time, if the run is a layout on a cluster.
void addPipeline(QStringList& figures, const RecordedRun& run, Nanoseconds step) {
    if (run.on_cluster) {
        figures.front() += translated(", its pipeline %1").arg(formatDuration((step - after_pipeline(run)).count()));
    }
}

/// The line above the timeline of the run before.
QString baselineHeadline(const TraceDocument& document) {
    const Baseline& before = *document.baseline;
    const StepFacts step = *stepFacts(document, Source::simulated, before.step);
    QStringList parts{QFileInfo(before.path).fileName()};
    if (!before.compared.run.model.empty()) {
        parts << QString::fromStdString(before.compared.run.model);
    }
    QStringList shown = figures(step);
    parts << translated("step %1").arg(before.step);
    if (!step.whyNoTime.isEmpty()) {
        return (parts << shown).join(kPartSeparator);
    }
    addPipeline(shown, before.compared.run, step.time);
    parts << shown << brief(throughputOf(document, Source::simulated, step.time, before.step));
    return parts.join(kPartSeparator);
}

QString configuration(const RecordedRun& run, const PipelineOptions& options, std::int64_t micro_batches) {
    return translated("%1, balance %2, %3, checkpoint %4")
        .arg(QString::fromStdString(to_string(options.schedule)), briefly(options.balance),
             formatCount(micro_batches, translated("micro-batch"), translated("micro-batches")),
             checkpointText(run, options));
}
}  // namespace

QString measuredHeadline(const TraceDocument& document, std::int32_t step) {
    QStringList parts{QFileInfo(document.path).fileName()};
    if (!document.run.model.empty()) {
        parts << QString::fromStdString(document.run.model);
    }
    if (const auto bound = clock_bound(document.run.processes)) {
        parts << translated("%1 processes, clocks within %2")
                     .arg(document.run.processes.size())
                     .arg(formatDuration(bound->count()));
    }
    if (const std::optional<StepFacts> own = stepFacts(document, Source::measured, step)) {
        parts << translated("step %1").arg(step) << figures(*own);
        if (own->whyNoTime.isEmpty()) {
            parts << brief(throughputOf(document, Source::measured, own->time, step));
        }
    }
    return parts.join(kPartSeparator);
}

QString simulatedHeadline(const TraceDocument& document, std::int32_t step) {
    if (document.baseline) {
        return baselineHeadline(document);
    }
    QStringList parts;
    if (!document.measured) {
        parts << QFileInfo(document.path).fileName();
    }
    if (document.simulation) {
        parts << configuration(document.run, document.simulation->options, document.simulation->micro_batches);
        if (document.run.profile && (*document.run.profile)->from_trace) {
            parts << (document.measured ? translated("profile measured from this trace")
                                        : translated("profile measured from a trace"));
        }
    }
    if (!document.simulated || document.simulated->steps().empty()) {
        return parts.join(kPartSeparator);
    }
    const StepFacts own = *stepFacts(document, Source::simulated, step);
    const std::optional<StepFacts> measured = stepFacts(document, Source::measured, step);
    QStringList shown;
    // A scenario is compared with its starting point, as in the what-if panel; an error is that of a prediction.
    if (document.simulatedBefore && document.simulation) {
        const auto [simulated, before] = comparable_figures(*document.simulation, *document.simulatedBefore);
        shown = compared({simulated.step, simulated.bubble, {}, {}}, {before.step, before.bubble, {}, {}},
                         document.measured ? translated("against the recorded pipeline, simulated")
                                           : translated("against the default"));
        addPipeline(shown, document.run, simulated.step);
    } else if (!measured || !measured->whyNoTime.isEmpty()) {
        shown = figures(own);
        addPipeline(shown, document.run, own.time);
        if (document.simulation && document.simulation->noise) {
            shown.front() = translated("expected %1").arg(shown.front());
        }
        if (document.simulation) {
            shown << brief(throughputOf(document, Source::simulated, own.time));
        }
    } else if (document.comparison) {
        shown = judgedFigures(document);
    } else {
        shown = compared(own, *measured, translated("against the measured step"));
    }
    parts << withKindOfStep(std::move(shown), document);
    if (const std::optional<Nanoseconds> bound = document.lowerBound()) {
        parts << boundText(document, *bound);
    }
    return parts.join(kPartSeparator);
}

QString comparisonHeadline(const TraceDocument& document) {
    if (document.loaded < 1) {
        return translated("Reading the trace: %1 of its tasks are shown, the first ones")
            .arg(formatShare(document.loaded));
    }
    if (!document.comparison) {
        return document.complete       ? QString()
               : document.noiseLeftOut ? translated("Simulating the noise: the expected step follows …")
                                       : translated("Reading memory, comparing …");
    }
    for (const QString& unknown :
         {document.whyNoStepTime(), document.baseline ? document.baseline->whyNoStepTime : QString()}) {
        if (!unknown.isEmpty()) {
            return translated("Step times are not compared, %1").arg(unknown);
        }
    }
    if (document.baseline) {
        return runsHeadline(document);
    }
    const Comparison& comparison = *document.comparison;
    const JudgedStep judged = comparison.judged();
    const QString steps = comparedSteps(document);
    const bool scenario = document.simulatedBefore.has_value();
    const QString measuredStep = formatDuration(judged.measured.count());
    const QString simulatedStep = formatDuration(judged.simulated.count());
    // A different pipeline than the measured one does not predict it, and has no error.
    QString line =
        steps + (scenario ? translated(": step time %1 measured, %2 what if").arg(measuredStep, simulatedStep)
                          : translated(": step time %1 measured, %2 simulated (%3)")
                                .arg(measuredStep, simulatedStep, formatShareChange(comparison.step_error)));
    if (document.whyNoBubble().isEmpty()) {
        const QString measured = formatShare(judged.measured_bubble);
        const QString simulated = formatShare(judged.simulated_bubble);
        line += scenario ? translated("  ·  bubble %1 measured, %2 what if").arg(measured, simulated)
                         : translated("  ·  bubble %1 measured, %2 simulated (%3)")
                               .arg(measured, simulated, formatPoints(judged.simulated_bubble, judged.measured_bubble));
    }
    return line + matchedText(comparison);
}

QString partitionLegend(const TraceDocument& document) {
    for (const auto& store : {document.measured, document.simulated}) {
        for (std::size_t lane = 0; store && lane < store->lanes().size(); ++lane) {
            const std::vector<std::int32_t>& all = store->partitionsOf(LaneId{static_cast<std::int64_t>(lane)});
            if (all.size() > 1) {
                const TaskKey forward{-1, TaskKind::forward, all.back(), 0, -1};
                return translated("%1: %2 on partition %3; darker top: later partition")
                    .arg(barLabelWithPartition(forward), barLabel(forward))
                    .arg(all.back());
            }
        }
    }
    return {};
}

QStringList shorterHeadlines(const TraceDocument& document) {
    const QString line = comparisonHeadline(document);
    QStringList shorter = withoutLastParts(line);
    const QString first = shorter.isEmpty() ? line : shorter.back();
    const QString figures = first.section(translated(": step time "), 1);  // without what was compared
    if (figures.isEmpty()) {
        return shorter;
    }
    shorter << figures;
    QString verdict = figures;
    verdict.replace(translated(", more than the noise of the steps"), translated(", beyond noise"));
    verdict.replace(translated(", within the noise of the steps"), translated(", within noise"));
    if (verdict != figures) {
        shorter << verdict
                << verdict.mid(verdict.lastIndexOf(QLatin1Char('('))).remove(QLatin1Char('(')).remove(QLatin1Char(')'));
    }
    return shorter;
}
}  // namespace pipescope
