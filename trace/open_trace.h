#pragma once

#include "trace/store/opened_trace.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace pipescope {
class TaskRules;

struct OpenOptions {
    /// Read threads, streams and counters too. They can outnumber the tasks by far; about 0.5 us per range.
    bool tracks = true;
    bool find_tasks = true;  ///< in files of other programs
    /// Finds these tasks; null: the built-in rules.
    std::shared_ptr<const TaskRules> rules = nullptr;
    /// Called while JSON is read, with the share of the file that was read, 0 to 1; may be empty.
    std::function<void(double share)> progress = {};
};

/// Opens any file that a viewer can show, and determines its type by its content: a PipeScope trace, finished or still
/// being written, or its Chrome export; an SQLite export of nsys; JSON of PyTorch's profiler or another Chrome trace,
/// gzipped or not; a profile. Ranges of the NVTX domain "pipescope" that carry a packed TaskKey become tasks, in nsys
/// exports too; their lane is their partition. In files of other programs, ranges with names of a pipeline's tasks do
/// (task_recognition.h).
///
/// Memory: 32 to 64 bytes per task and range of an SQLite file. JSON is read as a stream and takes less than the file's
/// size. Threading: no shared state; call it from any thread. Errors: TraceFormatError for a file of another type, a
/// damaged file (JSON: with line and column), or a file from a newer version; TraceError if reading fails.
OpenedTrace open_trace(const std::filesystem::path& path, const OpenOptions& options = {});

/// Says what the trace lacks for a timeline, which needs a task or a range: a clause with the remedy. Empty if it has
/// one, or is a profile.
std::string missing_content(const OpenedTrace& trace);
}  // namespace pipescope
