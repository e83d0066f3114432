#include "gui/document/compared_steps.h"

#include "analysis/trace_comparison.h"

#include <algorithm>
#include <unordered_set>

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
