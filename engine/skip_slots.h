#pragma once

#include "engine/layer.h"
#include "engine/skip_layout.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace pipescope {
/// The skips of one micro-batch while it runs through one partition. Threading: belongs to the thread of that run.
class SkipSlots {
public:
    /// `skips` is borrowed. Takes the incoming skips out of the front of `inputs`.
    SkipSlots(const PartitionSkips& skips, Tensors& inputs);

    /// The layer's forward, with access to the skips it declared. Throws LayerError where it stashes or pops
    /// otherwise than declared.
    Tensors forward(Layer& layer, std::size_t layer_in_partition, const Tensors& inputs);

    /// Puts the outgoing skips before `outputs`, behind the last layer.
    Tensors with_outgoing(Tensors outputs);

private:
    class OfLayer;

    const PartitionSkips& skips_;
    Tensors slots_;
};
}  // namespace pipescope
