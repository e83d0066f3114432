#pragma once

#include "trace/store/opened_trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// The ranges of one name on one thread or stream of two recordings.
struct NamedRanges {
    std::string track;  ///< as in the recording after; as before if only that has it
    std::string name;
    std::int64_t matched = 0;
    std::int64_t only_before = 0;
    std::int64_t only_after = 0;
    Nanoseconds before{0};  ///< sum of the matched ones; nested ranges count each
    Nanoseconds after{0};
    Nanoseconds before_alone{0};  ///< sum of those that only the recording before has
    Nanoseconds after_alone{0};
};

/// Ranges of two recordings without a pipeline's tasks, which have no keys. The n-th range of a name on a thread or
/// stream is joined with the n-th one of that name on its counterpart; names of calls are those of their operators
/// (without_call()). Counterparts have equal names. Remaining threads
/// pair up in order if their names are equal up to numbers, since numbers of processes and threads are new in each run.
/// So do remaining streams, of whatever GPU.
struct NameJoin {
    std::int64_t matched = 0;
    std::int64_t only_before = 0;
    std::int64_t only_after = 0;
    std::vector<NamedRanges> names;  ///< the largest differences of time first
};
NameJoin join_by_name(const OpenedTrace& before, const OpenedTrace& after);
}  // namespace pipescope
