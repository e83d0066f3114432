#pragma once

#include "trace/trace_records.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

namespace pipescope {
/// Numbers of rows, both included; none if last < first.
struct RowIds {
    std::int64_t first = 1;
    std::int64_t last = 0;

    std::int64_t size() const { return last < first ? 0 : last - first + 1; }
};

/// Reads a trace's tasks in pieces, for who cannot wait for TraceReader::timeline(): by the ids of their rows, so that
/// several threads, each with a scan of its own, share the table. Rows stand in the order they were written, which is
/// about that of the tasks' ends.
/// Threading: one object per thread. Errors: those of TraceReader.
class TaskScan {
public:
    explicit TaskScan(const std::filesystem::path& path);
    ~TaskScan();
    TaskScan(TaskScan&&) noexcept;
    TaskScan& operator=(TaskScan&&) noexcept;

    /// All tasks that are there now, of both sources.
    RowIds ids() const;
    /// Calls `each` with the next tasks of the source, up to kBatch at once, until it returns false. Tasks without a
    /// lane are left out. Returns the last id that was read. Cost: about 0.3 us a row.
    std::int64_t read(Source source, const RowIds& ids, const std::function<bool(std::span<const Slice>)>& each) const;

    static constexpr std::size_t kBatch = 1024;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};
}  // namespace pipescope
