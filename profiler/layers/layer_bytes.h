#pragma once

#include "base/ids.h"
#include "profiler/layers/layer_chain.h"
#include "profiler/layers/layer_trial.h"
#include "profiler/layers/operator_work.h"

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pipescope {
class MeasuredMemory;

/// A layer's memory and operators at one micro-batch size, as in the profile file.
struct LayerBytes {
    Bytes output = 0;     ///< storages passed to the next layer, each counted once, without skips
    Bytes saved = 0;      ///< kept by autograd, besides input and output
    Bytes transient = 0;  ///< extra peak of forward, or of backward beyond the gradients of input and output
    bool keeps_input = false;
    bool keeps_output = false;
    bool aliases_input = false;    ///< the output is the input's storage
    bool passes_gradient = false;  ///< in backward, its input's gradient is the output's gradient or a view of it
    std::map<std::string, Bytes> stash;
    std::vector<std::string> pop;
    std::set<std::string> without_gradient;  ///< stashed skips that cannot carry one
    Operators forward_work;
    Operators backward_work;
    Operators forward_chains;
    Operators backward_chains;
};

struct ModelBytes {
    std::vector<LayerBytes> layers;
    Bytes loss_transient = 0;  ///< extra peak of the loss beyond the gathered output and its gradient
    /// loss_transient if every output requires a gradient; empty if each already does.
    std::optional<Bytes> all_gradients_loss_transient;
    Operators loss_work;
    Operators loss_chains;
};

/// Walks a model at one micro-batch size, running each layer on the previous layer's activation.
///
/// Each layer runs three times. The first run creates the parameters' .grad, so that memory is as in every later step.
/// The second counts operators. The third runs under the tracking allocator alone.
///
/// To find the tensors that autograd keeps, input and output are released while the graph lives; a storage that still
/// exists is kept. If several tensors pass between layers, only those that the layer itself uses can count as kept. If
/// it keeps some but not all, they count in `saved` instead of the flags, which apply to all of them. Skips are counted
/// separately, since their lifetime depends on the schedule.
///
/// Real and meta tensors give the same figures, except for the transients of kernels that need scratch memory. On an
/// accelerator the device's own allocator counts (MeasuredMemory). Precondition: the tracking allocator is installed.
/// Threading: charges the calling thread's allocations.
class LayerWalk {
public:
    explicit LayerWalk(Activation start);

    /// Measures the next layer, which is the chain's layer `index`.
    void next(LayerChain& chain, std::size_t index);
    /// Measures the loss on the last activation.
    void loss(const LayerChain& chain, const Tensors& target);

    /// The next layer's input.
    const Activation& activation() const noexcept { return activation_; }
    /// All layers so far. The last one's flags may still change with the next layer.
    ModelBytes bytes() const;

private:
    struct Measured {
        LayerBytes bytes;
        std::vector<BoundaryStorage> inputs;   // `kept` as seen by this layer
        std::vector<BoundaryStorage> outputs;  // `kept` as seen by this layer
    };
    Measured measure(LayerChain& chain, std::size_t layer, const MeasuredMemory& memory);
    static void settle(Measured& below, Measured& above);

    Activation activation_;
    std::vector<LayerBytes> layers_;
    std::optional<Measured> below_;
    ModelBytes loss_;
};

/// Peak memory of the loss and its gradient beyond the output and its gradient. Precondition: as for LayerWalk.
Bytes loss_transient_of(const LayerChain& chain, const Tensors& output, const Tensors& target);

/// Ends of segments whose activations stay below the limit; a layer above the limit is a segment by itself.
std::vector<std::size_t> segments_below(const std::vector<LayerBytes>& layers, Bytes limit);
}  // namespace pipescope
