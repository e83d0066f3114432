#include "gui/document/document_loader.h"

#include "analysis/load_run.h"
#include "base/stop_check.h"
#include "gui/document/document_builder.h"
#include "gui/document/kernel_loading.h"
#include "gui/document/own_trace.h"
#include "gui/document/scenario.h"
#include "gui/style/file_name.h"
#include "gui/style/number_format.h"
#include "profiler/profile/profile_file.h"
#include "simulator/search/automatic_schedule.h"
#include "trace/open_trace.h"

#include <QFileInfo>

#include <filesystem>
#include <mutex>
#include <utility>

namespace pipescope {
namespace {
std::filesystem::path checked(const QString& name) {
    const std::filesystem::path path = pathOf(name);
    const QFileInfo info(name);
    if (!info.exists()) {
        throw Error(name.toStdString() +
                    ": there is no such file; check the path, or record one with pipescope run --trace");
    }
    if (info.isDir()) {
        throw Error(name.toStdString() + " is a folder, not a trace; name the .sqlite file in it");
    }
    return path;
}

/// Parses a file that contains only a profile.
CheckedProfile profileIn(const QString& path, const std::string& json) {
    try {
        return parse_profile(json);
    } catch (const Error& error) {
        throw Error(path.toStdString() + " is a profile that cannot be used: " + error.what());
    }
}

/// Publishes the document of a profile or of another tool's trace.
void loadOpened(const QString& path, OpenedTrace opened, const PublishDocument& publish, const std::stop_token& stop,
                std::int64_t mostForwards) {
    const auto goOn = [&stop] {
        if (stop.stop_requested()) {
            throw ComputationStopped();
        }
    };
    goOn();
    LoadedRun loaded = load_run(std::move(opened));
    const OpenedTrace& trace = loaded.trace;
    TraceDocument document;
    document.path = path;
    document.run = std::move(loaded.run);
    document.check = std::move(loaded.check);
    document.utcEpoch = trace.utc_epoch_ns;
    document.warnings = document.run.warnings;
    std::optional<Simulation> simulation;
    if (trace.origin == TraceOrigin::profile) {
        document.run.profile = profileIn(path, *trace.profile_json);
        simulation = simulate(*document.run.profile, defaultScenario(*document.run.profile).options);
        add_lower_bound(*document.run.profile, *simulation);
        simulation = adopt(std::move(*simulation), document);
        document.run.model = (*document.run.profile)->model;
        document.run.why_not_simulated.clear();
        document.warnings.push_back(
            {Severity::remark,
             translated("A profile: nothing was measured, so this is a simulation of %1 on %2. Change it in the "
                        "what-if panel.")
                 .arg(formatCount(simulation->micro_batches, translated("micro-batch"), translated("micro-batches")),
                      formatCount(simulation->lanes.size(), translated("lane"), translated("lanes")))
                 .toStdString()});
    } else {
        simulation = simulateRun(document);
    }
    goOn();
    if (trace.measured.slices.empty() || !simulation) {
        showStored(document, trace.simulated, trace.memory, simulation ? &*simulation : nullptr);
    }
    if (!trace.measured.slices.empty()) {
        document.measured = std::make_shared<const TimelineStore>(trace.measured, update_of(document.run));
        document.measuredMemory = std::make_shared<const std::vector<MemoryTrack>>(
            memoryTracks(trace.memory, document.measured->lanes().size()));
        document.kernels = kernelsOf(trace);
    }
    goOn();
    addHidden(document);
    compareWith(document, simulation);
    goOn();
    document.tracks = tracksOf(trace);
    if (document.tracks && hasOnlyTracks(document)) {
        document.markedSteps = markedSteps(*document.tracks, TaskRules());
    }
    if (!document.measured && !document.simulated && !document.tracks) {
        throw Error(path.toStdString() + " cannot be shown: " + missing_content(trace));
    }
    publishWhole(document, simulation, publish, stop, mostForwards);
}
}  // namespace

void loadDocument(const QString& path, const PublishDocument& publish, const std::stop_token& stop,
                  std::int64_t mostForwards, const ReadProgress& progress) {
    const StopCheck check([&stop] { return !stop.stop_requested(); });
    const std::filesystem::path file = checked(path);
    if (std::optional<TraceReader> reader = TraceReader::open(file)) {  // PipeScope traces can be read in parts
        OwnTrace(path, std::move(*reader)).load(publish, stop, mostForwards);
    } else {
        loadOpened(path, open_trace(file, {.progress = progress}), publish, stop, mostForwards);
    }
}

struct GrowingTrace::Impl {
    QString path;
    std::mutex mutex;
    std::optional<OwnTrace> trace;  // guarded by `mutex`; opened by the first call of next()
};

GrowingTrace::GrowingTrace(QString path) : impl_(std::make_unique<Impl>()) {
    impl_->path = std::move(path);
}

GrowingTrace::~GrowingTrace() = default;

std::shared_ptr<const TraceDocument> GrowingTrace::next(const std::stop_token& stop) {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->trace) {
        impl_->trace.emplace(impl_->path, TraceReader(checked(impl_->path)));
    }
    try {
        return impl_->trace->loadMore(stop);
    } catch (...) {
        impl_->trace.reset();  // it may have been partly filled, so the next call starts over
        throw;
    }
}

std::shared_ptr<const TraceDocument> loadTrace(const QString& path, std::int64_t mostForwards) {
    std::shared_ptr<const TraceDocument> last;
    loadDocument(
        path, [&](std::shared_ptr<const TraceDocument> document) { last = std::move(document); }, {}, mostForwards);
    return last;
}
}  // namespace pipescope
