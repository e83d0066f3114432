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
/// nodes may run in any thread. That costs about 1.5 µs a node, more than a small layer. A CPU lane's thread built the
/// sub-graph, runs all of it, and is in the right state already. Idea: do the rest of what the engine does (count what
/// each node waits for, sum what reaches it twice, check shapes, free what was saved), in the engine's order.
///
/// `gradients` belong to `ends`, which keep the graph alive. Adds to the parameters' .grad, by the rule of
/// leaf_gradients.h.
/// Returns false, with nothing touched, where only the engine will do: nodes on other devices, hooks and nodes that are
/// not LibTorch's (which may ask what backward they run in, or queue a callback for its end), anomaly detection, or a
/// backward already under way in this thread.
/// Errors: what a node throws, unchanged.
bool walk_backward(const std::vector<torch::autograd::Edge>& ends, Tensors& gradients);

/// As walk_backward(), and by torch's engine where only that will do.
void run_backward(const std::vector<torch::autograd::Edge>& ends, Tensors gradients);

/// Says that nodes of a type that is not LibTorch's do not mind in what backward they run. For the rest of the process;
/// call it before the first of them goes backward. Any thread.
void let_walk(const std::type_info& node);
}  // namespace pipescope
