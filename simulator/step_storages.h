#pragma once

#include "schedule/ids.h"
#include "schedule/memory_category.h"
#include "simulator/lane_ledger.h"
#include "simulator/reserved_memory.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// The storages that tasks hand to each other while a step goes on. Each is charged to one lane, has as many holders as
/// there are slots and graphs that have it, and goes with the last of them. Threading: one thread.
class StepStorages {
public:
    /// 0: none, or one that is the caller's and charged to nobody. A slot holds its storage once.
    using Id = std::int32_t;

    StepStorages(std::vector<LaneLedger>& ledgers, ReservedMemory& reserved)
        : ledgers_(ledgers), reserved_(reserved), touched_(ledgers.size(), false) {}

    void set_time(Nanoseconds now) { now_ = now; }

    /// `block`: what a task took for it already; else the lane's allocator gives one.
    Id take(LaneId lane, MemoryCategory category, Bytes bytes, int holders = 1, DeviceBlock block = {});
    void hold(Id id, int holders = 1);
    void let_go(Id id);
    void let_go(std::vector<Id>& ids);
    /// Gives the block back before the last holder lets go, as a task does that is through with it.
    void free_block(Id id);
    /// The charge moves; a skip's stays a skip's, whatever else the storage is.
    void move(Id id, LaneId lane, MemoryCategory category);

    Bytes bytes(Id id) const { return id == 0 ? 0 : of(id).bytes; }
    int holders(Id id) const { return id == 0 ? 0 : of(id).holders; }
    /// A storage of the caller's is on no lane.
    bool is_on(Id id, LaneId lane) const { return id != 0 && of(id).lane == lane; }

    /// Whether the lane's storages changed since this was asked last.
    bool take_touched(LaneId lane);

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
    std::vector<bool> touched_;  // by lane
    Nanoseconds now_{0};
};
}  // namespace pipescope
