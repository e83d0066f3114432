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
/// A message between two partitions, as one of its ranks recorded it. Times are those of that rank.
struct MessageEnd {
    Nanoseconds time{0};       ///< in the sender: it is handed over; in the receiver: it has come
    Bytes bytes = 0;           ///< 0 if unknown
    std::int64_t samples = 0;  ///< MessageSize::samples
};

/// The recording of one rank of another program's pipeline, in its own time.
struct RankTasks {
    int rank = 0;
    std::string device;                                                 ///< the name of its GPU, if it used one
    std::vector<Slice> tasks;                                           ///< by start; without lanes and copies
    std::vector<RecognisedRange> ranges;                                ///< of the tasks, on the host
    std::map<TaskKey, MessageEnd> sent;                                 ///< by the copy that the message is
    std::map<TaskKey, MessageEnd> arrived;                              ///< likewise
    std::map<std::int32_t, std::pair<Nanoseconds, Nanoseconds>> steps;  ///< as the program's training loop sees them
    std::set<std::int32_t> lost_steps;  ///< left out, since the device times of some tasks are missing
    bool has_device_times = false;      ///< the tasks' times are those of a device
    bool has_device_work = false;       ///< launches or annotations of a device are in the file
    bool only_launches = false;         ///< the ranges only launch work, whose times are unknown: these are the host's
};

struct RecognizedTasks {
    std::vector<RankTasks> ranks;       ///< by rank; only those with tasks
    std::vector<std::size_t> matches;   ///< number of ranges of each rule
    std::vector<std::string> faults;    ///< ranges whose numbers cannot be used, a sentence for each rule
    std::vector<std::string> warnings;  ///< other ranges that cannot be used; of interest if there are tasks
};

/// Finds a pipeline's tasks among the ranges of a trace.
///
/// A file that says its rank is one rank; in others each process with tasks is. A range belongs to the step in which it
/// starts; if the program names no steps, the n-th range of a task is that of step n. A range inside another of the
/// same task takes its place. A task whose input arrives while its range is open begins with the arrival, since ranges
/// of schedules hold the wait for it; one whose thread only sends from some point on ends there.
///
/// On an accelerator, ranges may only launch the work. If so, all tasks of the rank have the times of the kernels that
/// they launched, or else of their ranges as the profiler shows them on the device. Steps that lack some are left out.
/// If no step has all, the times of the host stay, and only_launches is set. Cost: O(ranges log ranges); each distinct
/// name is matched once.
RecognizedTasks recognize_tasks(const OpenedTrace& trace, const TaskRules& rules);

/// The ranks that name no steps, if others do. Their steps are counted, and nobody knows which count is which number.
std::set<int> ranks_of_unknown_steps(const std::vector<const RankTasks*>& ranks);

/// The ranks' tasks as one timeline: a lane for each rank, or for each thread of it if those run partitions of their
/// own, and a copy for each message with both ends. `ranks` have one clock. Sets measured and steps of the trace. Tasks
/// of a rank that repeats those of an earlier rank, as with data parallelism, are left out, and those of
/// ranks_of_unknown_steps(); returns a sentence for each such rank, and for steps that lack device times. `given`: what
/// the files say of their ranks, those without tasks included; sets the entry kMissingRanksKey if tasks get their input
/// from ranks that are not among them, or whose tasks are left out.
std::vector<std::string> set_timeline(const std::vector<RankTasks>& ranks, const std::vector<RecordingRank>& given,
                                      OpenedTrace& trace);

/// Says that the tasks' times are unknown (RankTasks::only_launches), by the entries of OpenedTrace::run. Empty if they
/// are known.
std::string unknown_times_warning(const std::map<std::string, std::string>& run);

/// Says that a merged trace lacks ranks of its pipeline (kMissingRanksKey), by the entries of OpenedTrace::run. Empty
/// if it lacks none, and for the file of one rank, of which readers say more.
std::string missing_ranks_warning(const std::map<std::string, std::string>& run);

/// A sentence for each rule of the user that matches no range. `matches`: the sum over all files.
std::vector<std::string> unused_rules(const TaskRules& rules, const std::vector<std::size_t>& matches);

/// For a single file of another program: recognize_tasks() and set_timeline(). No effect on a trace with tasks.
void add_recognized_tasks(OpenedTrace& trace, const TaskRules& rules);
}  // namespace pipescope
