#pragma once

#include "engine/layer.h"

#include <functional>
#include <string>
#include <vector>

namespace pipescope {
/// A node of the caller's autograd graph, made of functions.
struct GraphNode {
    std::string name;
    /// Gradients of the outputs in, of the inputs out, by position; undefined where there is none. Called in the thread
    /// that autograd runs the node in.
    std::function<Tensors(Tensors gradients)> backward;
    /// Lets go of what only backward needs, once it ran. May be empty.
    std::function<void()> release = {};
};

/// `outputs` as computed by the node from `inputs`: the same storages, for a gradient to reach where `differentiable`
/// says so, detached elsewhere. Undefined tensors stay so.
Tensors attach(GraphNode node, const Tensors& inputs, const Tensors& outputs, const std::vector<bool>& differentiable);

/// Hands the tensors on unchanged, those that require a gradient through a node whose backward calls `pass` on the way
/// and hands their gradients on.
Tensors send_through(std::string name, std::function<void(const Tensors& gradients)> pass, const Tensors& tensors);
}  // namespace pipescope
