#pragma once

#include "trace/store/cupti_rows.h"

#include <cstdint>
#include <memory>
#include <string>

namespace pipescope {
/// Options of a device capture. `origin` converts clock readings to times of the trace.
struct DeviceCaptureOptions {
    std::int64_t origin = 0;  ///< time zero on the recording's clock
    std::int64_t pid = 0;
    std::size_t buffer_bytes = std::size_t{4} << 20;  ///< per buffer; CUPTI recommends 1 to 10 MB
    std::size_t most_buffers = 64;                    ///< beyond this, CUPTI's records are counted and discarded
};

struct DeviceCaptureCounts {
    std::int64_t records = 0;      ///< written to the trace
    std::int64_t dropped = 0;      ///< lost for lack of buffers, here or in CUPTI
    std::int64_t incomplete = 0;   ///< unfinished work, which is left out
    std::int64_t unknown = 0;      ///< of kinds that are unknown to this version, or were not requested
    std::size_t most_buffers = 0;  ///< maximum in use at once
    std::string fault{};           ///< fault of CUPTI during the recording, and its effect on the trace; empty: none
};

/// Records the activity of CUDA devices with CUPTI. CUPTI is loaded at run time, and left alone if another tool uses
/// it. Never throws for a machine without a GPU: start() gives the reason. Threading: one thread at a time; CUPTI's own
/// callbacks are handled. At most one per process.
class DeviceCapture {
public:
    /// Result of start(): a capture, or the reason why there is none.
    struct Outcome {
        std::unique_ptr<DeviceCapture> capture;
        std::string reason;           ///< empty if everything is recorded; with a capture, its missing parts
        bool device_present = false;  ///< a CUDA device exists, so a missing capture is a loss
    };
    /// May take a second on a machine with a GPU, because it initialises the driver. Environment: PIPESCOPE_CUPTI is
    /// the path of the CUPTI to load, or "off".
    static Outcome start(const DeviceCaptureOptions& options);

    virtual ~DeviceCapture() = default;  // stops and discards unwritten records

    /// Writes CUPTI's records since the last call. `clocks` must have been read just before.
    virtual void write(CuptiRows& rows, const ClockRecord& clocks) = 0;
    /// Stops recording, flushes CUPTI, and writes the rest.
    virtual void finish(CuptiRows& rows, const ClockRecord& clocks) = 0;
    virtual DeviceCaptureCounts counts() const = 0;

protected:
    DeviceCapture() = default;
    DeviceCapture(const DeviceCapture&) = delete;
    DeviceCapture& operator=(const DeviceCapture&) = delete;
};

/// Tests whether devices can be recorded here, for doctor: starts a capture and stops it.
struct DeviceCaptureProbe {
    bool driver = false;  ///< there is a CUDA driver with a device
    bool available = false;
    std::string detail;  ///< CUPTI's version, or the reason for a failure
};
DeviceCaptureProbe probe_device_capture();
}  // namespace pipescope
