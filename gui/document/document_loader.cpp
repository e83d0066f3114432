#include "gui/document/document_loader.h"

#include "analysis/trace_profile.h"
#include "balance/profile_file.h"
#include "gui/document/document_builder.h"
#include "gui/document/kernel_loading.h"
#include "gui/document/own_trace.h"
#include "gui/document/scenario.h"
#include "gui/style/number_format.h"
#include "trace/open_trace.h"

#include <QFileInfo>

#include <filesystem>
#include <mutex>
#include <utility>

namespace pipescope {
namespace {
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

/// Parses a file that contains only a profile.
Profile profileIn(const QString& path, const std::string& json) {
    try {
        return parse_profile(json);
    } catch (const Error& error) {
        throw Error(path.toStdString() + " is a profile that cannot be used: " + error.what());
    }
}

/// The document of a profile or of another tool's trace.
TraceDocument documentOf(const QString& path, const OpenedTrace& trace) {
    TraceDocument document;
    document.path = path;
    document.run = recorded_run_to_simulate(trace);
    document.warnings = document.run.warnings;
    std::optional<Simulation> simulation;
    if (trace.origin == TraceOrigin::profile) {
        document.run.profile = std::make_shared<const Profile>(profileIn(path, *trace.profile_json));
        simulation = simulate(*document.run.profile, defaultScenario(*document.run.profile).options);
        document.run.model = document.run.profile->model;
        document.run.why_not_simulated.clear();
        document.notes << translated(
                              "A profile: nothing was measured, so this is a simulation of %1 on %2. Change it in the "
                              "what-if panel.")
                              .arg(formatCount(simulation->micro_batches, translated("micro-batch"),
                                               translated("micro-batches")),
                                   formatCount(simulation->lanes.size(), translated("lane"), translated("lanes")));
    } else {
        simulation = simulate_run(document.run);
    }
    if (simulation) {
        simulation = adopt(std::move(*simulation), document);
    }
    if (trace.measured.slices.empty() || !simulation) {
        showStored(document, trace.simulated, trace.memory, simulation ? &*simulation : nullptr);
    }
    if (!trace.measured.slices.empty()) {
        document.measured = std::make_shared<const TimelineStore>(trace.measured, update_of(document.run));
        document.measuredMemory = std::make_shared<const std::vector<MemoryTrack>>(
            memoryTracks(trace.memory, document.measured->lanes().size()));
        document.kernels = kernelsOf(trace);
    }
    addHidden(document);
    checkSteps(document);
    compareWith(document, simulation ? &*simulation : nullptr);
    document.tracks = tracksOf(trace);
    if (document.tracks && hasOnlyTracks(document)) {
        document.markedSteps = markedSteps(*document.tracks, TaskRules());
    }
    if (!document.measured && !document.simulated && !document.tracks) {
        throw Error(path.toStdString() + " cannot be shown: " + missing_content(trace));
    }
    return document;
}
}  // namespace

void loadDocument(const QString& path, const PublishDocument& publish, const std::stop_token& stop) {
    const std::filesystem::path file = checked(path);
    if (std::optional<TraceReader> reader = TraceReader::open(file)) {  // PipeScope traces can be read in parts
        OwnTrace(path, std::move(*reader)).load(publish, stop);
    } else {
        publish(std::make_shared<const TraceDocument>(documentOf(path, open_trace(file))));
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

std::shared_ptr<const TraceDocument> loadTrace(const QString& path) {
    std::shared_ptr<const TraceDocument> last;
    loadDocument(path, [&](std::shared_ptr<const TraceDocument> document) { last = std::move(document); });
    return last;
}
}  // namespace pipescope
