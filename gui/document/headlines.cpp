#include "gui/document/headlines.h"

#include "gui/style/number_format.h"

#include <QCoreApplication>
#include <QFileInfo>

namespace pipescope {
namespace {
QString text(const char* source) {
    return QCoreApplication::translate("Headlines", source);
}
const QString kSeparator = QStringLiteral("  ·  ");

/// `unknown` is why no bubble can be given; empty if one can. `expected`: the step is the mean of noisy ones.
QString figures(Nanoseconds step, double bubbleFraction, const QString& unknown, bool expected = false) {
    const QString bubble = unknown.isEmpty() ? formatShare(bubbleFraction)
                                             : text(QT_TRANSLATE_NOOP("Headlines", "not given, %1")).arg(unknown);
    return (expected ? text(QT_TRANSLATE_NOOP("Headlines", "expected step time %1  ·  bubble %2"))
                     : text(QT_TRANSLATE_NOOP("Headlines", "step time %1  ·  bubble %2")))
        .arg(formatDuration(step.count()), bubble);
}

/// "step time 3 ms (+50 %)  ·  bubble 12 % (+2 points)". `unknown`: as above, of the other bubble.
QStringList compared(const StepFigures& simulated, Nanoseconds otherStep, double otherBubble, const QString& unknown) {
    const auto longer = static_cast<double>(simulated.step.count()) / static_cast<double>(otherStep.count());
    const QString bubble = formatShare(simulated.bubble);
    return {text(QT_TRANSLATE_NOOP("Headlines", "step time %1 (%2)"))
                .arg(formatDuration(simulated.step.count()), formatShareChange(longer - 1)),
            unknown.isEmpty() ? text(QT_TRANSLATE_NOOP("Headlines", "bubble %1 (%2)"))
                                    .arg(bubble, formatPoints(simulated.bubble, otherBubble))
                              : text(QT_TRANSLATE_NOOP("Headlines", "bubble %1")).arg(bubble)};
}

/// The simulated figures and how far they are from the judged step of the comparison, as comparisonHeadline() has them.
QStringList judgedFigures(const TraceDocument& document) {
    const JudgedStep judged = document.comparison->judged();
    StepFigures simulated;
    simulated.step = judged.simulated;
    simulated.bubble = judged.simulated_bubble;
    QStringList parts = compared(simulated, judged.measured, judged.measured_bubble, document.whyNoBubble());
    parts << (document.comparison->steps.size() == 1 ? text(QT_TRANSLATE_NOOP("Headlines", "against the measured step"))
              : judged.is_mean ? text(QT_TRANSLATE_NOOP("Headlines", "against the mean of the measured steps"))
                               : text(QT_TRANSLATE_NOOP("Headlines", "against the median of the measured steps")));
    return parts;
}

/// What the simulated timeline shows: the expected step, or the timeline's own if there is nothing but a timeline.
StepFigures simulatedFigures(const TraceDocument& document) {
    if (document.simulation) {
        return expected_figures(*document.simulation);
    }
    const StepStatistics& statistics = document.simulated->steps().front().statistics;
    StepFigures simulated;
    simulated.step = statistics.step_time();
    simulated.bubble = statistics.bubble_fraction;
    return simulated;
}

QString configuration(const PipelineOptions& options, std::int64_t micro_batches) {
    return text(QT_TRANSLATE_NOOP("Headlines", "%1, balance %2, %3, checkpoint %4"))
        .arg(QString::fromStdString(to_string(options.schedule)), QString::fromStdString(to_string(options.balance)),
             formatCount(micro_batches, text(QT_TRANSLATE_NOOP("Headlines", "micro-batch")),
                         text(QT_TRANSLATE_NOOP("Headlines", "micro-batches"))),
             QString::fromStdString(to_string(options.checkpoint)));
}
}  // namespace

QString measuredHeadline(const TraceDocument& document, std::int32_t step) {
    QStringList parts{QFileInfo(document.path).fileName()};
    if (!document.run.model.empty()) {
        parts << QString::fromStdString(document.run.model);
    }
    const StepSpan* span = document.measured ? document.measured->step(step) : nullptr;
    if (span != nullptr) {
        parts << text(QT_TRANSLATE_NOOP("Headlines", "step %1")).arg(step)
              << figures(span->statistics.step_time(), span->statistics.bubble_fraction, document.whyNoBubble(step));
    }
    return parts.join(kSeparator);
}

QString simulatedHeadline(const TraceDocument& document, std::int32_t step) {
    QStringList parts;
    if (!document.measured) {
        parts << QFileInfo(document.path).fileName();
    }
    if (document.simulation) {
        parts << configuration(document.simulation->options, document.simulation->micro_batches);
    }
    if (!document.simulated || document.simulated->steps().empty()) {
        return parts.join(kSeparator);
    }
    const StepSpan* span = document.measured ? document.measured->step(step) : nullptr;
    // A scenario is read against what it started from, as the what-if panel does; an error is that of a prediction.
    if (document.simulatedBefore && document.simulation) {
        const auto [simulated, before] = comparable_figures(*document.simulation, *document.simulatedBefore);
        parts << compared(simulated, before.step, before.bubble, {})
              << (document.measured ? text(QT_TRANSLATE_NOOP("Headlines", "against the recorded pipeline, simulated"))
                                    : text(QT_TRANSLATE_NOOP("Headlines", "against the default")));
    } else if (span == nullptr) {
        const StepFigures simulated = simulatedFigures(document);
        const bool expected = document.simulation && document.simulation->step_mean;
        parts << figures(simulated.step, simulated.bubble, QString(), expected);
    } else if (document.comparison) {
        parts << judgedFigures(document);
    } else {
        parts << compared(simulatedFigures(document), span->statistics.step_time(), span->statistics.bubble_fraction,
                          document.whyNoBubble(step))
              << text(QT_TRANSLATE_NOOP("Headlines", "against the measured step"));
    }
    return parts.join(kSeparator);
}

QString comparisonHeadline(const TraceDocument& document) {
    if (document.loaded < 1) {
        return text(QT_TRANSLATE_NOOP("Headlines", "Reading the trace: %1 of its tasks are shown, the first ones"))
            .arg(formatShare(document.loaded));
    }
    if (!document.comparison) {
        return document.complete ? QString() : text(QT_TRANSLATE_NOOP("Headlines", "Reading memory, comparing …"));
    }
    const Comparison& comparison = *document.comparison;
    const JudgedStep judged = comparison.judged();
    const QString of = judged.is_mean ? text(QT_TRANSLATE_NOOP("Headlines", "Mean of %1"))
                                      : text(QT_TRANSLATE_NOOP("Headlines", "Median of %1"));
    const bool some = comparison.steps.size() < document.comparableSteps;
    const QString steps = some ? of.arg(text(QT_TRANSLATE_NOOP("Headlines", "%1 of %2 steps, evenly chosen"))
                                            .arg(comparison.steps.size())
                                            .arg(document.comparableSteps))
                          : comparison.steps.size() == 1
                              ? text(QT_TRANSLATE_NOOP("Headlines", "One step compared"))
                              : of.arg(text(QT_TRANSLATE_NOOP("Headlines", "%1 steps")).arg(comparison.steps.size()));
    const bool scenario = document.simulatedBefore.has_value();
    const QString measuredStep = formatDuration(judged.measured.count());
    const QString simulatedStep = formatDuration(judged.simulated.count());
    // Another pipeline than the measured one is no prediction of it, and has no error.
    QString line =
        steps + (scenario ? text(QT_TRANSLATE_NOOP("Headlines", ": step time %1 measured, %2 what if"))
                                .arg(measuredStep, simulatedStep)
                          : text(QT_TRANSLATE_NOOP("Headlines", ": step time %1 measured, %2 simulated (%3)"))
                                .arg(measuredStep, simulatedStep, formatShareChange(comparison.step_error)));
    if (document.whyNoBubble().isEmpty()) {
        const QString measured = formatShare(judged.measured_bubble);
        const QString simulated = formatShare(judged.simulated_bubble);
        line +=
            scenario
                ? text(QT_TRANSLATE_NOOP("Headlines", "  ·  bubble %1 measured, %2 what if")).arg(measured, simulated)
                : text(QT_TRANSLATE_NOOP("Headlines", "  ·  bubble %1 measured, %2 simulated (%3)"))
                      .arg(measured, simulated, formatPoints(judged.simulated_bubble, judged.measured_bubble));
    }
    return line + text(QT_TRANSLATE_NOOP("Headlines", "  ·  %1 matched, %2 unmatched, the optimizer aside"))
                      .arg(formatCount(comparison.tasks_matched, text(QT_TRANSLATE_NOOP("Headlines", "task")),
                                       text(QT_TRANSLATE_NOOP("Headlines", "tasks"))))
                      .arg(comparison.tasks_unmatched);
}
}  // namespace pipescope
