#pragma once

#include "trace/foreign/task_rules.h"
#include "trace/store/opened_trace.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pipescope {
/// Part of the warning that names the steps left out for want of device times.
inline constexpr std::string_view kKernelsMissing = "the kernels of some tasks are missing";

/// A message between two partitions, as recorded by one of its ranks, in that rank's time.
struct MessageEnd {
    Nanoseconds time{0};       ///< when the sender hands it over, or when the receiver has it
    Bytes bytes = 0;           ///< 0 if unknown
    std::int64_t samples = 0;  ///< MessageSize::samples
    /// If a device handles the message: when its kernel started, which then waits for the other rank, and when the
    /// kernel was launched.
    std::optional<Nanoseconds> began = {};
    std::optional<Nanoseconds> launched = {};
    std::optional<Nanoseconds> ended = {};  ///< when the kernel ended
};

/// A kernel, copy or fill that a task launched.
struct WorkOfTask {
    RangeArrow::End work;
    TaskKey task;
    Nanoseconds launch{0};   ///< start of the launching call
    bool by_stream = false;  ///< Attribution::by_stream
};

/// The kernels of a rank's collectives, by what the profiler says of them.
using CollectivesOfRank = std::map<std::pair<CollectiveFacts, Bytes>, std::vector<std::pair<Nanoseconds, Nanoseconds>>>;

/// The recording of one rank of another program's pipeline, in its own time.
struct RankTasks {
    int rank = 0;
    std::string device;                     ///< the name of its GPU, if it used one
    std::vector<Slice> tasks;               ///< by start; without lanes and copies
    std::vector<RecognisedRange> ranges;    ///< of the tasks, on the host
    std::vector<TaskOnDevice> on_device;    ///< of tasks with a device's times
    std::vector<WorkOfTask> work;           ///< of the tasks, by start
    std::vector<LaneWork> lane_work;        ///< beside the tasks; without lanes
    CollectivesOfRank collectives;          ///< those whose group is known
    Nanoseconds device_busy{0};             ///< time in which the device worked, from the first task to the last one
    Nanoseconds unattributed{0};            ///< the part of device_busy that nothing explains (kDeviceTimeKey)
    std::map<TaskKey, MessageEnd> sent;     ///< by the copy that the message belongs to
    std::map<TaskKey, MessageEnd> arrived;  ///< by the copy that the message belongs to
    std::map<std::int32_t, std::pair<Nanoseconds, Nanoseconds>> steps;  ///< as the program's training loop sees them
    /// Above 1 if the program numbers the rank's partitions for themselves: then `partition` of each task is the rank's
    /// position in the pipeline times `chunks`, plus the partition's number on the rank. There are no messages.
    std::int32_t chunks = 1;
    std::set<std::int32_t> thin_steps;  ///< in which kernels may be lost, since others have more for the same task
    std::set<std::int32_t> lost_steps;  ///< left out, since the device times of some tasks are missing
    bool has_device_times = false;      ///< the tasks have a device's times
    bool has_device_work = false;       ///< launches or annotations of a device are in the file
    bool only_launches = false;         ///< the ranges only launch work, whose times are unknown: these are the host's
};

struct RecognizedTasks {
    std::vector<RankTasks> ranks;       ///< by rank; only those with tasks
    std::vector<std::size_t> matches;   ///< number of ranges of each rule
    std::vector<std::string> faults;    ///< ranges with unusable numbers, one sentence for each rule
    std::vector<std::string> warnings;  ///< other unusable ranges; of interest if there are tasks
};

/// Finds a pipeline's tasks among the ranges of a trace.
///
/// Ranks: a file that names its rank is one rank; otherwise each process with tasks is a rank.
///
/// Steps: a range belongs to the step in which it starts. If the program names no steps, the n-th range of a task
/// belongs to step n. A range inside another range of the same task replaces it.
///
/// Times: ranges of schedules include the wait for the input, so a task whose input arrives while its range is open
/// begins at the arrival. It ends where its thread starts to do nothing but send.
///
/// Backwards without ranges: if only forwards have ranges, the operators of a forward's backward, which the profiler
/// links to those of the forward, are its backward.
///
/// Accelerators: ranges may only launch the work. Then all tasks of the rank have the times of the kernels that they
/// launched, or else the times of their ranges that the profiler shows on the device. Steps that lack some are left
/// out. If no step has all, the host's times stay, and only_launches is set.
///
/// Cost: O(ranges log ranges); each distinct name is matched once.
RecognizedTasks recognize_tasks(const OpenedTrace& trace, const TaskRules& rules);

/// The ranks that name no steps although other ranks do. Their steps are only counted, and cannot be matched to
/// numbers.
std::set<int> ranks_of_unknown_steps(const std::vector<const RankTasks*>& ranks);

/// The way to the place of a partition in the pipeline if the program numbers each rank's partitions from 0
/// (RankTasks::chunks).
struct ChunkPlaces {
    std::int32_t positions = 1;  ///< ranks of the pipeline; 0: it would have too many partitions
    bool turns = false;          ///< each second chunk goes back through the ranks, as in a V
};
/// The order in which the first forward of the second chunk comes to the ranks shows whether the pipeline turns.
/// Precondition: `ranks` have one clock.
ChunkPlaces chunk_places(const std::vector<RankTasks>& ranks);
/// Gives the tasks the partitions of the pipeline, or removes them if these are too many; sets `chunks` to 1.
void place_chunks(RankTasks& tasks, const ChunkPlaces& places);

/// The pipeline that each rank belongs to, numbered from 0, in the order of `ranks`. Replicas of a pipeline run the
/// same tasks. Process groups of the files tell them apart. Without them, a rank belongs to the first pipeline in which
/// no earlier rank has one of its tasks.
struct RankPipelines {
    std::vector<std::size_t> of_rank;
    std::size_t shown = 0;  ///< the pipeline with the most ranks, or the first of several
};
RankPipelines pipelines_of(const std::vector<const RankTasks*>& ranks, const std::vector<RecordingRank>& given);

/// Sets the measured timeline and the steps of the trace from the ranks' tasks. Each rank has a lane, or a lane for
/// each thread if its threads run separate partitions. Each message with both ends is a copy. Precondition: `ranks`
/// have one clock.
///
/// Leaves out ranks of other replicas (pipelines_of()) or that repeat the tasks of an earlier rank, and
/// ranks_of_unknown_steps().
/// Returns a sentence for each such rank, and for steps that lack device times.
///
/// `given`: what the files say about their ranks, including ranks without tasks. Sets the entry kMissingRanksKey if
/// tasks get their input from ranks that are not given, or whose tasks are left out.
std::vector<std::string> set_timeline(const std::vector<RankTasks>& ranks, const std::vector<RecordingRank>& given,
                                      OpenedTrace& trace);

/// A warning that task times are unknown (RankTasks::only_launches), from the entries of OpenedTrace::run. Empty if
/// they are known.
std::string unknown_times_warning(const std::map<std::string, std::string>& run);

/// A warning that a merged trace lacks ranks of its pipeline (kMissingRanksKey), from the entries of OpenedTrace::run.
/// Empty if none is missing, and for the file of one rank, for which readers give a fuller warning.
std::string missing_ranks_warning(const std::map<std::string, std::string>& run);

/// A sentence for each rule of the user that matches no range. `matches`: the sum over all files.
std::vector<std::string> unused_rules(const TaskRules& rules, const std::vector<std::size_t>& matches);

/// For a single file of another program: recognize_tasks() and set_timeline(). No effect on a trace with tasks.
void add_recognized_tasks(OpenedTrace& trace, const TaskRules& rules);
}  // namespace pipescope
