#pragma once

#include "trace/store/trace_records.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace SQLite {
class Database;
}

namespace pipescope {
enum class IfExists { refuse, replace };
/// Where changes stand until they are part of the file.
enum class WriteLog {
    on_disk,    ///< so that other programs can read meanwhile, and a killed process loses little
    in_memory,  ///< each page is written once: for a file that can be made again
};

/// Throws TraceError unless `json` is one JSON value, as PIPESCOPE_RUN requires.
void require_run_json(std::string_view key, std::string_view json);

/// Writes one trace: an SQLite file with nsys' table and column names and the PIPESCOPE_ tables (docs/trace-format.md).
///
/// While it is open, the journal is a WAL, and a killed process loses at most the uncommitted rows (with
/// WriteLog::in_memory, the file). close() builds the
/// indexes and leaves one plain file. An existing file is kept unless IfExists::replace.
///
/// Threading: not thread-safe; one owner. Errors: TraceError. If the disk is full or fails, the rows since the last
/// commit are lost, and no more rows are accepted. close() then counts them in PIPESCOPE_DROPS (source "trace"),
/// reports it in PIPESCOPE_DIAGNOSTIC if there is space, and throws.
class TraceWriter {
public:
    TraceWriter(const std::filesystem::path& path, IfExists if_exists, WriteLog log = WriteLog::on_disk);
    ~TraceWriter();  // closes, but hides a failure: call close() first
    TraceWriter(TraceWriter&&) noexcept;
    TraceWriter& operator=(TraceWriter&&) noexcept;

    /// Sets a key of PIPESCOPE_RUN to a JSON value. Keys in use: "model", "configuration" (PipelineOptions),
    /// "pipeline", "environment". The writer itself sets "format", "lanes" ([{name, device}], by set_lanes),
    /// "recording_start" (UTC, by set_start) and "closed".
    void set_run(std::string_view key, std::string_view json);
    void set_lanes(const std::vector<LaneInfo>& lanes);
    void set_profile(std::string_view json);
    /// Sets the wall clock at time zero.
    void set_start(std::int64_t utc_epoch_ns);

    void add_step(const StepRecord& step);
    /// Returns the row's id. `nvtx_row` is the result of add_range() for the same task.
    std::int64_t add_task(const Slice& slice, Source source, std::optional<std::int64_t> nvtx_row = std::nullopt);
    /// Adds all slices, and the lanes unless at least as many were set.
    void add_timeline(const Timeline& timeline);
    std::int64_t add_range(const NvtxRecord& range);
    /// Replaces the thread's name. A global tid is pid << 24 | tid, as in nsys.
    void add_thread_name(std::int64_t global_tid, std::string_view name);
    void add_process(std::int64_t global_pid, std::int64_t pid, std::string_view name);
    void add_memory(const MemorySample& sample);
    /// Replaces the counts of this source and thread.
    void add_drop(const DropRecord& drop);
    void add_clock(const ClockRecord& clock);
    void add_overhead(const OverheadRecord& overhead);
    void add_diagnostic(const DiagnosticRecord& diagnostic);

    /// Runs `body` in the current transaction and translates SQLite's errors. For tables that another class writes
    /// (cupti_rows.h).
    void change(const std::function<void(SQLite::Database&)>& body);
    /// Number of a text in StringIds. Adds the text if it is new.
    std::int64_t intern(std::string_view text);

    /// Ends the current transaction: earlier rows survive a kill.
    void commit();
    void close();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};
}  // namespace pipescope
