#include "gui/document/document_parts.h"

#include "analysis/stored_simulation.h"
#include "gui/style/number_format.h"
#include "gui/style/text.h"
#include "schedule/error.h"

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
