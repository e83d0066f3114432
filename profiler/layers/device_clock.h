#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <memory>

namespace c10 {
struct Event;
}

namespace pipescope {
/// A moment on a device: an instant of the host's clock, or the moment when an accelerator's stream gets there.
struct Instant {
    std::chrono::steady_clock::time_point host;
    std::shared_ptr<const c10::Event> event;  ///< null on the CPU
};

/// Tells what work on a device takes. On an accelerator work is only issued, and the host's clock would time that:
/// there the moments are timed events in the calling thread's current stream, of torch's device-generic interface.
/// Threading: immutable; autograd's own threads may ask for moments too.
class DeviceClock {
public:
    explicit DeviceClock(c10::Device device) : device_(device) {}

    Instant now() const;
    /// Between two moments of one device, in ns; never negative. Waits for both. Accelerators tell it to about half a
    /// microsecond. Throws torch's error where a backend has no timed events.
    static double nanoseconds(const Instant& from, const Instant& to);

private:
    c10::Device device_;
};
}  // namespace pipescope
