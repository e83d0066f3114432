#pragma once

#include "trace/opened_trace.h"

#include <filesystem>

namespace pipescope {
struct OpenOptions {
    /// Read threads, streams and counters too. They can be far more than the tasks; about 0.5 us a range.
    bool tracks = true;
    /// Read the tasks, steps and memory of a PipeScope trace; a viewer that has them already leaves them out.
    bool tasks = true;
};

/// Opens whatever a viewer may be given and says by its content what it is: a PipeScope trace, finished or being
/// written, or its Chrome export; an SQLite export of nsys; JSON of PyTorch's profiler or any Chrome trace, packed with
/// gzip or not; a profile. Ranges of an NVTX domain "pipescope" that carry a packed TaskKey become tasks, in nsys'
/// exports too; their lane is then their partition.
///
/// Memory: an SQLite file's tasks and ranges at 32 to 64 bytes each; JSON is read as a stream and takes less than the
/// file's size. Threading: no shared state; call it from any thread. Errors: TraceFormatError for a file that is none
/// of these, that is damaged (JSON: with line and column) or newer than this version; TraceError where reading fails.
OpenedTrace open_trace(const std::filesystem::path& path, const OpenOptions& options = {});
}  // namespace pipescope
