#pragma once

#include "profiler/layers/layer_chain.h"
#include "schedule/ids.h"

#include <cstddef>
#include <vector>

namespace pipescope {
/// What a layer holds at one micro-batch size, as in the profile file.
struct LayerBytes {
    Bytes output = 0;     ///< storages that go to the next layer, each counted once
    Bytes saved = 0;      ///< what autograd keeps besides input and output
    Bytes transient = 0;  ///< extra peak of forward, or of backward besides the gradients of input and output
    bool keeps_input = false;
    bool keeps_output = false;
    bool aliases_input = false;  ///< the output is the input's storage
};

struct ModelBytes {
    std::vector<LayerBytes> layers;
    Bytes loss_transient = 0;  ///< extra peak of the loss besides the joined output and its gradient
};

/// Runs every layer twice on the activation of the one before, the second time under the tracking allocator: once
/// parameters have their .grad, memory is that of every later step.
///
/// Which tensors autograd keeps is told by letting go of them: input and output are dropped while the graph lives, and
/// a storage that is still there is kept. Where several tensors go from layer to layer (skips on their way), only those
/// the layer itself uses count as kept; if it keeps some but not all, they stand in `saved` and not in the flags, since
/// the flags speak for all of them.
/// Precondition: the tracking allocator is installed. Threading: charges what the calling thread allocates meanwhile.
ModelBytes measure_bytes(LayerChain& chain, const Batch& batch);

/// Ends of segments whose activations stay below the limit; a layer above it is a segment by itself.
std::vector<std::size_t> segments_below(const std::vector<LayerBytes>& layers, Bytes limit);
}  // namespace pipescope
