#pragma once

#include "trace/sqlite_rows.h"

#include <string>

namespace pipescope {
/// The columns of PIPESCOPE_TASK that form a slice, in the order of slice_of().
inline constexpr const char* kSliceColumns = "step, kind, partition, microBatch, skip, lane, start, end, bytes, id";

/// The slice of the query's current row, whose lane must not be NULL. Throws DamagedValue.
Slice slice_of(const Rows& row);
/// Why no recording holds such a slice, as "has the partition -3, ..", value and rule; empty if one may. Used for every
/// kind of file.
std::string fault_of(const Slice& slice);
/// The same of a sample.
std::string fault_of(const MemorySample& sample);
}  // namespace pipescope
