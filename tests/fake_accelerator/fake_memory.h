#pragma once

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

namespace pipescope::fake_accelerator {
/// Caching and stream-ordered; see fake_device.h.
c10::DeviceAllocator* device_allocator();
/// Host memory that copies may read and write while the host goes on.
at::HostAllocator* pinned_allocator();
}  // namespace pipescope::fake_accelerator
