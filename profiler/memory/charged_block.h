#pragma once

#include "profiler/memory/memory_account.h"

#include <atomic>
#include <cstdint>

namespace pipescope {
class AllocationLog;

/// The owner and category that an allocation is charged to.
struct Charge {
    int owner = 0;
    MemoryCategory later = MemoryCategory::saved;
    AllocationLog* log = nullptr;  ///< also logs it; may be null
    bool in_task = true;           ///< false: counted under `later` immediately
};

/// Accounting data of one block of memory, on the host or on an accelerator. Threading: fields shared by threads are
/// atomic; the log's fields belong to its own thread.
struct ChargedBlock {
    Bytes bytes;
    std::int64_t block;  // its number in the log with that serial number
    std::uint64_t log;
    std::atomic<int> owner;
    std::atomic<std::uint32_t> task;
    std::atomic<MemoryCategory> later;

    ChargedBlock(Bytes size, const Charge& charge);

    MemoryAccount::Place place() const {
        return {later.load(std::memory_order_relaxed), task.load(std::memory_order_relaxed)};
    }
    /// Moves the charge to another owner or category.
    void move_to(int new_owner, MemoryAccount::Place to);
    /// Credits the block to its owner. `listening`: the log of the freeing thread; may be null.
    void release(AllocationLog* listening);
};

/// tracking_allocator::account() without its check, for checked owners.
MemoryAccount& account_of_owner(int owner);
/// The charge for host allocations of the calling thread.
Charge host_charge();
}  // namespace pipescope
