#pragma once

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <functional>

namespace pipescope::fake_accelerator {
/// A caching, stream-ordered allocator; see fake_device.h.
c10::DeviceAllocator* device_allocator();
class MemoryUses;
/// Calls `look` with the uses of the memory behind a data pointer's context, one caller at a time.
void use_memory(void* context, const std::function<void(MemoryUses&)>& look);

/// Host memory for asynchronous copies. NaN until it is written.
at::HostAllocator* pinned_allocator();
}  // namespace pipescope::fake_accelerator
