#pragma once

#include "analysis/bubble_roots.h"
#include "analysis/comparison.h"
#include "analysis/mean_difference.h"
#include "analysis/measured_steps.h"
#include "analysis/recorded_run.h"
#include "gui/timeline/kernel_store.h"
#include "gui/timeline/memory_track.h"
#include "gui/timeline/timeline_store.h"
#include "gui/timeline/track_store.h"
#include "simulator/simulation.h"

#include <QString>
#include <QStringList>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
struct Baseline;

/// What TraceDocument::messages() leaves out.
struct MessagesLeftOut {
    bool remarks = false;  ///< on how the figures were made
    bool closing = false;  ///< that the recording was not closed
};

/// The viewer's data of one file. Threading: immutable once loaded, shared between threads.
struct TraceDocument {
    QString path;
    RecordedRun run;                                 ///< the file's own description
    std::optional<std::int64_t> utcEpoch;            ///< clock at time 0, ns since 1970 in UTC; empty: unknown
    std::shared_ptr<const TimelineStore> measured;   ///< null if nothing was recorded
    std::shared_ptr<const TimelineStore> simulated;  ///< null if nothing could be simulated; one step, from time 0
    std::optional<Simulation> simulation;            ///< without timeline and memory, which other members hold
    /// If a scenario replaced the simulated half: the previous one, recorded or default.
    std::optional<Simulation> simulatedBefore;
    /// A run before, whose step is the simulated half instead; null: that is a simulation. The measured half is then
    /// called "after", the other one "before".
    std::shared_ptr<const Baseline> baseline;
    /// With a baseline: reason why tasks of equal names are not equal work, so that no task has a twin.
    std::string whyNoTwins;
    /// With a baseline: mean step times in ns, and whether they differ by more than the noise.
    std::optional<MeanDifference> stepChange;
    std::optional<MeanDifference> bubbleChange;  ///< likewise of mean bubble fractions
    std::optional<Comparison> comparison;
    std::optional<RootCauses> rootCauses;  ///< of the run, from the steps that can be compared
    BubbleRoots roots;                     ///< of its single bubbles
    /// Number of steps that can be compared; `comparison` lists those that were.
    std::size_t comparableSteps = 0;
    std::vector<TraceWarning> warnings;  ///< those of `pipescope compare`, then the viewer's own
    /// Reason for a missing comparison, as in RecordedRun::why_not_simulated; empty if it exists or is still being
    /// computed.
    std::string whyNotCompared;
    /// By lane, or empty; never null. Shared, since documents with another simulated half have the same.
    std::shared_ptr<const std::vector<MemoryTrack>> measuredMemory = std::make_shared<std::vector<MemoryTrack>>();
    std::vector<MemoryTrack> simulatedMemory;
    std::shared_ptr<const KernelStore> kernels;  ///< of measured tasks; null if there was no device work
    std::shared_ptr<const TrackStore> tracks;    ///< threads and streams; null if the file has none
    std::vector<Bytes> memoryLimits;             ///< by simulated lane; empty: none
    RunCheck check;  ///< bubbles of steps with a fault are not known, nor any if a lane is idle
    /// Steps that ranges mark in a file without tasks, by start. Only `step` and the wall times are set.
    std::vector<StepRecord> markedSteps;
    QStringList notes;  ///< other missing parts, for people
    /// Share of all tasks that `measured` has, 0 to 1. Below 1, or if not `complete`, a fuller document follows.
    double loaded = 1;
    bool complete = true;  ///< false: memory, comparison, tracks or noise are still being read
    /// The profile has noise, but the simulation is without it, since it takes long: it follows if not `complete`,
    /// otherwise it was not wanted.
    bool noiseLeftOut = false;

    const TimelineStore* store(Source source) const;
    /// No order of the simulated tasks has a shorter step. From the simulation, or from a file that cannot be
    /// simulated.
    std::optional<Nanoseconds> lowerBound() const;
    /// Reason why the step's measured bubble is unknown, such as "ranges were lost"; empty if it is known.
    QString whyNoBubble(std::int32_t step) const;
    /// Likewise of the step that the timeline shows: measured step `step`, or that of the run before.
    QString whyNoBubble(Source source, std::int32_t step) const;
    /// Likewise for all compared steps.
    QString whyNoBubble() const;
    /// Reason why measured step times and rates are unknown, such as "this is the trace of one rank alone"; empty if
    /// they are known. The lengths of steps are then those of the lanes in the file.
    QString whyNoStepTime() const;
    /// Reason why times of different measured lanes cannot be compared, such as clocks that do not fit; empty if they
    /// can. Then nothing is said about what a lane waited for, what was late, or the critical path.
    QString whyNoTimesAcrossLanes() const;
    /// All messages about the file, one per line, the gravest first: warnings, notes, why nothing was compared or
    /// simulated, and remarks.
    QStringList messages(const MessagesLeftOut& leftOut = {}) const;
};

inline Source otherThan(Source source) {
    return source == Source::measured ? Source::simulated : Source::measured;
}
/// "measured" and "simulated", or "after" and "before" of two runs.
QString nameOf(const TraceDocument& document, Source source);
/// A text about any document, such as a header, in those words. Words keep a capital.
QString inWordsOf(const TraceDocument& document, const QString& text);
QString inWordsOfRuns(const QString& text);
/// A simulation's error, or the change between two runs: after minus before.
template <class Value>
Value differenceOf(const TraceDocument& document, const Value& measured, const Value& simulated) {
    return document.baseline ? measured - simulated : simulated - measured;
}

/// A sentence for people that says what differenceOf() subtracts.
QString signOfDifferences(bool twoRuns);

/// True if the document has only threads, streams and counters.
inline bool hasOnlyTracks(const TraceDocument& document) {
    return !document.measured && !document.simulated;
}
/// The timeline that names every lane: the measured one, unless the simulated one has more lanes. Null without any.
const TimelineStore* storeOfMostLanes(const TraceDocument& document);
/// The selectable steps by time: the measured ones, else the simulated one.
const std::vector<StepSpan>& stepsOf(const TraceDocument& document);
/// Null if the step was not measured.
const StepSpan* measuredStep(const TraceDocument& document, std::int32_t step);
/// Finds a task in the other timeline. A simulated slice is looked up in the measured step `step`.
std::optional<SliceRef> twinOf(const TraceDocument& document, Source source, SliceRef slice, std::int32_t step);
/// Why a task of this timeline has none, as a sentence. Precondition: it has none.
QString whyNoTwin(const TraceDocument& document, Source source);
/// The task's key with its shown kind, as TimelineStore::shownKey(). For a task of which only the key is known.
TaskKey shownKey(const TraceDocument& document, const TaskKey& key);
/// Offset of simulated times that aligns the simulated step with the start of measured step `step`.
std::int64_t simulatedShift(const TraceDocument& document, std::int32_t step);
/// Range of both timelines when measured step `step` is compared, with a small margin.
TimeRange wholeRange(const TraceDocument& document, std::int32_t step);
/// Range of the step in both timelines, from first to last slice, with a small margin. Without timelines, that of the
/// marked step; without that, the whole range.
TimeRange stepRange(const TraceDocument& document, std::int32_t step);
/// Likewise in the measured timeline alone. Precondition: it has the step.
TimeRange measuredRange(const TraceDocument& document, std::int32_t step);

/// The step that a timeline shows.
struct StepFacts {
    Nanoseconds time{0};  ///< with what follows the pipeline of a layout on a cluster
    double bubble = 0;    ///< of the pipeline
    QString whyNoTime;    ///< why neither may be given; empty if both may
    QString whyNoBubble;  ///< why the bubble may not be given; empty if it may
};
/// Measured step `step`, the expected simulated one, or the step of the run before. Empty if there is none.
std::optional<StepFacts> stepFacts(const TraceDocument& document, Source source, std::int32_t step);
/// A simulation's error in percentage points, or the change between two runs.
QString pointsBetween(const TraceDocument& document, double measured, double simulated);
/// A sentence that gives this reason for bubbles that are left out.
QString noMeasuredBubbles(const TraceDocument& document, const QString& why);

/// One lane of one measured step and the simulated step; unknown values are empty.
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
/// By text of the store: true for a profiler's marks of steps, ProfilerStep#7, in which a thread may wait.
std::vector<bool> stepMarks(const TrackStore& store);
/// busyIn() without the `marks`, unless the thread or stream holds nothing else. Empty for annotations of a stream,
/// which are no work.
std::optional<std::int64_t> workIn(const TrackStore& store, const TrackRows& thread, const TimeRange& within,
                                   const std::vector<bool>& marks);
/// The threads and streams of a file without tasks, as threadsOf(), with their busy times in the whole recording.
std::vector<LaneFacts> threadFacts(const TraceDocument& document);
}  // namespace pipescope
