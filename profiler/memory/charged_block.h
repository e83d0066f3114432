#pragma once

#include "profiler/memory/memory_account.h"

#include <atomic>
#include <cstdint>

namespace pipescope {
class AllocationLog;

/// Who pays for what is allocated.
struct Charge {
    int owner = 0;
    MemoryCategory later = MemoryCategory::saved;
    AllocationLog* log = nullptr;  ///< writes it down too; may be null
    bool in_task = true;           ///< false: counted under `later` at once
};

/// What is known of one block of memory, on the host or on an accelerator.
/// Threading: the numbers that threads share are atomic; the log's are its own thread's.
struct ChargedBlock {
    Bytes bytes;
    std::int64_t block;  // its number in the log of that serial number
    std::uint64_t log;
    std::atomic<int> owner;
    std::atomic<std::uint32_t> task;
    std::atomic<MemoryCategory> later;

    /// Charges it.
    ChargedBlock(Bytes size, const Charge& charge);

    MemoryAccount::Place place() const {
        return {later.load(std::memory_order_relaxed), task.load(std::memory_order_relaxed)};
    }
    /// Somebody else pays from now on, or it is known better what it holds.
    void move_to(int new_owner, MemoryAccount::Place to);
    /// Credits it. `listening` is the log of whoever lets go; may be null.
    void let_go(AllocationLog* listening);
};

/// Without the check of tracking_allocator::account(), for owners that were checked before.
MemoryAccount& account_of_owner(int owner);
/// What the calling thread's allocations on the host are charged to.
Charge host_charge();
}  // namespace pipescope
