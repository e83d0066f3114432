#pragma once

#include "trace/foreign/task_rules.h"
#include "trace/merge/merge_traces.h"

#include <filesystem>
#include <vector>

namespace pipescope {
/// Writes a trace of the files that the ranks of another program recorded, such as those of PyTorch's profiler. A
/// single file of any program becomes a trace too.
///
/// The trace has the recognised tasks (task_recognition.h), their steps, all ranges, calls and device work, and
/// counters as marks. Its time is that of the first rank; the others follow by the wall clocks, corrected by messages
/// if these would come before they were sent (align_wall_clocks). A missing rank is a warning; so is one of several
/// files that holds nothing to show or is no trace, and is left out. A file that was cut off before it said when it was
/// recorded gets that from the other ranks. Memory: the files' ranges. Errors: TraceFormatError for files that say no
/// rank or the same one, TraceError if reading or writing fails.
MergedTrace merge_rank_files(const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& output,
                             IfExists if_exists, const TaskRules& rules);

/// True of JSON and of empty files, as after a full disk: are_rank_files() is false if another file is among them.
bool may_be_rank_file(const std::filesystem::path& file);
/// True if at least two files are JSON of another program that says its rank, all of runs of one size and no rank
/// twice, and the others are no traces at all. Reads the files' heads, as rank_of_file() does; no file if there is only
/// one.
bool are_rank_files(const std::vector<std::filesystem::path>& files);
}  // namespace pipescope
