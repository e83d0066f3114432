#include "gui/tables/selection_facts.h"

#include "gui/document/baseline.h"
#include "gui/document/document_builder.h"
#include "gui/document/throughput.h"
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/tables/task_details.h"
#include "gui/timeline/memory_view.h"
#include "schedule/schedules.h"
#include "simulator/clock/contention.h"
#include "simulator/sized_profile.h"
#include "trace/store/range_tracks.h"

#include <nlohmann/json.hpp>

#include <QLocale>
#include <QStringList>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace pipescope {
namespace {
constexpr std::size_t kMostKernelNames = 6;
constexpr qsizetype kMostNameLetters = 60;
constexpr std::array kSources{Source::measured, Source::simulated};

/// A value of each timeline; empty: unknown.
template <class Value>
struct Both {
    std::optional<Value> measured;
    std::optional<Value> simulated;

    std::optional<Value>& in(Source source) { return source == Source::measured ? measured : simulated; }
};

template <class Value, class Format>
QString textOf(const std::optional<Value>& value, const Format& format) {
    return value ? format(*value) : QString();
}

FactRow bytesRow(const QString& name, const Both<Bytes>& bytes) {
    return {name, textOf(bytes.measured, formatBytes), textOf(bytes.simulated, formatBytes)};
}

FactRow countRow(const QString& name, const Both<std::int64_t>& counts) {
    const auto text = [](std::int64_t count) { return QLocale().toString(static_cast<qlonglong>(count)); };
    return {name, textOf(counts.measured, text), textOf(counts.simulated, text)};
}

/// Bytes over ns; empty if one of them is unknown.
std::optional<double> rateOf(Bytes bytes, std::int64_t ns) {
    return bytes > 0 && ns > 0 ? std::optional(static_cast<double>(bytes) / static_cast<double>(ns) * 1e9)
                               : std::nullopt;
}

/// Builds the sections of one selection.
class FactsBuilder {
public:
    FactsBuilder(const TraceDocument& document, const StepAnalysis& analysis, std::int32_t step,
                 const TimeAxisModel* axis)
        : document_(document), analysis_(analysis), step_(step), axis_(axis), noBubble_(document.whyNoBubble(step)) {
        facts_.measuredName = nameOf(document, Source::measured);
        facts_.simulatedName = nameOf(document, Source::simulated);
        facts_.ofTwoRuns = document.baseline != nullptr;
    }

    SelectionFacts ofTask(const TaskSelection& selection);
    SelectionFacts ofBubble(const PartSelection& part);
    SelectionFacts ofLane(const PartSelection& part);
    SelectionFacts ofLinks(const PartSelection& part);
    SelectionFacts ofStep();

private:
    FactRow timeRow(const QString& name, const Both<std::int64_t>& ns) const {
        return {name, textOf(ns.measured, formatDuration), textOf(ns.simulated, formatDuration),
                ns.measured && ns.simulated ? formatDurationChange(differenceOf(document_, *ns.measured, *ns.simulated))
                                            : QString()};
    }
    FactRow shareRow(const QString& name, const Both<double>& shares) const {
        return {name, textOf(shares.measured, formatShare), textOf(shares.simulated, formatShare),
                shares.measured && shares.simulated ? pointsBetween(document_, *shares.measured, *shares.simulated)
                                                    : QString()};
    }
    void add(const QString& heading, std::vector<FactRow> rows) {
        if (!rows.empty()) {
            facts_.sections.push_back({heading, std::move(rows)});
        }
    }
    void addTimes(const TaskFacts& facts, Source source);
    void addWaits(const TaskSelection& selection);
    void addLayers(const TaskSelection& selection, const Slice& slice);
    void addDeviceWork(const TaskSelection& selection);
    void addKernelNames(const TaskKey& task);
    void addCopy(const TaskSelection& selection, const Slice& slice);
    void addLinks(LaneId lane, const std::optional<LaneId>& only);
    void addSums(const QString& heading, std::optional<LaneId> lane, std::optional<BubbleCause> only);
    void addMemory(LaneId lane);
    void addRates(const Both<std::int64_t>& step);
    void addLanes();
    QString laneName(LaneId lane) const { return QString::fromStdString(storeOfMostLanes(document_)->nameOf(lane)); }
    QString lanePlace(Source source, LaneId lane) const;
    /// True if bubbles of the timeline may be given.
    bool knows(Source source) const {
        return analysis_.tasks(source) != nullptr && document_.whyNoBubble(source, step_).isEmpty();
    }
    StepTaskIndex indexIn(Source source, const TaskSelection& selection) const {
        const std::optional<SliceRef> slice = selection.in(source);
        return slice && analysis_.tasks(source) != nullptr ? analysis_.tasks(source)->index_of(*slice) : kNoTask;
    }

    const TraceDocument& document_;
    const StepAnalysis& analysis_;
    std::int32_t step_;
    const TimeAxisModel* axis_;  // null: times count from the start of the step
    QString noBubble_;
    SelectionFacts facts_;
};

QString FactsBuilder::lanePlace(Source source, LaneId lane) const {
    const TimelineStore& store = *document_.store(source);
    QStringList parts;
    if (const LaneInfo& info = store.lanes()[lane.index()]; !info.device.empty()) {
        parts << QString::fromStdString(info.device);
    }
    parts << (source == Source::measured || document_.measured ? translated("step %1").arg(step_)
                                                               : translated("simulated step"));
    return parts.join(QStringLiteral(" · "));
}

void FactsBuilder::addTimes(const TaskFacts& facts, Source source) {
    const TaskFacts::Times twin = facts.twin.value_or(TaskFacts::Times{});
    const bool measured = source == Source::measured;
    const TaskFacts::Times& left = measured ? facts.picked : twin;
    const TaskFacts::Times& right = measured ? twin : facts.picked;
    add(translated("Time in the step"),
        {{translated("Start"), left.start, right.start, facts.change.start},
         {translated("End"), left.end, right.end, facts.change.end},
         {translated("Duration"), left.duration, right.duration, facts.change.duration}});
}

void FactsBuilder::addWaits(const TaskSelection& selection) {
    std::map<BubbleCause, Both<std::int64_t>> waits;
    Both<std::int64_t> late;
    QString last;
    for (const Source source : {otherThan(selection.source), selection.source}) {  // names are those of the picked one
        const StepTaskIndex index = indexIn(source, selection);
        if (index == kNoTask) {
            continue;
        }
        const StepGraph& tasks = *analysis_.tasks(source);
        for (const Bubble& each : analysis_.bubbles(source)) {
            if (each.next == index && each.lane == tasks.task(index).lane && !is_work(each.cause)) {
                std::optional<std::int64_t>& ns = waits[each.cause].in(source);
                ns = ns.value_or(0) + each.length();
            }
        }
        const std::vector<StepTaskIndex> before = tasks.dependencies(index);
        const auto latest = std::max_element(before.begin(), before.end(), [&](StepTaskIndex a, StepTaskIndex b) {
            return tasks.task(a).end < tasks.task(b).end;
        });
        if (latest != before.end() && knows(source)) {
            late.in(source) = tasks.task(index).start - tasks.task(*latest).end;
            last = taskName(document_.store(source)->shownKey(tasks.task(*latest).slice));
        }
    }
    std::vector<FactRow> rows;
    for (const auto& [cause, ns] : waits) {
        rows.push_back(timeRow(nameOf(cause), ns));
    }
    if (!last.isEmpty()) {
        rows.push_back(timeRow(translated("Start after its last input"), late));
    }
    if (!last.isEmpty() && knows(selection.source)) {
        const QStringList sentences{facts_.text, translated("Its last input is from %1.").arg(last)};
        facts_.text = sentences.join(QLatin1Char(' ')).trimmed();
    }
    add(translated("Its lane before it"), std::move(rows));
}

void FactsBuilder::addLayers(const TaskSelection& selection, const Slice& picked) {
    const Profile* profile = document_.run.profile ? &**document_.run.profile : nullptr;
    const PipelineOptions* options = nullptr;
    // Of a scenario, each timeline has its own micro-batches, and a task stands for its twin too.
    const std::optional<SliceRef> simulated = document_.simulation ? selection.in(Source::simulated) : std::nullopt;
    if (simulated) {
        options = &document_.simulation->options;
        profile = profile != nullptr && document_.simulation->estimated == profile->estimated ? profile : nullptr;
    } else if (selection.source == Source::measured && document_.run.options) {
        options = &*document_.run.options;
    }
    const Slice slice = simulated ? document_.simulated->slice(*simulated) : picked;
    const TaskKey& key = slice.key;
    if (profile == nullptr || options == nullptr || !is_compute(key.kind) || key.partition < 0 ||
        static_cast<std::size_t>(key.partition) >= options->balance.num_partitions()) {
        return;
    }
    const std::vector<std::int64_t> sizes = micro_batch_sizes(*options);
    const LayerRange layers = options->balance.layers_of(PartitionId{key.partition});
    if (key.micro_batch < 0 || layers.end.index() > profile->layers.size()) {
        return;
    }
    const std::size_t microBatch = static_cast<std::size_t>(key.micro_batch) % sizes.size();
    const SizedProfile sized = at_size(*profile, sizes[microBatch]);
    const bool keepsGraph =
        !is_checkpointed(options->checkpoint, MicroBatchId{microBatch}, static_cast<int>(sizes.size()));
    const double speed = speed_of(options->hardware, slice.lane) / speed_alone(*profile);  // of the profile's times
    const auto timeOf = [&](std::size_t layer) {
        const double weight = splits_backward(options->schedule) ? sized.backward_weight[layer] : 0;
        switch (key.kind) {
            case TaskKind::forward: return (keepsGraph ? sized.kept_forward : sized.forward)[layer] / speed;
            case TaskKind::recompute: return sized.recompute[layer] / speed;
            case TaskKind::backward_weight: return weight / speed;
            default: return (sized.backward[layer] - weight) / speed;
        }
    };
    std::vector<FactRow> rows;
    const auto addTime = [&](const QString& name, double ns) {
        const QString time = formatDuration(std::llround(ns));
        // The other run may have had another profile, and a scenario other micro-batches.
        const bool isOfMeasured = document_.baseline || (!simulated && document_.simulatedBefore);
        rows.push_back({name, isOfMeasured ? time : QString(), isOfMeasured ? QString() : time});
    };
    double sum = 0;
    for (std::size_t layer = layers.first.index(); layer < layers.end.index(); ++layer) {
        const double ns = timeOf(layer);
        sum += ns;
        addTime(QString::fromStdString(profile->layers[layer].name), ns);
    }
    addTime(translated("Sum of the layers"), sum);
    add(document_.baseline ? translated("Layers, as profiled for the run after") : translated("Layers, as profiled"),
        std::move(rows));
    if (const int lanes = profile->co_running_lanes; lanes > 1 && document_.simulation) {
        facts_.text += translated(
                           " The layers were profiled with %1 lanes at work. Where fewer or more work at once, "
                           "the simulation makes a task shorter or longer than their sum.")
                           .arg(lanes);
        facts_.text = facts_.text.trimmed();
    }
}

void FactsBuilder::addDeviceWork(const TaskSelection& selection) {
    const std::optional<SliceRef> measured = selection.in(Source::measured);
    const std::optional<TaskDeviceWork> work = measured && document_.kernels
                                                   ? document_.kernels->workOf(document_.measured->slice(*measured).key)
                                                   : std::nullopt;
    if (!work) {
        return;
    }
    const auto row = [](const QString& name, const QString& value) { return FactRow{name, value, {}}; };
    std::vector<FactRow> rows{countRow(translated("Kernels"), {work->kernels, {}}),
                              countRow(translated("Copies and fills"), {work->copies, {}}),
                              row(translated("Busy"), formatDuration(work->busy)),
                              row(translated("From first to last"), formatDuration(work->span)),
                              row(translated("Launch delay"), formatDuration(work->launchDelay))};
    add(translated("On the device"), std::move(rows));
    addKernelNames(document_.measured->slice(*measured).key);
}

/// The kernels, copies and fills of all tasks of the step with this kind and partition.
void FactsBuilder::addKernelNames(const TaskKey& task) {
    const StepSpan* span = document_.measured->step(task.step);
    if (span == nullptr) {
        return;
    }
    const KernelStore& kernels = *document_.kernels;
    const TimelineStore& store = kernels.slices();
    const TimeRange step = span->range();
    std::map<std::uint32_t, std::int64_t> times;  // by name
    std::int64_t all = 0;
    for (std::uint32_t number = 0; number < store.rows().size(); ++number) {
        const StoredRow& row = store.rows()[number];
        const ItemSpan near = row.touching({step.start, step.end + step.length()});  // work may end after its step
        for (auto i = static_cast<std::uint32_t>(near.first); i < near.end; ++i) {
            const TaskKey of = unpack(row.key[i]).value_or(TaskKey{});
            if (of.step == task.step && of.kind == task.kind && of.partition == task.partition) {
                const std::int64_t length = row.end[i] - row.start[i];
                times[kernels.nameNumber({number, i})] += length;
                all += length;
            }
        }
    }
    std::vector<std::pair<std::uint32_t, std::int64_t>> longest(times.begin(), times.end());
    std::ranges::stable_sort(longest, std::ranges::greater(), &std::pair<std::uint32_t, std::int64_t>::second);
    std::vector<FactRow> rows;
    for (const auto& [name, ns] : longest) {
        if (rows.size() == kMostKernelNames) {
            break;
        }
        const QString share =
            formatShare(static_cast<double>(ns) / static_cast<double>(std::max<std::int64_t>(1, all)));
        rows.push_back({QString::fromStdString(std::string(lastPartOf(kernels.names()[name]))).left(kMostNameLetters),
                        translated("%1, %2").arg(formatDuration(ns), share),
                        {}});
    }
    TaskKey alike = shownKey(document_, task);
    alike.micro_batch = -1;
    add(translated("Work of every %1, in the step").arg(taskName(alike)), std::move(rows));
}

void FactsBuilder::addCopy(const TaskSelection& selection, const Slice& slice) {
    if (!is_copy(slice.key.kind)) {
        return;
    }
    Both<Bytes> bytes;
    FactRow rate{translated("Rate"), {}, {}};
    std::optional<LaneId> to;
    for (const Source source : kSources) {
        if (const std::optional<SliceRef> ref = selection.in(source)) {
            const Slice copy = document_.store(source)->slice(*ref);
            bytes.in(source) = copy.bytes > 0 ? std::optional(copy.bytes) : std::nullopt;
            (source == Source::measured ? rate.measured : rate.simulated) =
                textOf(rateOf(copy.bytes, copy.duration().count()), formatRate);
        }
        if (const StepTaskIndex index = indexIn(source, selection); index != kNoTask && !to) {
            to = analysis_.tasks(source)->receiver(index);
        }
    }
    add(translated("This copy"), {bytesRow(translated("Bytes"), bytes), rate});
    addLinks(slice.lane, to);
}

void FactsBuilder::addLinks(LaneId lane, const std::optional<LaneId>& only) {
    std::map<std::optional<LaneId>, Both<LinkUse>> links;
    for (const Source source : kSources) {
        for (const LinkUse& each : analysis_.linksFrom(source, lane)) {
            if (!only || each.to == only) {
                links[each.to].in(source) = each;
            }
        }
    }
    for (auto& [to, use] : links) {
        Both<std::int64_t> copies;
        Both<Bytes> bytes;
        Both<std::int64_t> busy;
        Both<double> share;
        FactRow rate{translated("Mean rate while busy"), {}, {}};
        FactRow overall{translated("Mean rate over the step"), {}, {}};
        for (const Source source : kSources) {
            const std::optional<LinkUse>& each = use.in(source);
            if (!each) {
                continue;
            }
            const std::int64_t length = analysis_.tasks(source)->range().length();
            copies.in(source) = each->copies;
            bytes.in(source) = each->bytes > 0 ? std::optional(each->bytes) : std::nullopt;
            busy.in(source) = each->busy;
            share.in(source) = length > 0 ? std::optional(static_cast<double>(each->busy) / static_cast<double>(length))
                                          : std::nullopt;
            const bool measured = source == Source::measured;
            (measured ? rate.measured : rate.simulated) = textOf(rateOf(each->bytes, each->busy), formatRate);
            (measured ? overall.measured : overall.simulated) = textOf(rateOf(each->bytes, length), formatRate);
        }
        add(to ? translated("Link from %1 to %2, in the step").arg(laneName(lane), laneName(*to))
               : translated("Links from %1, in the step").arg(laneName(lane)),
            {countRow(translated("Copies"), copies), bytesRow(translated("Bytes"), bytes),
             timeRow(translated("Busy"), busy), shareRow(translated("Busy share"), share), rate, overall});
    }
}

void FactsBuilder::addSums(const QString& heading, std::optional<LaneId> lane, std::optional<BubbleCause> only) {
    Both<BubbleSums> sums;
    for (const Source source : kSources) {
        const StepGraph* tasks = analysis_.tasks(source);
        if (knows(source) && (!lane || lane->index() < tasks->num_lanes())) {
            sums.in(source) = sum_bubbles(*tasks, analysis_.bubbles(source), lane);
        }
    }
    std::vector<FactRow> rows;
    for (int number = 0; number < kNumBubbleCauses; ++number) {
        const auto cause = static_cast<BubbleCause>(number);
        const bool occurs =
            (sums.measured && sums.measured->of(cause) > 0) || (sums.simulated && sums.simulated->of(cause) > 0);
        if (!occurs || (only && *only != cause)) {
            continue;
        }
        const auto share = [cause](const std::optional<BubbleSums>& each) {
            return each ? std::optional(each->share(cause)) : std::nullopt;
        };
        rows.push_back(shareRow(nameOf(cause), {share(sums.measured), share(sums.simulated)}));
    }
    add(heading, std::move(rows));
}

void FactsBuilder::addMemory(LaneId lane) {
    std::map<std::size_t, Both<Bytes>> parts;  // by category
    const auto addParts = [&parts](Source source, const MemoryBreakdown& composition) {
        for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
            if (const Bytes bytes = composition[static_cast<MemoryCategory>(k)]; bytes > 0) {
                parts[k].in(source) = bytes;
            }
        }
    };
    const StepGraph* measured = analysis_.tasks(Source::measured);
    if (measured != nullptr && lane.index() < document_.measuredMemory->size()) {
        const MemoryTrack& track = (*document_.measuredMemory)[lane.index()];
        if (const std::optional<std::int64_t> at = track.highestTimeIn(measured->range())) {
            addParts(Source::measured, track.compositionAt(*at));
        }
    }
    if (document_.baseline && lane.index() < document_.baseline->memory.size()) {
        const MemoryTrack& track = document_.baseline->memory[lane.index()];
        addParts(Source::simulated, track.compositionAt(track.highestTime()));
    }
    if (document_.simulation && lane.index() < document_.simulation->lanes.size()) {
        addParts(Source::simulated, document_.simulation->lanes[lane.index()].peak);
    }
    std::vector<FactRow> rows;
    const std::vector<LaneFacts> lanes = laneFacts(document_, step_);
    if (lane.index() < lanes.size()) {
        const LaneFacts& own = lanes[lane.index()];
        if (own.measuredPeak || own.simulatedPeak) {
            rows.push_back(bytesRow(translated("Peak"), {own.measuredPeak, own.simulatedPeak}));
        }
    }
    for (const auto& [category, bytes] : parts) {
        rows.push_back(bytesRow(nameOf(static_cast<MemoryCategory>(category)), bytes));
    }
    add(translated("Memory at the peak"), std::move(rows));
}

SelectionFacts FactsBuilder::ofTask(const TaskSelection& selection) {
    const TaskFacts task = taskFacts(document_, selection, step_, axis_);
    const Slice slice = document_.store(selection.source)->slice(selection.slice);
    facts_.title = task.title;
    facts_.where = task.where;
    facts_.text = task.whyNoTwin;
    addTimes(task, selection.source);
    addWaits(selection);
    addCopy(selection, slice);
    addLayers(selection, slice);
    addDeviceWork(selection);
    return facts_;
}

SelectionFacts FactsBuilder::ofBubble(const PartSelection& part) {
    facts_.title = translated("Bubble: %1").arg(nameOf(part.bubble.cause));
    facts_.where = laneName(part.lane) + QStringLiteral(" · ") + lanePlace(part.source, part.lane) +
                   QStringLiteral(" · ") + nameOf(document_, part.source);
    facts_.text = analysis_.sentence(part.source, part.bubble);
    if (const std::optional<RootCause> root = analysis_.rootOf(part.source, part.bubble);
        root && !moves_against(*root).empty()) {
        facts_.root = root;
    }
    if (part.source == Source::measured && !noBubble_.isEmpty()) {
        facts_.text += translated(" Its share is not given, since %1.").arg(noBubble_);
    }
    Both<std::int64_t> start;
    Both<std::int64_t> length;
    Both<double> share;
    Both<double> ofLane;
    for (const Source source : kSources) {
        const std::optional<Bubble> bubble = part.bubbleIn(source);
        const StepGraph* graph = analysis_.tasks(source);
        if (bubble && graph != nullptr) {
            start.in(source) = bubble->start - graph->range().start;
            length.in(source) = bubble->length();
            if (knows(source)) {
                share.in(source) = sum_bubbles(*graph, {}).share(bubble->length());
                ofLane.in(source) = sum_bubbles(*graph, {}, bubble->lane).share(bubble->length());
            }
        }
    }
    add(translated("In the step"),
        {timeRow(translated("Start"), start), timeRow(translated("Length"), length),
         shareRow(translated("Share of all lanes' time"), share), shareRow(translated("Share of the lane"), ofLane)});
    if (part.twin && part.twin->cause != part.bubble.cause) {
        add(translated("Cause"), {{translated("In the other timeline"),
                                   part.source == Source::simulated ? nameOf(part.twin->cause) : QString(),
                                   part.source == Source::measured ? nameOf(part.twin->cause) : QString()}});
    }
    addSums(translated("This cause, on this lane"), part.lane, part.bubble.cause);
    addSums(translated("This cause, on all lanes"), std::nullopt, part.bubble.cause);
    if (!part.twin && knows(otherThan(part.source)) && document_.whyNoTwins.empty()) {
        facts_.text +=
            QLatin1Char(' ') + (document_.baseline ? translated("In the other run, the lane does not wait here.")
                                : part.source == Source::measured ? translated("The simulated lane does not wait here.")
                                                                  : translated("The measured lane did not wait here."));
    }
    return facts_;
}

SelectionFacts FactsBuilder::ofLane(const PartSelection& part) {
    const TimelineStore& store = *document_.store(part.source);
    const std::string& name = store.lanes()[part.lane.index()].name;
    facts_.title = capitalised(name.empty() ? laneName(part.lane) : QString::fromStdString(name));
    facts_.where = lanePlace(part.source, part.lane);
    const std::vector<LaneFacts> all = laneFacts(document_, step_);
    if (part.lane.index() < all.size()) {
        const LaneFacts& lane = all[part.lane.index()];
        const auto ns = [](const std::optional<Nanoseconds>& time) {
            return time ? std::optional(time->count()) : std::nullopt;
        };
        const auto rest = [](const std::optional<double>& share) {
            return share ? std::optional(1 - *share) : std::nullopt;
        };
        add(translated("In the step"),
            {timeRow(translated("Busy"), {ns(lane.measuredBusy), ns(lane.simulatedBusy)}),
             shareRow(translated("Utilisation"), {rest(lane.measuredBubble), rest(lane.simulatedBubble)}),
             shareRow(translated("Bubble"), {lane.measuredBubble, lane.simulatedBubble})});
    }
    if (!noBubble_.isEmpty()) {
        facts_.text = noMeasuredBubbles(document_, noBubble_);
    }
    addSums(translated("Bubble by cause"), part.lane, std::nullopt);
    addMemory(part.lane);
    return facts_;
}

SelectionFacts FactsBuilder::ofLinks(const PartSelection& part) {
    facts_.title = translated("Links from %1").arg(laneName(part.lane));
    facts_.where = lanePlace(part.source, part.lane);
    addLinks(part.lane, std::nullopt);
    if (facts_.sections.empty()) {
        facts_.text = translated("The lane sends nothing in this step.");
    }
    return facts_;
}

/// Adds the step's throughput. `step`: its lengths.
void FactsBuilder::addRates(const Both<std::int64_t>& step) {
    const auto ratesIn = [&](Source source, const std::optional<std::int64_t>& ns) {
        return ratesOf(ns ? throughputOf(document_, source, Nanoseconds{*ns}, step_) : Throughput{});
    };
    const std::array measured = ratesIn(Source::measured, step.measured);
    const std::array simulated = ratesIn(Source::simulated, step.simulated);
    std::vector<FactRow> rows;
    for (std::size_t k = 0; k < measured.size(); ++k) {
        if (!measured[k].value.isEmpty() || !simulated[k].value.isEmpty()) {
            rows.push_back({measured[k].name, measured[k].value, simulated[k].value});
        }
    }
    add(translated("Rates"), std::move(rows));
}

/// The busiest lane and the one with the highest peak, of each timeline.
void FactsBuilder::addLanes() {
    const std::vector<LaneFacts> lanes = laneFacts(document_, step_);
    const auto most = [&](auto figure) {
        std::optional<std::size_t> found;
        for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
            if (lanes[lane].*figure && (!found || *(lanes[lane].*figure) > *(lanes[*found].*figure))) {
                found = lane;
            }
        }
        return found;
    };
    std::vector<FactRow> rows;
    const auto addMost = [&](const QString& which, const QString& how, auto measured, auto simulated,
                             const auto& format) {
        FactRow number{which, {}, {}};
        FactRow figure{how, {}, {}};
        if (const auto lane = most(measured)) {
            number.measured = laneName(LaneId{static_cast<std::int64_t>(*lane)});
            figure.measured = format(*(lanes[*lane].*measured));
        }
        if (const auto lane = most(simulated)) {
            number.simulated = laneName(LaneId{static_cast<std::int64_t>(*lane)});
            figure.simulated = format(*(lanes[*lane].*simulated));
        }
        if (!figure.measured.isEmpty() || !figure.simulated.isEmpty()) {
            rows.push_back(std::move(number));
            rows.push_back(std::move(figure));
        }
    };
    addMost(translated("Busiest"), translated("Busy time"), &LaneFacts::measuredBusy, &LaneFacts::simulatedBusy,
            [](Nanoseconds ns) { return formatDuration(ns.count()); });
    addMost(translated("Fullest"), translated("Peak memory"), &LaneFacts::measuredPeak, &LaneFacts::simulatedPeak,
            formatBytes);
    add(translated("Lanes"), std::move(rows));
}

SelectionFacts FactsBuilder::ofStep() {
    facts_.ofWholeStep = true;
    facts_.title = document_.measured ? translated("Step %1").arg(step_) : translated("Simulated step");
    const RecordedRun& drawn = document_.baseline ? document_.baseline->compared.run : document_.run;
    Both<std::int64_t> length;  // with what follows the pipeline
    Both<double> bubble;
    for (const Source source : kSources) {
        if (const std::optional<StepFacts> step = stepFacts(document_, source, step_)) {
            length.in(source) = step->whyNoTime.isEmpty() ? std::optional(step->time.count()) : std::nullopt;
            bubble.in(source) = step->whyNoBubble.isEmpty() ? std::optional(step->bubble) : std::nullopt;
        }
    }
    std::vector<FactRow> rows{timeRow(translated("Step time"), length)};
    if (drawn.on_cluster && length.simulated) {
        const std::int64_t pipeline = *length.simulated - after_pipeline(drawn).count();
        rows.push_back({translated("Its pipeline"), {}, formatDuration(pipeline)});
    }
    rows.push_back(shareRow(drawn.on_cluster ? translated("Pipeline's bubble") : translated("Bubble"), bubble));
    add(translated("Whole step"), std::move(rows));
    if (document_.simulation && document_.simulation->noise) {
        facts_.text = translated(
            "The simulated step time, bubble and rates are those of the expected step, the mean of noisy steps. Lanes "
            "and causes are those of the step drawn, which is without noise.");
    } else if (document_.simulation && document_.noiseLeftOut) {
        facts_.text = document_.complete ? translated("The simulated step is without noise.")
                                         : translated("The simulated step is without noise so far.");
    }
    addRates(length);
    addLanes();
    addSums(translated("Bubble by cause"), std::nullopt, std::nullopt);
    return facts_;
}
}  // namespace

QString SelectionFacts::plainText() const {
    QStringList lines{title, where};
    if (!text.isEmpty()) {
        lines << text;
    }
    for (const FactSection& section : sections) {
        const bool single = simulatedName.isEmpty();
        const auto columns = [single](const QStringList& all) {
            return (single ? all.mid(0, 2) : all).join(QLatin1Char('\t'));
        };
        lines << QString() << columns({section.heading, measuredName, simulatedName, translated("difference")});
        for (const FactRow& row : section.rows) {
            lines << columns({row.name, row.measured, row.simulated, row.difference});
        }
    }
    return lines.join(QLatin1Char('\n')) + QLatin1Char('\n');
}

namespace {
/// A file of threads, streams and counters: how much it holds, and the names that take most time.
SelectionFacts recordingFacts(const TraceDocument& document) {
    constexpr std::size_t kMostNames = 12;
    SelectionFacts facts;
    if (!document.tracks) {
        return facts;
    }
    const TrackStore& store = *document.tracks;
    struct Sum {
        std::uint32_t text = 0;
        RanOn on = RanOn::host;
        std::size_t count = 0;
        std::int64_t time = 0;
    };
    constexpr std::size_t kPlaces = 3;  // of RanOn
    std::vector<Sum> sums(kPlaces * store.texts.size());
    std::vector<std::uint32_t> first(store.texts.size());  // of the texts of one operator
    std::unordered_map<std::string_view, std::uint32_t> operators;
    for (std::uint32_t text = 0; text < first.size(); ++text) {
        first[text] = operators.try_emplace(without_call(store.texts[text]), text).first->second;
    }
    std::size_t ranges = 0;
    for (const TrackRow& row : store.rows) {
        ranges += row.start.size();
        for (std::size_t i = 0; i < row.start.size(); ++i) {
            Sum& sum = sums[kPlaces * first[row.text[i]] + static_cast<std::size_t>(row.on)];
            sum.text = first[row.text[i]];
            sum.on = row.on;
            sum.time += row.end[i] - row.start[i];
            ++sum.count;
        }
    }
    facts.ofWholeStep = true;
    facts.title = translated("Recording");
    facts.measuredName = translated("value");
    const auto number = [](std::size_t count) { return QLocale().toString(static_cast<qulonglong>(count)); };
    FactSection all{translated("In all"), {{translated("Length"), formatDuration(store.range().length()), {}}}};
    for (const auto& [name, count] : {std::pair(translated("Threads and streams"), threadsOf(store).size()),
                                      {translated("Ranges"), ranges},
                                      {translated("Counters"), store.counters.size()},
                                      {translated("Arrows"), store.arrows.size()}}) {
        if (count > 0) {
            all.rows.push_back({name, number(count), {}});
        }
    }
    facts.sections.push_back(std::move(all));
    const auto shown = std::min(kMostNames + kPlaces * document.markedSteps.size(), sums.size());
    std::partial_sort(
        sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(shown), sums.end(),
        [](const Sum& a, const Sum& b) { return std::tie(b.time, a.text, a.on) < std::tie(a.time, b.text, b.on); });
    static const TaskRules rules;
    FactSection names{translated("Most time by name"), {}};
    for (std::size_t k = 0; k < shown && sums[k].time > 0 && names.rows.size() < kMostNames; ++k) {
        if (markedStepOf(store.texts[sums[k].text], rules).number) {
            continue;  // a step contains the others
        }
        const QString name = QString::fromStdString(std::string(without_call(store.texts[sums[k].text])));
        names.rows.push_back({sums[k].on == RanOn::annotations ? translated("%1, on the device").arg(name) : name,
                              QStringLiteral("%1 · %2").arg(number(sums[k].count), formatDuration(sums[k].time)),
                              {}});
    }
    if (!names.rows.empty()) {
        facts.sections.push_back(std::move(names));
    }
    return facts;
}
}  // namespace

SelectionFacts factsOf(const TraceDocument& document, const StepAnalysis& analysis, std::int32_t step,
                       const std::optional<TaskSelection>& task, const std::optional<PartSelection>& part,
                       const TimeAxisModel* axis) {
    FactsBuilder builder(document, analysis, step, axis);
    if (task) {
        return builder.ofTask(*task);
    }
    if (part && part->kind == PartSelection::Kind::range) {
        const StepSpan* span = measuredStep(document, step);
        return rangeFacts(document, part->range, span != nullptr ? span->range().start : 0, axis);
    }
    if (!part) {
        return hasOnlyTracks(document) ? recordingFacts(document) : builder.ofStep();
    }
    if (analysis.tasks(part->source) == nullptr) {
        return {};
    }
    switch (part->kind) {
        case PartSelection::Kind::range: break;
        case PartSelection::Kind::bubble: return builder.ofBubble(*part);
        case PartSelection::Kind::lane: return builder.ofLane(*part);
        case PartSelection::Kind::links: return builder.ofLinks(*part);
    }
    return {};
}

SelectionFacts rangeFacts(const TraceDocument& document, const SliceRef& range, std::int64_t origin,
                          const TimeAxisModel* axis) {
    SelectionFacts facts;
    if (!document.tracks || !document.tracks->has(range)) {
        return facts;
    }
    const TrackStore& store = *document.tracks;
    const TrackRow& row = store.rows[range.row];
    const TimeRange time = store.rangeOf(range);
    facts.title = QString::fromStdString(store.textOf(range));
    facts.where = row.group.empty() ? QString::fromStdString(row.name)
                                    : QStringLiteral("%1 · %2").arg(QString::fromStdString(row.group),
                                                                    QString::fromStdString(row.name));
    facts.measuredName = translated("value");
    const auto instant = [&](std::int64_t at) {
        return axis != nullptr && axis->timeStyle() != TimeStyle::step ? axis->instantText(at, time.length())
                                                                       : formatInstant(at - origin, time.length());
    };
    facts.sections.push_back({translated("Range"),
                              {{translated("Start"), instant(time.start), {}},
                               {translated("End"), instant(time.end), {}},
                               {translated("Length"), formatDuration(time.length()), {}},
                               {translated("Depth"), QLocale().toString(row.depth), {}}}});
    constexpr std::size_t kMost = 24;
    FactSection arrows{translated("Arrows"), {}};
    const auto add = [&](const QString& name, const SliceRef& other, std::int64_t delay) {
        arrows.rows.push_back({name,
                               QStringLiteral("%1, %2 · %3")
                                   .arg(QString::fromStdString(store.textOf(other)),
                                        QString::fromStdString(store.rows[other.row].name), formatDuration(delay)),
                               {}});
    };
    for (const SliceRef& from : store.arrowsTo(range, kMost)) {
        add(translated("From"), from, time.start - store.rangeOf(from).start);
    }
    for (const SliceRef& to : store.arrowsFrom(range, kMost)) {
        add(translated("To"), to, store.rangeOf(to).start - time.start);
    }
    if (!arrows.rows.empty()) {
        facts.sections.push_back(std::move(arrows));
    }
    return facts;
}

std::vector<FactSection> argumentFacts(const nlohmann::json& event) {
    const auto text = [](const nlohmann::json& value) {
        constexpr std::size_t kMost = 2'000;  // letters of one value
        std::string plain = value.is_string() ? value.get<std::string>()
                                              : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        if (plain.size() > kMost) {
            plain = plain.substr(0, kMost) + " …";
        }
        return QString::fromStdString(plain);
    };
    std::vector<FactSection> sections;
    if (!event.is_object()) {
        return sections;
    }
    FactSection arguments{translated("Arguments"), {}};
    if (event.contains("cat")) {
        arguments.rows.push_back({translated("category"), text(event["cat"]), {}});
    }
    if (event.contains("args") && event["args"].is_object()) {
        for (const auto& [key, value] : event["args"].items()) {
            arguments.rows.push_back({QString::fromStdString(key), text(value), {}});
        }
    }
    if (!arguments.rows.empty()) {
        sections.push_back(std::move(arguments));
    }
    return sections;
}

QString spoken(const TraceDocument& document, const StepAnalysis& analysis, std::int32_t step,
               const PartSelection& part) {
    const SelectionFacts facts = factsOf(document, analysis, step, std::nullopt, part);
    QStringList parts{facts.title, facts.where};
    if (!facts.text.isEmpty()) {
        parts << facts.text;
    }
    if (part.kind == PartSelection::Kind::bubble) {
        parts << formatDuration(part.bubble.length());
    } else if (!facts.sections.empty()) {
        for (const FactRow& row : facts.sections.front().rows) {
            const QString& value = part.source == Source::measured ? row.measured : row.simulated;
            if (!value.isEmpty()) {
                parts << translated("%1 %2").arg(row.name, value);
            }
        }
    }
    return parts.join(QStringLiteral(", "));
}
}  // namespace pipescope
