#pragma once

#include "gui/timeline/time_window.h"
#include "gui/timeline/timeline_store.h"

#include <functional>
#include <optional>
#include <vector>

namespace pipescope {
/// Tasks of one kind, on one lane or on all of them, that overlap a range of time. Times in ns.
struct KindStatistics {
    TaskKind kind = TaskKind::forward;
    std::optional<LaneId> lane;  ///< empty: all lanes together
    std::int64_t count = 0;
    std::int64_t inside = 0;  ///< within the range, as the busy share
    std::int64_t total = 0;   ///< this and the others are of whole tasks, including parts outside the range
    std::int64_t median = 0;
    std::int64_t p95 = 0;  ///< 95 % of the tasks are shorter; interpolated between two
    SliceRef longest;      ///< the first of them in case of a tie
    double busyShare = 0;  ///< share of the range; for all lanes, the mean over the store's lanes

    double mean() const { return count > 0 ? static_cast<double>(total) / static_cast<double>(count) : 0; }
};

/// Rows by kind, first for all lanes and then for each; omits kinds and lanes without a task. `range` uses the store's
/// times. Cost: O(slices in the range). Empty if `cancelled` returned true.
std::vector<KindStatistics> taskStatistics(const TimelineStore& store, const TimeRange& range,
                                           const std::function<bool()>& cancelled = {});
}  // namespace pipescope
