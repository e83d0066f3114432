#pragma once

#include "schedule/task_graph.h"
#include "trace/trace_writer.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace pipescope {
/// Finished ranges that a thread may be ahead of the drain thread.
inline constexpr std::size_t kRingEntries = 1 << 15;

struct RecorderOptions {
    std::filesystem::path path;
    IfExists if_exists = IfExists::refuse;
    /// Per thread; 0: what PIPESCOPE_RING_ENTRIES says, or kRingEntries.
    std::size_t ring_entries = 0;
    Nanoseconds drain_period{20'000'000};
    /// Record what CUDA devices do too, where there are any and CUPTI is free; the trace tells if not.
    bool devices = true;
};

/// Records every NVTX range of the process into a trace while it lives: per-thread rings, one drain thread, SQLite.
/// Ranges of domain "pipescope" that carry a TaskKey in their 64-bit payload become tasks too. Linked in, it needs no
/// environment variable, and sets the one that shared libraries go by (shared_libraries.h). It must exist before the
/// first range it shall see, and one may exist at a time.
/// Threading: the methods may be called from any thread. Errors: TraceError when the file cannot be made; a failure
/// while recording is kept and thrown by stop().
class Recorder {
public:
    explicit Recorder(RecorderOptions options);
    ~Recorder();  // stops; an error then goes to stderr
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;

    /// Lanes and the placement that tells which lane a task belongs to. Before it is called lane = partition.
    void set_pipeline(const std::vector<LaneInfo>& lanes, const PipelineShape& shape);
    void set_run(std::string_view key, std::string_view json);
    void set_profile(std::string_view json);
    void add_step(const StepRecord& step);
    void add_memory(const MemorySample& sample);
    void add_diagnostic(const DiagnosticRecord& diagnostic);

    /// ns since the start of the recording, on the clock the ranges are taken with.
    Nanoseconds now() const;
    /// Waits until every range that ended before the call is in the file.
    void flush();
    /// Drains, writes counts, closes the file. Idempotent. Throws what went wrong while recording.
    void stop();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};
}  // namespace pipescope
