#pragma once

#include "trace/cupti_rows.h"

#include <cstdint>
#include <memory>
#include <string>

namespace pipescope {
/// Turns the recording's clock readings into times of the trace.
struct DeviceCaptureOptions {
    std::int64_t origin = 0;  ///< time zero on the recording's clock
    std::int64_t pid = 0;
    std::size_t buffer_bytes = std::size_t{4} << 20;  ///< of one buffer; CUPTI advises 1 to 10 MB
    std::size_t most_buffers = 64;                    ///< beyond that CUPTI's records are counted and thrown away
};

/// What a device capture lost and took.
struct DeviceCaptureCounts {
    std::int64_t records = 0;      ///< in the trace
    std::int64_t dropped = 0;      ///< lost for want of buffers, here or inside CUPTI
    std::int64_t incomplete = 0;   ///< of work that had no end yet, so left out
    std::int64_t unknown = 0;      ///< of kinds this version does not know, or that nobody asked for
    std::size_t most_buffers = 0;  ///< in use at once
    std::string fault{};           ///< of CUPTI's while it recorded, and what that means for the trace; empty: none
};

/// Records what CUDA devices do, through CUPTI, which is loaded at run time and left alone where another tool holds it.
/// Never throws for a machine without a GPU: start() tells why there is nothing to record.
/// Threading: one thread at a time; CUPTI's own callbacks are taken care of. At most one lives in a process.
class DeviceCapture {
public:
    /// What start() came to: a capture, or the reason why there is none.
    struct Outcome {
        std::unique_ptr<DeviceCapture> capture;
        std::string reason;           ///< empty where all is recorded; with a capture, what of it is missing
        bool device_present = false;  ///< a CUDA device is there, so that a missing capture is a loss
    };
    /// May take a second on a machine with a GPU, since it wakes the driver. Environment: PIPESCOPE_CUPTI is the path
    /// of the CUPTI to load, or "off".
    static Outcome start(const DeviceCaptureOptions& options);

    virtual ~DeviceCapture() = default;  // stops, discarding what was not written

    /// Writes what CUPTI has handed over since the last call. `clocks` were read just before.
    virtual void write(CuptiRows& rows, const ClockRecord& clocks) = 0;
    /// Stops recording, has everything handed over and writes it.
    virtual void finish(CuptiRows& rows, const ClockRecord& clocks) = 0;
    virtual DeviceCaptureCounts counts() const = 0;

protected:
    DeviceCapture() = default;
    DeviceCapture(const DeviceCapture&) = delete;
    DeviceCapture& operator=(const DeviceCapture&) = delete;
};

/// Whether devices could be recorded here, for doctor: tries, and stops again.
struct DeviceCaptureProbe {
    bool driver = false;  ///< a CUDA driver with a device
    bool available = false;
    std::string detail;  ///< CUPTI's version, or the reason
};
DeviceCaptureProbe probe_device_capture();
}  // namespace pipescope
