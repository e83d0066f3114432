#pragma once

#include "trace/store/nsys_tables.h"
#include "trace/store/opened_trace.h"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pipescope {
/// Range of row ids, both ends included. Empty if last < first.
struct RowIds {
    std::int64_t first = 1;
    std::int64_t last = 0;

    std::int64_t size() const { return last < first ? 0 : last - first + 1; }
};

/// Reads a trace of TraceWriter, finished or still being written. Threading: not thread-safe; open one per thread.
/// Errors: TraceFormatError for another type of file (with a guess at the type) or a trace from a newer version;
/// TraceError if SQLite fails.
class TraceReader {
public:
    explicit TraceReader(const std::filesystem::path& path);
    /// Opens a trace. Empty for other files that open_trace() reads: JSON, an export of nsys.
    static std::optional<TraceReader> open(const std::filesystem::path& path);
    ~TraceReader();
    TraceReader(TraceReader&&) noexcept;
    TraceReader& operator=(TraceReader&&) noexcept;

    /// From now on, reads the file as it is now, even if it grows. The writer's log is not emptied meanwhile.
    void keep_snapshot();
    /// The trace without its tasks, samples and tracks.
    OpenedTrace head() const;
    /// PIPESCOPE_TASK_DEVICE of an imported trace, whose tasks have the times of a device. Part of head().
    std::vector<TaskOnDevice> tasks_on_device() const;
    /// PIPESCOPE_LANE_WORK of such a trace. Part of head().
    std::vector<LaneWork> lane_work() const;
    /// pipescope::for_each_device_activity() of the file. About 1 us per row.
    void for_each_device_activity(const std::function<void(const DeviceActivity&)>& each) const;
    /// Adds its threads, streams and counters. About 0.5 us per range.
    void read_tracks(OpenedTrace& trace) const;
    /// PIPESCOPE_RUN, values as JSON text.
    std::map<std::string, std::string> run() const;
    std::vector<LaneInfo> lanes() const;
    std::optional<std::string> profile_json() const;
    /// Wall clock at time zero, in ns since 1970. Empty for a simulated trace.
    std::optional<std::int64_t> utc_epoch_ns() const;
    std::vector<StepRecord> steps() const;
    /// Slices of one source, sorted as in Timeline; empty if there are none. Omits tasks without a lane (an optimizer
    /// over all parameters). Cost: about 1 us per task.
    Timeline timeline(Source source) const;
    /// All current tasks, of both sources.
    RowIds task_ids() const;
    /// Calls `each` with batches of up to kTaskBatch tasks of the source, until it returns false. Skips tasks without a
    /// lane. Returns the last id read. Rows are in the order of writing, roughly by the tasks' ends. If timeline()
    /// would take too long, several threads, each with its own reader, can share a table. Cost: about 0.3 us per row.
    std::int64_t read_tasks(Source source, const RowIds& ids,
                            const std::function<bool(std::span<const Slice>)>& each) const;
    static constexpr std::size_t kTaskBatch = 1024;
    std::vector<MemorySample> memory() const;
    /// Calls `each` with all memory samples, by lane and then time. A long run has more than fit comfortably in memory.
    void for_each_memory(const std::function<void(const MemorySample&)>& each) const;
    /// Calls `each` with the memory samples written after row `after`, in the order of writing. Returns the last row,
    /// or `after` if there is none.
    std::int64_t memory_since(std::int64_t after, const std::function<void(const MemorySample&)>& each) const;
    std::vector<DropRecord> drops() const;
    std::vector<ClockRecord> clocks() const;
    std::vector<DiagnosticRecord> diagnostics() const;
    std::vector<OverheadRecord> overheads() const;

private:
    struct Impl;
    explicit TraceReader(std::unique_ptr<Impl> impl);
    bool has_table(const std::string& name) const;
    /// steps(). `faults` gets one of each value that is left out.
    std::vector<StepRecord> read_steps(std::vector<DiagnosticRecord>& faults) const;
    std::unique_ptr<Impl> impl_;
};

/// Result of recover_trace().
struct Recovery {
    bool was_open = false;  ///< the writer had not closed it
    std::int64_t tasks = 0;
    std::int64_t steps = 0;
    std::int64_t ranges = 0;             ///< NVTX ranges and marks
    std::int64_t recorded_until_ns = 0;  ///< end of the last range in the file; later data is lost if was_open
    std::int64_t dropped = 0;            ///< losses counted during the recording
    std::int64_t clock_drift_ns = 0;     ///< drift and jumps of the wall clock relative to the recording's clock
    int from_version = 0;                ///< the format version before recovery; now it is the current one
    /// Why it is unknown what was lost: "its -wal file is missing". Empty if the write-ahead log was whole.
    std::string log_trouble;
};
/// How to treat a recording that was not closed and whose write-ahead log is missing or cut.
enum class IncompleteLog { refuse, accept };
/// Turns the trace of a killed run into one plain file: replays the write-ahead log, builds the indexes and checks the
/// integrity. Converts a trace of an older version to the current one. Leaves a finished, current trace unchanged.
/// Throws TraceFormatError or TraceError, also for an incomplete write-ahead log unless that is accepted.
Recovery recover_trace(const std::filesystem::path& path, IncompleteLog incomplete = IncompleteLog::refuse);
}  // namespace pipescope
