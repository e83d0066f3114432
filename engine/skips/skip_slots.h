#pragma once

#include "engine/layer.h"
#include "engine/skips/skip_layout.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace pipescope {
/// The skips of one micro-batch while it runs through one partition. Threading: belongs to the thread of that run.
class SkipSlots {
public:
    /// Borrows `skips`. Takes the incoming skips from the front of `inputs`.
    SkipSlots(const PartitionSkips& skips, Tensors& inputs);

    /// Runs the layer's forward with access to its declared skips. Throws LayerError if it stashes or pops differently.
    Tensors forward(Layer& layer, std::size_t layer_in_partition, const Tensors& inputs);

    /// Call after the last layer, once: puts the outgoing skips before `outputs`.
    Tensors with_outgoing(Tensors outputs);

private:
    class OfLayer;

    const PartitionSkips& skips_;
    Tensors slots_;
};
}  // namespace pipescope
