#include "gui/tables/task_details.h"

#include "gui/document/step_analysis.h"
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"

namespace pipescope {
namespace {
/// `shift`: from times of the slice's store to those of the axis, whose times these then are; null: since `origin`.
TaskFacts::Times timesOf(const Slice& slice, std::int64_t origin, const TimeAxisModel* axis, std::int64_t shift) {
    const std::int64_t length = slice.duration().count();
    if (axis != nullptr) {
        return {axis->instantText(slice.start.count() + shift, length),
                axis->instantText(slice.end.count() + shift, length), formatDuration(length)};
    }
    return {formatInstant(slice.start.count() - origin, length), formatInstant(slice.end.count() - origin, length),
            formatDuration(length)};
}

QString change(std::int64_t ns, std::int64_t of) {
    const QString text = formatDurationChange(ns);
    return of > 0
               ? translated("%1 (%2)").arg(text, formatShareChange(static_cast<double>(ns) / static_cast<double>(of)))
               : text;
}
}  // namespace

TaskFacts taskFacts(const TraceDocument& document, const TaskSelection& selection, std::int32_t step,
                    const TimeAxisModel* axis) {
    const TimeAxisModel* of = axis != nullptr && axis->timeStyle() != TimeStyle::step ? axis : nullptr;
    const auto shiftOf = [&](Source source) {
        return source == Source::simulated ? simulatedShift(document, step) : 0;
    };
    const TimelineStore& store = *document.store(selection.source);
    const Slice slice = store.slice(selection.slice);
    const auto originOf = [&](Source source, std::int32_t number) {
        const StepSpan* span =
            source == Source::measured ? document.measured->step(number) : &document.simulated->steps().front();
        return span != nullptr ? span->range().start : 0;
    };
    const bool has_step = selection.source == Source::measured || !store.steps().empty();
    const std::int64_t origin = has_step ? originOf(selection.source, slice.key.step) : 0;
    const LaneInfo& lane = store.lanes()[slice.lane.index()];

    TaskFacts facts;
    facts.title = taskName(store.shownKey(selection.slice));
    facts.where = QString::fromStdString(lane.name);
    if (!lane.device.empty()) {
        facts.where += QStringLiteral(" · ") + QString::fromStdString(lane.device);
    }
    facts.where +=
        QStringLiteral(" · ") + translated("step %1").arg(selection.source == Source::measured ? slice.key.step : step);
    facts.bytes = slice.bytes > 0 ? formatBytes(slice.bytes) : QString();
    const bool measured_task = selection.source == Source::measured && document.kernels;
    if (const auto work = measured_task ? document.kernels->workOf(slice.key) : std::nullopt) {
        facts.device = describe(*work);
    }
    facts.sinceStep = of == nullptr;
    facts.picked = timesOf(slice, origin, of, shiftOf(selection.source));
    facts.name = nameOf(document, selection.source);
    facts.otherName = nameOf(document, otherThan(selection.source));
    facts.changeOf = document.baseline ? translated("after against before") : translated("simulated against measured");
    if (!selection.twin) {
        facts.whyNoTwin = whyNoTwin(document, selection.source);
        return facts;
    }
    const Source other = otherThan(selection.source);
    const Slice twin = document.store(other)->slice(*selection.twin);
    const std::int64_t twin_origin = originOf(other, twin.key.step);
    facts.twin = timesOf(twin, twin_origin, of, shiftOf(other));
    const bool picked_is_measured = selection.source == Source::measured;
    const Slice& measured = picked_is_measured ? slice : twin;
    const Slice& simulated = picked_is_measured ? twin : slice;
    const std::int64_t measured_origin = picked_is_measured ? origin : twin_origin;
    const std::int64_t simulated_origin = picked_is_measured ? twin_origin : origin;
    const bool known = whyNothingIsLate(document).isEmpty();
    const auto late = [&](Nanoseconds in_simulated, Nanoseconds in_measured) {
        return known ? formatDurationChange(differenceOf(document, in_measured.count() - measured_origin,
                                                         in_simulated.count() - simulated_origin))
                     : QString();
    };
    const Slice& reference = document.baseline ? simulated : measured;
    facts.change = {late(simulated.start, measured.start), late(simulated.end, measured.end),
                    change(differenceOf(document, measured.duration(), simulated.duration()).count(),
                           reference.duration().count())};
    return facts;
}

QString toolTipOf(const TaskFacts& facts) {
    QString html = QStringLiteral("<b>%1</b><br>%2").arg(facts.title.toHtmlEscaped(), facts.where.toHtmlEscaped());
    html += (facts.sinceStep ? translated("<br>%1: %2, from %3 of the step") : translated("<br>%1: %2, from %3"))
                .arg(facts.name, facts.picked.duration, facts.picked.start);
    if (!facts.bytes.isEmpty()) {
        html += translated("<br>moves %1").arg(facts.bytes);
    }
    if (!facts.device.isEmpty()) {
        html += QStringLiteral("<br>") + facts.device.toHtmlEscaped();
    }
    if (facts.twin) {
        html += translated("<br>%1: %2, from %3").arg(facts.otherName, facts.twin->duration, facts.twin->start);
        html += translated("<br>%1: %2").arg(facts.changeOf, facts.change.duration);
    } else {
        html += QStringLiteral("<br>") + facts.whyNoTwin.toHtmlEscaped();
    }
    return html;
}

QString spoken(const TaskFacts& facts) {
    QString text = translated("%1, %2, %3 %4").arg(facts.title, facts.where, facts.name, facts.picked.duration);
    return facts.twin ? translated("%1; %2 %3").arg(text, facts.changeOf, facts.change.duration) : text;
}
}  // namespace pipescope
