#pragma once

#include "analysis/measured_steps.h"
#include "gui/document/trace_document.h"
#include "trace/foreign/task_rules.h"
#include "trace/store/opened_trace.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

namespace pipescope {
// Steps of loading that documents of several kinds of files share.

/// Moves the simulation's timeline and memory into the document; returns the rest, for compareWith().
Simulation adopt(Simulation simulation, TraceDocument& document);
/// The simulated step as the viewer draws it; with staggered updates, between the steps that overlap it.
std::shared_ptr<const TimelineStore> storeOf(const Simulation& simulation);
/// Shows the stored simulated tasks and memory of a file without measured tasks; no effect if it has none.
/// `simulation`: that of its profile and configuration, or null. False if the tasks are not those of the simulation,
/// whose noise is then not theirs.
bool showStored(TraceDocument& document, const Timeline& stored, const std::vector<MemorySample>& memory,
                const Simulation* simulation);
/// Noise takes 100 to 1000 simulations. Those of a pipeline of more forwards than this take longer than a user waits.
inline constexpr std::int64_t kMostForwardsAtOnce = 2'000;
/// True if the profile has noise, and the pipeline has more forwards than `most`.
bool noiseTakesLong(const Profile& profile, const PipelineOptions& options, std::int64_t most);
/// Adds the noise that the document's simulation was made without, and what follows from it. `simulation`: the rest of
/// it, as adopt() returned it. False, and no change, if `stop` was requested.
bool addNoise(TraceDocument& document, Simulation& simulation, const std::stop_token& stop);
/// Adds a note about tasks that are not drawn.
void addHidden(TraceDocument& document);
/// The trace's threads and streams, without ranges that are tasks; null if nothing is left.
std::shared_ptr<const TrackStore> tracksOf(const OpenedTrace& trace);
/// The step that a range of this name marks, such as "ProfilerStep#7"; without a number if it marks none.
struct MarkedStep {
    std::optional<std::int32_t> number;
    bool byRule = false;  ///< a rule says so, not only words such as "step 7"
};
MarkedStep markedStepOf(const std::string& name, const TaskRules& rules);
/// The steps that ranges of the store mark by their names: those of a rule of kind step, such as "ProfilerStep#7";
/// without such ranges, those named "step 7" or "iteration 7". By start.
std::vector<StepRecord> markedSteps(const TrackStore& store, const TaskRules& rules);
/// For a trace without tasks: finds the steps that its ranges mark, and notes that it has only threads and streams.
/// Throws Error if it has none.
void requireTracks(TraceDocument& document);

/// Joining takes about a microsecond per task. If a run has more tasks than this, only evenly spaced steps are
/// compared.
inline constexpr std::size_t kMostComparedTasks = 500'000;

/// Fills TraceDocument::check. Cost: O(tasks).
void checkSteps(TraceDocument& document);
/// steps_to_compare() of a document with a measured timeline.
MeasuredSteps stepsToCompare(const TraceDocument& document);
/// The slices of these steps. Reads the store once.
Timeline timelineOf(const TimelineStore& store, const MeasuredSteps& steps);
/// All slices of the store.
Timeline timelineOf(const TimelineStore& store);
/// The highest value in these steps; empty if none has samples. Reads the track, so that not all samples need to be in
/// memory at once.
std::optional<Bytes> highestOver(const MemoryTrack& track, const TimelineStore& store,
                                 const std::vector<std::int32_t>& steps);
/// Sets the measured peaks of the comparison's lanes, over the compared steps.
void addPeaks(TraceDocument& document);
/// Compares the measured half, if any, with its simulation, or stores the reason why it cannot (compare_run()).
/// Peaks come from the document's memory tracks.
void compareWith(TraceDocument& document, const Simulation* simulation);
}  // namespace pipescope
