#pragma once

#include "engine/layer.h"

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
/// `gradients` belong to `ends`, which keep the graph alive. Adds to the parameters' .grad.
/// Returns false, with nothing touched, where only the engine will do: nodes on other devices, hooks (which may ask
/// what backward they run in), anomaly detection, or a backward already under way in this thread.
/// Errors: what a node throws, unchanged.
bool walk_backward(const std::vector<torch::autograd::Edge>& ends, Tensors& gradients);
}  // namespace pipescope
