#include "gui/document/document_parts.h"

#include "balance/profile_file.h"
#include "gui/document/compared_steps.h"
#include "schedule/error.h"

#include <nlohmann/json.hpp>

#include <QCoreApplication>

#include <algorithm>

namespace pipescope {
namespace {
QString text(const char* source) {
    return QCoreApplication::translate("DocumentLoader", source);
}

void noteHalves(const std::vector<std::int32_t>& steps, TraceDocument& document) {
    if (steps.empty()) {
        return;
    }
    constexpr std::size_t kMostNamed = 5;
    QStringList names;
    for (std::size_t i = 0; i < std::min(steps.size(), kMostNamed); ++i) {
        names << QString::number(steps[i]);
    }
    if (steps.size() > kMostNamed) {
        names << QStringLiteral("…");
    }
    document.notes << text(QT_TRANSLATE_NOOP(
                               "DocumentLoader",
                               "Not compared, since a forward or a backward phase was not recorded: step %1 (%2 in "
                               "all)."))
                          .arg(names.join(QStringLiteral(", ")))
                          .arg(steps.size());
}
}  // namespace

QString modelName(const std::map<std::string, std::string>& run) {
    const auto found = run.find("model");
    if (found == run.end()) {
        return {};
    }
    const nlohmann::json json = nlohmann::json::parse(found->second, nullptr, false);
    return json.is_string() ? QString::fromStdString(json.get<std::string>()) : QString();
}

std::shared_ptr<const Profile> profileOf(const std::optional<std::string>& json, QStringList& notes) {
    if (!json) {
        notes << text(QT_TRANSLATE_NOOP(
            "DocumentLoader", "No simulation: the trace holds no profile. Record it with a profile to compare."));
        return nullptr;
    }
    try {
        return std::make_shared<const Profile>(parse_profile(*json));
    } catch (const Error& error) {
        notes << text(QT_TRANSLATE_NOOP("DocumentLoader", "No simulation: %1")).arg(QString::fromUtf8(error.what()));
        return nullptr;
    }
}

std::optional<Simulation> simulateRecorded(const Profile& profile, const std::map<std::string, std::string>& run,
                                           QStringList& notes) {
    const auto configuration = run.find("configuration");
    if (configuration == run.end()) {
        notes << text(
            QT_TRANSLATE_NOOP("DocumentLoader", "No simulation: the trace does not say how the run was configured."));
        return std::nullopt;
    }
    try {
        return simulate(profile, parse_pipeline_options(configuration->second));
    } catch (const Error& error) {
        notes << text(QT_TRANSLATE_NOOP("DocumentLoader", "No simulation: %1")).arg(QString::fromUtf8(error.what()));
        return std::nullopt;
    }
}

void compareWith(TraceDocument& document, const Simulation& simulation) {
    ComparedSteps compared = stepsToCompare(document);
    Timeline timeline = timelineOf(*document.measured, compared.steps);
    noteHalves(leaveOutHalves(compared, timeline), document);
    const std::vector<StepRecord>& steps = compared.steps;
    document.comparableSteps = compared.available;
    const std::vector<MemorySample> none;
    Measured measured{timeline, none, {}, {}};
    for (const StepRecord& step : steps) {
        measured.steps.push_back(step.step);
        if (step.wall_end > step.wall_start) {
            measured.wall_step_times.push_back(step.wall_end - step.wall_start);
        }
    }
    try {
        document.comparison = compare(measured, simulation);
    } catch (const Error& error) {
        document.notes
            << text(QT_TRANSLATE_NOOP("DocumentLoader", "No comparison: %1")).arg(QString::fromUtf8(error.what()));
        return;
    }
    // From the tracks: their samples need not be held all at once.
    const std::vector<MemoryTrack>& tracks = *document.measuredMemory;
    for (std::size_t lane = 0; lane < std::min(tracks.size(), document.comparison->lanes.size()); ++lane) {
        for (const StepRecord& step : steps) {
            const StepSpan* span = document.measured->step(step.step);
            const Bytes peak = span != nullptr ? tracks[lane].highestIn(span->range()) : 0;
            std::optional<Bytes>& highest = document.comparison->lanes[lane].measured_peak_bytes;
            highest = peak > 0 ? std::max(peak, highest.value_or(0)) : highest;
        }
    }
}

void addDrops(const std::vector<DropRecord>& drops, const std::vector<DiagnosticRecord>& diagnostics,
              TraceDocument& document) {
    document.lost = lost_records(drops);
    const auto note = [&document](std::int64_t lost, const char* sentence) {
        if (lost > 0) {
            document.notes << text(sentence).arg(lost);
        }
    };
    note(document.lost.ranges,
         QT_TRANSLATE_NOOP("DocumentLoader",
                           "The recorder lost %1 ranges, so the measured bubble is not given. Record "
                           "again with less load, or fewer ranges of your own."));
    note(document.lost.device_records,
         QT_TRANSLATE_NOOP("DocumentLoader",
                           "CUPTI lost %1 records of device work: device times of tasks are too small, and the "
                           "measured bubble is not given."));
    note(document.lost.rows,
         QT_TRANSLATE_NOOP("DocumentLoader",
                           "%1 rows could not be written, so the measured bubble is not given. Make room for "
                           "the trace and record again."));
    for (const DiagnosticRecord& diagnostic : diagnostics) {
        if (diagnostic.severity == "warning") {
            document.notes << QString::fromStdString(diagnostic.source + ": " + diagnostic.text);
        }
    }
}

void addHidden(TraceDocument& document) {
    for (const auto& store : {document.measured, document.simulated}) {
        if (store && store->numHidden() > 0) {
            document.notes << text(QT_TRANSLATE_NOOP(
                                       "DocumentLoader",
                                       "%1 tasks are not drawn: their lane is not possible, or too many tasks "
                                       "of one lane overlap. The trace may be damaged."))
                                  .arg(store->numHidden());
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
    document.notes << text(QT_TRANSLATE_NOOP(
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
