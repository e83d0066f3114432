#pragma once

#include "gui/timeline/timeline_store_builder.h"
#include "trace/task_scan.h"

#include <chrono>
#include <filesystem>
#include <stop_token>
#include <vector>

namespace pipescope {
/// Reads the tasks of one source of a trace into a store: a first part within a time limit, then the rest on every
/// core. Threading: one thread owns it. Errors: those of TaskScan.
class TaskLoading {
public:
    TaskLoading(std::filesystem::path path, Source source, std::vector<LaneInfo> lanes);

    /// Reads from the front until the time is over.
    void readFor(std::chrono::milliseconds limit);
    void readRest(const std::stop_token& stop);
    /// Reads what was written since. The rows of a trace stay as they are once written.
    void readMore(const std::stop_token& stop);

    bool finished() const { return next_ > ids_.last; }
    std::size_t size() const { return builder_.size(); }
    /// Of all rows, 0 to 1.
    double part() const;
    /// What was read so far.
    TimelineStore snapshot() const { return TimelineStoreBuilder(builder_).finish(); }
    /// The same, of the last call; nothing is left here.
    TimelineStore finish() { return builder_.finish(); }

private:
    std::filesystem::path path_;
    Source source_;
    std::vector<LaneInfo> lanes_;
    RowIds ids_;
    std::int64_t next_ = 1;
    TimelineStoreBuilder builder_;
};
}  // namespace pipescope
