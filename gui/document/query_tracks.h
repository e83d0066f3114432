#pragma once

#include "gui/timeline/track_store.h"
#include "trace/store/sql_query.h"

#include <QString>

#include <memory>
#include <vector>

namespace pipescope {
/// A track of the user's own: what a query gives, drawn as ranges or as a counter.
struct QueryTrack {
    QString name;
    QString sql;

    friend bool operator==(const QueryTrack&, const QueryTrack&) = default;
};

/// The most rows of a query that become a track.
inline constexpr std::size_t kMostQueryRows = 200'000;

/// Why the columns make no track; empty if they do: they have start, end and name, perhaps also lane, or time and
/// value. Case and order do not matter, nor do other columns.
QString whyNoTrack(const std::vector<SqlColumn>& columns);
/// The rows as ranges, by lane, or as a counter. Times are ns, as `start` and `end` of PIPESCOPE_TASK. Rows without
/// times, or without a value of a counter, are left out. Ranges of a lane that overlap are in rows below each other.
/// Throws Error for columns as in whyNoTrack(), more than kMostQueryRows rows, a range that ends before it starts, and
/// times beyond 2^62 ns.
TrackStore trackOf(const QueryTrack& track, const SqlResult& result);

/// Adds the rows and counters of `more` behind those of `store`.
void addTracks(TrackStore& store, const TrackStore& more);
}  // namespace pipescope
