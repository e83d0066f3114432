#pragma once

#include "engine/layer.h"

#include <functional>
#include <string>
#include <vector>

namespace pipescope {
/// A node of the caller's autograd graph, made from functions.
struct GraphNode {
    std::string name;
    /// Takes the gradients of the outputs and returns those of the inputs, by position; undefined if there is none.
    /// Runs in the thread that autograd chooses for the node.
    std::function<Tensors(Tensors gradients)> backward;
    /// Frees data that only backward needs, after it ran. May be empty.
    std::function<void()> release = {};
};

/// Returns `outputs` as computed by the node from `inputs`, in the same storages. Those with `differentiable` pass
/// gradients to the node; the others are detached. Undefined tensors stay undefined.
Tensors attach(GraphNode node, const Tensors& inputs, const Tensors& outputs, const std::vector<bool>& differentiable);

/// Returns the tensors unchanged. Those that require a gradient pass through a node whose backward calls `pass` and
/// then passes their gradients on.
Tensors send_through(std::string name, std::function<void(const Tensors& gradients)> pass, const Tensors& tensors);
}  // namespace pipescope
