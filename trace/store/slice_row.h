#pragma once

#include "trace/store/sqlite_rows.h"

#include <string>

namespace pipescope {
/// The columns of PIPESCOPE_TASK that form a slice, in the order of slice_of().
inline constexpr const char* kSliceColumns = "step, kind, partition, microBatch, skip, lane, start, end, bytes, id";

/// The slice of the query's current row, whose lane must not be NULL. Throws DamagedValue.
Slice slice_of(const Rows& row);
/// Why no recording can contain this slice, with value and rule: "has the partition -3, ..". Empty if a recording can.
/// Used for every type of file.
std::string fault_of(const Slice& slice);
/// Why no recording can contain this sample; empty if a recording can.
std::string fault_of(const MemorySample& sample);
}  // namespace pipescope
