#pragma once

#include "base/ids.h"
#include "engine/gradients/graph_walk.h"
#include "profiler/layers/layer_chain.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace pipescope {
/// A storage between two layers. `kept`: one of the two layers keeps it.
struct BoundaryStorage {
    const void* identity = nullptr;
    Bytes bytes = 0;
    bool passed_through = false;  ///< an output in an input's storage, counted where it was created
    bool kept = false;
};
/// The storages of the tensors, in order and without repeats. Skips undefined tensors.
std::vector<BoundaryStorage> storages_of(const Tensors& tensors);

/// A copy of the activation that nothing else holds. Tensors that shared a storage share a new one of the same size.
Activation fresh_inputs(const Activation& activation);

/// True if some tensor could require a gradient but does not.
bool lacks_a_gradient(const Activation& activation);
/// Returns the tensors with requires_grad set wherever it can be, as they arrive from a checkpointed partition.
Activation requiring_gradients(const Activation& activation);

/// The skips that a layer pops or stashes.
Tensors popped_tensors(const Activation& before, const SkipNames& names);
Tensors stashed_tensors(const Activation& after, const SkipNames& names);

/// The gradients that the chain's loss gives these outputs, computed as in a lane. Undefined where there is none; empty
/// if the loss does not require gradients. Makes an expanded gradient (of a sum) contiguous, since a profile knows only
/// whole tensors.
Tensors loss_gradients(const LayerChain& chain, const Tensors& outputs, const Tensors& target);

/// A layer's graph, as in a lane: it holds neither inputs nor outputs, and catches the gradients of the inputs.
class TrialGraph {
public:
    TrialGraph();
    ~TrialGraph();
    TrialGraph(const TrialGraph&) = delete;
    TrialGraph& operator=(const TrialGraph&) = delete;

    /// Returns the tensors for the layer to work on. They are not leaves, since autograd itself holds a leaf for its
    /// gradient.
    Activation open(const Activation& inputs);
    /// Takes outputs and stashed skips together.
    void close(const Tensors& outputs);

    /// Zeros for each output that requires a gradient, on its device; undefined for the others.
    Tensors output_gradients() const;
    /// Takes the gradients, so that the graph can free them if the caller does not hold them. Call once. Returns the
    /// gradients of open()'s result: the tensors, then the skips by name. A skip that is also a tensor has no separate
    /// gradient. Undefined where there is none.
    Tensors backward(Tensors gradients);
    /// Goes backward in two halves, see MicroBatchGraph. `marks`: where the layers between open() and close() begin.
    /// `notes`, if given, receives how their backwards were split.
    Tensors backward_inputs(Tensors gradients, const LayerMarks& marks, SplitNotes* notes = nullptr);
    void backward_weights(std::uint64_t from = 0);
    /// Between the halves: the gradients kept for the second half.
    const Tensors& weight_gradients() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};
}  // namespace pipescope
