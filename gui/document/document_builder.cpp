#include "gui/document/document_builder.h"

#include "analysis/stored_simulation.h"
#include "analysis/trace_comparison.h"
#include "gui/style/number_format.h"
#include "schedule/error.h"

#include <algorithm>
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

/// -1 if no task has a partition.
std::int32_t highestPartition(const TimelineStore& store) {
    std::int32_t highest = -1;
    for (const StoredRow& row : store.rows()) {
        for (const std::uint64_t key : row.key) {
            highest = std::max(highest, unpack(key).value_or(TaskKey{}).partition);
        }
    }
    return highest;
}

/// Uses the tracks, so that not all samples need to be in memory at once.
void addPeaks(TraceDocument& document) {
    const std::vector<MemoryTrack>& tracks = *document.measuredMemory;
    std::vector<ComparedLane>& lanes = document.comparison->lanes;
    for (std::size_t lane = 0; lane < std::min(tracks.size(), lanes.size()); ++lane) {
        for (const std::int32_t step : document.comparison->steps) {
            const StepSpan* span = document.measured->step(step);
            const std::optional<Bytes> peak = span != nullptr ? tracks[lane].highestIn(span->range()) : std::nullopt;
            lanes[lane].measured_peak_bytes = std::max(lanes[lane].measured_peak_bytes, peak);
        }
    }
}
}  // namespace

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

Simulation adopt(Simulation simulation, TraceDocument& document) {
    document.simulated = std::make_shared<const TimelineStore>(simulation.timeline, one_step_statistics(simulation));
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
    if (const std::optional<TraceWarning> warning = take_stored_tasks(shown, stored, memory)) {
        document.warnings.push_back(*warning);
    }
    adopt(std::move(shown), document);
}

std::shared_ptr<const TrackStore> tracksOf(const OpenedTrace& trace) {
    auto store = std::make_shared<TrackStore>();
    for (const RangeTrack& track : trace.tracks) {
        std::vector<TrackRow> rows(track.rows);
        for (const TraceRange& range : track.ranges) {
            if (range.is_task || range.row >= rows.size()) {
                continue;
            }
            TrackRow& row = rows[range.row];
            // The last of very many rows may contain overlapping ranges, but drawn ranges must not overlap.
            const std::int64_t start =
                std::max(range.start.count(), row.end.empty() ? range.start.count() : row.end.back());
            row.start.push_back(start);
            row.end.push_back(std::max(start, range.end.count()));
            row.text.push_back(range.name);
        }
        int depth = 0;
        for (TrackRow& row : rows) {
            if (!row.start.empty()) {
                row.group = track.group;
                row.name = track.name;
                row.depth = depth++;
                store->rows.push_back(std::move(row));
            }
        }
    }
    if (store->rows.empty()) {
        return nullptr;
    }
    store->texts = trace.names;
    return store;
}

void requireTracks(TraceDocument& document) {
    if (!document.tracks) {
        throw Error(document.path.toStdString() +
                    " holds no task and no range; a timeline shows tasks and ranges; record a run with pipescope run "
                    "--trace, or call pipescope recover if the run was killed");
    }
    document.notes << translated(
        "This trace holds no task of a pipeline, so only its threads and streams are shown. Tasks are recorded where "
        "the model runs in a PipeScope pipeline.");
}

MeasuredSteps stepsToCompare(const TraceDocument& document) {
    std::vector<std::int32_t> recorded;
    for (const StepSpan& span : document.measured->steps()) {
        recorded.push_back(span.step);
    }
    const std::size_t steps = std::max<std::size_t>(1, recorded.size());
    const std::size_t tasks = std::max<std::size_t>(1, document.measured->numSlices() / steps);
    return steps_to_compare(document.run, recorded, kMostComparedTasks / tasks);
}

Timeline timelineOf(const TimelineStore& store, const MeasuredSteps& steps) {
    std::unordered_set<std::int32_t> wanted;
    for (const StepRecord& step : steps.steps) {
        wanted.insert(step.step);
    }
    return slicesOf(store, [&](std::uint64_t key) { return wanted.contains(unpack(key).value_or(TaskKey{}).step); });
}

Timeline timelineOf(const TimelineStore& store) {
    return slicesOf(store, [](std::uint64_t) { return true; });
}

void compareWith(TraceDocument& document, const Simulation* simulation) {
    if (!document.measured) {
        document.whyNotCompared = nothing_measured(document.run.origin);
        return;
    }
    warn_of_partition(document.run, highestPartition(*document.measured));
    const MeasuredSteps steps = stepsToCompare(document);
    const Timeline timeline = simulation != nullptr ? timelineOf(*document.measured, steps) : Timeline{};
    RunComparison compared = compare_run(document.run, simulation, steps, timeline, {});
    document.comparison = std::move(compared.comparison);
    document.comparableSteps = compared.comparable;
    document.warnings = std::move(compared.warnings);
    document.whyNotCompared = std::move(compared.why_none);
    if (document.comparison) {
        addPeaks(document);
    }
}
}  // namespace pipescope
