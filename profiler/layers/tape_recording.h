#pragma once

#include "profiler/layers/layer_chain.h"
#include "profiler/profile/layer_tape.h"

#include <cstddef>
#include <vector>

namespace pipescope {
/// How a backward runs: at once, or in halves as engine/gradients/graph_walk.h splits it.
enum class BackwardWay { whole, in_halves };

/// Runs the chain's layer `index` on the previous activation, forward with and without gradients and backward, and
/// records every block that it allocates and frees. On an accelerator, a layer's own blocks have the allocator's
/// rounded sizes.
///
/// Returns an empty tape if the layer does not free everything it allocated (because of its own cache, for example),
/// since no replay of such a tape could be exact. Throws Error as AllocationLog. Preconditions: the tracking allocator
/// is installed; the layer has run before, so that gradients and caches exist.
///
/// `way`: in halves, the tape is an entry of LayerTape::halves. `gradients`, if given, is in and out. In: the gradients
/// that the layers above give this layer's outputs and stashed skips (none: it makes zeros). Out: the gradients of
/// its inputs and popped skips. They pass from layer to layer unchanged, so layouts and shared storages are as in a
/// real backward.
LayerTape record_tape(LayerChain& chain, std::size_t index, const Activation& before, Activation* gradients = nullptr,
                      BackwardWay way = BackwardWay::whole);

/// The tapes of all layers, each with its variants if they differ. Recorded from the last layer to the first. `before`
/// has each layer's input activation. `target` is for the chain's loss, whose gradients start the last layer's tape.
std::vector<LayerTape> record_tapes(LayerChain& chain, const std::vector<Activation>& before,
                                    const Tensors& target = {});
}  // namespace pipescope
