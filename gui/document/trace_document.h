#pragma once

#include "analysis/comparison.h"
#include "analysis/recorded_run.h"
#include "gui/timeline/kernel_store.h"
#include "gui/timeline/memory_track.h"
#include "gui/timeline/timeline_store.h"
#include "gui/timeline/track_store.h"
#include "simulator/simulation.h"

#include <QString>
#include <QStringList>

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// What the viewer shows of one file. Threading: immutable once loaded, shared between threads.
struct TraceDocument {
    QString path;
    RecordedRun run;                                 ///< what the file says of itself
    std::shared_ptr<const TimelineStore> measured;   ///< null if nothing was recorded
    std::shared_ptr<const TimelineStore> simulated;  ///< null if nothing could be simulated; one step, from time 0
    std::optional<Simulation> simulation;            ///< its timeline and memory moved to `simulated` and the tracks
    /// Where a scenario took the simulated half's place: the one that stood there before, recorded or default.
    std::optional<Simulation> simulatedBefore;
    std::optional<Comparison> comparison;
    /// Steps that could be compared; `comparison` tells which were.
    std::size_t comparableSteps = 0;
    std::vector<TraceWarning> warnings;  ///< as `pipescope compare` prints them of the file
    /// Why there is no comparison, as RecordedRun::why_not_simulated; empty if there is one, or it is still being made.
    std::string whyNotCompared;
    /// Per lane, or empty; never null. Shared, since a document whose simulated half changes holds the same.
    std::shared_ptr<const std::vector<MemoryTrack>> measuredMemory = std::make_shared<std::vector<MemoryTrack>>();
    std::vector<MemoryTrack> simulatedMemory;
    std::shared_ptr<const KernelStore> kernels;  ///< of measured tasks; null if no device worked for them
    std::shared_ptr<const TrackStore> tracks;    ///< threads and streams; null if the file has none
    std::vector<Bytes> memoryLimits;             ///< of the simulated lanes; empty: none
    QStringList notes;                           ///< what else is missing in the picture, for people
    /// The part of the tasks that `measured` has, 0 to 1. Below 1, or not `complete`, a fuller document follows.
    double loaded = 1;
    bool complete = true;  ///< false: memory, comparison or tracks are still being read

    const TimelineStore* store(Source source) const;
    /// Why the step's measured bubble cannot be told, "ranges were lost"; empty if it can.
    QString whyNoBubble(std::int32_t step) const;
    /// The same of all steps that were compared.
    QString whyNoBubble() const;
    /// All that there is to say about the file, a line each: warnings, notes, and why nothing was compared or
    /// simulated.
    QStringList messages() const;
};

/// The timeline that names every lane: the measured one, unless the simulated one has more; null without any.
const TimelineStore* storeOfMostLanes(const TraceDocument& document);
/// The steps that can be chosen, in order of time: the measured ones, else the simulated one.
std::vector<StepSpan> stepsOf(const TraceDocument& document);
/// The step to show first: the one of median duration, warm-up left out.
std::int32_t typicalStep(const TraceDocument& document);
/// The same task in the other timeline. Of a simulated slice, the one in measured step `step`.
std::optional<SliceRef> twinOf(const TraceDocument& document, Source source, SliceRef slice, std::int32_t step);
/// Added to simulated times so that the simulated step starts where measured step `step` does.
std::int64_t simulatedShift(const TraceDocument& document, std::int32_t step);
/// Everything there is to see when measured step `step` is compared: both timelines, with a small margin.
TimeRange wholeRange(const TraceDocument& document, std::int32_t step);
/// From the first slice to the last one of the step, in both timelines, with a small margin.
TimeRange stepRange(const TraceDocument& document, std::int32_t step);

/// One lane of one measured step beside the simulated one; nothing where it is not known.
struct LaneFacts {
    QString lane;
    std::optional<Nanoseconds> measuredBusy;
    std::optional<Nanoseconds> simulatedBusy;
    std::optional<double> measuredBubble;
    std::optional<double> simulatedBubble;
    std::optional<Bytes> measuredPeak;
    std::optional<Bytes> simulatedPeak;
};
std::vector<LaneFacts> laneFacts(const TraceDocument& document, std::int32_t step);
}  // namespace pipescope
