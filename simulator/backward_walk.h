#pragma once

#include "simulator/partition_memory.h"

#include <vector>

namespace pipescope {
/// Fills in the backward of a range of layers: its peaks, and what it hands on. `let_go`: by layer of the range, what
/// its backward frees of kept storages. Needs memory.input and memory.output. O(layers).
void walk_backward_layers(const Profile& profile, const SizedProfile& sized, LayerRange layers,
                          const std::vector<Bytes>& let_go, PartitionMemory& memory);

/// A layer of a range that ends somewhere above it, in the backward.
struct BackwardLook {
    Bytes handed_stays = 0;    ///< highest point where the gradient of the range's output stays
    Bytes handed_goes = 0;     ///< the same where it goes when no layer needs it
    Bytes input_gradient = 0;  ///< PartitionMemory's, of the range that begins with this layer
};
/// All layers before `end`, as parts of a range that ends there. `let_go`: as above, by layer of the model. O(layers).
std::vector<BackwardLook> walk_backward_from(const Profile& profile, const SizedProfile& sized, LayerId end,
                                             const std::vector<Bytes>& let_go);
}  // namespace pipescope
