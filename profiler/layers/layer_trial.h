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
/// Each storage once, in the order of the tensors; none of an undefined one.
std::vector<BoundaryStorage> storages_of(const Tensors& tensors);

/// A copy of the activation that nothing else holds: tensors that shared a storage share one again, of the same size.
Activation fresh_inputs(const Activation& activation);

/// Whether a tensor could require a gradient and requires none.
bool lacks_a_gradient(const Activation& activation);
/// The same tensors, each that can require a gradient requiring one, as behind a checkpointed partition.
Activation requiring_gradients(const Activation& activation);

/// What a layer took from the shelf, and put there.
Tensors popped_tensors(const Activation& before, const SkipNames& names);
Tensors stashed_tensors(const Activation& after, const SkipNames& names);

/// The gradients that the chain's loss leaves of these outputs, computed as a lane computes them; undefined where there
/// is none, and nothing at all if the loss requires none. An expanded one (of a sum) comes in full, since a profile
/// knows only whole tensors.
Tensors loss_gradients(const LayerChain& chain, const Tensors& outputs, const Tensors& target);

/// A layer's graph, as a lane has it: it holds neither what went in nor what came out, and catches the gradients of
/// what went in.
class TrialGraph {
public:
    TrialGraph();
    ~TrialGraph();
    TrialGraph(const TrialGraph&) = delete;
    TrialGraph& operator=(const TrialGraph&) = delete;

    /// The tensors for the layer to work on. Leaves would not do: autograd itself holds a leaf for the sake of its
    /// gradient.
    Activation open(const Activation& inputs);
    /// Of outputs and stashed skips together.
    void close(const Tensors& outputs);

    /// Zeros, one for each output that requires a gradient, on its device; undefined for the others.
    Tensors output_gradients() const;
    /// Takes the gradients, so that whoever holds none lets the graph free them. Once. Gives those of what was opened:
    /// the tensors, then the skips by name, of which one that is a tensor too has none of its own; undefined where
    /// there is none.
    Tensors backward(Tensors gradients);

private:
    struct State;
    std::unique_ptr<State> state_;
};
}  // namespace pipescope
