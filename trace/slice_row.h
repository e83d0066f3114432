#pragma once

#include "trace/sqlite_guard.h"
#include "trace/sqlite_rows.h"

#include <filesystem>

namespace pipescope {
/// The columns of PIPESCOPE_TASK that form a slice, in the order of slice_of(). SQLite converts NULL to -1, because
/// asking for a column's type costs as much as reading it.
inline constexpr const char* kSliceColumns =
    "ifnull(step, -1), kind, ifnull(partition, -1), ifnull(microBatch, -1), ifnull(skip, -1), lane, start, end, bytes, "
    "id";

/// The slice of the query's current row, whose lane must not be NULL. Throws TraceFormatError for an invalid kind or
/// lane.
Slice slice_of(const Rows& row, const std::filesystem::path& path);
}  // namespace pipescope
