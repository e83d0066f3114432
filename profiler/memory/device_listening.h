#pragma once

#include <memory>

namespace c10 {
class ThreadLocalDebugInfo;
}

namespace pipescope {
struct Charge;

/// Hears every block that accelerators' allocators give out and take back, and charges it as the tracking allocator
/// does on the host.
///
/// Problem: a backend's allocator cannot be wrapped from outside (CUDA's operators do not even ask torch for it), and
/// its statistics tell only sums. Idea: all of them report each block to torch's memory profiler
/// (c10::reportMemoryUsageToProfiler), whose place in the thread's state anyone may take; and that state goes along
/// into autograd's threads, and with the engine into the lanes. What is reported: the block's address, its size as
/// rounded up (CUDA: to 512 bytes, and more where it does not split the rest off a larger one), and that it was freed
/// at the moment its last tensor went, whatever record_stream still waits for.
///
/// A free on a thread that nobody listens on is not heard. It is noticed when the address is given out again, and at
/// the next step where the block's tensor was seen (device_blocks.h).
///
/// The place is that of torch's own profiler. One that runs already keeps it: then nothing is heard, and hears() says
/// so. One that is started while this lives gets its reports, and nothing is heard until it ends.
/// Threading: ends on the thread it began on, last begun first. Cost: one lock a block.
class DeviceListening {
public:
    /// Charges the owner of whichever thread allocates. For a program's training loop: around all that makes or frees
    /// tensors of the model.
    DeviceListening();
    /// Charges this, whichever thread works for the calling one.
    explicit DeviceListening(const Charge& charge);
    ~DeviceListening();
    DeviceListening(const DeviceListening&) = delete;
    DeviceListening& operator=(const DeviceListening&) = delete;

    /// Whether the calling thread's reports are heard now.
    static bool hears();

private:
    std::shared_ptr<c10::ThreadLocalDebugInfo> before_;
    const void* listener_ = nullptr;  // null where somebody else listens
};

/// What a thread takes on accelerators outside its tasks is charged to this owner as a boundary from now on: a lane
/// brings its inputs before the task that reads them. 0: to nobody.
void charge_inputs_to(int owner);
}  // namespace pipescope
