#pragma once

#include "base/ids.h"
#include "engine/gradients/graph_walk.h"
#include "engine/layer.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace pipescope {
enum class InputsFrom { caller, earlier_partition };
inline InputsFrom inputs_from(PartitionId j) noexcept {
    return j.value() == 0 ? InputsFrom::caller : InputsFrom::earlier_partition;
}

/// The live autograd sub-graph of one micro-batch on one partition.
///
/// Keeps the graph's two ends but neither input nor output tensors: a tensor that no layer saved is freed as soon as
/// the lanes release it. Inputs are not leaves, since a leaf's gradient node would hold their storage. They are outputs
/// of a node that catches their gradients, so a layer may also change them in place, as in the plain model.
class MicroBatchGraph {
public:
    MicroBatchGraph();
    ~MicroBatchGraph();
    MicroBatchGraph(MicroBatchGraph&& other) noexcept;
    MicroBatchGraph& operator=(MicroBatchGraph&& other) noexcept;

    /// Returns the inputs to compute from. Those that require a gradient become new tensors of the same storage, whose
    /// gradients backward() returns. Undefined ones stay undefined. Call with gradients on. Until close(), a gradient
    /// with respect to one of several inputs from an earlier partition throws EngineError: it would lack what reaches
    /// that input through the others.
    Tensors open(const Tensors& inputs, InputsFrom from = InputsFrom::caller);
    /// Likewise. `sources`: edges to the tensors from which another graph computed the inputs. Until close(), a
    /// gradient that reaches one through an input throws EngineError: it would lack that graph's part.
    Tensors open(const Tensors& inputs, InputsFrom from, std::vector<torch::autograd::Edge> sources);
    /// Takes the outputs computed from them. Call it after open().
    void close(const Tensors& outputs);

    /// Runs the graph backward in the calling thread, adding to the parameters' .grad, and frees it. Torch runs nodes
    /// of an accelerator in its own thread for that device. `gradients` belong to the outputs, in their order;
    /// undefined if there is none. Returns those of the inputs, undefined if there is none. Throws EngineError if it
    /// reaches the inputs of another graph: a layer kept a tensor of another micro-batch.
    Tensors backward(Tensors gradients);

    /// Goes backward in two halves, see run_input_half(): this returns the gradients of the inputs, and frees what the
    /// weights do not need. With hooks of saved tensors, which unpack each tensor once, this half computes all. `marks`
    /// are those of the layers that made the graph. Notes are added to `notes`.
    Tensors backward_inputs(Tensors gradients, const LayerMarks& marks, SplitNotes& notes);
    /// The second half, after the first: adds to the parameters' .grad, and frees the graph. `from`: only of the nodes
    /// that a layer with this mark made, and later ones; call it again for the rest. Throws EngineError if a gradient
    /// kept for it was changed in place meanwhile.
    void backward_weights(std::uint64_t from = 0);
    /// Between the halves: the gradients kept for the second.
    const Tensors& weight_gradients() const { return weight_gradients_; }

private:
    struct Ends;
    template <class Run>
    Tensors backward_with(Tensors gradients, const Run& run);

    std::unique_ptr<Ends> ends_;  // null until open(); apart, since autograd's nodes would bring their headers along
    Tensors weight_gradients_;    // between the halves: of the graph's ends
    std::vector<std::uint32_t> weight_versions_;
};
}  // namespace pipescope
