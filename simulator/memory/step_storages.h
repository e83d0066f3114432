#pragma once

#include "base/ids.h"
#include "base/small_vector.h"
#include "schedule/memory_category.h"
#include "simulator/memory/lane_ledger.h"
#include "simulator/memory/reserved_memory.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipescope {
/// The storages that tasks pass to each other during a step. Each is charged to one lane, and is freed when its last
/// holder, a slot or a graph, releases it. Threading: one thread.
class StepStorages {
public:
    /// 0: none, or the caller's storage, which is charged to no lane. A slot holds its storage once.
    using Id = std::int32_t;
    using Slots = SmallVector<Id, 2>;

    StepStorages(std::vector<LaneLedger>& ledgers, ReservedMemory& reserved) : ledgers_(ledgers), reserved_(reserved) {}

    void reserve(std::size_t storages) { storages_.reserve(storages); }
    void set_time(Nanoseconds now) { now_ = now; }

    /// `block`: the block that a task already took for it; otherwise the lane's allocator provides one.
    Id take(LaneId lane, MemoryCategory category, Bytes bytes, int holders = 1, DeviceBlock block = {});
    void hold(Id id, int holders = 1);
    void release(Id id);
    void release(Slots& ids);
    /// Frees the block before the last holder releases the storage, as a task does when it is done with it.
    void free_block(Id id);
    /// Moves the charge. A storage charged as a skip stays a skip.
    void move(Id id, LaneId lane, MemoryCategory category);

    Bytes bytes(Id id) const { return id == 0 ? 0 : of(id).bytes; }
    int holders(Id id) const { return id == 0 ? 0 : of(id).holders; }
    /// The caller's storage is on no lane.
    bool is_on(Id id, LaneId lane) const { return id != 0 && of(id).lane == lane; }

    /// Lanes whose storages changed since clear_touched(), ascending.
    const std::vector<LaneId>& touched() const { return touched_; }
    void clear_touched() { touched_.clear(); }

private:
    struct Storage {
        Bytes bytes = 0;
        LaneId lane{0};
        MemoryCategory category = MemoryCategory::saved;
        int holders = 0;
        DeviceBlock block;
    };
    const Storage& of(Id id) const { return storages_[static_cast<std::size_t>(id) - 1]; }
    Storage& of(Id id) { return storages_[static_cast<std::size_t>(id) - 1]; }
    void charge(const Storage& storage, Bytes bytes);

    std::vector<LaneLedger>& ledgers_;
    ReservedMemory& reserved_;
    std::vector<Storage> storages_;
    std::vector<LaneId> touched_;
    Nanoseconds now_{0};
};
}  // namespace pipescope
