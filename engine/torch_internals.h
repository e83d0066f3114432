#pragma once

// What the engine uses of torch's autograd beyond its documented interface: nodes, edges, hooks, versions, the engine.
//
// Problem: torch changes these from one minor version to the next. Idea: the engine includes them here only, and names
// here what differs by version, so one source compiles with each version of docs/evidence/status.md.
// tests/engine/torch_internals_test.cpp has a test for each behaviour that the engine relies on. Internals of another
// kind, which no version has changed so far, are each in the one place that needs them: dispatch keys in
// layer_dispatch_key.h, c10d in processes/transport.cpp, allocators in profiler/memory/.
// Cost: 3 s for a file that includes it; no header does.

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <memory>
#include <utility>

namespace pipescope {
/// Owns a node together with the edges that lead to it.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
template <class Node = torch::autograd::Node>
using NodePtr = std::shared_ptr<Node>;
#else
template <class Node = torch::autograd::Node>
using NodePtr = c10::intrusive_ptr<Node>;
#endif

/// A node that autograd frees as it frees its own: a long chain of nodes does not recurse.
template <class Node, class... Arguments>
NodePtr<Node> make_node(Arguments&&... arguments) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
    return NodePtr<Node>(new Node(std::forward<Arguments>(arguments)...), torch::autograd::deleteNode);
#else
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
#endif
}

/// Lets gradients of the leaf go to this node, which it does not own. Null: to one that is made when it is needed.
inline void set_accumulator(const at::Tensor& leaf, const NodePtr<>& node) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
    torch::autograd::impl::set_grad_accumulator(leaf, std::weak_ptr<torch::autograd::Node>(node));
#else
    torch::autograd::impl::set_grad_accumulator(leaf, c10::weak_intrusive_ptr<torch::autograd::Node>(node));
#endif
}

/// Runs a graph backward in torch's engine: frees it, and adds to the leaves' .grad.
inline void run_engine(const torch::autograd::edge_list& ends, const torch::autograd::variable_list& gradients) {
    torch::autograd::Engine::get_default_engine().execute(ends, gradients, /*keep_graph=*/false,
                                                          /*create_graph=*/false, /*accumulate_grad=*/true);
}
}  // namespace pipescope
