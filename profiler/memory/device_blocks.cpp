#include "profiler/memory/device_blocks.h"

#include "profiler/memory/charged_block.h"

#include <iterator>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

namespace pipescope::device_blocks {
namespace {
using DeviceKey = std::pair<c10::DeviceType, c10::DeviceIndex>;
using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

DeviceKey key_of(c10::Device device) {
    return {device.type(), device.index()};
}

struct Entry {
    Entry(Bytes bytes, const Charge& charge) : block(bytes, charge) {}

    bool is_gone() const { return tensor && tensor->expired(); }

    ChargedBlock block;
    std::optional<WeakStorage> tensor;  // set once a tensor was seen
};

class Blocks {
public:
    void take(DeviceKey device, std::uintptr_t address, Bytes bytes, const Charge& charge) {
        const std::lock_guard lock(mutex_);
        add(device, address, bytes, charge);
    }

    void free(DeviceKey device, std::uintptr_t address, AllocationLog* log) {
        const std::lock_guard lock(mutex_);
        const auto found = entries_.find({device, address});
        if (found != entries_.end()) {
            release(found, log);
        }
    }

    ChargedBlock* find(const at::Tensor& tensor, const Charge* charge) {
        const c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
        const auto address = reinterpret_cast<std::uintptr_t>(storage->data());
        if (address == 0) {
            return nullptr;
        }
        const DeviceKey device = key_of(tensor.device());
        const std::lock_guard lock(mutex_);
        auto found = entries_.find({device, address});
        if (found != entries_.end() && found->second.is_gone()) {
            release(found, nullptr);
            found = entries_.end();
        }
        if (found == entries_.end()) {
            if (charge == nullptr) {
                return nullptr;
            }
            found = add(device, address, static_cast<Bytes>(storage->nbytes()), *charge);
        }
        Entry& entry = found->second;
        if (!entry.tensor) {
            entry.tensor = tensor.storage().getWeakStorageImpl();
        }
        return &entry.block;
    }

    template <class Condition>
    void let_go_where(const Condition& condition) {
        const std::lock_guard lock(mutex_);
        for (auto entry = entries_.begin(); entry != entries_.end();) {
            entry = condition(entry->second) ? release(entry, nullptr) : std::next(entry);
        }
    }

    std::optional<Bytes> reserved(DeviceKey device) {
        const std::lock_guard lock(mutex_);
        const auto found = reserved_.find(device);
        return found == reserved_.end() ? std::nullopt : std::optional(found->second);
    }
    void set_reserved(DeviceKey device, Bytes bytes) {
        const std::lock_guard lock(mutex_);
        reserved_[device] = bytes;
    }

private:
    using Entries = std::map<std::pair<DeviceKey, std::uintptr_t>, Entry>;

    Entries::iterator release(Entries::iterator entry, AllocationLog* log) {
        entry->second.block.release(log);
        return entries_.erase(entry);
    }

    Entries::iterator add(DeviceKey device, std::uintptr_t address, Bytes bytes, const Charge& charge) {
        auto next = entries_.lower_bound({device, address});
        if (next != entries_.begin()) {
            const auto before = std::prev(next);
            const auto end = before->first.second + static_cast<std::uintptr_t>(before->second.block.bytes);
            if (before->first.first == device && end > address) {
                release(before, charge.log);
            }
        }
        const std::uintptr_t end = address + static_cast<std::uintptr_t>(bytes);
        while (next != entries_.end() && next->first.first == device && next->first.second < end) {
            next = release(next, charge.log);
        }
        return entries_.emplace_hint(next, std::piecewise_construct, std::forward_as_tuple(device, address),
                                     std::forward_as_tuple(bytes, charge));
    }

    std::mutex mutex_;
    Entries entries_;
    std::map<DeviceKey, Bytes> reserved_;
};

/// Never destroyed: static tensors are freed after main().
Blocks& blocks() {
    static auto* const one = new Blocks;
    return *one;
}
}  // namespace

void taken(c10::Device device, const void* data, Bytes bytes, const Charge& charge) {
    blocks().take(key_of(device), reinterpret_cast<std::uintptr_t>(data), bytes, charge);
}

void freed(c10::Device device, const void* data, AllocationLog* log) {
    blocks().free(key_of(device), reinterpret_cast<std::uintptr_t>(data), log);
}

ChargedBlock* find(const at::Tensor& tensor) {
    return blocks().find(tensor, nullptr);
}

ChargedBlock* find_or_charge(const at::Tensor& tensor, const Charge& charge) {
    return blocks().find(tensor, &charge);
}

void sweep() {
    blocks().let_go_where([](const Entry& entry) { return entry.is_gone(); });
}

void forget(std::uint64_t log) {
    blocks().let_go_where([log](const Entry& entry) { return entry.block.log == log; });
}

std::optional<Bytes> reserved(c10::Device device) {
    return blocks().reserved(key_of(device));
}

void set_reserved(c10::Device device, Bytes bytes) {
    blocks().set_reserved(key_of(device), bytes);
}
}  // namespace pipescope::device_blocks
