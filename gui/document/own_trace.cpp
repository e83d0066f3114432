#include "gui/document/own_trace.h"

#include "analysis/trace_profile.h"
#include "gui/document/document_builder.h"
#include "gui/document/kernel_loading.h"

#include <algorithm>
#include <utility>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace pipescope {
namespace {
/// Reading leaves outgrown columns in the heaps of the reading threads, a tenth of the store. glibc returns that memory
/// only on request.
void returnFreeMemory() {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
}  // namespace

OwnTrace::OwnTrace(const QString& path, TraceReader reader)
    : reader_(std::move(reader)), lanes_(reader_.lanes()), tasks_(path.toStdString(), Source::measured, lanes_) {
    document_.path = path;
}

void OwnTrace::load(const PublishDocument& publish, const std::stop_token& stop, std::int64_t mostForwards) {
    // Enough to read a small trace completely. Of a large one, the first steps suffice for a first paint.
    constexpr std::chrono::milliseconds kFirstPart{120};
    constexpr std::chrono::milliseconds kFirstPartOfLarge{50};
    constexpr std::size_t kSmall = 100'000;
    readHead();
    tasks_.readFor(tasks_.rows() > 10 * kSmall ? kFirstPartOfLarge : kFirstPart);
    const bool small = tasks_.finished() && tasks_.size() <= kSmall && !document_.noiseLeftOut;
    if (!tasks_.finished()) {
        if (tasks_.size() > 0) {  // the first tasks may all be simulated
            publish(firstPart());
        }
        tasks_.readRest(stop);
    }
    if (stop.stop_requested()) {
        return;
    }
    if (tasks_.size() > 0) {
        document_.measured = std::make_shared<const TimelineStore>(tasks_.finish(update_of(document_.run)));
    }
    takeTasks();
    if (!small) {
        document_.complete = false;
        publish(std::make_shared<const TraceDocument>(document_));
    }
    readMemory();
    if (!stop.stop_requested()) {
        compareWith(document_, simulation_);
    }
    if (!small) {
        publish(std::make_shared<const TraceDocument>(document_));
    }
    readRanges(stop);
    requireContent(stop);
    if (!small) {
        returnFreeMemory();
    }
    publishWhole(document_, simulation_, publish, stop, mostForwards);
}

std::shared_ptr<const TraceDocument> OwnTrace::loadMore(const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kQuick{100};
    TraceDocument before = std::exchange(document_, {});
    document_.path = before.path;
    simulation_.reset();
    readHead();
    if (std::vector<LaneInfo> lanes = reader_.lanes(); lanes != lanes_) {  // they may have names now
        lanes_ = std::move(lanes);
        tasks_ = TaskLoading(document_.path.toStdString(), Source::measured, lanes_);
    }
    tasks_.readMore(stop);
    if (tasks_.size() > 0) {
        document_.measured = std::make_shared<const TimelineStore>(tasks_.snapshot(update_of(document_.run)));
    }
    takeTasks();
    readNewMemory();
    if (!stop.stop_requested()) {
        compareWith(document_, simulation_);
    }
    document_.kernels = before.kernels;
    document_.tracks = before.tracks;
    if (rangesTook_ < kQuick) {
        const auto start = std::chrono::steady_clock::now();
        readRanges(stop);
        rangesTook_ = std::chrono::steady_clock::now() - start;
    } else {
        document_.warnings.insert(document_.warnings.end(), rangeWarnings_.begin(), rangeWarnings_.end());
    }
    requireContent(stop);
    return std::make_shared<const TraceDocument>(document_);
}

void OwnTrace::readHead() {
    document_.run = recorded_run(reader_.head());
    document_.utcEpoch = reader_.utc_epoch_ns();
    document_.warnings = document_.run.warnings;
    simulation_ = simulateRun(document_);
}

std::shared_ptr<const TraceDocument> OwnTrace::firstPart() const {
    TraceDocument first = document_;
    first.measured = std::make_shared<const TimelineStore>(tasks_.snapshot(update_of(document_.run)));
    first.loaded = tasks_.part();
    first.complete = false;
    return std::make_shared<const TraceDocument>(std::move(first));
}

void OwnTrace::takeTasks() {
    if (!document_.measured) {
        readSimulated();
    } else {
        checkSteps(document_);
        simulateAnotherProgram();
        warn_of_partition(document_.run, highestPartition(*document_.measured));
    }
    addHidden(document_);
}

void OwnTrace::simulateAnotherProgram() {
    if (!document_.run.of_another_program || document_.run.profile) {
        return;
    }
    const ComparedTasks tasks = comparedTasks(document_);
    take_measured_profile(document_.run, tasks.timeline, tasks.steps);
    checkSteps(document_);  // the measured pipeline says which steps are whole
    document_.warnings = document_.run.warnings;
    simulation_ = simulateRun(document_);
}

void OwnTrace::readRanges(const std::stop_token& stop) {
    if (document_.measured) {
        document_.kernels = kernelsOf(document_.path, document_.measured->lanes(), stop);
    }
    if (!stop.stop_requested()) {
        OpenedTrace ranges;
        reader_.read_tracks(ranges);
        document_.tracks = tracksOf(ranges);
        rangeWarnings_.clear();
        for (std::string& warning : diagnostic_warnings(ranges.diagnostics)) {
            rangeWarnings_.push_back({Severity::caution, std::move(warning)});
        }
        document_.warnings.insert(document_.warnings.end(), rangeWarnings_.begin(), rangeWarnings_.end());
    }
}

void OwnTrace::requireContent(const std::stop_token& stop) {
    if (!document_.measured && !document_.simulated && !stop.stop_requested()) {
        requireTracks(document_);
    }
}

void OwnTrace::readSimulated() {
    const Timeline stored = reader_.timeline(Source::simulated);
    const std::vector<MemorySample> memory = stored.slices.empty() ? std::vector<MemorySample>{} : reader_.memory();
    showStored(document_, stored, memory, simulation_ ? &*simulation_ : nullptr);
}

void OwnTrace::readMemory() {
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
    std::for_each(tracks.begin(), tracks.end(), [](MemoryTrack& track) { track.shrink(); });
    if (any) {
        document_.measuredMemory = std::make_shared<const std::vector<MemoryTrack>>(std::move(tracks));
    }
}

void OwnTrace::readNewMemory() {
    if (!document_.measured) {
        return;
    }
    memory_.resize(std::max(memory_.size(), document_.measured->lanes().size()));
    lastSample_ = reader_.memory_since(lastSample_, [&](const MemorySample& sample) {
        if (sample.lane.index() < memory_.size()) {
            memory_[sample.lane.index()].add(sample);
        }
    });
    if (lastSample_ > 0) {
        document_.measuredMemory = std::make_shared<const std::vector<MemoryTrack>>(memory_);
    }
}
}  // namespace pipescope
