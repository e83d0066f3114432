#include "gui/document/track_loading.h"

#include <algorithm>

namespace pipescope {
std::shared_ptr<const TrackStore> tracksOf(const OpenedTrace& trace) {
    auto store = std::make_shared<TrackStore>();
    for (const RangeTrack& track : trace.tracks) {
        std::vector<TrackRow> rows(track.rows);
        for (const TraceRange& range : track.ranges) {
            if (range.is_task || range.row >= rows.size()) {
                continue;
            }
            TrackRow& row = rows[range.row];
            // The last of very many rows may contain overlapping ranges, but drawn ranges must not overlap.
            const std::int64_t start =
                std::max(range.start.count(), row.end.empty() ? range.start.count() : row.end.back());
            row.start.push_back(start);
            row.end.push_back(std::max(start, range.end.count()));
            row.text.push_back(range.name);
        }
        int depth = 0;
        for (TrackRow& row : rows) {
            if (!row.start.empty()) {
                row.group = track.group;
                row.name = track.name;
                row.depth = depth++;
                store->rows.push_back(std::move(row));
            }
        }
    }
    if (store->rows.empty()) {
        return nullptr;
    }
    store->texts = trace.names;
    return store;
}
}  // namespace pipescope
