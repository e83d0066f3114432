#pragma once

#include "base/ids.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace pipescope {
class AllocationLog;
struct Charge;
struct ChargedBlock;

/// Known blocks of accelerators' memory by address. Unlike a host block, an accelerator's block has no room for a tag
/// in front of its data.
///
/// Invariant: blocks of a device do not overlap. If a new block overlaps an old one, the old one was freed while nobody
/// listened, and is released then. For blocks whose tensor was seen, a weak reference detects this earlier.
///
/// Process-wide, like the allocators. Threading: any thread, even under an allocator's lock: nothing here allocates or
/// frees on a device.
namespace device_blocks {
void taken(c10::Device device, const void* data, Bytes bytes, const Charge& charge);
/// Does nothing if the allocation was not seen.
void freed(c10::Device device, const void* data, AllocationLog* log);

/// The block of the tensor's storage, or null. Valid while the tensor lives.
ChargedBlock* find(const at::Tensor& tensor);
/// find(), but charges a block whose allocation was not seen, with the bytes of the storage.
ChargedBlock* find_or_charge(const at::Tensor& tensor, const Charge& charge);

/// Releases the blocks whose tensors were seen and no longer exist.
void sweep();
/// Removes blocks from the log with that serial number.
void forget(std::uint64_t log);

/// Bytes that the device's allocator has reserved, as last reported. Empty if it never reported.
std::optional<Bytes> reserved(c10::Device device);
void set_reserved(c10::Device device, Bytes bytes);
}  // namespace device_blocks
}  // namespace pipescope
