#pragma once

#include "base/ids.h"
#include "profiler/memory/device_listening.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace pipescope {
/// The allocation (positive number) or free (negative number) of a block, in order of occurrence.
struct AllocationEvent {
    std::int64_t block = 0;
    Bytes bytes = 0;
};

/// Logs every block that this thread allocates and frees on a device during the log's lifetime. Blocks are numbered
/// from 1; older blocks get a number on request. One log per thread at a time.
///
/// On the CPU and the meta device, `bytes` are the requested bytes, and frees by other threads are not seen; autograd
/// does not use other threads there. On an accelerator, `bytes` are the allocator's blocks, which it rounds up, and the
/// work of autograd's threads for this thread is seen too.
class AllocationLog {
public:
    /// Throws Error on an accelerator if a torch profiler occupies the slot that the allocator reports to.
    explicit AllocationLog(c10::Device device = c10::Device(c10::kCPU));
    ~AllocationLog();
    AllocationLog(const AllocationLog&) = delete;
    AllocationLog& operator=(const AllocationLog&) = delete;

    /// Number of the tensor's storage; 0 if its allocation was not seen.
    std::int64_t block_of(const at::Tensor& tensor);
    /// Returns the events since the last call.
    std::vector<AllocationEvent> take() { return std::exchange(events_, {}); }

    /// Called by the allocators.
    std::int64_t taken(Bytes bytes);
    void freed(std::int64_t block, Bytes bytes) { events_.push_back({-block, bytes}); }

    std::uint64_t serial() const noexcept { return serial_; }

private:
    std::uint64_t serial_ = 0;  // distinguishes this log's blocks from earlier logs' blocks
    std::int64_t blocks_ = 0;
    std::vector<AllocationEvent> events_;
    std::optional<DeviceListening> listening_;  // on an accelerator only
};
}  // namespace pipescope
