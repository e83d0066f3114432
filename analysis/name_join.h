#pragma once

#include "trace/store/opened_trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// The ranges with one name on one thread or stream of two recordings.
struct NamedRanges {
    std::string track;  ///< as named in the recording after, or in the one before if only that has it
    std::string name;
    std::int64_t matched = 0;
    std::int64_t only_before = 0;
    std::int64_t only_after = 0;
    Nanoseconds before{0};  ///< sum of the matched ranges; nested ranges count separately
    Nanoseconds after{0};
    Nanoseconds before_alone{0};  ///< sum of the ranges that only the recording before has
    Nanoseconds after_alone{0};
};

/// Joins the ranges of two recordings that have no pipeline tasks, and therefore no keys. The n-th range of a name on a
/// thread or stream matches the n-th range of that name on its counterpart. Calls are named after their operators
/// (without_call()).
///
/// Counterparts are tracks with equal names. Remaining threads pair up in order if their names are equal up to numbers,
/// since numbers of processes and threads are new in each run. So do remaining streams, of whatever GPU.
struct NameJoin {
    std::int64_t matched = 0;
    std::int64_t only_before = 0;
    std::int64_t only_after = 0;
    std::vector<NamedRanges> names;  ///< the largest differences of time first
};
NameJoin join_by_name(const OpenedTrace& before, const OpenedTrace& after);
}  // namespace pipescope
