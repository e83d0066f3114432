#include "simulator/memory/step_storages.h"

#include <algorithm>

namespace pipescope {
void StepStorages::charge(const Storage& storage, Bytes bytes) {
    ledgers_[storage.lane.index()].add(storage.category, bytes, now_);
    const auto place = std::ranges::lower_bound(touched_, storage.lane);
    if (place == touched_.end() || *place != storage.lane) {
        touched_.insert(place, storage.lane);
    }
}

StepStorages::Id StepStorages::take(LaneId lane, MemoryCategory category, Bytes bytes, int holders, DeviceBlock block) {
    storages_.push_back({bytes, lane, category, holders, block.is_none() ? reserved_.take(lane, bytes) : block});
    charge(storages_.back(), bytes);
    return static_cast<Id>(storages_.size());
}

void StepStorages::hold(Id id, int holders) {
    if (id != 0) {
        of(id).holders += holders;
    }
}

void StepStorages::release(Id id) {
    if (id != 0 && --of(id).holders == 0) {
        charge(of(id), -of(id).bytes);
        free_block(id);
    }
}

void StepStorages::free_block(Id id) {
    reserved_.free(of(id).block);
}

void StepStorages::release(Slots& ids) {
    for (const Id id : ids) {
        release(id);
    }
    ids.clear();
}

void StepStorages::move(Id id, LaneId lane, MemoryCategory category) {
    if (id == 0) {
        return;
    }
    Storage& storage = of(id);
    charge(storage, -storage.bytes);
    storage.lane = lane;
    storage.category = storage.category == MemoryCategory::skip ? MemoryCategory::skip : category;
    charge(storage, storage.bytes);
}
}  // namespace pipescope
