#pragma once

#include "engine/layer.h"

namespace torch::autograd {
struct Edge;
struct FunctionPreHook;
struct Node;
}  // namespace torch::autograd

namespace pipescope {
// Who owns a gradient's storage.
//
// On its way a gradient has no owner. The caller's tensor, the parts it is cut into, what a partition hands back and
// both ends of a skip may be views of one storage; everybody only reads. (Autograd adds two gradients in place only
// where it holds the storage alone.) A leaf's .grad owns its storage alone, from the moment it is there: the next
// micro-batch adds to it in place, while what it was computed from may still be on its way to another lane.
//
// Problem: torch's AccumulateGrad makes the first gradient that reaches a leaf its .grad as it is, where no other
// tensor object is the same. Another view of the storage may be anywhere. Torch alone adds only once per backward(); a
// pipeline does so for every micro-batch. Idea: ask for the storage right before, and copy where somebody else holds
// it. A count of one is final, since nobody else can take a reference then; of a larger one another lane may let go at
// the same time, which costs a copy and no more. Cost where nothing is shared: one comparison for each leaf.
//
// What goes back to the caller, as the gradient of its input, is the caller's alone too: its leaf would keep it as
// .grad.

/// Whether somebody besides this tensor holds its storage. False where it is undefined or has none.
bool is_storage_shared(const at::Tensor& tensor);

/// Called before a node runs. Where it is a leaf's AccumulateGrad and would keep its gradient, puts a copy into
/// `gradients` if the storage has another holder.
void own_leaf_gradient(torch::autograd::Node& node, Tensors& gradients);

/// Lets all leaves behind `ends` do the same where torch's engine runs their nodes, by a hook that stays as long as the
/// node. Goes no further than `boundary`, which may be null. Call from one thread at a time.
void own_leaf_gradients(const std::vector<torch::autograd::Edge>& ends, const torch::autograd::Node* boundary);

/// Whether it is that hook.
bool owns_leaf_gradient(const torch::autograd::FunctionPreHook& hook);
}  // namespace pipescope
