#pragma once

#include "profiler/memory/memory_account.h"
#include "schedule/ids.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace pipescope {
/// Wraps torch's CPU allocator so that every byte knows its owner: each allocation is charged to the owner set on the
/// allocating thread and credited back to it wherever it is freed. Process-wide, since torch has one CPU allocator:
/// call install() once, before any tensor exists. The meta device's allocator is wrapped too: what a model would
/// allocate is counted the same way where nothing is. Owner 0 is everybody else; lane k is owner k + 1. Units: the
/// bytes torch asked for; padding and the allocator's own header are not counted. Threading: everything but install()
/// may be called from any thread.
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
/// Moves the charge of the tensor's storage; no effect on storages this allocator did not make. The same error.
void recharge(const at::Tensor& tensor, int owner);
/// The same, and says what the storage holds from now on.
void recharge(const at::Tensor& tensor, int owner, MemoryCategory category);
/// Says what the tensor's storage holds, whoever owns it.
void categorize(const at::Tensor& tensor, MemoryCategory category);

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

/// A block taken (above 0) or let go (below 0) by its number, in the order it happened.
struct AllocationEvent {
    std::int64_t block = 0;
    Bytes bytes = 0;
};

/// Writes down what this thread allocates and frees while it lives, block by block. Blocks have numbers from 1; those
/// from before the log get one when asked for. One per thread at a time. What another thread frees is not seen: neither
/// the CPU's nor the meta device's autograd does that.
class AllocationLog {
public:
    AllocationLog();
    ~AllocationLog();
    AllocationLog(const AllocationLog&) = delete;
    AllocationLog& operator=(const AllocationLog&) = delete;

    /// The number of the tensor's storage; 0 if the tracking allocator did not make it.
    std::int64_t block_of(const at::Tensor& tensor);
    /// Events since the last call.
    std::vector<AllocationEvent> take() { return std::exchange(events_, {}); }

    /// For the allocator.
    std::int64_t taken(Bytes bytes);
    void freed(std::int64_t block, Bytes bytes) { events_.push_back({-block, bytes}); }

    std::uint64_t serial() const noexcept { return serial_; }

private:
    std::uint64_t serial_ = 0;  // tells this log's blocks from those of earlier ones
    std::int64_t blocks_ = 0;
    std::vector<AllocationEvent> events_;
};
}  // namespace pipescope
