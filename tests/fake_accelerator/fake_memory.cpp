#include "tests/fake_accelerator/fake_memory.h"

#include "tests/fake_accelerator/fake_device.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace pipescope::fake_accelerator {
namespace {
constexpr int kPoison = 0xff;  // every floating-point number of it is NaN

struct Block {
    void* data;
    std::size_t size;
    std::size_t asked_for;
    c10::Stream home;                                // what it was allocated for, and where it is free again
    std::vector<c10::Stream> users;                  // recorded on it besides
    std::vector<std::shared_ptr<Moment>> last_uses;  // of users, when it was freed
    MemoryUses uses = {};
    Clock passed = {};  // what had passed when it was freed
};

class DeviceMemory final : public c10::DeviceAllocator {
public:
    c10::DataPtr allocate(std::size_t size) override {
        const auto* const guard = c10::impl::getDeviceGuardImpl(kType);
        const c10::Device device = guard->getDevice();
        if (size == 0) {
            return {nullptr, nullptr, &c10::detail::deleteNothing, device};
        }
        const c10::Stream home = guard->getStream(device);
        const std::size_t rounded = (size + 511) / 512 * 512;
        const std::lock_guard lock(mutex_);
        Block* block = take_unused(free_[{home.hash(), rounded}]);
        if (block == nullptr) {
            block = new Block{c10::alloc_cpu(rounded), rounded, size, home, {}, {}, {}, {}};
            std::memset(block->data, kPoison, rounded);
            stats(device.index()).reserved_bytes[0].increase(rounded);
        } else {
            stream_of(home).launch(
                "giving out memory again", {.reads = {}, .writes = {block}},
                [data = block->data, rounded] { std::memset(data, kPoison, rounded); }, block->passed);
        }
        block->asked_for = size;
        stats(device.index()).allocated_bytes[0].increase(rounded);
        stats(device.index()).requested_bytes[0].increase(size);
        report(*block, static_cast<std::int64_t>(rounded));
        return {block->data, block, &DeviceMemory::release, device};
    }
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    void copy_data(void* to, const void* from, std::size_t count) const override { std::memcpy(to, from, count); }

    bool initialized() override { return true; }
    void emptyCache(c10::MempoolId_t) override {}
    void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
        if (auto* const block = static_cast<Block*>(data.get_context()); block != nullptr && stream != block->home) {
            const std::lock_guard lock(mutex_);
            block->users.push_back(stream);
        }
    }
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
        const std::lock_guard lock(mutex_);
        return stats(device);
    }
    void resetAccumulatedStats(c10::DeviceIndex) override {}
    void resetPeakStats(c10::DeviceIndex device) override {
        const std::lock_guard lock(mutex_);
        stats(device).allocated_bytes[0].reset_peak();
        stats(device).requested_bytes[0].reset_peak();
        stats(device).reserved_bytes[0].reset_peak();
    }
    std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
        constexpr std::size_t kTotal = std::size_t{1} << 30;
        const std::lock_guard lock(mutex_);
        return {kTotal - static_cast<std::size_t>(stats(device).reserved_bytes[0].current), kTotal};
    }

private:
    static void release(void* context);
    /// A block whose recorded users have passed it, as in CUDA's allocator; null if there is none.
    static Block* take_unused(std::vector<Block*>& free) {
        const auto found = std::find_if(free.rbegin(), free.rend(), [](const Block* block) {
            return std::all_of(block->last_uses.begin(), block->last_uses.end(),
                               [](const std::shared_ptr<Moment>& use) { return use->passed(); });
        });
        if (found == free.rend()) {
            return nullptr;
        }
        Block* const block = *found;
        free.erase(std::next(found).base());
        for (const std::shared_ptr<Moment>& use : std::exchange(block->last_uses, {})) {
            block->passed.merge(use->clock());
        }
        return block;
    }
    void take_back(Block* block) {
        for (const c10::Stream& user : std::exchange(block->users, {})) {
            block->last_uses.push_back(stream_of(user).record());
        }
        block->passed = seen_by_any();
        const std::lock_guard lock(mutex_);
        stats(block->home.device_index()).allocated_bytes[0].decrease(block->size);
        stats(block->home.device_index()).requested_bytes[0].decrease(block->asked_for);
        report(*block, -static_cast<std::int64_t>(block->size));
        free_[{block->home.hash(), block->size}].push_back(block);
    }
    /// Reports to the listener of this thread, under the lock, like CUDA's allocator.
    void report(const Block& block, std::int64_t bytes) {
        const c10::CachingDeviceAllocator::DeviceStats& now = stats(block.home.device_index());
        c10::reportMemoryUsageToProfiler(block.data, bytes, static_cast<std::size_t>(now.allocated_bytes[0].current),
                                         static_cast<std::size_t>(now.reserved_bytes[0].current), block.home.device());
    }
    c10::CachingDeviceAllocator::DeviceStats& stats(c10::DeviceIndex device) {
        return stats_[static_cast<std::size_t>(device)];
    }

    std::mutex mutex_;
    std::map<std::pair<std::uint64_t, std::size_t>, std::vector<Block*>> free_;  // by stream and size
    std::array<c10::CachingDeviceAllocator::DeviceStats, kNumDevices> stats_;
};

DeviceMemory& device_memory() {
    static auto* const one = new DeviceMemory;
    return *one;
}

void DeviceMemory::release(void* context) {
    device_memory().take_back(static_cast<Block*>(context));
}

class PinnedMemory final : public at::HostAllocator {
public:
    c10::DataPtr allocate(std::size_t size) override {
        void* const data = c10::alloc_cpu(std::max<std::size_t>(size, 1));
        std::memset(data, kPoison, size);
        const std::lock_guard lock(mutex_);
        live_.emplace(data, std::max<std::size_t>(size, 1));
        ++blocks_;
        return {data, data, &PinnedMemory::release, c10::kCPU};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &PinnedMemory::release; }
    void copy_data(void* to, const void* from, std::size_t count) const override { std::memcpy(to, from, count); }
    bool record_event(void*, void*, c10::Stream) override { return true; }
    void empty_cache() override {}
    at::HostStats get_stats() override { return {}; }
    void reset_accumulated_stats() override {}
    void reset_peak_stats() override {}

    bool holds(const void* data) {
        const std::lock_guard lock(mutex_);
        const auto after = live_.upper_bound(data);
        if (after == live_.begin()) {
            return false;
        }
        const auto& [start, size] = *std::prev(after);  // pieces of a block are pinned too
        return static_cast<const char*>(data) < static_cast<const char*>(start) + size;
    }
    std::int64_t blocks() {
        const std::lock_guard lock(mutex_);
        return blocks_;
    }

private:
    static void release(void* data);

    std::mutex mutex_;
    std::map<const void*, std::size_t> live_;  // sizes
    std::int64_t blocks_ = 0;
};

PinnedMemory& pinned_memory() {
    static auto* const one = new PinnedMemory;
    return *one;
}

void PinnedMemory::release(void* data) {
    {
        const std::lock_guard lock(pinned_memory().mutex_);
        pinned_memory().live_.erase(data);
    }
    c10::free_cpu(data);
}
}  // namespace

void use_memory(void* context, const std::function<void(MemoryUses&)>& look) {
    static auto* const mutex = new std::mutex;
    const std::lock_guard lock(*mutex);
    look(static_cast<Block*>(context)->uses);
}

c10::DeviceAllocator* device_allocator() {
    return &device_memory();
}
at::HostAllocator* pinned_allocator() {
    return &pinned_memory();
}
bool is_pinned(const void* data) {
    return pinned_memory().holds(data);
}
std::int64_t pinned_blocks() {
    return pinned_memory().blocks();
}
std::int64_t allocated_bytes(c10::DeviceIndex device) {
    return device_memory().getDeviceStats(device).allocated_bytes[0].current;
}
}  // namespace pipescope::fake_accelerator
