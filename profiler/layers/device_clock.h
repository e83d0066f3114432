#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <memory>

namespace c10 {
struct Event;
}

namespace pipescope {
/// A time on a device: the host's clock, or the time when an accelerator's stream reaches this point.
struct Instant {
    std::chrono::steady_clock::time_point host;
    std::shared_ptr<const c10::Event> event;  ///< null on the CPU
};

/// Measures the time of work on a device. On an accelerator the host only launches work, so its clock would time the
/// launches. Instants are timed events in the calling thread's current stream there, through torch's device-generic
/// interface. Threading: immutable; autograd's own threads may call it too.
class DeviceClock {
public:
    explicit DeviceClock(c10::Device device) : device_(device) {}

    Instant now() const;
    /// Time between two instants of one device, in ns; never negative. Waits for both. Accelerators resolve about half
    /// a microsecond. Throws torch's error if a backend has no timed events.
    static double nanoseconds(const Instant& from, const Instant& to);

private:
    c10::Device device_;
};
}  // namespace pipescope
