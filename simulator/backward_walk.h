#pragma once

#include "simulator/partition_memory.h"

#include <vector>

namespace pipescope {
/// Fills in the backward of a range of layers: its peaks, what it hands on, and, if asked for, its parts. `let_go`: by
/// layer of the range, what its backward frees of kept storages. Needs memory.input and memory.output. O(layers).
void walk_backward_layers(const Profile& profile, const SizedProfile& sized, LayerRange layers,
                          const std::vector<Bytes>& let_go, PartitionMemory& memory, std::vector<WorkPart>* parts);
}  // namespace pipescope
