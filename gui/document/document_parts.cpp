#include "gui/document/document_parts.h"

#include "gui/style/number_format.h"
#include "gui/style/text.h"
#include "schedule/error.h"

namespace pipescope {
void addHidden(TraceDocument& document) {
    for (const auto& store : {document.measured, document.simulated}) {
        if (store && store->numHidden() > 0) {
            document.notes << translated(QT_TRANSLATE_NOOP(
                                             "DocumentLoader",
                                             "%1 not drawn: a lane is not possible, or too many tasks of one lane "
                                             "overlap. The trace may be damaged."))
                                  .arg(formatCount(store->numHidden(),
                                                   translated(QT_TRANSLATE_NOOP("DocumentLoader", "task is")),
                                                   translated(QT_TRANSLATE_NOOP("DocumentLoader", "tasks are"))));
        }
    }
}

Simulation adopt(Simulation simulation, TraceDocument& document) {
    document.simulated = std::make_shared<const TimelineStore>(simulation.timeline);
    document.simulatedMemory = memoryTracks(simulation.memory, document.simulated->lanes().size());
    document.memoryLimits = memory_limits_of(simulation.options, num_lanes(simulation.options));
    simulation.memory = {};
    document.simulation = simulation;
    document.simulation->timeline = {};
    return simulation;
}

void requireTracks(TraceDocument& document) {
    if (!document.tracks) {
        refuseEmpty(document.path, true);
    }
    document.notes << translated(QT_TRANSLATE_NOOP(
        "DocumentLoader",
        "This trace holds no task of a pipeline, so only its threads and streams are shown. Tasks are recorded where "
        "the model runs in a PipeScope pipeline."));
}

void refuseEmpty(const QString& path, bool own) {
    throw Error(path.toStdString() +
                " holds no task: a trace needs one recorded or simulated task at least; record one "
                "with pipescope run --trace" +
                (own ? ", or call pipescope recover if the run was killed" : ", or choose another file"));
}
}  // namespace pipescope
