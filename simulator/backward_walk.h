#pragma once

#include "simulator/partition_memory.h"

#include <vector>

namespace pipescope {
/// Fills in the backward of a range of layers: its peaks and the gradient it passes on. `let_go`: kept bytes that each
/// layer's backward frees, by layer of the range. Needs memory.input and memory.output. O(layers).
void walk_backward_layers(const Profile& profile, const SizedProfile& sized, LayerRange layers,
                          const std::vector<Bytes>& let_go, PartitionMemory& memory);

/// One layer's backward, as part of a range that ends somewhere above it.
struct BackwardLook {
    Bytes handed_stays = 0;    ///< peak if the gradient of the range's output stays
    Bytes handed_goes = 0;     ///< peak if it is freed once no layer needs it
    Bytes input_gradient = 0;  ///< PartitionMemory::input_gradient of the range that begins with this layer
};
/// Looks at all layers before `end` as parts of a range that ends there. `let_go`: as above, by layer of the model.
/// O(layers).
std::vector<BackwardLook> walk_backward_from(const Profile& profile, const SizedProfile& sized, LayerId end,
                                             const std::vector<Bytes>& let_go);
}  // namespace pipescope
