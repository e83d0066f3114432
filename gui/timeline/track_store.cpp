#include "gui/timeline/track_store.h"

#include <algorithm>
#include <cmath>

namespace pipescope {
TimeRange TrackStore::range() const {
    TimeRange all{0, 0};
    bool any = false;
    for (const TrackRow& row : rows) {
        if (!row.start.empty()) {
            all.start = any ? std::min(all.start, row.start.front()) : row.start.front();
            all.end = any ? std::max(all.end, row.end.back()) : row.end.back();
            any = true;
        }
    }
    return all;
}

std::optional<TrackRef> rangeAt(const TrackStore& store, std::size_t row, std::int64_t time, std::int64_t reach) {
    const TrackRow& track = store.rows.at(row);
    const auto next =
        static_cast<std::size_t>(std::upper_bound(track.end.begin(), track.end.end(), time) - track.end.begin());
    if (next < track.start.size() && track.start[next] - reach <= time) {
        return TrackRef{row, next};
    }
    return next > 0 && time - track.end[next - 1] <= reach ? std::optional(TrackRef{row, next - 1}) : std::nullopt;
}

std::vector<TrackRun> visibleRuns(const TrackRow& row, const TimeWindow& window, int width) {
    std::vector<TrackRun> runs;
    const auto pixel = [&](std::int64_t time) { return pixelOf(window, width, time); };
    auto i = static_cast<std::size_t>(std::upper_bound(row.end.begin(), row.end.end(), window.start) - row.end.begin());
    while (i < row.start.size()) {
        TrackRun run{pixel(row.start[i]), pixel(row.end[i]), i, false};
        if (run.left >= width) {
            break;
        }
        std::size_t next = i + 1;
        if (run.right - run.left < 1) {
            // Ranges that end within this pixel are drawn as one and skipped.
            const std::int64_t edge = timeAt(window, width, std::floor(run.left) + 1);
            next = std::max(
                next, static_cast<std::size_t>(
                          std::upper_bound(row.end.begin() + static_cast<std::ptrdiff_t>(i), row.end.end(), edge) -
                          row.end.begin()));
            run.folded = next > i + 1;
            run.left = std::floor(run.left);
            run.right = run.left + 1;
        }
        runs.push_back(run);
        i = next;
    }
    return runs;
}
}  // namespace pipescope
