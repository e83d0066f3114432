#include "gui/document/document_builder.h"

#include "analysis/stored_simulation.h"
#include "gui/style/number_format.h"
#include "gui/style/text.h"
#include "schedule/error.h"

#include <algorithm>
#include <utility>

namespace pipescope {
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
    document.simulatedMemory = memoryTracks(simulation.memory, document.simulated->lanes().size());
    document.memoryLimits = memory_limits_of(simulation.options, num_lanes(simulation.options));
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
}  // namespace pipescope
