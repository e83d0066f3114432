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

using Entries = std::map<std::pair<DeviceKey, std::uintptr_t>, Entry>;

/// Never destroyed: static tensors are freed after main().
struct Blocks {
    std::mutex mutex;  // guards the following members
    Entries entries;
    std::map<DeviceKey, Bytes> reserved;
};
Blocks& blocks() {
    static auto* const one = new Blocks;
    return *one;
}

// These functions need the lock.

Entries::iterator release(Entries::iterator entry, AllocationLog* log) {
    entry->second.block.release(log);
    return blocks().entries.erase(entry);
}

Entries::iterator add(DeviceKey device, std::uintptr_t address, Bytes bytes, const Charge& charge) {
    Entries& entries = blocks().entries;
    auto next = entries.lower_bound({device, address});
    if (next != entries.begin()) {
        const auto before = std::prev(next);
        const auto end = before->first.second + static_cast<std::uintptr_t>(before->second.block.bytes);
        if (before->first.first == device && end > address) {
            release(before, charge.log);
        }
    }
    const std::uintptr_t end = address + static_cast<std::uintptr_t>(bytes);
    while (next != entries.end() && next->first.first == device && next->first.second < end) {
        next = release(next, charge.log);
    }
    return entries.emplace_hint(next, std::piecewise_construct, std::forward_as_tuple(device, address),
                                std::forward_as_tuple(bytes, charge));
}

/// `charge`: used if the block's allocation was not seen; if it is null, returns null then.
ChargedBlock* find_block(const at::Tensor& tensor, const Charge* charge) {
    const c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
    const auto address = reinterpret_cast<std::uintptr_t>(storage->data());
    if (address == 0) {
        return nullptr;
    }
    const DeviceKey device = key_of(tensor.device());
    const std::lock_guard lock(blocks().mutex);
    auto found = blocks().entries.find({device, address});
    if (found != blocks().entries.end() && found->second.is_gone()) {
        release(found, nullptr);
        found = blocks().entries.end();
    }
    if (found == blocks().entries.end()) {
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
void release_where(const Condition& condition) {
    const std::lock_guard lock(blocks().mutex);
    for (auto entry = blocks().entries.begin(); entry != blocks().entries.end();) {
        entry = condition(entry->second) ? release(entry, nullptr) : std::next(entry);
    }
}
}  // namespace

void taken(c10::Device device, const void* data, Bytes bytes, const Charge& charge) {
    const std::lock_guard lock(blocks().mutex);
    add(key_of(device), reinterpret_cast<std::uintptr_t>(data), bytes, charge);
}

void freed(c10::Device device, const void* data, AllocationLog* log) {
    const std::lock_guard lock(blocks().mutex);
    const auto found = blocks().entries.find({key_of(device), reinterpret_cast<std::uintptr_t>(data)});
    if (found != blocks().entries.end()) {
        release(found, log);
    }
}

ChargedBlock* find(const at::Tensor& tensor) {
    return find_block(tensor, nullptr);
}

ChargedBlock* find_or_charge(const at::Tensor& tensor, const Charge& charge) {
    return find_block(tensor, &charge);
}

void sweep() {
    release_where([](const Entry& entry) { return entry.is_gone(); });
}

void forget(std::uint64_t log) {
    release_where([log](const Entry& entry) { return entry.block.log == log; });
}

std::optional<Bytes> reserved(c10::Device device) {
    const std::lock_guard lock(blocks().mutex);
    const auto found = blocks().reserved.find(key_of(device));
    return found == blocks().reserved.end() ? std::nullopt : std::optional(found->second);
}

void set_reserved(c10::Device device, Bytes bytes) {
    const std::lock_guard lock(blocks().mutex);
    blocks().reserved[key_of(device)] = bytes;
}
}  // namespace pipescope::device_blocks
