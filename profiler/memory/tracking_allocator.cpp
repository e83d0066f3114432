// Attributes CPU memory to owners. torch does not count CPU memory, and a lane's tensors are freed on other lanes'
// threads. Every block therefore has its size and owner in front of its data, where the freeing thread finds them:
//
//     | size, owner, unused | data ...        one block of the allocator torch itself uses
//     |<----- 64 bytes ---->|^ the pointer torch sees, as data and as context
//
// Data and context must be the same pointer, as torch's raw_allocate() requires (gelu uses it). This is why the tag
// cannot be in the DataPtr's context. 64 bytes preserve the alignment that torch's kernels need.

#include "profiler/memory/tracking_allocator.h"

#include "base/error.h"
#include "profiler/memory/charged_block.h"
#include "profiler/memory/device_blocks.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <c10/core/impl/alloc_cpu.h>

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace pipescope {
namespace tracking_allocator {
namespace {
constexpr std::size_t kHeaderBytes = 64;

static_assert(sizeof(ChargedBlock) <= kHeaderBytes);
static_assert(kHeaderBytes % c10::gAlignment == 0);

constinit std::atomic<bool> is_installed{false};
thread_local Charge thread_charge;

void close(ChargedBlock& block) {
    block.release(thread_charge.log);
    block.~ChargedBlock();
}

ChargedBlock& header_of(void* data) {
    return *std::launder(reinterpret_cast<ChargedBlock*>(static_cast<std::byte*>(data) - kHeaderBytes));
}

void release(void* data) {
    if (data != nullptr) {
        close(header_of(data));
        c10::profiledCPUMemoryReporter().Delete(data);
        c10::free_cpu(static_cast<std::byte*>(data) - kHeaderBytes);
    }
}

// A meta tensor has no data: only the header exists, as context.
void release_meta(void* context) {
    auto* const header = static_cast<ChargedBlock*>(context);
    close(*header);
    ::operator delete(header);
}

// malloc returns freed memory to the system and faults it in again page by page, at a threshold that depends on earlier
// frees. The same layer took 1.0 to 4.8 ms for its 2 MB tensors, depending on the process's history. A profile is
// useful only if the predicted run finds memory in the same state, so profile and run both keep freed memory.
void keep_freed_memory() {
    constexpr int kLargestKept = 32 << 20;  // malloc's maximum; larger blocks are mapped, and faulted in, each time
    constexpr int kNeverTrim = 1 << 30;
    mallopt(M_MMAP_THRESHOLD, kLargestKept);
    mallopt(M_TRIM_THRESHOLD, kNeverTrim);
    mallopt(M_TOP_PAD, kLargestKept);  // an arena frees a whole heap unless this much would be missing then
}

struct TrackingAllocator final : c10::Allocator {
    c10::DataPtr allocate(std::size_t bytes) override {
        if (bytes == 0) {
            return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
        }
        auto* block = static_cast<std::byte*>(c10::alloc_cpu(bytes + kHeaderBytes));
        new (block) ChargedBlock(static_cast<Bytes>(bytes), thread_charge);
        void* data = block + kHeaderBytes;
        c10::profiledCPUMemoryReporter().New(data, bytes);  // keeps torch's own memory profiler working
        return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

struct TrackingMetaAllocator final : c10::Allocator {
    c10::DataPtr allocate(std::size_t bytes) override {
        void* const header = ::operator new(sizeof(ChargedBlock));
        new (header) ChargedBlock(static_cast<Bytes>(bytes), thread_charge);
        return {nullptr, header, &release_meta, c10::Device(c10::DeviceType::Meta)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }  // data and context differ
    void copy_data(void*, const void*, std::size_t) const override {}
};

/// The block of a host tensor; null if this allocator did not create it.
ChargedBlock* host_block_of(const at::Tensor& tensor) {
    // The deleter identifies our blocks; any other storage's context may not be our header.
    const c10::DataPtr& data = tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
    if (data.get_deleter() == &release_meta) {
        return static_cast<ChargedBlock*>(data.get_context());
    }
    return data.get_deleter() == &release && data.get_context() != nullptr ? &header_of(data.get_context()) : nullptr;
}

bool is_on_host(const at::Tensor& tensor) {
    return tensor.is_cpu() || tensor.is_meta();
}

/// block_of(), but charges an accelerator's block whose allocation was not seen to the owner.
ChargedBlock* block_charged_to(const at::Tensor& tensor, int owner, MemoryCategory category) {
    if (!tensor.defined() || !tensor.has_storage()) {
        return nullptr;
    }
    return is_on_host(tensor)
               ? host_block_of(tensor)
               : device_blocks::find_or_charge(tensor, {.owner = owner, .later = category, .in_task = false});
}
}  // namespace

void install() {
    if (!is_installed.exchange(true)) {
        keep_freed_memory();
        // Never destroyed: torch's statics allocate and free after main().
        c10::SetCPUAllocator(std::make_unique<TrackingAllocator>().release(), /*priority=*/1);
        c10::SetAllocator(c10::DeviceType::Meta, std::make_unique<TrackingMetaAllocator>().release(), /*priority=*/1);
    }
}

bool installed() {
    return is_installed.load();
}

MemoryAccount& account(int owner) {
    if (owner < 0 || owner >= kNumOwners) {
        throw Error("owner " + std::to_string(owner) + " of memory does not exist; owners are 0 to " +
                    std::to_string(kNumOwners - 1) + "; lane k is owner k + 1");
    }
    return account_of_owner(owner);
}

int set_owner(int owner) {
    account(owner);  // checks the owner's number
    return std::exchange(thread_charge.owner, owner);
}

MemoryCategory set_later(MemoryCategory later) {
    return std::exchange(thread_charge.later, later);
}

MemoryCategory later() {
    return thread_charge.later;
}

void set_log(AllocationLog* log) {
    thread_charge.log = log;
}

ChargedBlock* block_of(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) {
        return nullptr;
    }
    return is_on_host(tensor) ? host_block_of(tensor) : device_blocks::find(tensor);
}

void recharge(const at::Tensor& tensor, int owner, MemoryCategory category) {
    account(owner);
    if (ChargedBlock* const block = block_charged_to(tensor, owner, category)) {
        const MemoryAccount::Place place = block->place();
        const bool is_there = block->owner.load(std::memory_order_relaxed) == owner;
        if (!is_there || place.later != category || place.task != 0) {
            block->move_to(owner, {category, 0});
        }
    }
}

Bytes allocated(int owner) {
    return account(owner).allocated();
}

Bytes peak(int owner) {
    return account(owner).peak();
}

void reset_peak(int owner) {
    account(owner).reset_peak();
}

}  // namespace tracking_allocator

Charge host_charge() {
    return tracking_allocator::thread_charge;
}
}  // namespace pipescope
