#pragma once

#include <memory>

namespace c10 {
class ThreadLocalDebugInfo;
}

namespace pipescope {
struct Charge;

/// Observes every block that accelerators' allocators allocate and free, and charges it as the tracking allocator does
/// on the host.
///
/// Problem: a backend's allocator cannot be wrapped (CUDA's operators do not even use torch's registry for it), and its
/// statistics contain only sums.
///
/// Idea: all backends report each block to torch's memory profiler (c10::reportMemoryUsageToProfiler). Anyone may
/// occupy its slot in the thread's state, and that state propagates to autograd's threads and, with the engine, to the
/// lanes. A report contains the block's address and its rounded size (CUDA: to 512 bytes, or more if a larger block is
/// not split). A free is reported when the last tensor is gone, whatever record_stream still waits for. A free on a
/// thread without a listener is missed. It is detected when the address is reused, or at the next step if the block's
/// tensor was seen (device_blocks.h).
///
/// The slot belongs to torch's own profiler. If a profiler is already running, nothing is heard and hears() returns
/// false. If one is started later, it gets the reports until it ends.
///
/// Threading: ends on the thread where it began, in reverse order. Cost: one lock per block.
class DeviceListening {
public:
    /// Charges the owner of the allocating thread. For training loops: must enclose all code that creates or frees
    /// tensors of the model.
    DeviceListening();
    /// Charges `charge`, whichever thread works for the calling thread.
    explicit DeviceListening(const Charge& charge);
    ~DeviceListening();
    DeviceListening(const DeviceListening&) = delete;
    DeviceListening& operator=(const DeviceListening&) = delete;

    /// True if the calling thread's reports are heard now.
    static bool hears();

private:
    std::shared_ptr<c10::ThreadLocalDebugInfo> before_;
    const void* listener_ = nullptr;  // null if another listener has the slot
};

/// From now on, charges this thread's accelerator allocations outside tasks to this owner as boundary: a lane copies
/// its inputs before the task that reads them. 0: charges nobody.
void charge_inputs_to(int owner);
}  // namespace pipescope
