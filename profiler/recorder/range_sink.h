#pragma once

#include "profiler/recorder/name_registry.h"
#include "profiler/recorder/range_event.h"
#include "schedule/task_graph.h"
#include "trace/store/trace_writer.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// Converts recorded ranges to rows of a trace: resolves names, makes times relative to the start of the recording, and
/// adds a task for each finished range of the engine. Threading: the drain thread. Errors: TraceError from the writer.
class RangeSink {
public:
    /// `origin` is time zero on the recording's clock. `writer` must outlive this object.
    RangeSink(TraceWriter& writer, const NameRegistry& names, std::int64_t origin, std::int64_t pid);

    void set_shape(PipelineShape shape) { shape_ = std::move(shape); }

    /// Writes domains, categories, thread names and resources added since the last call.
    void write_new_names();
    void write(const RangeEvent& range, std::uint32_t end_tid);
    void write_thread_name(std::uint32_t tid, std::string_view name);
    /// The counts of a thread, updated by write() and written by write_counts_of().
    DropRecord& counts_of(std::uint32_t tid);
    void write_counts_of(std::uint32_t tid);
    void write_counts();

    std::int64_t rows() const { return rows_; }
    Nanoseconds time(std::int64_t clock_ns) const { return Nanoseconds{clock_ns - origin_}; }

private:
    const std::string& text(std::uint32_t number);
    void write_task(const RangeEvent& range, std::int64_t row);
    /// `clock_ns`: on the recording's clock.
    void write_event(int type, std::int64_t clock_ns, std::int64_t domain, std::string_view name,
                     std::optional<std::int64_t> category = std::nullopt);
    LaneId lane_of(const TaskKey& key) const;
    std::int64_t global_tid(std::uint32_t tid) const { return pid_ << 24 | tid; }

    TraceWriter& writer_;
    const NameRegistry& names_;
    const std::int64_t origin_;
    const std::int64_t pid_;
    std::optional<PipelineShape> shape_;
    std::vector<std::string> texts_;
    std::size_t domains_seen_ = 0;
    std::size_t categories_seen_ = 0;
    std::size_t thread_names_seen_ = 0;
    std::size_t destroyed_domains_seen_ = 0;
    std::size_t resources_seen_ = 0;
    std::uint32_t engine_domain_ = 0;  // 0 until a domain "pipescope" exists; the default domain is never the engine's
    std::map<std::uint32_t, std::string> named_threads_;  // set by the program; they override the system's names
    std::map<std::uint32_t, DropRecord> counts_;          // by tid; if the system reuses a tid, counts add up
    NvtxRecord record_;                                   // reused for its memory
    std::int64_t rows_ = 0;
};
}  // namespace pipescope
