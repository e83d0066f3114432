#include "gui/document/step_analysis.h"

#include "gui/document/baseline.h"
#include "gui/document/link_tiers.h"
#include "gui/style/number_format.h"
#include "gui/timeline/step_spans.h"
#include "gui/timeline/time_axis_model.h"
#include "trace/store/process_json.h"

#include <algorithm>
#include <map>

namespace pipescope {
namespace {
// A loss waits for every micro-batch; more arrows than this would be illegible.
constexpr std::size_t kMostArrows = 24;

bool worthLookingInto(const TimelineStore& store) {
    const std::size_t steps = std::max<std::size_t>(1, store.steps().size());
    return !store.steps().empty() && store.numSlices() / steps <= StepAnalysis::kMostTasks;
}

constexpr std::size_t kMostExamples = 5;

Opposite oppositeOf(const TraceDocument& document) {
    return document.baseline ? Opposite::run_before : Opposite::simulation;
}

TaskMatching matchTasks(const TraceDocument& document, const StepGraph& measured, const StepGraph& simulated) {
    return match_tasks(measured, simulated, document.run.lost.any(), oppositeOf(document),
                       document.comparison ? document.comparison->recorded : RecordedKinds{});
}

/// A cause as the end of a sentence about the lane.
const char* phrase(BubbleCause cause) {
    switch (cause) {
        case BubbleCause::contention:
            return "has its input and is free, but starts its next task late: host, device or network are busy";
        case BubbleCause::finished: return "has no more work in this step";
        default: return describe(cause).data();
    }
}
}  // namespace

std::shared_ptr<const TaskGraph> simulatedGraph(const TraceDocument& document) {
    if (document.baseline) {
        return document.baseline->compared.run.graph;
    }
    return document.run.profile && document.simulation
               ? pipeline_graph_of(*document.run.profile, document.simulation->options)
               : nullptr;
}

Sends simulatedSends(const TraceDocument& document) {
    if (document.baseline) {
        return sends_of(document.baseline->compared.run);
    }
    return document.simulation ? document.simulation->options.hardware.link.sends : Sends::overlapped;
}

StepAnalysis::StepAnalysis(std::shared_ptr<const TraceDocument> document, std::int32_t step)
    : document_(std::move(document)), step_(step) {
    const auto fill = [&](Side& side, const TimelineStore& store, std::int32_t number,
                          std::shared_ptr<const TaskGraph> graph, Sends sends, const TaskLaunches& launches,
                          const QString& whyUnknown) {
        side.tasks = stepGraphOf(store, number, std::move(graph));
        side.whyUnknown = whyUnknown;
        if (whyUnknown.isEmpty()) {
            side.bubbles = bubbles_of(*side.tasks, sends, launches);
            side.critical = critical_path(*side.tasks);
        }
    };
    const TimelineStore* measured = document_->measured.get();
    const TimelineStore* simulated = document_->simulated.get();
    const bool hasMeasured = measured != nullptr && worthLookingInto(*measured) && measured->step(step) != nullptr;
    const bool hasSimulated = simulated != nullptr && worthLookingInto(*simulated);
    if (hasMeasured) {
        fill(measured_, *measured, step, document_->run.graph, sends_of(document_->run), document_->run.launches,
             document_->whyNoBubble(step));
    }
    if (hasSimulated) {
        fill(simulated_, *simulated, simulated->steps().front().step, simulatedGraph(*document_),
             simulatedSends(*document_), {}, document_->whyNoBubble(Source::simulated, step));
    }
    if (hasMeasured && hasSimulated && document_->whyNoTwins.empty()) {
        matching_ = matchTasks(*document_, *measured_.tasks, *simulated_.tasks);
        if (!whyNothingIsLate(*document_).isEmpty()) {
            matching_.pairs.clear();
        }
    }
}

QString StepAnalysis::taskText(Source source, const StepTask& task) const {
    return taskName(document_->store(source)->shownKey(task.slice));
}

QString StepAnalysis::laneName(Source source, LaneId lane) const {
    return QString::fromStdString(document_->store(source)->nameOf(lane));
}

QString StepAnalysis::describeCopy(Source source, StepTaskIndex copy) const {
    const StepGraph& tasks = *side(source).tasks;
    const StepTask& task = tasks.task(copy);
    const Bytes bytes = document_->store(source)->slice(task.slice).bytes;
    const std::optional<LaneId> to = tasks.receiver(copy);
    QString html =
        to ? translated("%1, %2 to %3").arg(taskText(source, task), laneName(source, task.lane), laneName(source, *to))
           : translated("%1, from %2").arg(taskText(source, task), laneName(source, task.lane));
    if (bytes > 0 && task.duration() > 0) {
        const double rate = static_cast<double>(bytes) / static_cast<double>(task.duration());  // bytes per ns: GB/s
        html += translated(": %1 in %2, %3")
                    .arg(formatBytes(bytes), formatDuration(task.duration()), formatRate(rate * 1e9));
    } else {
        html += translated(": %1").arg(formatDuration(task.duration()));
    }
    const StepTaskIndex before = tasks.previous(copy);
    const std::vector<StepTaskIndex> from = tasks.dependencies(copy);
    if (before != kNoTask && !from.empty() && tasks.task(before).end > tasks.task(from.front()).end) {
        html += translated("; the link was busy before");
    }
    return html;
}

QString StepAnalysis::describe(Source source, const Bubble& piece) const {
    const StepGraph& tasks = *side(source).tasks;
    QString html = translated("<b>%1</b><br>%2, from %3 of the step")
                       .arg(nameOf(piece.cause).toHtmlEscaped(), formatDuration(piece.length()),
                            formatInstant(piece.start - tasks.range().start, piece.length()));
    if (piece.culprit != kNoTask) {
        const StepTask& culprit = tasks.task(piece.culprit);
        html += QStringLiteral("<br>") +
                (piece.cause == BubbleCause::copy
                     ? describeCopy(source, piece.culprit)
                     : translated("for %1 on %2").arg(taskText(source, culprit), laneName(source, culprit.lane)))
                    .toHtmlEscaped();
    }
    if (piece.next != kNoTask) {
        html += QStringLiteral("<br>") +
                translated("then runs %1").arg(taskText(source, tasks.task(piece.next))).toHtmlEscaped();
    }
    return html;
}

QString StepAnalysis::sentence(Source source, const Bubble& bubble) const {
    const StepGraph& tasks = *side(source).tasks;
    QString text =
        capitalised(translated("%1 %2").arg(laneName(source, bubble.lane), QString::fromUtf8(phrase(bubble.cause))));
    if (bubble.culprit != kNoTask) {
        const StepTask& culprit = tasks.task(bubble.culprit);
        text += bubble.cause == BubbleCause::copy
                    ? translated(": %1").arg(describeCopy(source, bubble.culprit))
                    : translated(": %1 on %2").arg(taskText(source, culprit), laneName(source, culprit.lane));
    }
    if (const StepTaskIndex last = still_works(bubble, tasks); last != kNoTask) {
        text += translated("; %1 still works, until %2")
                    .arg(laneName(source, tasks.task(last).lane), taskText(source, tasks.task(last)));
    }
    text += QLatin1Char('.');
    if (const std::optional<RootCause> root = rootOf(source, bubble)) {
        text += QLatin1Char(' ') + translated("Root cause: %1.").arg(nameOf(*root));
    }
    return bubble.next == kNoTask ? text
                                  : text + QLatin1Char(' ') +
                                        translated("Then it runs %1.").arg(taskText(source, tasks.task(bubble.next)));
}

StepTaskIndex StepAnalysis::culpritOf(Source source, const Bubble& bubble) const {
    return bubble.culprit != kNoTask ? bubble.culprit : still_works(bubble, *side(source).tasks);
}

std::optional<RootCause> StepAnalysis::rootOf(Source source, const Bubble& bubble) const {
    return source == Source::measured && tasks(source) != nullptr && !is_work(bubble.cause)
               ? document_->roots.root_of(bubble, *tasks(source))
               : std::nullopt;
}

const Bubble* StepAnalysis::bubbleAt(Source source, LaneId lane, std::int64_t time) const {
    const std::vector<Bubble>& all = bubbles(source);
    const auto after = std::upper_bound(all.begin(), all.end(), std::pair(lane, time),
                                        [](const std::pair<LaneId, std::int64_t>& place, const Bubble& each) {
                                            return place < std::pair(each.lane, each.start);
                                        });
    const bool there = after != all.begin() && (after - 1)->lane == lane && time < (after - 1)->end;
    return there ? &*(after - 1) : nullptr;
}

const Bubble* StepAnalysis::counterpart(const StepAnalysis& from, Source fromSource, const Bubble& bubble,
                                        Source source) const {
    if (source != fromSource && !document_->whyNoTwins.empty()) {
        return nullptr;
    }
    const StepGraph* own = tasks(source);
    const StepGraph* other = from.tasks(fromSource);
    return own != nullptr && other != nullptr ? counterpart_of(bubble, *other, bubbles(source), *own) : nullptr;
}

std::vector<LinkUse> StepAnalysis::linksFrom(Source source, LaneId lane) const {
    if (tasks(source) == nullptr) {
        return {};
    }
    std::map<std::optional<LaneId>, LinkUse> links;
    std::map<std::optional<LaneId>, std::int64_t> covered;  // end of the time counted as busy
    const StepGraph& graph = *tasks(source);
    for (StepTaskIndex index = 0; index < graph.tasks().size(); ++index) {  // by start
        const StepTask& task = graph.task(index);
        if (task.lane != lane || !is_copy(task.key.kind)) {
            continue;
        }
        const std::optional<LaneId> to = graph.receiver(index);
        LinkUse& link = links[to];
        link.from = lane;
        link.to = to;
        ++link.copies;
        link.bytes += document_->store(source)->slice(task.slice).bytes;
        std::int64_t& end = covered.try_emplace(to, task.start).first->second;
        link.busy += std::max<std::int64_t>(0, task.end - std::max(task.start, end));
        end = std::max(end, task.end);
    }
    std::vector<LinkUse> list;
    for (const auto& [to, link] : links) {
        list.push_back(link);
    }
    return list;
}

std::int64_t StepAnalysis::shift(Alignment alignment, const std::optional<TaskSelection>& selection) const {
    const std::int64_t byFirstTask = simulatedShift(*document_, step_);
    if (alignment == Alignment::task && selection && selection->twin) {
        const std::optional<SliceRef> measured = selection->in(Source::measured);
        const std::optional<SliceRef> simulated = selection->in(Source::simulated);
        return document_->measured->slice(*measured).start.count() -
               document_->simulated->slice(*simulated).start.count();
    }
    const StepSpan* measured = document_->measured ? document_->measured->step(step_) : nullptr;
    if (alignment == Alignment::step && measured != nullptr) {
        for (const StepRecord& record : document_->run.steps) {
            if (record.step == step_ && record.wall_end > record.wall_start) {
                return byFirstTask + record.wall_start.count() - measured->range().start;
            }
        }
    }
    return byFirstTask;
}

std::vector<TaskPair> StepAnalysis::pairsAt(std::int64_t shift) const {
    std::vector<TaskPair> pairs = matching_.pairs;
    const std::int64_t moved = simulatedShift(*document_, step_) - shift;
    for (TaskPair& pair : pairs) {
        pair.start_change += moved;
        pair.end_change += moved;
    }
    return pairs;
}

void StepAnalysis::addArrows(Source source, SliceRef slice, TimelineMarks& marks) const {
    const StepGraph& tasks = *side(source).tasks;
    const StepTaskIndex index = tasks.index_of(slice);
    if (index == kNoTask) {
        return;
    }
    std::vector<StepTaskIndex> before = tasks.dependencies(index);
    // The dependencies that ended last are those it waited for.
    std::stable_sort(before.begin(), before.end(),
                     [&](StepTaskIndex a, StepTaskIndex b) { return tasks.task(a).end > tasks.task(b).end; });
    const auto add = [&](StepTaskIndex from, StepTaskIndex to) {
        if (marks.arrows.size() < kMostArrows) {
            marks.arrows.emplace_back(tasks.task(from).slice, tasks.task(to).slice);
        }
    };
    for (const StepTaskIndex each : before) {
        add(each, index);
    }
    for (const StepTaskIndex each : tasks.dependents(index)) {
        add(index, each);
    }
}

std::shared_ptr<const TimelineMarks> StepAnalysis::marks(Source source, const MarkChoice& choice,
                                                         const std::optional<TaskSelection>& selection,
                                                         const std::optional<PartSelection>& part) const {
    if (!side(source).tasks) {
        return nullptr;
    }
    auto marks = std::make_shared<TimelineMarks>();
    marks->bubbles = side(source).bubbles;
    marks->shadesBubbles = choice.causes;
    marks->hiddenCauses = choice.hiddenCauses;
    const TimelineStore& store = source == Source::measured ? *document_->measured : *document_->simulated;
    if (store.overlaps()) {
        marks->onlyStep = source == Source::measured ? step_ : store.steps().front().step;
    }
    if (choice.criticalPath) {
        for (const StepTaskIndex index : side(source).critical.tasks) {
            marks->critical.push_back(side(source).tasks->task(index).slice);
        }
    }
    if (source == Source::simulated && document_->simulation && !document_->baseline) {
        marks->linkTiers = linkTiers(document_->simulation->options).colors();
    }
    if (source == Source::measured && simulated_.tasks) {
        if (choice.mode == CompareMode::overlay) {
            marks->ghosts = document_->simulated;
            marks->ghostShift = shift(choice.alignment, selection);
        }
        if (choice.mode == CompareMode::difference) {
            marks->differences = pairsAt(shift(choice.alignment, selection));
            marks->fadesOthers = true;
            marks->differenceScale = differenceScaleOf(marks->differences, onTimeWithin(*document_, step_));
        }
    }
    if (selection) {
        if (const std::optional<SliceRef> slice = selection->in(source)) {
            addArrows(source, *slice, *marks);
        }
    }
    const std::optional<Bubble> bubble = part ? part->bubbleIn(source) : std::nullopt;
    if (bubble && bubble->culprit != kNoTask && bubble->next != kNoTask) {
        const StepGraph& tasks = *side(source).tasks;
        marks->arrows.emplace_back(tasks.task(bubble->culprit).slice, tasks.task(bubble->next).slice);
    }
    return marks;
}

QString StepAnalysis::criticalPathText(Source source) const {
    if (const QString& why = side(source).whyUnknown; !why.isEmpty()) {
        return translated("critical path not given, %1").arg(why);
    }
    const CriticalPath& path = critical(source);
    if (path.tasks.empty()) {
        return {};
    }
    return translated("critical path %1: %2 computing, %3 copying, %4 waiting, %5")
        .arg(formatDuration(path.length()), formatDuration(path.compute), formatDuration(path.copies),
             formatDuration(path.waits), formatCount(path.tasks.size(), translated("task"), translated("tasks")));
}

QString whyNothingIsLate(const TraceDocument& document) {
    const QString why = document.whyNoTimesAcrossLanes();
    return why.isEmpty() && document.baseline ? document.baseline->whyNoTimesAcrossLanes : why;
}

std::int64_t onTimeWithin(const TraceDocument& document, std::int32_t step) {
    constexpr std::int64_t kPart = 1000;
    const StepSpan* span = measuredStep(document, step);
    const Nanoseconds share{span != nullptr ? span->statistics.step_time().count() / kPart : 0};
    const Nanoseconds own = clock_bound(document.run.processes).value_or(Nanoseconds{0});
    const Nanoseconds before = document.baseline
                                   ? clock_bound(document.baseline->compared.run.processes).value_or(Nanoseconds{0})
                                   : Nanoseconds{0};
    return std::max({share, own, before}).count();
}

std::vector<UnmatchedTasks> unmatchedTasks(const TraceDocument& document) {
    if (!document.measured || !document.simulated || document.simulated->steps().empty() ||
        !document.whyNoTwins.empty()) {
        return {};
    }
    std::map<UnmatchedReason, UnmatchedTasks> byReason;
    const StepGraph simulated = stepGraphOf(*document.simulated, document.simulated->steps().front().step);
    for (const StepSpan& step : document.measured->steps()) {
        const StepGraph measured = stepGraphOf(*document.measured, step.step);
        for (const UnmatchedTask& task : matchTasks(document, measured, simulated).unmatched) {
            UnmatchedTasks& tasks = byReason[task.reason];
            ++tasks.count;
            if (tasks.examples.size() < kMostExamples) {
                TaskKey key = task.key;
                key.step = step.step;  // for a simulated task: the step that lacks it
                tasks.examples.push_back(key);
            }
        }
    }
    std::vector<UnmatchedTasks> list;
    for (auto& [reason, tasks] : byReason) {
        tasks.reason = QString::fromUtf8(describe(reason, oppositeOf(document)).data());
        list.push_back(std::move(tasks));
    }
    return list;
}
}  // namespace pipescope
