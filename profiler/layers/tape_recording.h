#pragma once

#include "balance/layer_tape.h"
#include "profiler/layers/layer_chain.h"

#include <cstddef>
#include <vector>

namespace pipescope {
/// Runs the chain's layer `index` on the activation before it, forward with and without gradients and backward, and
/// writes down block by block what it allocates and frees. The layer must have run before, so that gradients and
/// caches exist. An empty tape where the layer does not give back what it took (it keeps a cache of its own, say): no
/// replay of such a tape could be exact. On an accelerator a layer's own blocks have the bytes that the allocator
/// rounds them up to. Throws Error as AllocationLog does. Precondition: the tracking allocator is installed.
/// `gradients`, if given: in, what the layers above leave as gradients of this one's outputs and stashed skips (none:
/// zeros of its own making); out, what this one leaves of its inputs and popped skips. They go from layer to layer as
/// they are, so layouts and shared storages are those of a real backward.
LayerTape record_tape(LayerChain& chain, std::size_t index, const Activation& before, Activation* gradients = nullptr);

/// Those of all layers, from the last to the first, each with its variants where they differ. `before` has the
/// activation before each. `target` is for the chain's loss, whose gradients the last layer's tape starts from.
std::vector<LayerTape> record_tapes(LayerChain& chain, const std::vector<Activation>& before,
                                    const Tensors& target = {});
}  // namespace pipescope
