#pragma once

#include "profiler/memory/memory_account.h"
#include "schedule/ids.h"

#include <ATen/core/Tensor.h>

namespace pipescope {
class AllocationLog;
struct ChargedBlock;

/// Wraps torch's CPU allocator so that every byte knows its owner: each allocation is charged to the owner set on the
/// allocating thread and credited back to it wherever it is freed. Process-wide, since torch has one CPU allocator:
/// call install() once, before any tensor exists. The meta device's allocator is wrapped too: what a model would
/// allocate is counted the same way where nothing is. Blocks on an accelerator are known while somebody listens to its
/// allocator (device_listening.h), and charged the same way. Owner 0 is everybody else; lane k is owner k + 1. Units:
/// the bytes torch asked for; padding and the allocator's own header are not counted; on an accelerator the bytes of
/// the allocator's blocks. Threading: everything but install() may be called from any thread.
namespace tracking_allocator {
/// Larger than the owner of any lane: what a measurement outside a pipeline charges to.
inline constexpr int kMeasuredOwner = kMostPartitions + 1;
inline constexpr int kNumOwners = kMeasuredOwner + 1;

/// Does nothing the second time. Tensors from before stay valid and are charged to nobody. Also tells malloc to keep
/// what is freed, so that a layer's time does not depend on whether its memory has to be faulted in again: profile and
/// run find memory in the same state, and the process stays at its largest size.
void install();
bool installed();

/// Owner of what this thread allocates from now on; returns the one before. Throws Error unless 0 <= owner <
/// kNumOwners.
int set_owner(int owner);
/// What of this thread's allocations is left when a task of their owner ends is counted as that category; returns the
/// one before. Until then they count as transient.
MemoryCategory set_later(MemoryCategory later);
MemoryCategory later();
/// Moves the charge of the tensor's storage. No effect on storages of the host that this allocator did not make; those
/// on an accelerator that nobody saw being made are charged now, by their own bytes. The same error.
void recharge(const at::Tensor& tensor, int owner);
/// The same, and says what the storage holds from now on.
void recharge(const at::Tensor& tensor, int owner, MemoryCategory category);
/// Says what the tensor's storage holds, whoever owns it.
void categorize(const at::Tensor& tensor, MemoryCategory category);

/// What is known of the tensor's storage; null if nothing is. Valid while the tensor lives.
ChargedBlock* block_of(const at::Tensor& tensor);
/// Writes down what this thread allocates on the host; null: nobody does.
void set_log(AllocationLog* log);

/// The account of an owner. The same error.
MemoryAccount& account(int owner);

Bytes allocated(int owner);
/// Highest since the last reset_peak().
Bytes peak(int owner);
void reset_peak(int owner);
/// Highest since the last take_window() of this owner; apart from peak(), so that both can be used at once. No
/// allocation falls between two windows, whatever other threads do meanwhile.
Bytes take_window(int owner);
}  // namespace tracking_allocator
}  // namespace pipescope
