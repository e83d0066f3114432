#pragma once

#include "gui/timeline/timeline_store_builder.h"
#include "trace/store/trace_reader.h"

#include <chrono>
#include <filesystem>
#include <stop_token>
#include <vector>

namespace pipescope {
/// Reads the tasks of one source of a trace into a store: a first part within a time limit, then the rest on every
/// core. Threading: owned by one thread. Errors: those of TraceReader.
class TaskLoading {
public:
    TaskLoading(std::filesystem::path path, Source source, std::vector<LaneInfo> lanes);

    /// Reads from the start until the time limit.
    void readFor(std::chrono::milliseconds limit);
    void readRest(const std::stop_token& stop);
    /// Reads rows written since. Existing rows of a trace never change.
    void readMore(const std::stop_token& stop);

    bool finished() const { return next_ > ids_.last; }
    std::size_t size() const { return builder_.size(); }
    /// Rows of tasks in the file, of both timelines.
    std::size_t rows() const { return static_cast<std::size_t>(ids_.size()); }
    /// Share of all rows read so far, 0 to 1.
    double part() const;
    /// The tasks read so far.
    TimelineStore snapshot(Update update = Update::synchronous) const {
        return TimelineStoreBuilder(builder_).finish(update);
    }
    /// The tasks read so far; leaves this object empty.
    TimelineStore finish(Update update = Update::synchronous) { return builder_.finish(update); }

private:
    std::filesystem::path path_;
    Source source_;
    std::vector<LaneInfo> lanes_;
    RowIds ids_;
    std::int64_t next_ = 1;
    TimelineStoreBuilder builder_;
};
}  // namespace pipescope
