#pragma once

#include "trace/store/opened_trace.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace pipescope {
class TaskRules;

struct OpenOptions {
    /// Also read threads, streams and counters. They can far outnumber the tasks; about 0.5 us per range.
    bool tracks = true;
    bool find_tasks = true;  ///< in files of other programs
    /// The rules to find tasks with; null: the built-in rules.
    std::shared_ptr<const TaskRules> rules = nullptr;
    /// Called with the share read so far, 0 to 1, while JSON is read; may be empty.
    std::function<void(double share)> progress = {};
};

/// Opens any file that a viewer can show. Its content decides its type: a PipeScope trace, finished or still being
/// written, or its Chrome export; an SQLite export of nsys; JSON of PyTorch's profiler or another Chrome trace, gzipped
/// or not; a profile.
///
/// Tasks: ranges of the NVTX domain "pipescope" that carry a packed TaskKey become tasks, in nsys exports too; their
/// lane is their partition. In other programs' files, ranges named like a pipeline's tasks become tasks
/// (task_recognition.h).
///
/// Memory: 32 to 64 bytes per task and range of an SQLite file. JSON is read as a stream and takes less than the file's
/// size. Threading: no shared state; call it from any thread. Errors: TraceFormatError for a file of another type, a
/// damaged file (JSON: with line and column), or a file from a newer version; TraceError if reading fails.
OpenedTrace open_trace(const std::filesystem::path& path, const OpenOptions& options = {});

/// A clause, with the remedy, if the trace has neither tasks nor ranges to show on a timeline. Empty if it has
/// some, or is a profile.
std::string missing_content(const OpenedTrace& trace);
}  // namespace pipescope
