#pragma once

#include <cstdint>

namespace SQLite {
class Database;
}

namespace pipescope {
/// What attribute_device_work() found.
struct DeviceWorkCounts {
    std::int64_t attributed = 0;    ///< kernels, copies and fills that belong to a task
    std::int64_t unattributed = 0;  ///< that belong to none
    std::int64_t early = 0;         ///< that began before their launch: the clocks of host and device disagree
    std::int64_t most_early_ns = 0;
};

/// Finds the task of each kernel, copy and fill on a device and fills PIPESCOPE_DEVICE_WORK and PIPESCOPE_TASK_DEVICE,
/// which it empties first. Work belongs to the task in whose range its launching API call began, on the same thread.
/// What autograd's own thread launched lies in no range: it belongs to the task that ran at that moment on the lane
/// whose stream it used, which the other launches on that stream tell.
/// Units: ns. Errors: SQLite::Exception.
DeviceWorkCounts attribute_device_work(SQLite::Database& db);
}  // namespace pipescope
