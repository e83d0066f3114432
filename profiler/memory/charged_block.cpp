#include "profiler/memory/charged_block.h"

#include "profiler/memory/allocation_log.h"
#include "profiler/memory/tracking_allocator.h"

#include <array>
#include <cstddef>

namespace pipescope {
namespace {
// Process-wide, because torch has one allocator per device type. Constant-initialised, so it works before and after
// main().
constinit std::array<MemoryAccount, tracking_allocator::kNumOwners> accounts{};
}  // namespace

MemoryAccount& account_of_owner(int owner) {
    return accounts[static_cast<std::size_t>(owner)];
}

ChargedBlock::ChargedBlock(Bytes size, const Charge& charge)
    : bytes(size),
      block(charge.log == nullptr ? 0 : charge.log->taken(size)),
      log(charge.log == nullptr ? 0 : charge.log->serial()),
      owner(charge.owner),
      task(charge.in_task ? account_of_owner(charge.owner).task() : 0),
      later(charge.later) {
    account_of_owner(charge.owner).add(size, place());
}

void ChargedBlock::move_to(int new_owner, MemoryAccount::Place to) {
    MemoryAccount& from = account_of_owner(owner.load(std::memory_order_relaxed));
    MemoryAccount& account = account_of_owner(new_owner);
    const MemoryAccount::Place before = place();
    if (&from == &account) {
        account.recount(bytes, before, to);
    } else {
        account.add(bytes, to);
        from.subtract(bytes, before);
        owner.store(new_owner, std::memory_order_relaxed);
    }
    later.store(to.later, std::memory_order_relaxed);
    task.store(to.task, std::memory_order_relaxed);
}

void ChargedBlock::release(AllocationLog* listening) {
    account_of_owner(owner.load(std::memory_order_relaxed)).subtract(bytes, place());
    if (listening != nullptr && log == listening->serial()) {
        listening->freed(block, bytes);
    }
}
}  // namespace pipescope
