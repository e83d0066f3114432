#pragma once

#include "base/ids.h"
#include "profiler/memory/memory_account.h"

#include <ATen/core/Tensor.h>

namespace pipescope {
class AllocationLog;
struct ChargedBlock;

/// Wraps torch's CPU allocator so that every byte has an owner: an allocation is charged to the owner set on the
/// allocating thread, and credited to that owner wherever it is freed. Process-wide, since torch has one CPU allocator:
/// call install() once, before any tensor exists. The meta device's allocator is wrapped too, to count what a model
/// would allocate. Blocks on an accelerator are charged the same way, but are known only while somebody listens to its
/// allocator (device_listening.h).
///
/// Owner 0 is everybody else; lane k is owner k + 1. Units: the bytes requested by torch, without padding and the
/// header; on an accelerator the bytes of the allocator's blocks. Threading: any thread, except for install().
namespace tracking_allocator {
/// Larger than the owner of any lane. Measurements outside a pipeline use it.
inline constexpr int kMeasuredOwner = kMostPartitions + 1;
inline constexpr int kNumOwners = kMeasuredOwner + 1;

/// Further calls have no effect. Older tensors stay valid and are charged to nobody. Also makes malloc keep freed
/// memory, so that a layer's time does not depend on page faults: profile and run find memory in the same state, but
/// the process never shrinks.
void install();
bool installed();

/// Sets the owner of this thread's allocations and returns the previous owner. Throws Error unless 0 <= owner <
/// kNumOwners.
int set_owner(int owner);
/// Sets the category of this thread's allocations that survive their owner's task, and returns the previous category.
/// Until the task ends they count as transient.
MemoryCategory set_later(MemoryCategory later);
MemoryCategory later();
/// Moves the charge of the tensor's storage and sets its category. Has no effect on host storages of other allocators.
/// If the allocation of an accelerator's storage was not seen, charges the storage's bytes now. Throws Error as
/// set_owner().
void recharge(const at::Tensor& tensor, int owner, MemoryCategory category);

/// The accounting data of the tensor's storage, or null. Valid while the tensor lives.
ChargedBlock* block_of(const at::Tensor& tensor);
/// Logs this thread's host allocations; null: none.
void set_log(AllocationLog* log);

/// The account of an owner. Throws Error as set_owner().
MemoryAccount& account(int owner);

Bytes allocated(int owner);
/// Highest value since the last reset_peak().
Bytes peak(int owner);
void reset_peak(int owner);
}  // namespace tracking_allocator
}  // namespace pipescope
