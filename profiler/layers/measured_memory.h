#pragma once

#include "base/ids.h"

#include <c10/core/Device.h>

namespace pipescope {
/// Bytes held by tensors while a layer is measured. On the CPU and the meta device: this thread's allocations, by the
/// tracking allocator. On an accelerator: everything that its allocator counts, in requested bytes if it reports them,
/// otherwise rounded up. During its lifetime, the calling thread's allocations are charged to the measurement.
/// Precondition: the tracking allocator is installed; nothing else in this process uses the accelerator.
class MeasuredMemory {
public:
    /// Throws Error for an accelerator whose allocator keeps no statistics.
    explicit MeasuredMemory(c10::Device device);
    ~MeasuredMemory();
    MeasuredMemory(const MeasuredMemory&) = delete;
    MeasuredMemory& operator=(const MeasuredMemory&) = delete;

    Bytes held() const;
    /// Highest value since reset_peak().
    Bytes peak() const;
    void reset_peak() const;

private:
    c10::Device device_;
    int owner_before_;
};
}  // namespace pipescope
