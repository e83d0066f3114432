#pragma once

#include "trace/trace_records.h"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// Reads a trace that TraceWriter made, finished or still being written.
/// Threading: not thread-safe; open one per thread. Errors: TraceFormatError for a file that is no PipeScope trace (it
/// says what it seems to be) or that a newer version wrote; TraceError where SQLite fails.
class TraceReader {
public:
    explicit TraceReader(const std::filesystem::path& path);
    ~TraceReader();
    TraceReader(TraceReader&&) noexcept;
    TraceReader& operator=(TraceReader&&) noexcept;

    /// PIPESCOPE_RUN, values as JSON text.
    std::map<std::string, std::string> run() const;
    std::vector<LaneInfo> lanes() const;
    std::optional<std::string> profile_json() const;
    /// Wall clock of time zero, ns since 1970; nothing for a trace that was not recorded (a simulated one).
    std::optional<std::int64_t> utc_epoch_ns() const;
    std::vector<StepRecord> steps() const;
    /// Sorted as Timeline promises; without slices if the trace holds none of that source. Tasks without a lane (an
    /// optimizer over everything) are left out. Cost: about 1 us a task.
    Timeline timeline(Source source) const;
    std::vector<MemorySample> memory() const;
    /// The same one by one, by lane and then time: a long run has more than one wants to hold.
    void for_each_memory(const std::function<void(const MemorySample&)>& each) const;
    std::vector<DropRecord> drops() const;
    std::vector<ClockRecord> clocks() const;
    std::vector<DiagnosticRecord> diagnostics() const;
    std::vector<OverheadRecord> overheads() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// What recover_trace found.
struct Recovery {
    bool was_open = false;  ///< the writer had not closed it
    std::int64_t tasks = 0;
    std::int64_t steps = 0;
    std::int64_t ranges = 0;             ///< and marks, of NVTX
    std::int64_t recorded_until_ns = 0;  ///< end of the last range in the file; what came later is lost if was_open
    std::int64_t dropped = 0;            ///< counted as lost while it was recorded
    std::int64_t clock_drift_ns = 0;     ///< by how much the wall clock ran or jumped against the recording's
    int from_version = 0;                ///< the format version it had; it has the current one now
};
/// Turns the trace of a killed run into one plain file: replays the write-ahead log, builds the indexes, checks the
/// integrity. A trace of an older version is brought to the current one. A finished, current trace is left as it is.
/// Throws TraceFormatError or TraceError.
Recovery recover_trace(const std::filesystem::path& path);
}  // namespace pipescope
