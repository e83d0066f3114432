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
#include <memory>
#include <new>
#include <string>

namespace pipescope::tracking_allocator {
namespace {
constexpr std::size_t kHeaderBytes = 64;

struct Header {
    Bytes bytes;
    std::atomic<int> owner;
};
static_assert(sizeof(Header) <= kHeaderBytes);
static_assert(kHeaderBytes % c10::gAlignment == 0);

void raise_to(std::atomic<Bytes>& peak, Bytes value) {
    Bytes seen = peak.load(std::memory_order_relaxed);
    while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
}

// A cache line each, since lanes count at the same time. Relaxed everywhere: each number is right by itself, and no
// other data is published through them.
struct alignas(64) Account {
    std::atomic<Bytes> allocated{0};
    std::atomic<Bytes> peak{0};
    std::atomic<Bytes> window_peak{0};

    void add(Bytes bytes) {
        const Bytes now = allocated.fetch_add(bytes, std::memory_order_relaxed) + bytes;
        raise_to(peak, now);
        raise_to(window_peak, now);
    }
    void subtract(Bytes bytes) { allocated.fetch_sub(bytes, std::memory_order_relaxed); }
    // An allocation that raised `which` before the exchange is in the value returned; one still held is seen by the
    // load after it; so none is lost.
    Bytes restart(std::atomic<Bytes>& which) {
        const Bytes before = which.exchange(allocated.load(std::memory_order_relaxed), std::memory_order_relaxed);
        const Bytes held = allocated.load(std::memory_order_relaxed);
        raise_to(which, held);
        return before > held ? before : held;
    }
};

// Process-wide because torch has one CPU allocator; constant-initialised, so it works before and after main().
constinit std::array<Account, kNumOwners> accounts{};
constinit std::atomic<bool> is_installed{false};
thread_local int thread_owner = 0;

Account& account(int owner) {
    if (owner < 0 || owner >= kNumOwners) {
        throw Error("owner " + std::to_string(owner) + " of memory does not exist; owners are 0 to " +
                    std::to_string(kNumOwners - 1) + "; lane k is owner k + 1");
    }
    return accounts[static_cast<std::size_t>(owner)];
}

Header& header_of(void* data) {
    return *std::launder(reinterpret_cast<Header*>(static_cast<std::byte*>(data) - kHeaderBytes));
}

void release(void* data) {
    if (data == nullptr) {
        return;
    }
    Header& header = header_of(data);
    accounts[static_cast<std::size_t>(header.owner.load(std::memory_order_relaxed))].subtract(header.bytes);
    c10::profiledCPUMemoryReporter().Delete(data);
    header.~Header();
    c10::free_cpu(static_cast<std::byte*>(data) - kHeaderBytes);
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
        new (block) Header{static_cast<Bytes>(bytes), {thread_owner}};
        void* data = block + kHeaderBytes;
        accounts[static_cast<std::size_t>(thread_owner)].add(static_cast<Bytes>(bytes));
        c10::profiledCPUMemoryReporter().New(data, bytes);  // torch's own memory profiler goes on working
        return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &release; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};
}  // namespace

void install() {
    if (!is_installed.exchange(true)) {
        keep_freed_memory();
        // Never destroyed: torch's own statics allocate and free after main().
        c10::SetCPUAllocator(std::make_unique<TrackingAllocator>().release(), /*priority=*/1);
    }
}

bool installed() {
    return is_installed.load();
}

int set_owner(int owner) {
    account(owner);  // checks the number
    const int before = thread_owner;
    thread_owner = owner;
    return before;
}

void recharge(const at::Tensor& tensor, int owner) {
    Account& to = account(owner);
    if (!tensor.defined() || !tensor.has_storage()) {
        return;
    }
    // Ours is told by its deleter: whatever else made the storage, its context may be no header of ours.
    const c10::DataPtr& data = tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
    if (data.get_deleter() != &release || data.get_context() == nullptr) {
        return;
    }
    Header& header = header_of(data.get_context());
    const int from = header.owner.exchange(owner, std::memory_order_relaxed);
    if (from != owner) {
        to.add(header.bytes);
        accounts[static_cast<std::size_t>(from)].subtract(header.bytes);
    }
}

Bytes allocated(int owner) {
    return account(owner).allocated.load(std::memory_order_relaxed);
}

Bytes peak(int owner) {
    return account(owner).peak.load(std::memory_order_relaxed);
}

void reset_peak(int owner) {
    Account& of = account(owner);
    of.restart(of.peak);
}

Bytes take_window(int owner) {
    Account& of = account(owner);
    return of.restart(of.window_peak);
}
}  // namespace pipescope::tracking_allocator
