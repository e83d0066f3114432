#pragma once

#include "profiler/layers/layer_chain.h"
#include "profiler/layers/layer_trial.h"
#include "profiler/layers/operator_work.h"
#include "schedule/ids.h"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
class MeasuredMemory;

/// What a layer holds, and asks of a device, at one micro-batch size, as in the profile file.
struct LayerBytes {
    Bytes output = 0;     ///< storages that go to the next layer, each counted once; skips apart
    Bytes saved = 0;      ///< what autograd keeps besides input and output
    Bytes transient = 0;  ///< extra peak of forward, or of backward besides the gradients of input and output
    bool keeps_input = false;
    bool keeps_output = false;
    bool aliases_input = false;    ///< the output is the input's storage
    bool passes_gradient = false;  ///< in backward, what it takes gets the output's gradient itself, or views of it
    std::map<std::string, Bytes> stash;
    std::vector<std::string> pop;
    Operators forward_work;
    Operators backward_work;
};

struct ModelBytes {
    std::vector<LayerBytes> layers;
    Bytes loss_transient = 0;  ///< extra peak of the loss besides the joined output and its gradient
    std::optional<Bytes> all_gradients_loss_transient;  ///< where every output requires a gradient; none if each does
    Operators loss_work;
};

/// Goes through a model at one micro-batch size, each layer on the activation that the one before it made.
///
/// A layer runs three times: the first leaves the parameters' .grad, after which memory is that of every later step;
/// the second counts its operators; the third runs under the tracking allocator alone. Which tensors autograd keeps is
/// told by letting go of them: input and output are dropped while the graph lives, and a storage that is still there is
/// kept. Where several tensors go from layer to layer, only those the layer itself uses count as kept; if it keeps some
/// but not all, they stand in `saved` and not in the flags, since the flags speak for all of them. Skips count apart:
/// how long one lives is the schedule's business.
///
/// Real tensors and meta tensors give the same figures, except for the transients of kernels that need scratch memory.
/// On an accelerator the device's own allocator counts, as MeasuredMemory says.
/// Precondition: the tracking allocator is installed. Threading: charges what the calling thread allocates meanwhile.
class LayerWalk {
public:
    explicit LayerWalk(Activation start);

    /// The next layer, which is the chain's layer `index`.
    void next(LayerChain& chain, std::size_t index);
    /// The loss on the last activation.
    void loss(const LayerChain& chain, const Tensors& target);

    /// What stands before the layer to come.
    const Activation& activation() const noexcept { return activation_; }
    /// All layers so far; the last one's flags may still change with the layer to come.
    ModelBytes bytes() const;

private:
    struct Measured {
        LayerBytes bytes;
        std::vector<BoundaryStorage> inputs;   // with `kept` by this layer
        std::vector<BoundaryStorage> outputs;  // the same
    };
    Measured measure(LayerChain& chain, std::size_t layer, const MeasuredMemory& memory);
    static void settle(Measured& below, Measured& above);

    Activation activation_;
    std::vector<LayerBytes> layers_;
    std::optional<Measured> below_;
    ModelBytes loss_;
};

/// What the loss and its gradient need at most besides the output and its gradient. The same precondition.
Bytes loss_transient_of(const LayerChain& chain, const Tensors& output, const Tensors& target);

/// The whole model, and its loss.
ModelBytes measure_bytes(LayerChain& chain, const Batch& batch);

/// Ends of segments whose activations stay below the limit; a layer above it is a segment by itself.
std::vector<std::size_t> segments_below(const std::vector<LayerBytes>& layers, Bytes limit);
}  // namespace pipescope
