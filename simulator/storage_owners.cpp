#include "simulator/storage_owners.h"

namespace pipescope {
bool StorageOwners::shares_storage_with_next(int j) const {
    return memories_.shares_storage(memories_.lane_of(j), memories_.lane_of(j + 1));
}

bool StorageOwners::keeps_own_output(int j) const {
    return j == memories_.last() || !shares_storage_with_next(j);
}

bool StorageOwners::output_is_kept_by_graph_too(int i, int j) const {
    return !memories_.is_checkpointed(i) && keeps_own_output(j) && memories_.memory(i, j).output_kept;
}

bool StorageOwners::outlives_receiver(int i, int j) const {
    return !memories_.is_checkpointed(i) && memories_.memory(i, j).output_kept && shares_storage_with_next(j);
}

Bytes StorageOwners::received_gradient(int i, int j) const {
    return shares_storage_with_next(j) ? memories_.memory(i, j + 1).input_gradient : memories_.memory(i, j).output;
}

bool StorageOwners::pops_for_good(int i, std::size_t skip) const {
    return !skips_.is_kept_by_popper(skip) && !skips_.is_kept_by_stasher(i, skip);
}

Bytes StorageOwners::held_for(const Task& copy) const {
    const int i = copy.key.micro_batch;
    switch (copy.key.kind) {
        case TaskKind::copy_backward: return memories_.memory(i, copy.key.partition + 1).input_gradient;
        case TaskKind::skip_backward: return skips_.gradient(i, static_cast<std::size_t>(copy.key.skip));
        default: return memories_.costs().bytes(copy.key);
    }
}
}  // namespace pipescope
