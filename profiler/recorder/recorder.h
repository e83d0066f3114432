#pragma once

#include "schedule/task_graph.h"
#include "trace/store/trace_writer.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace pipescope {
/// Finished ranges that a thread can buffer before the drain thread reads them.
inline constexpr std::size_t kRingEntries = 1 << 15;

struct RecorderOptions {
    std::filesystem::path path;
    IfExists if_exists = IfExists::refuse;
    /// Per thread. 0: the value of PIPESCOPE_RING_ENTRIES, or kRingEntries.
    std::size_t ring_entries = 0;
    Nanoseconds drain_period{20'000'000};
    /// Also record CUDA devices, if there are any and CUPTI is available. Otherwise the trace contains a diagnostic.
    bool devices = true;
};

/// Records all NVTX ranges of the process into a trace during its lifetime, with a ring per thread, one drain thread,
/// and SQLite. Ranges of domain "pipescope" with a TaskKey in their 64-bit payload also become tasks. A program that
/// links it needs no environment variable; the recorder sets the variable for shared libraries (shared_libraries.h).
/// Create it before the first range of interest. Only one may exist at a time.
///
/// Threading: any thread may call the methods. Errors: TraceError if the file cannot be created. Failures during the
/// recording are stored and thrown by stop().
class Recorder {
public:
    explicit Recorder(RecorderOptions options);
    ~Recorder();  // stops; errors go to stderr
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    /// Sets the lanes, and the placement that assigns tasks to lanes. The default is lane = partition.
    void set_pipeline(const std::vector<LaneInfo>& lanes, const PipelineShape& shape);
    void set_run(std::string_view key, std::string_view json);
    void set_profile(std::string_view json);
    void add_step(const StepRecord& step);
    void add_memory(const MemorySample& sample);
    void add_diagnostic(const DiagnosticRecord& diagnostic);

    /// ns since the start of the recording, on the clock of the ranges.
    Nanoseconds now() const;
    /// The ranges' clock (CLOCK_MONOTONIC) at the start of the recording, in ns.
    std::int64_t origin_ns() const;
    /// Waits until all ranges that ended before the call are in the file.
    void flush();
    /// Drains the rings, writes the counts and closes the file. Idempotent. Throws any failure of the recording.
    void stop();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};
}  // namespace pipescope
