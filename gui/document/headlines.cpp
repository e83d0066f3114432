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

/// `unknown` is why no bubble can be given; empty where one can.
QString figures(const StepStatistics& statistics, const QString& unknown) {
    const QString bubble = unknown.isEmpty() ? formatShare(statistics.bubble_fraction) : unknown;
    return text(QT_TRANSLATE_NOOP("Headlines", "step time %1  ·  bubble %2"))
        .arg(formatDuration(statistics.step_time().count()), bubble);
}

QString whyNoBubble(const TraceDocument& document, std::int32_t step) {
    if (document.bubbleKnown(step)) {
        return {};
    }
    return document.lost.ranges > 0 ? text(QT_TRANSLATE_NOOP("Headlines", "not given, ranges were lost"))
           : document.lost.any()    ? text(QT_TRANSLATE_NOOP("Headlines", "not given, records were lost"))
                                    : text(QT_TRANSLATE_NOOP("Headlines", "not given, the recording was cut off here"));
}

QString configuration(const PipelineOptions& options, std::int64_t micro_batches) {
    return text(QT_TRANSLATE_NOOP("Headlines", "%1, balance %2, %3 micro-batches, checkpoint %4"))
        .arg(QString::fromStdString(options.schedule), QString::fromStdString(to_string(options.balance)))
        .arg(micro_batches)
        .arg(QString::fromStdString(to_string(options.checkpoint)));
}
}  // namespace

QString measuredHeadline(const TraceDocument& document, std::int32_t step) {
    QStringList parts{QFileInfo(document.path).fileName()};
    if (!document.model.isEmpty()) {
        parts << document.model;
    }
    const StepSpan* span = document.measured ? document.measured->step(step) : nullptr;
    if (span != nullptr) {
        parts << text(QT_TRANSLATE_NOOP("Headlines", "step %1")).arg(step)
              << figures(span->statistics, whyNoBubble(document, step));
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
    const StepStatistics& simulated = document.simulated->steps().front().statistics;
    const StepSpan* span = document.measured ? document.measured->step(step) : nullptr;
    if (span == nullptr) {
        parts << figures(simulated, QString());
        return parts.join(kSeparator);
    }
    const StepStatistics& measured = span->statistics;
    const double error =
        static_cast<double>(simulated.step_time().count()) / static_cast<double>(measured.step_time().count()) - 1;
    parts << text(QT_TRANSLATE_NOOP("Headlines", "step time %1 (%2)"))
                 .arg(formatDuration(simulated.step_time().count()), formatShareChange(error));
    const QString bubble = formatShare(simulated.bubble_fraction);
    parts << (!document.bubbleKnown(step)
                  ? text(QT_TRANSLATE_NOOP("Headlines", "bubble %1")).arg(bubble)
                  : text(QT_TRANSLATE_NOOP("Headlines", "bubble %1 (%2)"))
                        .arg(bubble, formatPoints(simulated.bubble_fraction - measured.bubble_fraction)));
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
    QString line = steps + text(QT_TRANSLATE_NOOP("Headlines", ": step time %1 measured, %2 simulated (%3)"))
                               .arg(formatDuration(judged.measured.count()), formatDuration(judged.simulated.count()),
                                    formatShareChange(comparison.step_error));
    if (document.comparedBubbleKnown()) {
        line += text(QT_TRANSLATE_NOOP("Headlines", "  ·  bubble %1 measured, %2 simulated (%3)"))
                    .arg(formatShare(judged.measured_bubble), formatShare(judged.simulated_bubble),
                         formatPoints(judged.simulated_bubble - judged.measured_bubble));
    }
    return line + text(QT_TRANSLATE_NOOP("Headlines", "  ·  %1 tasks matched, %2 without a twin"))
                      .arg(comparison.tasks_matched)
                      .arg(comparison.tasks_unmatched);
}
}  // namespace pipescope
