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

/// One task with its twin. Times in ns.
struct TaskRow {
    Slice slice;                           ///< of the listed timeline
    TaskKey shown;                         ///< TimelineStore::shownKey() of it
    std::int64_t sinceStep = 0;            ///< start relative to its step's start
    std::optional<std::int64_t> measured;  ///< duration; empty without a twin
    std::optional<std::int64_t> simulated;
    bool twoRuns = false;  ///< `simulated` is of the run before
    /// Simulated minus measured, as a prediction's error, unlike TaskPair's changes; also as a share of measured. Of
    /// two runs, after minus before, as a share of before.
    std::optional<std::int64_t> difference() const;
    std::optional<double> share() const;
};

/// The listed tasks of a timeline, in order. Stores four bytes per row and looks everything else up, so that a worker
/// filters and sorts ten million rows in seconds.
/// Threading: immutable once created; shared between threads.
class TaskRows {
public:
    /// Simulated tasks are compared with measured step `step`. Returns null if `cancelled` returned true.
    static std::shared_ptr<const TaskRows> make(std::shared_ptr<const TraceDocument> document, Source source,
                                                std::int32_t step, const TaskQuery& query, TaskOrder order,
                                                const std::function<bool()>& cancelled = {});

    Source source() const { return source_; }
    std::size_t size() const { return order_.size(); }
    /// Number of tasks in the timeline, listed or not.
    std::size_t total() const { return total_; }
    SliceRef sliceAt(std::size_t row) const;
    TaskRow at(std::size_t row) const;
    /// Row of a slice; empty if it is not listed. Cost: O(rows), below 1 ns each.
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
    std::unordered_map<std::uint64_t, std::int64_t> twins_;  // duration, by key without step
    std::unordered_map<std::int32_t, std::int64_t> stepStart_;
    std::vector<std::uint32_t> order_;
};
}  // namespace pipescope
