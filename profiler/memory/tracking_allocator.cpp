// Whose memory is it? torch counts CPU memory nowhere, and a lane's tensors are freed on other lanes' threads. So every
// block carries its size and owner in front of its data, where whoever frees it finds them:
//
//     | size, owner, unused | data ...        one block of the allocator torch itself uses
//     |<----- 64 bytes ---->|^ the pointer torch sees, as data and as context
//
// Data and context must be the same pointer, because torch's raw_allocate() insists on it (gelu comes that way); that
// is why the tag cannot sit in the DataPtr's context. 64 bytes keep the alignment torch's kernels count on.

#include "profiler/memory/tracking_allocator.h"

#include "schedule/error.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <c10/core/impl/alloc_cpu.h>

#include <malloc.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace pipescope {
namespace tracking_allocator {
namespace {
constexpr std::size_t kHeaderBytes = 64;

struct Header {
    Bytes bytes;
    std::int64_t block;  // its number in the log of that serial number
    std::uint64_t log;
    std::atomic<int> owner;
    std::atomic<std::uint32_t> task;
    std::atomic<MemoryCategory> later;

    MemoryAccount::Place place() const {
        return {later.load(std::memory_order_relaxed), task.load(std::memory_order_relaxed)};
    }
    void set_place(MemoryAccount::Place place) {
        later.store(place.later, std::memory_order_relaxed);
        task.store(place.task, std::memory_order_relaxed);
    }
};
static_assert(sizeof(Header) <= kHeaderBytes);
static_assert(kHeaderBytes % c10::gAlignment == 0);

// Process-wide because torch has one CPU allocator; constant-initialised, so it works before and after main().
constinit std::array<MemoryAccount, kNumOwners> accounts{};
constinit std::atomic<bool> is_installed{false};
thread_local int thread_owner = 0;
thread_local MemoryCategory thread_later = MemoryCategory::saved;
thread_local AllocationLog* thread_log = nullptr;

MemoryAccount& account_of(const Header& header) {
    return accounts[static_cast<std::size_t>(header.owner.load(std::memory_order_relaxed))];
}

// Charges the calling thread's owner.
void open(void* at, std::size_t bytes) {
    MemoryAccount& account = accounts[static_cast<std::size_t>(thread_owner)];
    const MemoryAccount::Place place{thread_later, account.task()};
    const auto size = static_cast<Bytes>(bytes);
    const std::int64_t block = thread_log == nullptr ? 0 : thread_log->taken(size);
    new (at) Header{size,           block,        thread_log == nullptr ? 0 : thread_log->serial(),
                    {thread_owner}, {place.task}, {place.later}};
    account.add(size, place);
}

void close(Header& header) {
    account_of(header).subtract(header.bytes, header.place());
    if (thread_log != nullptr && header.log == thread_log->serial()) {
        thread_log->freed(header.block, header.bytes);
    }
    header.~Header();
}

Header& header_of(void* data) {
    return *std::launder(reinterpret_cast<Header*>(static_cast<std::byte*>(data) - kHeaderBytes));
}

void release(void* data) {
    if (data != nullptr) {
        close(header_of(data));
        c10::profiledCPUMemoryReporter().Delete(data);
        c10::free_cpu(static_cast<std::byte*>(data) - kHeaderBytes);
    }
}

// A meta tensor has no data: its header is all there is, and stands as the context.
void release_meta(void* context) {
    auto* const header = static_cast<Header*>(context);
    close(*header);
    ::operator delete(header);
}

// malloc gives freed memory back to the system and faults it in again, page by page, at a threshold that follows what
// was freed before: the same layer took 1.0 to 4.8 ms for its 2 MB tensors, depending on what else the process had
// done. A profile is only worth something if the run it predicts finds memory in the same state; so both keep what they
// have.
void keep_freed_memory() {
    constexpr int kLargestKept = 32 << 20;  // the most malloc accepts; larger blocks are mapped, and faulted, each time
    constexpr int kNeverTrim = 1 << 30;
    mallopt(M_MMAP_THRESHOLD, kLargestKept);
    mallopt(M_TRIM_THRESHOLD, kNeverTrim);
    mallopt(M_TOP_PAD, kLargestKept);  // an arena drops a whole heap unless this much would be missing then
}

struct TrackingAllocator final : c10::Allocator {
    c10::DataPtr allocate(std::size_t bytes) override {
        if (bytes == 0) {
            return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
        }
        auto* block = static_cast<std::byte*>(c10::alloc_cpu(bytes + kHeaderBytes));
        open(block, bytes);
        void* data = block + kHeaderBytes;
        c10::profiledCPUMemoryReporter().New(data, bytes);  // torch's own memory profiler goes on working
        return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

struct TrackingMetaAllocator final : c10::Allocator {
    c10::DataPtr allocate(std::size_t bytes) override {
        void* const header = ::operator new(sizeof(Header));
        open(header, bytes);
        return {nullptr, header, &release_meta, c10::Device(c10::DeviceType::Meta)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }  // data and context are not the same
    void copy_data(void*, const void*, std::size_t) const override {}
};

Header* header_of(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) {
        return nullptr;
    }
    // Ours is told by its deleter: whatever else made the storage, its context may be no header of ours.
    const c10::DataPtr& data = tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
    if (data.get_deleter() == &release_meta) {
        return static_cast<Header*>(data.get_context());
    }
    return data.get_deleter() == &release && data.get_context() != nullptr ? &header_of(data.get_context()) : nullptr;
}

void move_to(Header& header, int owner, MemoryAccount::Place place) {
    MemoryAccount& from = account_of(header);
    const MemoryAccount::Place before = header.place();
    MemoryAccount& to = accounts[static_cast<std::size_t>(owner)];
    if (&from == &to) {
        to.recount(header.bytes, before, place);
    } else {
        to.add(header.bytes, place);
        from.subtract(header.bytes, before);
        header.owner.store(owner, std::memory_order_relaxed);
    }
    header.set_place(place);
}
}  // namespace

void install() {
    if (!is_installed.exchange(true)) {
        keep_freed_memory();
        // Never destroyed: torch's own statics allocate and free after main().
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
    return accounts[static_cast<std::size_t>(owner)];
}

int set_owner(int owner) {
    account(owner);  // checks the number
    return std::exchange(thread_owner, owner);
}

MemoryCategory set_later(MemoryCategory later) {
    return std::exchange(thread_later, later);
}

MemoryCategory later() {
    return thread_later;
}

void recharge(const at::Tensor& tensor, int owner) {
    account(owner);
    Header* const header = header_of(tensor);
    if (header != nullptr && header->owner.load(std::memory_order_relaxed) != owner) {
        move_to(*header, owner, {header->place().later, 0});
    }
}

void recharge(const at::Tensor& tensor, int owner, MemoryCategory category) {
    account(owner);
    if (Header* const header = header_of(tensor)) {
        const MemoryAccount::Place place = header->place();
        const bool is_there = header->owner.load(std::memory_order_relaxed) == owner;
        if (!is_there || place.later != category || place.task != 0) {
            move_to(*header, owner, {category, 0});
        }
    }
}

void categorize(const at::Tensor& tensor, MemoryCategory category) {
    if (const Header* const header = header_of(tensor)) {
        recharge(tensor, header->owner.load(std::memory_order_relaxed), category);
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

Bytes take_window(int owner) {
    return account(owner).take_window();
}
}  // namespace tracking_allocator

AllocationLog::AllocationLog() {
    static std::atomic<std::uint64_t> last{0};
    serial_ = ++last;
    tracking_allocator::thread_log = this;
}

AllocationLog::~AllocationLog() {
    tracking_allocator::thread_log = nullptr;
}

std::int64_t AllocationLog::taken(Bytes bytes) {
    events_.push_back({++blocks_, bytes});
    return blocks_;
}

std::int64_t AllocationLog::block_of(const at::Tensor& tensor) {
    tracking_allocator::Header* const header = tracking_allocator::header_of(tensor);
    if (header == nullptr) {
        return 0;
    }
    if (header->log != serial_) {
        header->log = serial_;
        header->block = ++blocks_;
    }
    return header->block;
}
}  // namespace pipescope
