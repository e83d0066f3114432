#pragma once

#include "gui/timeline/memory_track.h"

#include <QString>

#include <cstdint>
#include <vector>

namespace pipescope {
/// Adds the samples of a trace of ours that were written after row `after` to their lanes' tracks; those of other lanes
/// are left out. Returns the number of the last row. Errors: those of query_sql.
std::int64_t addMemorySince(const QString& path, std::int64_t after, std::vector<MemoryTrack>& tracks);
}  // namespace pipescope
