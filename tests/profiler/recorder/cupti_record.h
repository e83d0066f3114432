#pragma once

#include <cupti.h>

#include <cstring>

namespace pipescope {
/// A record of this kind; all other bytes are zero, including padding.
template <class Record>
Record make_record(CUpti_ActivityKind kind) {
    Record record;
    std::memset(&record, 0, sizeof(record));
    record.kind = kind;
    return record;
}
}  // namespace pipescope
