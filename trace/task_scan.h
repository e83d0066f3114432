#pragma once

#include "trace/trace_records.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

namespace pipescope {
/// Range of row ids, both ends included. Empty if last < first.
struct RowIds {
    std::int64_t first = 1;
    std::int64_t last = 0;

    std::int64_t size() const { return last < first ? 0 : last - first + 1; }
};

/// Reads a trace's tasks piecewise by row id, if TraceReader::timeline() would take too long. Several threads, each
/// with its own scan, can share a table. Rows are in the order of writing, which is roughly the order of the tasks'
/// ends.
/// Threading: one object per thread. Errors: those of TraceReader.
class TaskScan {
public:
    explicit TaskScan(const std::filesystem::path& path);
    ~TaskScan();
    TaskScan(TaskScan&&) noexcept;
    TaskScan& operator=(TaskScan&&) noexcept;

    /// All current tasks, of both sources.
    RowIds ids() const;
    /// Calls `each` with batches of up to kBatch tasks of the source, until it returns false. Skips tasks without a
    /// lane. Returns the last id read. Cost: about 0.3 us per row.
    std::int64_t read(Source source, const RowIds& ids, const std::function<bool(std::span<const Slice>)>& each) const;

    static constexpr std::size_t kBatch = 1024;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};
}  // namespace pipescope
