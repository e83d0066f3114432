#include "gui/document/trace_document.h"

#include "gui/document/baseline.h"
#include "gui/document/document_builder.h"
#include "gui/style/number_format.h"

#include <QRegularExpression>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <span>

namespace pipescope {
namespace {
constexpr std::int64_t kMarginPart = 50;  // 2 % on each side

TimeRange withMargin(const TimeRange& range) {
    const std::int64_t margin = range.length() / kMarginPart + 1;
    return {range.start - margin, range.end + margin};
}

TimeRange united(const TimeRange& a, const TimeRange& b) {
    return {std::min(a.start, b.start), std::max(a.end, b.end)};
}

const StepSpan* simulatedStep(const TraceDocument& document) {
    return document.simulated && !document.simulated->steps().empty() ? &document.simulated->steps().front() : nullptr;
}

/// Of the step, and of its tasks if other steps overlap it: some of these run before the step before it has ended.
TimeRange rangeOf(const TimelineStore& store, const StepSpan& step) {
    TimeRange range = step.range();
    const std::int64_t reach = store.overlaps() ? 2 * range.length() : 0;
    const TimeRange near{range.start - reach, range.end + reach};
    for (const StoredRow& row : store.overlaps() ? std::span(store.rows()) : std::span<const StoredRow>()) {
        for (const std::size_t i : row.touching(near).indices()) {
            const std::optional<TaskKey> key = unpack(row.key[i]);
            if (key && key->step == step.step) {
                range = united(range, {row.start[i], row.end[i]});
            }
        }
    }
    return range;
}

TimeRange simulatedRange(const TraceDocument& document, std::int32_t step) {
    const std::int64_t shift = simulatedShift(document, step);
    const TimeRange range = document.simulated->range();
    return {range.start + shift, range.end + shift};
}
}  // namespace

std::optional<Nanoseconds> TraceDocument::lowerBound() const {
    if (simulation) {
        return simulation->lower_bound;
    }
    return run.why_not_simulated.empty() ? std::nullopt : run.lower_bound;
}

QString TraceDocument::whyNoBubble(std::int32_t step) const {
    if (const std::string why = why_no_bubbles(run.warnings); !why.empty()) {
        return QString::fromStdString(why);
    }
    if (const auto fault = check.faults.find(step); measured && fault != check.faults.end()) {
        return QString::fromUtf8(describe(fault->second).data());
    }
    if (!check.idle_lanes.empty()) {
        return QString::fromUtf8(kLaneWithoutTasks.data());
    }
    if (measured && !measured->steps().empty() && !run.is_whole(step, measured->steps().back().step)) {
        return QString::fromUtf8(kStepCutOff.data());
    }
    return measured ? QString::fromStdString(why_no_bubbles(warnings)) : QString();
}

QString TraceDocument::whyNoBubble(Source source, std::int32_t step) const {
    return source == Source::measured ? whyNoBubble(step) : baseline ? baseline->whyNoBubble : QString();
}

QString TraceDocument::whyNoBubble() const {
    for (const std::int32_t step : comparison ? comparison->steps : std::vector<std::int32_t>{}) {
        if (const QString why = whyNoBubble(step); !why.isEmpty()) {
            return why;
        }
    }
    return {};
}

QString TraceDocument::whyNoStepTime() const {
    const std::string why = why_no_step_times(run.warnings);
    return QString::fromStdString(why.empty() ? why_no_step_times(warnings) : why);
}

QString TraceDocument::whyNoTimesAcrossLanes() const {
    return measured ? QString::fromStdString(why_no_times_across_lanes(warnings)) : QString();
}

QStringList TraceDocument::messages(const MessagesLeftOut& leftOut) const {
    QStringList all;
    const auto add = [&](Severity severity) {
        static const QRegularExpression microseconds(QStringLiteral("(\\d) us\\b"));  // commands write ASCII
        for (const TraceWarning& warning : warnings) {
            if (warning.severity == severity && !(warning.of_closing && leftOut.closing)) {
                all << QString::fromStdString(warning.text).replace(microseconds, QStringLiteral("\\1 µs"));
            }
        }
    };
    add(Severity::refusal);
    add(Severity::caution);
    all << notes;
    if (!whyNotCompared.empty() && (measured || !simulated)) {
        all << translated("No comparison: this file %1").arg(QString::fromStdString(whyNotCompared));
    } else if (!measured && !run.why_not_simulated.empty()) {
        all << (run.profile ? translated("What-if starts from defaults: this file %1")
                            : translated("No what-if: this file %1"))
                   .arg(QString::fromStdString(run.why_not_simulated));
    }
    if (!leftOut.remarks) {
        add(Severity::remark);
    }
    return all;
}

const TimelineStore* TraceDocument::store(Source source) const {
    return source == Source::measured ? measured.get() : simulated.get();
}

QString nameOf(const TraceDocument& document, Source source) {
    return inWordsOf(document, source == Source::measured ? translated("measured") : translated("simulated"));
}

QString inWordsOf(const TraceDocument& document, const QString& text) {
    return document.baseline ? inWordsOfRuns(text) : text;
}

QString inWordsOfRuns(const QString& text) {
    QString words = text;
    for (const auto& [word, own] : {std::pair(translated("measured"), translated("after")),
                                    {translated("simulated"), translated("before")},
                                    {translated("Measured"), translated("After")},
                                    {translated("Simulated"), translated("Before")}}) {
        words.replace(word, own);
    }
    return words;
}

const TimelineStore* storeOfMostLanes(const TraceDocument& document) {
    const TimelineStore* measured = document.measured.get();
    const TimelineStore* simulated = document.simulated.get();
    if (measured == nullptr || simulated == nullptr) {
        return measured != nullptr ? measured : simulated;
    }
    return simulated->lanes().size() > measured->lanes().size() ? simulated : measured;
}

const std::vector<StepSpan>& stepsOf(const TraceDocument& document) {
    static const std::vector<StepSpan> none;
    const TimelineStore* store = document.measured ? document.measured.get() : document.simulated.get();
    return store != nullptr ? store->steps() : none;
}

const StepSpan* measuredStep(const TraceDocument& document, std::int32_t step) {
    return document.measured ? document.measured->step(step) : nullptr;
}

std::optional<SliceRef> twinOf(const TraceDocument& document, Source source, SliceRef slice, std::int32_t step) {
    const StepSpan* simulated = simulatedStep(document);
    if (!document.measured || simulated == nullptr || !document.whyNoTwins.empty()) {
        return std::nullopt;
    }
    TaskKey key = document.store(source)->slice(slice).key;
    // Where steps overlap, a task of the next one has its twin in the next one, too.
    const std::int32_t own = source == Source::measured ? step : simulated->step;
    const bool isNeighbour = document.simulated->overlaps() && std::abs(key.step - own) == 1;
    const std::int32_t away = isNeighbour ? key.step - own : 0;
    key.step = (source == Source::measured ? simulated->step : step) + away;
    return document.store(otherThan(source))->find(key);
}

QString whyNoTwin(const TraceDocument& document, Source source) {
    if (!document.measured) {
        return translated("No twin: nothing was measured.");
    }
    if (!document.simulated) {
        return translated("No twin: there is no simulation.");
    }
    if (!document.whyNoTwins.empty()) {
        return translated("No twin: %1.").arg(QString::fromStdString(document.whyNoTwins));
    }
    if (document.baseline) {
        return source == Source::measured ? translated("No twin: the earlier run has no such task.")
                                          : translated("No twin: the later run has no such task in this step.");
    }
    return source == Source::measured ? translated("No twin: the simulated schedule has no such task.")
                                      : translated("No twin: this task was not recorded in the step shown.");
}

TaskKey shownKey(const TraceDocument& document, const TaskKey& key) {
    for (const auto& store : {document.measured, document.simulated}) {
        const bool isHalf = store && key.kind == TaskKind::backward;
        if (const std::optional<SliceRef> slice = isHalf ? store->find(key) : std::nullopt) {
            return store->shownKey(*slice);
        }
    }
    return key;
}

std::int64_t simulatedShift(const TraceDocument& document, std::int32_t step) {
    const StepSpan* simulated = simulatedStep(document);
    const StepSpan* measured = measuredStep(document, step);
    return measured != nullptr && simulated != nullptr ? measured->range().start - simulated->range().start : 0;
}

QString signOfDifferences(bool twoRuns) {
    return twoRuns ? translated("After minus before: positive if the later run took longer")
                   : translated("Simulated minus measured: positive if the simulation takes longer");
}

TimeRange wholeRange(const TraceDocument& document, std::int32_t step) {
    if (!document.measured && !document.simulated) {
        return withMargin(document.tracks ? document.tracks->range() : TimeRange{0, 1});
    }
    if (!document.simulated) {
        return withMargin(document.measured->range());
    }
    const TimeRange simulated = simulatedRange(document, step);
    return withMargin(document.measured ? united(document.measured->range(), simulated) : simulated);
}

TimeRange stepRange(const TraceDocument& document, std::int32_t step) {
    const auto marked = std::find_if(document.markedSteps.begin(), document.markedSteps.end(),
                                     [step](const StepRecord& each) { return each.step == step; });
    if (hasOnlyTracks(document) && marked != document.markedSteps.end()) {
        return withMargin({marked->wall_start.count(), marked->wall_end.count()});
    }
    const StepSpan* measured = measuredStep(document, step);
    if (measured == nullptr) {
        return wholeRange(document, step);
    }
    const TimeRange own = rangeOf(*document.measured, *measured);
    if (!document.simulated) {
        return withMargin(own);
    }
    const std::int64_t shift = simulatedShift(document, step);
    const TimeRange simulated = document.simulated->overlaps()
                                    ? rangeOf(*document.simulated, document.simulated->steps().front())
                                    : document.simulated->range();
    return withMargin(united(own, {simulated.start + shift, simulated.end + shift}));
}

TimeRange measuredRange(const TraceDocument& document, std::int32_t step) {
    return withMargin(rangeOf(*document.measured, *document.measured->step(step)));
}

std::optional<StepFacts> stepFacts(const TraceDocument& document, Source source, std::int32_t step) {
    if (source == Source::simulated && document.simulation) {
        const StepFigures expected = expected_figures(*document.simulation);
        return StepFacts{expected.step, expected.bubble, {}, {}};
    }
    const bool measured = source == Source::measured;
    const StepSpan* span = measured ? measuredStep(document, step) : simulatedStep(document);
    if (span == nullptr) {
        return std::nullopt;
    }
    const Baseline* before = measured ? nullptr : document.baseline.get();
    const RecordedRun& run = before != nullptr ? before->compared.run : document.run;
    return StepFacts{span->statistics.step_time() + after_pipeline(run), span->statistics.bubble_fraction,
                     measured            ? document.whyNoStepTime()
                     : before != nullptr ? before->whyNoStepTime
                                         : QString(),
                     document.whyNoBubble(source, step)};
}

QString pointsBetween(const TraceDocument& document, double measured, double simulated) {
    return document.baseline ? formatPoints(measured, simulated) : formatPoints(simulated, measured);
}

QString noMeasuredBubbles(const TraceDocument& document, const QString& why) {
    return inWordsOf(document, translated("Measured bubbles are not given, since %1.")).arg(why);
}

std::vector<LaneFacts> laneFacts(const TraceDocument& document, std::int32_t step) {
    const StepSpan* measured = measuredStep(document, step);
    const StepSpan* simulated = simulatedStep(document);
    const TimelineStore* names = storeOfMostLanes(document);
    std::vector<LaneFacts> facts(names != nullptr ? names->lanes().size() : 0);
    for (std::size_t lane = 0; lane < facts.size(); ++lane) {
        LaneFacts& each = facts[lane];
        each.lane = QString::fromStdString(names->lanes()[lane].name);
        const auto take = [lane](const StepSpan* span, bool known, auto& busy, auto& bubble) {
            if (span == nullptr || lane >= span->statistics.lanes.size()) {
                return;
            }
            const LaneStatistics& own = span->statistics.lanes[lane];
            if (known || own.busy.count() > 0) {  // else its tasks may be missing
                busy = own.busy;
            }
            if (known) {
                bubble = own.bubble_fraction;
            }
        };
        take(measured, document.whyNoBubble(step).isEmpty(), each.measuredBusy, each.measuredBubble);
        take(simulated, document.whyNoBubble(Source::simulated, step).isEmpty(), each.simulatedBusy,
             each.simulatedBubble);
        if (lane < document.measuredMemory->size() && !(*document.measuredMemory)[lane].empty()) {
            const MemoryTrack& track = (*document.measuredMemory)[lane];
            const std::optional<Bytes> inStep = measured != nullptr ? track.highestIn(measured->range()) : std::nullopt;
            each.measuredPeak = inStep.value_or(track.highest());
        }
        if (document.simulation && lane < document.simulation->lanes.size()) {
            each.simulatedPeak = document.simulation->memory_unknown
                                     ? std::nullopt
                                     : std::optional(document.simulation->lanes[lane].peak_bytes);
        } else if (document.baseline && lane < document.baseline->peaks.size()) {
            each.simulatedPeak = document.baseline->peaks[lane];
        }
    }
    return facts;
}

std::vector<bool> stepMarks(const TrackStore& store) {
    static const TaskRules rules;
    std::vector<bool> marks;
    for (const std::string& text : store.texts) {
        marks.push_back(markedStepOf(text, rules).byRule);
    }
    return marks;
}

std::optional<std::int64_t> workIn(const TrackStore& store, const TrackRows& thread, const TimeRange& within,
                                   const std::vector<bool>& marks) {
    if (store.rows[thread.first].on == RanOn::annotations) {
        return std::nullopt;
    }
    const std::int64_t work = busyIn(store, thread, within, marks);
    return work > 0 ? work : busyIn(store, thread, within);
}

std::vector<LaneFacts> threadFacts(const TraceDocument& document) {
    std::vector<LaneFacts> facts;
    if (!document.tracks) {
        return facts;
    }
    const TrackStore& store = *document.tracks;
    const std::vector<bool> marks = stepMarks(store);
    const TimeRange whole = store.range();
    for (const TrackRows& thread : threadsOf(store)) {
        const TrackRow& row = store.rows[thread.first];
        LaneFacts& each = facts.emplace_back();
        const bool oneGroup = store.rows.front().group == store.rows.back().group;  // rows of a group are together
        each.lane = oneGroup ? QString::fromStdString(row.name)
                             : QStringLiteral("%1 · %2").arg(QString::fromStdString(row.group),
                                                             QString::fromStdString(row.name));
        if (const auto work = workIn(store, thread, whole, marks)) {
            each.measuredBusy = Nanoseconds{*work};
        }
    }
    return facts;
}
}  // namespace pipescope
