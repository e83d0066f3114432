#pragma once

#include "profiler/memory/device_listening.h"
#include "schedule/ids.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace pipescope {
/// A block taken (above 0) or let go (below 0) by its number, in the order it happened.
struct AllocationEvent {
    std::int64_t block = 0;
    Bytes bytes = 0;
};

/// Writes down what this thread allocates and frees on a device while it lives, block by block. Blocks have numbers
/// from 1; those from before the log get one when asked for. One per thread at a time.
///
/// On the CPU and the meta device `bytes` are those asked for, and what another thread frees is not seen: neither
/// one's autograd does that. On an accelerator they are those of the allocator's blocks, which it rounds up, and what
/// autograd's threads do for this one is seen too.
class AllocationLog {
public:
    /// Throws Error on an accelerator where a profiler of torch has the place that the allocator reports to.
    explicit AllocationLog(c10::Device device = c10::Device(c10::kCPU));
    ~AllocationLog();
    AllocationLog(const AllocationLog&) = delete;
    AllocationLog& operator=(const AllocationLog&) = delete;

    /// The number of the tensor's storage; 0 if nobody saw it being made.
    std::int64_t block_of(const at::Tensor& tensor);
    /// Events since the last call.
    std::vector<AllocationEvent> take() { return std::exchange(events_, {}); }

    /// For the allocators.
    std::int64_t taken(Bytes bytes);
    void freed(std::int64_t block, Bytes bytes) { events_.push_back({-block, bytes}); }

    std::uint64_t serial() const noexcept { return serial_; }

private:
    std::uint64_t serial_ = 0;  // tells this log's blocks from those of earlier ones
    std::int64_t blocks_ = 0;
    std::vector<AllocationEvent> events_;
    std::optional<DeviceListening> listening_;  // on an accelerator
};
}  // namespace pipescope
