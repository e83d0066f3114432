#pragma once

#include "simulator/partition_memory.h"
#include "simulator/partition_tape.h"

namespace pipescope {
/// Fills in what a partition keeps, its peaks and, if asked for, its parts by layer, from its tape's events: exact, in
/// the layers' own order.
void walk_tape(const PartitionTape& partition, PartitionMemory& memory, PartitionWork* work);
}  // namespace pipescope
