#include "gui/document/document_loader.h"

#include "balance/profile_file.h"
#include "trace/trace_reader.h"

#include <nlohmann/json.hpp>

#include <QCoreApplication>
#include <QFileInfo>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>

namespace pipescope {
namespace {
QString text(const char* source) {
    return QCoreApplication::translate("DocumentLoader", source);
}

bool isProfile(const std::filesystem::path& path) {
    try {
        load_profile(path);
        return true;
    } catch (const Error&) {
        return false;
    }
}

TraceReader openTrace(const QString& name) {
    const std::filesystem::path path(name.toStdString());
    const QFileInfo info(name);
    if (!info.exists()) {
        throw Error(name.toStdString() +
                    ": there is no such file; check the path, or record one with pipescope run --trace");
    }
    if (info.isDir()) {
        throw Error(name.toStdString() + " is a folder, not a trace; name the .sqlite file in it");
    }
    try {
        return TraceReader(path);
    } catch (const TraceFormatError&) {
        if (isProfile(path)) {
            throw Error(name.toStdString() +
                        " is a profile, not a trace: it has costs but no timeline; simulate it first "
                        "with pipescope simulate FILE --balance .. --trace out.sqlite");
        }
        throw;
    }
}

/// What the trace keeps of a run's model name: JSON text of a string.
QString modelName(const std::map<std::string, std::string>& run) {
    const auto found = run.find("model");
    if (found == run.end()) {
        return {};
    }
    const nlohmann::json json = nlohmann::json::parse(found->second, nullptr, false);
    return json.is_string() ? QString::fromStdString(json.get<std::string>()) : QString();
}

std::shared_ptr<const Profile> profileOf(const TraceReader& reader, QStringList& notes) {
    const std::optional<std::string> json = reader.profile_json();
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

/// Steps to compare with: warm-up left out while there are others.
Measured measuredSteps(const Timeline& timeline, const std::vector<MemorySample>& memory,
                       const std::vector<StepRecord>& steps) {
    Measured measured{timeline, memory, {}, {}};
    for (const StepRecord& step : steps) {
        if (!step.warmup) {
            measured.steps.push_back(step.step);
            measured.wall_step_times.push_back(step.wall_end - step.wall_start);
        }
    }
    if (measured.steps.empty()) {
        measured.steps = steps_of(timeline);
        measured.wall_step_times.clear();
    }
    return measured;
}

void compareWith(const Timeline& timeline, const std::vector<MemorySample>& memory, TraceDocument& document) {
    if (timeline.slices.empty() || !document.simulation) {
        return;
    }
    try {
        document.comparison = compare(measuredSteps(timeline, memory, document.steps), *document.simulation);
    } catch (const Error& error) {
        document.notes
            << text(QT_TRANSLATE_NOOP("DocumentLoader", "No comparison: %1")).arg(QString::fromUtf8(error.what()));
    }
}

void addWarnings(const TraceReader& reader, TraceDocument& document) {
    for (const DropRecord& drop : reader.drops()) {
        document.droppedRanges += drop.dropped;
    }
    if (document.droppedRanges > 0) {
        document.notes << text(QT_TRANSLATE_NOOP(
                                   "DocumentLoader",
                                   "The recorder lost %1 ranges, so the measured bubble is not given. Record "
                                   "again with less load, or fewer ranges of your own."))
                              .arg(document.droppedRanges);
    }
    for (const DiagnosticRecord& diagnostic : reader.diagnostics()) {
        if (diagnostic.severity == "warning") {
            document.notes << QString::fromStdString(diagnostic.source + ": " + diagnostic.text);
        }
    }
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
}  // namespace

std::shared_ptr<const TraceDocument> loadTrace(const QString& path) {
    const TraceReader reader = openTrace(path);
    auto document = std::make_shared<TraceDocument>();
    document->path = path;
    const std::map<std::string, std::string> run = reader.run();
    document->model = modelName(run);
    document->steps = reader.steps();

    const std::vector<MemorySample> memory = reader.memory();
    document->profile = profileOf(reader, document->notes);
    if (document->profile) {
        document->simulation = simulateRecorded(*document->profile, run, document->notes);
    }
    {
        const Timeline timeline = reader.timeline(Source::measured);
        compareWith(timeline, memory, *document);
        if (!timeline.slices.empty()) {
            document->measured = std::make_shared<const TimelineStore>(timeline);
            document->measuredMemory = std::make_shared<const std::vector<MemoryTrack>>(
                memoryTracks(memory, document->measured->lanes().size()));
        }
    }
    if (document->simulation) {
        Simulation& simulation = *document->simulation;
        document->simulated = std::make_shared<const TimelineStore>(simulation.timeline);
        document->simulatedMemory = memoryTracks(simulation.memory, document->simulated->lanes().size());
        document->memoryLimit = simulation.options.memory_limit;
        simulation.timeline = {};
        simulation.memory = {};
    } else {
        const Timeline stored = reader.timeline(Source::simulated);
        if (!stored.slices.empty()) {
            document->simulated = std::make_shared<const TimelineStore>(stored);
        }
    }
    if (!document->measured && !document->simulated) {
        throw Error(path.toStdString() +
                    " holds no task: a trace needs one recorded or simulated task at least; record one "
                    "with pipescope run --trace, or call pipescope recover if the run was killed");
    }
    addWarnings(reader, *document);
    return document;
}
}  // namespace pipescope
