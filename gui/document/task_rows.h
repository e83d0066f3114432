#pragma once

#include "gui/document/task_query.h"
#include "gui/document/trace_document.h"

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace pipescope {
enum class TaskColumn { task, step, lane, start, measured, simulated, difference, share };
inline constexpr int kTaskColumns = 8;

struct TaskOrder {
    TaskColumn column = TaskColumn::start;
    bool descending = false;
};

/// One task beside its twin. Times in ns.
struct TaskRow {
    Slice slice;                           ///< of the timeline that is listed
    std::int64_t sinceStep = 0;            ///< its start after its step's start
    std::optional<std::int64_t> measured;  ///< duration; nothing without a twin
    std::optional<std::int64_t> simulated;
    /// Simulated less measured, and as a share of the measured one.
    std::optional<std::int64_t> difference() const;
    std::optional<double> share() const;
};

/// Which tasks of a timeline are listed, and in which order. It holds four bytes a row and looks everything else up, so
/// that ten million rows are filtered and sorted in seconds, by a worker.
/// Threading: immutable once made; shared between threads.
class TaskRows {
public:
    /// `step` is the measured step that simulated tasks are compared with. Null if `cancelled` said so meanwhile.
    static std::shared_ptr<const TaskRows> make(std::shared_ptr<const TraceDocument> document, Source source,
                                                std::int32_t step, const TaskQuery& query, TaskOrder order,
                                                const std::function<bool()>& cancelled = {});

    Source source() const { return source_; }
    std::size_t size() const { return order_.size(); }
    /// Of the timeline, listed or not.
    std::size_t total() const { return total_; }
    SliceRef sliceAt(std::size_t row) const;
    TaskRow at(std::size_t row) const;
    /// Where a slice stands; nothing if it is not listed. Cost: O(rows), below 1 ns each.
    std::optional<std::size_t> rowOf(SliceRef slice) const;
    const std::shared_ptr<const TraceDocument>& document() const { return document_; }

private:
    TaskRows(std::shared_ptr<const TraceDocument> document, Source source, std::int32_t step);
    const TimelineStore& store() const { return *document_->store(source_); }
    TaskRow rowFor(const Slice& slice) const;
    std::int64_t sortKey(const Slice& slice, TaskColumn column) const;
    bool fill(const TaskQuery& query, TaskOrder order, const std::function<bool()>& cancelled);

    std::shared_ptr<const TraceDocument> document_;
    Source source_;
    std::size_t total_ = 0;
    std::vector<std::uint32_t> firstOfRow_;                  // number of the first slice of each of the store's rows
    std::unordered_map<std::uint64_t, std::int64_t> twins_;  // duration by the key without its step
    std::unordered_map<std::int32_t, std::int64_t> stepStart_;
    std::vector<std::uint32_t> order_;
};
}  // namespace pipescope
