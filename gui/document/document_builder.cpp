#include "gui/document/document_builder.h"

#include "analysis/stored_simulation.h"
#include "analysis/trace_comparison.h"
#include "base/error.h"
#include "base/stop_check.h"
#include "gui/style/number_format.h"
#include "trace/store/device_launches.h"

#include <QRegularExpression>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>

namespace pipescope {
namespace {
template <class Wanted>
Timeline slicesOf(const TimelineStore& store, const Wanted& wanted) {
    Timeline timeline{store.source(), store.lanes(), {}};
    for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
        const std::vector<std::uint64_t>& keys = store.rows()[row].key;
        for (std::uint32_t i = 0; i < keys.size(); ++i) {
            if (wanted(keys[i])) {
                timeline.slices.push_back(store.slice({row, i}));
            }
        }
    }
    sort_slices(timeline);
    return timeline;
}

void compareTasks(TraceDocument& document, const ComparedTasks& tasks, const std::optional<Simulation>& simulation) {
    RunComparison compared = compare_run(runTasks(document, tasks), simulation ? &*simulation : nullptr);
    document.comparison = std::move(compared.comparison);
    document.comparableSteps = compared.comparable;
    document.warnings = std::move(compared.warnings);
    document.whyNotCompared = std::move(compared.why_none);
}

/// False if `stop` was requested, and then no change.
bool addNoise(TraceDocument& document, Simulation& simulation, const std::stop_token& stop) {
    const StopCheck check([&stop] { return !stop.stop_requested(); });
    try {
        add_noise(*document.run.profile, *document.simulation);
    } catch (const ComputationStopped&) {
        return false;
    }
    document.noiseLeftOut = false;
    if (document.measured) {
        simulation.noise = document.simulation->noise;
        std::vector<TraceWarning> warnings = std::move(document.warnings);
        compareTasks(document, comparedTasks(document), simulation);
        document.warnings = std::move(warnings);  // with those of the ranges
    }
    return true;
}
}  // namespace

std::int32_t highestPartition(const TimelineStore& store) {
    std::int32_t highest = -1;
    for (const StoredRow& row : store.rows()) {
        for (const std::uint64_t key : row.key) {
            highest = std::max(highest, unpack(key).value_or(TaskKey{}).partition);
        }
    }
    return highest;
}

void addHidden(TraceDocument& document) {
    for (const auto& store : {document.measured, document.simulated}) {
        if (store && store->numHidden() > 0) {
            document.notes << translated(
                                  "%1 not drawn: a lane is not possible, or too many tasks of one lane overlap. The "
                                  "trace may be damaged.")
                                  .arg(formatCount(store->numHidden(), translated("task is"), translated("tasks are")));
        }
    }
}

std::shared_ptr<const TimelineStore> storeOf(const Simulation& simulation) {
    const bool isStaggered = simulation.options.update == Update::staggered;
    return std::make_shared<const TimelineStore>(simulation.timeline, one_step_statistics(simulation),
                                                 isStaggered ? std::optional(simulation.step) : std::nullopt);
}

std::optional<Simulation> simulateRun(TraceDocument& document) {
    const RecordedRun& run = document.run;
    const bool takesLong =
        run.profile && run.options && noiseTakesLong(*run.profile, *run.options, kMostForwardsAtOnce);
    std::optional<Simulation> simulation = simulate_run(document.run, !takesLong);
    document.noiseLeftOut = takesLong && simulation;
    return simulation ? std::optional(adopt(std::move(*simulation), document)) : std::nullopt;
}

Simulation adopt(Simulation simulation, TraceDocument& document) {
    document.simulated = storeOf(simulation);
    if (!simulation.memory_unknown) {
        document.simulatedMemory = memoryTracks(simulation.memory, document.simulated->lanes().size());
    }
    document.memoryLimits = memory_limits_of(simulation.options.hardware, num_lanes(simulation.options));
    simulation.memory = {};
    document.simulation = simulation;
    document.simulation->timeline = {};
    return simulation;
}

void showStored(TraceDocument& document, const Timeline& stored, const std::vector<MemorySample>& memory,
                const Simulation* simulation) {
    if (stored.slices.empty()) {
        return;
    }
    if (simulation == nullptr) {
        document.simulated = std::make_shared<const TimelineStore>(stored, one_step_statistics(stored));
        document.simulatedMemory = memoryTracks(memory, document.simulated->lanes().size());
        return;
    }
    Simulation shown = *simulation;
    const std::optional<TraceWarning> warning = take_stored_tasks(shown, stored, memory);
    if (warning) {
        document.warnings.push_back(*warning);
        document.noiseLeftOut = false;
    }
    adopt(std::move(shown), document);
}

bool noiseTakesLong(const Profile& profile, const PipelineOptions& options, std::int64_t most) {
    const auto partitions = static_cast<std::int64_t>(options.balance.num_partitions());
    return has_noise(profile) && options.chunks * partitions > most;
}

void publishWhole(TraceDocument& document, std::optional<Simulation>& simulation, const PublishDocument& publish,
                  const std::stop_token& stop, std::int64_t mostForwards) {
    if (document.noiseLeftOut && !stop.stop_requested() &&
        !noiseTakesLong(*document.run.profile, document.simulation->options, mostForwards)) {
        document.complete = false;
        publish(std::make_shared<const TraceDocument>(document));
        addNoise(document, *simulation, stop);
    }
    document.complete = true;
    publish(std::make_shared<const TraceDocument>(document));
}

namespace {
/// Where the ranges of a trace are in the store; SliceRef::row is kNowhere for ranges that are tasks.
constexpr std::uint32_t kNowhere = UINT32_MAX;
using RangePlaces = std::vector<std::vector<SliceRef>>;

/// Arrows from calls to the work on a device that they launched.
void addLaunches(const OpenedTrace& trace, const RangePlaces& places, std::vector<TrackArrow>& arrows) {
    for (const DeviceLaunch& launch : device_launches(trace)) {
        const SliceRef call = places.at(launch.call.track).at(launch.call.range);
        const SliceRef work = places.at(launch.work.track).at(launch.work.range);
        if (call.row != kNowhere && work.row != kNowhere) {
            arrows.push_back({call, work});
        }
    }
}

/// True for a track of nothing but a counter's samples, as in a merged trace. The counter shows them.
bool isOnlySamples(const RangeTrack& track, const std::set<std::pair<std::string, std::string>>& counters,
                   const std::vector<std::string>& names) {
    return std::all_of(track.ranges.begin(), track.ranges.end(), [&](const TraceRange& range) {
        return range.end == range.start && counters.contains({track.group, names.at(range.name)});
    });
}
}  // namespace

namespace {
/// A name as one line from left to right: without characters that end a line or turn the direction of what follows.
std::string inOneLine(const std::string& name) {
    if (!name.empty() && name.find_first_not_of(" \t\r\n") == std::string::npos) {
        return "(no name)";  // as ranges with an empty one
    }
    const auto isPlain = [](unsigned char byte) { return byte >= 0x20 && byte != 0xE2; };
    if (std::ranges::all_of(name, isPlain)) {
        return name;
    }
    static const QRegularExpression kTurns(QStringLiteral("[\\x{202a}-\\x{202e}\\x{2066}-\\x{2069}]"));
    static const QRegularExpression kControls(QStringLiteral("[\\x{00}-\\x{1f}\\x{2028}\\x{2029}]"));
    return QString::fromStdString(name).remove(kTurns).replace(kControls, QStringLiteral(" ")).toStdString();
}
}  // namespace

namespace {
RanOn placeOf(RangeTrack::Kind kind) {
    return kind == RangeTrack::Kind::stream        ? RanOn::device
           : kind == RangeTrack::Kind::annotations ? RanOn::annotations
                                                   : RanOn::host;
}
}  // namespace

std::shared_ptr<const TrackStore> tracksOf(const OpenedTrace& trace) {
    auto store = std::make_shared<TrackStore>();
    RangePlaces places;
    std::set<std::pair<std::string, std::string>> counters;  // group and name
    for (const CounterTrack& counter : trace.counters) {
        counters.emplace(counter.group, counter.name);
    }
    for (const RangeTrack& track : trace.tracks) {
        std::vector<TrackRow> rows(isOnlySamples(track, counters, trace.names) ? 0 : track.rows);
        std::vector<SliceRef>& own = places.emplace_back();
        own.reserve(track.ranges.size());
        for (const TraceRange& range : track.ranges) {
            own.push_back({kNowhere, 0});
            if (range.is_task || range.row >= rows.size()) {
                continue;
            }
            TrackRow& row = rows[range.row];
            own.back() = {range.row, static_cast<std::uint32_t>(row.start.size())};
            // The last of very many rows may contain overlapping ranges, but drawn ranges must not overlap.
            const std::int64_t start =
                std::max(range.start.count(), row.end.empty() ? range.start.count() : row.end.back());
            row.start.push_back(start);
            row.end.push_back(std::max(start, range.end.count()));
            row.text.push_back(range.name);
            if (range.event != 0) {
                row.event.resize(row.start.size());
                row.event.back() = range.event;
                row.file = range.file;
            }
        }
        int depth = 0;
        std::vector<std::uint32_t> numbers(rows.size(), kNowhere);  // of the rows in the store
        for (std::size_t k = 0; k < rows.size(); ++k) {
            TrackRow& row = rows[k];
            if (!row.start.empty()) {
                numbers[k] = static_cast<std::uint32_t>(store->rows.size());
                row.event.resize(row.event.empty() ? 0 : row.start.size());
                row.group = inOneLine(track.group);
                row.name = inOneLine(track.name);
                row.depth = depth++;
                row.on = placeOf(track.kind);
                sumBusy(row, [](std::size_t) { return true; });
                store->rows.push_back(std::move(row));
            }
        }
        for (SliceRef& place : own) {
            place.row = place.row == kNowhere ? kNowhere : numbers[place.row];
        }
    }
    for (const CounterTrack& track : trace.counters) {
        CounterRow counter(inOneLine(track.group), inOneLine(track.name));
        for (const CounterTrack::Point& point : track.points) {
            counter.add(point.time.count(), point.value);
        }
        if (counter.size() > 0) {
            store->counters.push_back(std::move(counter));
        }
    }
    if (store->empty()) {
        return nullptr;
    }
    std::ranges::transform(trace.names, std::back_inserter(store->texts), inOneLine);
    store->eventFiles = trace.event_files;
    std::vector<TrackArrow> arrows;
    addLaunches(trace, places, arrows);
    for (const RangeArrow& arrow : trace.arrows) {
        const SliceRef from = places.at(arrow.from.track).at(arrow.from.range);
        const SliceRef to = places.at(arrow.to.track).at(arrow.to.range);
        if (from.row != kNowhere && to.row != kNowhere) {
            arrows.push_back({from, to});
        }
    }
    store->setArrows(std::move(arrows));
    return store;
}

MarkedStep markedStepOf(const std::string& name, const TaskRules& rules) {
    const std::optional<RangeMeaning> meaning = rules.meaning_of(name);
    if (meaning && meaning->fault.empty() && meaning->role == RangeRole::step && meaning->step) {
        return {meaning->step, true};
    }
    return {usual_step_number(name), false};
}

std::vector<StepRecord> markedSteps(const TrackStore& store, const TaskRules& rules) {
    std::vector<MarkedStep> numbers;
    bool anyByRule = false;
    for (const std::string& text : store.texts) {
        numbers.push_back(markedStepOf(text, rules));
        anyByRule = anyByRule || numbers.back().byRule;
    }
    for (MarkedStep& each : numbers) {
        each.number = each.byRule == anyByRule ? each.number : std::nullopt;
    }
    std::map<std::int32_t, StepRecord> steps;
    for (const TrackRow& row : store.rows) {
        for (std::size_t i = 0; i < row.text.size(); ++i) {
            const std::optional<std::int32_t>& number = numbers[row.text[i]].number;
            if (number && row.end[i] > row.start[i]) {
                StepRecord step;
                step.step = *number;
                step.wall_start = Nanoseconds{row.start[i]};
                step.wall_end = Nanoseconds{row.end[i]};
                // Profilers repeat a host's range on the device, where it begins later.
                const auto [found, fresh] = steps.try_emplace(step.step, step);
                if (!fresh && step.wall_start < found->second.wall_start) {
                    found->second = step;
                }
            }
        }
    }
    std::vector<StepRecord> sorted;
    for (const auto& [number, step] : steps) {
        sorted.push_back(step);
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const StepRecord& a, const StepRecord& b) { return a.wall_start < b.wall_start; });
    return sorted;
}

void requireTracks(TraceDocument& document) {
    if (!document.tracks) {
        throw Error(document.path.toStdString() +
                    " holds no task and no range; a timeline shows tasks and ranges; record a run with pipescope run "
                    "--trace, or call pipescope recover if the run was killed");
    }
    document.markedSteps = markedSteps(*document.tracks, TaskRules());
    document.notes << translated(
        "This trace holds no task of a pipeline, so only its threads and streams are shown. Tasks are recorded where "
        "the model runs in a PipeScope pipeline.");
}

void checkSteps(TraceDocument& document) {
    document.check = {};
    if (!document.measured) {
        return;
    }
    StepCheck check(document.run);
    const std::vector<StoredRow>& rows = document.measured->rows();
    for (const StoredRow& row : rows) {
        for (std::size_t i = 0; i < row.key.size(); ++i) {
            const std::optional<TaskKey> key = unpack(row.key[i]);
            if (key && row.copies) {
                check.add_message(*key, row.bytes.empty() ? 0 : row.bytes[i]);
            } else if (key) {
                check.add(*key, row.lane);
            }
        }
        // Tasks of a lane that overlap another one have rows of their own.
        for (const StoredRow& above : rows) {
            if (row.copies || row.depth == 0 || above.copies || above.lane != row.lane || above.depth >= row.depth) {
                continue;
            }
            for (std::size_t i = 0; i < row.key.size(); ++i) {
                for (const std::size_t k : above.within(row.range(i)).indices()) {
                    if (above.key[k] == row.key[i] && row.computes(i)) {
                        check.add_repeated(unpack(row.key[i]).value_or(TaskKey{}).step);
                    }
                }
            }
        }
    }
    document.check = check.result();
}

MeasuredSteps stepsToCompare(const TraceDocument& document) {
    std::vector<std::int32_t> recorded;
    for (const StepSpan& span : document.measured->steps()) {
        recorded.push_back(span.step);
    }
    const std::size_t steps = std::max<std::size_t>(1, recorded.size());
    const std::size_t tasks = std::max<std::size_t>(1, document.measured->numSlices() / steps);
    return steps_to_compare(document.run, document.check, recorded, kMostComparedTasks / tasks);
}

Timeline timelineOf(const TimelineStore& store, const MeasuredSteps& steps) {
    std::unordered_set<std::int32_t> wanted;
    for (const StepRecord& step : steps.steps) {
        wanted.insert(step.step);
        if (store.overlaps()) {
            wanted.insert({step.step - 1, step.step + 1});
        }
    }
    return slicesOf(store, [&](std::uint64_t key) { return wanted.contains(unpack(key).value_or(TaskKey{}).step); });
}

Timeline timelineOf(const TimelineStore& store) {
    return slicesOf(store, [](std::uint64_t) { return true; });
}

ComparedTasks comparedTasks(const TraceDocument& document) {
    ComparedTasks compared{stepsToCompare(document), {}};
    compared.timeline = timelineOf(*document.measured, compared.steps);
    leave_out_broken(document.check, compared.timeline, compared.steps);
    return compared;
}

RunTasks runTasks(const TraceDocument& document, const ComparedTasks& compared) {
    return {document.run, document.check, compared.steps, compared.timeline, peaksOf(*document.measuredMemory)};
}

StepPeaks peaksOf(const std::vector<MemoryTrack>& tracks) {
    return [&tracks](const std::vector<TimeRange>& steps, std::size_t lanes) {
        std::vector<std::optional<Bytes>> peaks(lanes);
        for (std::size_t lane = 0; lane < std::min(lanes, tracks.size()); ++lane) {
            for (const TimeRange& step : steps) {
                peaks[lane] = std::max(peaks[lane], tracks[lane].highestIn(step));  // none is less than any
            }
        }
        return peaks;
    };
}

void compareWith(TraceDocument& document, const std::optional<Simulation>& simulation) {
    if (!document.measured) {
        document.whyNotCompared = nothing_measured(document.run);
        return;
    }
    const ComparedTasks tasks = comparedTasks(document);
    compareTasks(document, tasks, simulation);
    const Measured measured = runTasks(document, tasks).measured();
    document.rootCauses = root_causes(measured, document.run);
    document.roots = bubble_roots(measured, document.run, document.rootCauses);
}
}  // namespace pipescope
