#include "gui/document/document_loader.h"

#include "balance/profile_file.h"
#include "gui/document/scenario.h"
#include "gui/document/task_loading.h"
#include "gui/document/track_loading.h"
#include "trace/open_trace.h"
#include "trace/trace_reader.h"

#include <nlohmann/json.hpp>

#include <QCoreApplication>
#include <QFileInfo>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <unordered_set>

namespace pipescope {
namespace {
QString text(const char* source) {
    return QCoreApplication::translate("DocumentLoader", source);
}

std::filesystem::path checked(const QString& name) {
    const QFileInfo info(name);
    if (!info.exists()) {
        throw Error(name.toStdString() +
                    ": there is no such file; check the path, or record one with pipescope run --trace");
    }
    if (info.isDir()) {
        throw Error(name.toStdString() + " is a folder, not a trace; name the .sqlite file in it");
    }
    return name.toStdString();
}

/// Our own traces can be read in parts; all else is opened at once.
std::optional<TraceReader> readerOf(const std::filesystem::path& path) {
    try {
        return TraceReader(path);
    } catch (const TraceFormatError&) {
        return std::nullopt;  // open_trace() says what it is, or why it is nothing
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

/// Steps to compare: warm-up left out while there are others, and evenly chosen where there are too many to join.
std::vector<StepRecord> stepsToCompare(const TraceDocument& document) {
    constexpr std::size_t kMostTasks = 500'000;
    std::vector<StepRecord> steps;
    for (const StepRecord& step : document.steps) {
        if (!step.warmup && document.measured->step(step.step) != nullptr) {
            steps.push_back(step);
        }
    }
    if (steps.empty()) {
        for (const StepSpan& span : document.measured->steps()) {
            steps.push_back({span.step, {}, {}, {}, {}, 0, false});
        }
    }
    const std::size_t all = std::max<std::size_t>(1, document.measured->steps().size());
    const std::size_t tasks = std::max<std::size_t>(1, document.measured->numSlices() / all);
    const std::size_t most = std::max<std::size_t>(1, kMostTasks / tasks);
    if (steps.size() <= most) {
        return steps;
    }
    std::vector<StepRecord> chosen;
    for (std::size_t i = 0; i < most; ++i) {
        chosen.push_back(steps[i * steps.size() / most]);
    }
    return chosen;
}

/// The slices of these steps; the store's rows are read once.
Timeline timelineOf(const TimelineStore& store, const std::vector<StepRecord>& steps) {
    std::unordered_set<std::int32_t> wanted;
    for (const StepRecord& step : steps) {
        wanted.insert(step.step);
    }
    Timeline timeline{store.source(), store.lanes(), {}};
    for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
        const std::vector<std::uint64_t>& keys = store.rows()[row].key;
        for (std::uint32_t i = 0; i < keys.size(); ++i) {
            if (wanted.contains(unpack(keys[i]).value_or(TaskKey{}).step)) {
                timeline.slices.push_back(store.slice({row, i}));
            }
        }
    }
    sort_slices(timeline);
    return timeline;
}

void compareWith(TraceDocument& document, const Simulation& simulation) {
    const std::vector<StepRecord> steps = stepsToCompare(document);
    const Timeline timeline = timelineOf(*document.measured, steps);
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
    for (const DropRecord& drop : drops) {
        document.droppedRanges += drop.dropped;
    }
    if (document.droppedRanges > 0) {
        document.notes << text(QT_TRANSLATE_NOOP(
                                   "DocumentLoader",
                                   "The recorder lost %1 ranges, so the measured bubble is not given. Record "
                                   "again with less load, or fewer ranges of your own."))
                              .arg(document.droppedRanges);
    }
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

/// Moves the simulation's timeline and memory into the document; returns what compare() wants of it.
Simulation adopt(Simulation simulation, TraceDocument& document) {
    document.simulated = std::make_shared<const TimelineStore>(simulation.timeline);
    document.simulatedMemory = memoryTracks(simulation.memory, document.simulated->lanes().size());
    document.memoryLimit = simulation.options.memory_limit;
    simulation.memory = {};
    document.simulation = simulation;
    document.simulation->timeline = {};
    return simulation;
}

[[noreturn]] void refuseEmpty(const QString& path) {
    throw Error(path.toStdString() +
                " holds no task: a trace needs one recorded or simulated task at least; record one "
                "with pipescope run --trace, or call pipescope recover if the run was killed");
}

/// One trace of ours, read part by part.
class OwnTrace {
public:
    OwnTrace(const QString& path, const TraceReader& reader, const PublishDocument& publish,
             const std::stop_token& stop)
        : reader_(reader),
          publish_(publish),
          stop_(stop),
          tasks_(path.toStdString(), Source::measured, reader.lanes()) {
        document_.path = path;
    }

    void load() {
        // Long enough to read a small trace whole, short enough for a first paint within half a second.
        constexpr std::chrono::milliseconds kFirstPart{120};
        constexpr std::size_t kSmall = 100'000;
        readHead();
        tasks_.readFor(kFirstPart);
        const bool small = tasks_.finished() && tasks_.size() <= kSmall;
        if (!tasks_.finished()) {
            publishFirstPart();
            tasks_.readRest(stop_);
        }
        if (stop_.stop_requested()) {
            return;
        }
        if (tasks_.size() > 0) {
            document_.measured = std::make_shared<const TimelineStore>(tasks_.finish());
        }
        if (!document_.measured && !document_.simulated) {
            readSimulated();
        }
        addHidden(document_);
        if (!small) {
            document_.complete = false;
            publish_(std::make_shared<const TraceDocument>(document_));
        }
        readMemory();
        if (document_.measured && simulation_ && !stop_.stop_requested()) {
            compareWith(document_, *simulation_);
        }
        if (!small) {
            publish_(std::make_shared<const TraceDocument>(document_));
        }
        if (!stop_.stop_requested()) {
            document_.tracks = tracksOf(open_trace(document_.path.toStdString(), {.tracks = true, .tasks = false}));
        }
        document_.complete = true;
        publish_(std::make_shared<const TraceDocument>(document_));
    }

private:
    void readHead() {
        const std::map<std::string, std::string> run = reader_.run();
        document_.model = modelName(run);
        document_.steps = reader_.steps();
        document_.profile = profileOf(reader_.profile_json(), document_.notes);
        if (document_.profile) {
            if (std::optional<Simulation> simulation = simulateRecorded(*document_.profile, run, document_.notes)) {
                simulation_ = adopt(std::move(*simulation), document_);
            }
        }
        addDrops(reader_.drops(), reader_.diagnostics(), document_);
    }

    void publishFirstPart() {
        TraceDocument first = document_;
        first.measured = std::make_shared<const TimelineStore>(tasks_.snapshot());
        first.loaded = tasks_.part();
        first.complete = false;
        publish_(std::make_shared<const TraceDocument>(std::move(first)));
    }

    void readSimulated() {
        const Timeline stored = reader_.timeline(Source::simulated);
        if (stored.slices.empty()) {
            refuseEmpty(document_.path);
        }
        document_.simulated = std::make_shared<const TimelineStore>(stored);
    }

    void readMemory() {
        if (!document_.measured) {
            return;
        }
        std::vector<MemoryTrack> tracks(document_.measured->lanes().size());
        bool any = false;
        reader_.for_each_memory([&](const MemorySample& sample) {
            if (sample.lane.index() < tracks.size()) {
                tracks[sample.lane.index()].add(sample);
                any = true;
            }
        });
        if (any) {
            document_.measuredMemory = std::make_shared<const std::vector<MemoryTrack>>(std::move(tracks));
        }
    }

    const TraceReader& reader_;
    const PublishDocument& publish_;
    const std::stop_token& stop_;
    TaskLoading tasks_;
    TraceDocument document_;
    std::optional<Simulation> simulation_;
};

/// What others recorded, and profiles.
TraceDocument documentOf(const QString& path, OpenedTrace trace) {
    TraceDocument document;
    document.path = path;
    document.model = modelName(trace.run);
    document.steps = std::move(trace.steps);
    const bool bare = trace.origin == TraceOrigin::profile;
    if (trace.profile_json || trace.origin == TraceOrigin::pipescope_chrome) {
        document.profile = profileOf(trace.profile_json, document.notes);
    } else {
        document.notes << text(
                              QT_TRANSLATE_NOOP("DocumentLoader", "No simulation: this is %1, which holds no profile."))
                              .arg(QString::fromUtf8(to_string(trace.origin).data()));
    }
    std::optional<Simulation> simulation;
    if (bare && document.profile) {
        simulation = simulate(*document.profile, defaultScenario(*document.profile).options);
        document.model = QString::fromStdString(document.profile->model);
        document.notes << text(QT_TRANSLATE_NOOP(
                                   "DocumentLoader",
                                   "A profile: nothing was measured, so this is a simulation of %1 micro-batches on %2 "
                                   "lanes. Change it in the what-if panel."))
                              .arg(simulation->micro_batches)
                              .arg(simulation->lanes.size());
    } else if (document.profile) {
        simulation = simulateRecorded(*document.profile, trace.run, document.notes);
    }
    if (simulation) {
        simulation = adopt(std::move(*simulation), document);
    } else if (!trace.simulated.slices.empty()) {
        document.simulated = std::make_shared<const TimelineStore>(trace.simulated);
    }
    if (!trace.measured.slices.empty()) {
        document.measured = std::make_shared<const TimelineStore>(trace.measured);
        document.measuredMemory = std::make_shared<const std::vector<MemoryTrack>>(
            memoryTracks(trace.memory, document.measured->lanes().size()));
    }
    addDrops(trace.drops, trace.diagnostics, document);
    addHidden(document);
    if (document.measured && simulation) {
        compareWith(document, *simulation);
    }
    document.tracks = tracksOf(trace);
    if (!document.measured && !document.simulated && !document.tracks) {
        refuseEmpty(path);
    }
    return document;
}
}  // namespace

void loadDocument(const QString& path, const PublishDocument& publish, const std::stop_token& stop) {
    const std::filesystem::path file = checked(path);
    if (const std::optional<TraceReader> reader = readerOf(file)) {
        OwnTrace(path, *reader, publish, stop).load();
    } else {
        publish(std::make_shared<const TraceDocument>(documentOf(path, open_trace(file))));
    }
}

std::shared_ptr<const TraceDocument> loadTrace(const QString& path) {
    std::shared_ptr<const TraceDocument> last;
    loadDocument(path, [&](std::shared_ptr<const TraceDocument> document) { last = std::move(document); });
    return last;
}
}  // namespace pipescope
