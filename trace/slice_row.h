#pragma once

#include "trace/sqlite_guard.h"
#include "trace/sqlite_rows.h"

#include <filesystem>

namespace pipescope {
/// The columns of PIPESCOPE_TASK that make a slice, in the order slice_of() wants. Asking for a column's type costs as
/// much as reading it, so that SQLite is to put -1 where a field has no meaning.
inline constexpr const char* kSliceColumns =
    "ifnull(step, -1), kind, ifnull(partition, -1), ifnull(microBatch, -1), ifnull(skip, -1), lane, start, end, bytes, "
    "id";

/// The slice of the query's current row; its lane is not NULL. Throws TraceFormatError for a kind or a lane that cannot
/// be.
Slice slice_of(const Rows& row, const std::filesystem::path& path);
}  // namespace pipescope
