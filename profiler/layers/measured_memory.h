#pragma once

#include "schedule/ids.h"

#include <c10/core/Device.h>

namespace pipescope {
/// Bytes that tensors hold while a layer is measured: on the CPU and on the meta device what this thread allocates, by
/// the tracking allocator; on an accelerator all that its own allocator counts, as asked for where it tells that, else
/// as rounded up. While it lives, the calling thread's allocations are charged to the measurement.
/// Precondition: the tracking allocator is installed; nothing else uses the accelerator from this process.
class MeasuredMemory {
public:
    /// Throws Error for an accelerator whose allocator keeps no statistics.
    explicit MeasuredMemory(c10::Device device);
    ~MeasuredMemory();
    MeasuredMemory(const MeasuredMemory&) = delete;
    MeasuredMemory& operator=(const MeasuredMemory&) = delete;

    Bytes held() const;
    /// The highest since reset_peak().
    Bytes peak() const;
    void reset_peak() const;

private:
    c10::Device device_;
    int owner_before_;
};
}  // namespace pipescope
