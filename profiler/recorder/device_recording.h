#pragma once

#include "profiler/recorder/device_capture.h"
#include "trace/store/cupti_rows.h"

#include <optional>

namespace pipescope {
/// Writes a recorder's data about CUDA devices: the capture's rows, losses, and the task of each kernel. A missing
/// device is not an error but a row of PIPESCOPE_DIAGNOSTIC. Threading: one thread at a time. Errors: TraceError of the
/// writer, which must outlive this object.
class DeviceRecording {
public:
    DeviceRecording(TraceWriter& writer, const DeviceCaptureOptions& options);

    /// Writes the devices' activity since the last call, unless that was very recent.
    void write_when_due(std::int64_t now);
    /// Stops the capture and writes the rest. Call before the writer is closed.
    void finish();

private:
    void write_loss(const DeviceCaptureCounts& counts);
    void write_tasks();

    TraceWriter& writer_;
    const std::int64_t pid_;
    std::unique_ptr<DeviceCapture> capture_;
    std::optional<CuptiRows> rows_;
    std::int64_t next_write_ = 0;
    std::int64_t dropped_written_ = 0;
};
}  // namespace pipescope
