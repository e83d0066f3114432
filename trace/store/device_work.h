#pragma once

#include <cstdint>

namespace SQLite {
class Database;
}

namespace pipescope {
struct DeviceWorkCounts {
    std::int64_t attributed = 0;    ///< kernels, copies and fills that belong to a task
    std::int64_t unattributed = 0;  ///< kernels, copies and fills without a task
    std::int64_t early = 0;         ///< started before their launch, since the clocks of host and device disagree
    std::int64_t most_early_ns = 0;
};

/// Finds the task of each kernel, copy and fill on a device, by the rules of attribute_launches(). Empties
/// PIPESCOPE_DEVICE_WORK and PIPESCOPE_TASK_DEVICE, then fills them. Units: ns. Errors: SQLite::Exception.
DeviceWorkCounts attribute_device_work(SQLite::Database& db);
}  // namespace pipescope
