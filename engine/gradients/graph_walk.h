#pragma once

#include "engine/layer.h"

#include <typeinfo>

namespace torch::autograd {
struct Edge;
}

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

/// Calls walk_backward(), or torch's engine if that returns false.
void run_backward(const std::vector<torch::autograd::Edge>& ends, Tensors gradients);

/// Declares that nodes of a type outside LibTorch do not depend on torch's engine. Holds for the rest of the process;
/// call it before the first of them goes backward. Any thread.
void allow_walk(const std::type_info& node);
}  // namespace pipescope
