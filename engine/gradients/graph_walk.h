#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <set>
#include <string>
#include <typeinfo>
#include <vector>

namespace torch::autograd {
struct Edge;
struct Node;
}  // namespace torch::autograd

namespace pipescope {
/// Runs a sub-graph backward as autograd's engine does, but node by node in the calling thread.
///
/// Problem: the engine prepares every call, and saves and restores all thread-local state around every node, since its
/// nodes may run in any thread. That costs about 1.5 µs per node, more than a small layer. A CPU lane's thread built
/// the sub-graph, runs all of it, and already has the right state. Idea: do the rest of the engine's work (count each
/// node's dependencies, sum gradients that meet, check shapes, free saved tensors) in the engine's order.
///
/// `gradients` belong to `ends`, which keep the graph alive. Adds to the parameters' .grad, by the rule of
/// leaf_gradients.h.
/// Returns false, with nothing touched, if only the engine can do it: nodes on other devices, hooks and nodes outside
/// LibTorch (which may query the current backward, or queue a callback for its end), anomaly detection, or a backward
/// already running in this thread.
/// Errors: what a node throws, unchanged.
bool walk_backward(const std::vector<torch::autograd::Edge>& ends, Tensors& gradients);

/// What runs the backward of a graph.
enum class Runner {
    walk_if_possible,  ///< walk_backward(), or torch's engine if that returns false
    torch_engine,
};
void run_backward(const std::vector<torch::autograd::Edge>& ends, Tensors gradients,
                  Runner runner = Runner::walk_if_possible);

/// Notes that this thread packs the tensors that its next nodes save, by hooks. Such hooks may ask for the current
/// backward when they unpack: torch.utils.checkpoint recomputes once for each. So a MicroBatchGraph that was open then
/// goes backward whole, in torch's engine.
void note_saved_tensor_hooks();
/// How often this thread has noted that.
std::uint64_t num_saved_tensor_hooks();

/// Declares that nodes of a type outside LibTorch do not depend on torch's engine. Holds for the rest of the process;
/// call it before the first of them goes backward. Any thread.
void allow_walk(const std::type_info& node);

// ---- In halves ----
//
// Schedules that split the backward compute gradients of inputs first, since another lane waits for them, and those of
// weights when there is time.
//
// Problem: a node computes all its gradients in one call, and autograd frees what it saved. Idea: look at what each
// node leads to. An edge leads to activations (on to the inputs of the partition, or to a value that an earlier layer
// made), or to weights only. LibTorch's products compute a gradient only if its edge is there, so such a node runs
// twice, each time without the other edges; it keeps its incoming gradient and what it saved until the second call.
//
//     gradient ──▶ linear ──▶ relu ──▶ linear ──▶ inputs          first half: activations
//                    │                   │
//                    ▼                   ▼
//                 weight, bias        weight, bias                second half
//
// All other nodes run once. Those that lead to weights only run in the second half. Those that lead to both (norms,
// users' functions, nodes with hooks) run in the first, and so do the weights that they lead to: `whole` names them.
//
// Cost: one look at each edge. A node that only torch's engine may run is run by it alone, as a backward of one node:
// a callback queued in it runs right after the node.

/// Where layers begin in a graph: the number that autograd had for the next node, in the thread that built the graph.
using LayerMarks = std::vector<std::uint64_t>;

/// How a layer's backward was split.
struct LayerSplit {
    bool has_weights_later = false;    ///< the second half computes gradients of this layer
    std::set<std::string> whole = {};  ///< nodes that computed those of activations and weights at once
};
/// By the layers of the marks.
using SplitNotes = std::vector<LayerSplit>;

/// Computes the gradients of activations. `inputs` is the node that takes those of the partition's inputs; it may be
/// null. Replaces `ends` and `gradients` by those of the second half; run_backward() of these computes the rest.
/// `notes` may have fewer layers than `marks`. Call in the thread that built the graph, on its stream.
/// Errors: what a node throws, unchanged.
void run_input_half(std::vector<torch::autograd::Edge>& ends, Tensors& gradients, const torch::autograd::Node* inputs,
                    const LayerMarks& marks, SplitNotes& notes);

/// Like allow_walk(); and declares that a node may run twice, the first time without edges to weights, even if it has
/// no others, then with those only; and that it skips work for missing ones.
void allow_split(const std::type_info& node);
}  // namespace pipescope
