#pragma once

#include "schedule/ids.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace pipescope {
class AllocationLog;
struct Charge;
struct ChargedBlock;

/// The blocks of accelerators' memory that were seen being taken, by address: an accelerator's block has no place for a
/// tag in front of its data, as one of the host has.
///
/// Invariant: blocks of a device do not overlap. One that does with a block just given out was freed where nobody
/// listened, and is let go of then. Of blocks whose tensor was seen a weak reference tells the same earlier.
/// Process-wide, as the allocators are. Threading: any thread, also under an allocator's lock: nothing here allocates
/// or frees on a device.
namespace device_blocks {
void taken(c10::Device device, const void* data, Bytes bytes, const Charge& charge);
/// Nothing where it was not seen being taken.
void freed(c10::Device device, const void* data, AllocationLog* log);

/// The block of the tensor's storage, or null. Valid while the tensor lives.
ChargedBlock* find(const at::Tensor& tensor);
/// The same; where it was not seen being taken, it is charged now, with the bytes of the storage.
ChargedBlock* find_or_charge(const at::Tensor& tensor, const Charge& charge);

/// Lets go of the blocks whose tensors were seen and are gone.
void sweep();
/// Forgets the blocks in the log of that serial number.
void forget(std::uint64_t log);

/// What the device's allocator has taken from the device, as last reported; none where it never did.
std::optional<Bytes> reserved(c10::Device device);
void set_reserved(c10::Device device, Bytes bytes);
}  // namespace device_blocks
}  // namespace pipescope
