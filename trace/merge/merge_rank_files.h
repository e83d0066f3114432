#pragma once

#include "trace/foreign/gzip_stream.h"
#include "trace/foreign/task_rules.h"
#include "trace/merge/merge_traces.h"

#include <filesystem>
#include <vector>

namespace pipescope {
struct RankReading {
    std::vector<int> ranks = {};  ///< of each file, instead of what the files say; empty: as they say
    /// Called by the calling thread with the share of the work that is done, 0 to 1; may be empty.
    ReadProgress progress = {};
    int threads = 0;  ///< that read files, one file each at a time; 0: one per core, at most 4
};

/// Writes a trace from the files that the ranks of another program recorded, such as those of PyTorch's profiler. A
/// single file of any program becomes a trace too.
///
/// Contents: the recognised tasks (task_recognition.h), their steps, all ranges, calls and device work, and counters as
/// marks.
///
/// Time: the first rank's. Wall clocks place the other ranks; if messages would arrive before they were sent, these
/// correct the clocks (align_wall_clocks). A file that was cut off before it recorded its time gets it from the other
/// ranks.
///
/// Warnings: for a missing rank, and for one of several files that holds nothing to show, is not a trace or cannot be
/// read, which is left out.
///
/// Several threads read the files. Their number does not change the trace or the warnings.
///
/// Memory: the files' ranges. Errors: TraceFormatError for files that name no rank or the same rank, TraceError if
/// reading or writing fails, UsageError if the number of given ranks is not that of the files. ComputationStopped if a
/// StopCheck of the calling thread wants it.
MergedTrace merge_rank_files(const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& output,
                             IfExists if_exists, const TaskRules& rules, const RankReading& reading = {});

/// True for JSON and for empty files, as after a full disk. If any other file is given, are_rank_files() is false.
bool may_be_rank_file(const std::filesystem::path& file);
/// True if at least two files are JSON of another program and name their ranks, all of runs of one size without a
/// repeated rank, and the other files are not traces at all. Reads the files' heads, as rank_of_file(); reads nothing
/// if there is only one file.
bool are_rank_files(const std::vector<std::filesystem::path>& files);
}  // namespace pipescope
