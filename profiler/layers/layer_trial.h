#pragma once

#include "profiler/layers/layer_chain.h"
#include "schedule/ids.h"

#include <memory>
#include <vector>

namespace pipescope {
/// A storage between two layers, and whether the layer on either side keeps it.
struct BoundaryStorage {
    const void* identity = nullptr;
    Bytes bytes = 0;
    bool handed_on = false;  ///< an output that is an input's storage: it counts where it was made
    bool kept = false;
};
/// Each storage once, in the order of the tensors.
std::vector<BoundaryStorage> storages_of(const Tensors& tensors);

/// The activation before a layer, in storages that nothing but the layer can keep. Leaves would not do: autograd itself
/// holds a leaf for the sake of its gradient. The copy of a leaf it does not hold.
/// `leaves`, if given, receives those leaves, where the gradients of the inputs arrive.
Activation fresh_inputs(const Activation& activation, Tensors* leaves = nullptr);

/// The activation after a layer, apart from what the layer's graph may keep.
Activation next_activation(const Activation& outputs);

/// What a layer took from the shelf, and put there.
Tensors popped_tensors(const Activation& before, const SkipNames& names);
Tensors stashed_tensors(const Activation& after, const SkipNames& names);

/// What stays of a layer's graph when its tensors are let go: its ends.
class TrialGraph {
public:
    /// Of outputs and stashed skips together.
    explicit TrialGraph(const Tensors& outputs);
    ~TrialGraph();
    TrialGraph(const TrialGraph&) = delete;
    TrialGraph& operator=(const TrialGraph&) = delete;

    /// Zeros, one for each output that requires a gradient, on its device.
    Tensors output_gradients() const;
    /// Takes the gradients, so that whoever holds none lets the graph free them. Once.
    void backward(Tensors gradients);

private:
    struct Ends;
    std::unique_ptr<Ends> ends_;
};
}  // namespace pipescope
