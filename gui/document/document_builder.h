#pragma once

#include "analysis/load_run.h"
#include "gui/document/document_loader.h"
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

/// Simulates the document's run, without noise if that takes long, and adopts it. Empty if it cannot be simulated.
std::optional<Simulation> simulateRun(TraceDocument& document);
/// Moves the simulation's timeline and memory into the document; returns the rest, for compareWith().
Simulation adopt(Simulation simulation, TraceDocument& document);
/// The simulated step as the viewer draws it; with staggered updates, between the steps that overlap it.
std::shared_ptr<const TimelineStore> storeOf(const Simulation& simulation);
/// Shows the stored simulated tasks and memory of a file without measured tasks; no effect if it has none.
/// `simulation`: that of its profile and configuration, or null. If the tasks are not those of the simulation, its
/// noise is not theirs and does not follow.
void showStored(TraceDocument& document, const Timeline& stored, const std::vector<MemorySample>& memory,
                const Simulation* simulation);
/// Noise takes 100 to 1000 simulations. Those of a pipeline of more forwards than this take longer than a user waits.
inline constexpr std::int64_t kMostForwardsAtOnce = 2'000;
/// True if the profile has noise, and the pipeline has more forwards than `most`.
bool noiseTakesLong(const Profile& profile, const PipelineOptions& options, std::int64_t most);
/// Publishes the whole document: first without the noise that its simulation was made without, if it is of at most
/// `mostForwards`, then with it and what follows from it. `simulation`: the rest of it, as adopt() returned it. Leaves
/// the noise out if `stop` is requested.
void publishWhole(TraceDocument& document, std::optional<Simulation>& simulation, const PublishDocument& publish,
                  const std::stop_token& stop, std::int64_t mostForwards);
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

/// Fills TraceDocument::check as check_run() does. Cost: O(tasks).
void checkSteps(TraceDocument& document);
/// The measured steps that count, evenly chosen from a long run, and their tasks.
struct ComparedTasks {
    MeasuredSteps steps;
    Timeline timeline;
};
/// Precondition: the document has a measured timeline. Reads the store once.
ComparedTasks comparedTasks(const TraceDocument& document);
/// These tasks for analysis/, with the document's memory. Refers to both.
RunTasks runTasks(const TraceDocument& document, const ComparedTasks& compared);
/// By measured_peaks(). Refers to the tracks.
StepPeaks peaksOf(const std::vector<MemoryTrack>& tracks);
/// steps_to_compare() of a document with a measured timeline.
MeasuredSteps stepsToCompare(const TraceDocument& document);
/// The slices of these steps. Reads the store once.
Timeline timelineOf(const TimelineStore& store, const MeasuredSteps& steps);
/// All slices of the store.
Timeline timelineOf(const TimelineStore& store);
/// Compares the measured half, if any, with its simulation, or stores the reason why it cannot (compare_run()).
void compareWith(TraceDocument& document, const std::optional<Simulation>& simulation);
/// The highest partition of the store's tasks; -1 if none has one.
std::int32_t highestPartition(const TimelineStore& store);
}  // namespace pipescope
