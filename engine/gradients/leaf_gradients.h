#pragma once

#include "engine/layer.h"

#include <unordered_set>

namespace torch::autograd {
struct Edge;
struct Node;
}  // namespace torch::autograd

namespace pipescope {
// Ownership of a gradient's storage.
//
// A gradient in flight has no owner. The caller's tensor, the parts it is cut into, a partition's returned gradients
// and both ends of a skip may be views of one storage, and all users only read it. (Autograd adds two gradients in
// place only if it alone holds the storage.) A leaf's .grad, however, owns its storage alone from the start: the next
// micro-batch adds to it in place, while another lane may still read the gradient it came from.
//
// Problem: torch's AccumulateGrad makes the first gradient of a leaf its .grad without a copy if nothing else refers to
// that tensor object, but another view of its storage may exist anywhere. Plain torch adds only once per backward(); a
// pipeline adds for every micro-batch. Idea: check the storage right before, and copy if it has another holder. A count
// of one is final, since nobody else can take a reference then. With a larger count another lane may release it at the
// same time, which costs one needless copy. Cost without sharing: one comparison per leaf.
//
// The gradient that the caller's input receives is not shared either: the caller's leaf would keep it as .grad.

/// True if something besides this tensor holds its storage. False if it is undefined or has none.
bool is_storage_shared(const at::Tensor& tensor);
/// True if both hold the same storage. False if one is undefined or has none, as a sparse tensor.
bool share_storage(const at::Tensor& a, const at::Tensor& b);

/// Call before a node runs. If it is a leaf's AccumulateGrad that would keep its gradient, and the storage has another
/// holder, puts a copy into `gradients`.
void own_leaf_gradient(torch::autograd::Node& node, Tensors& gradients);

/// Does the same for all leaves that `ends` lead to if torch's engine runs their nodes, by a hook that lives as long as
/// the node. Goes no further than `boundary`, which may be null. Call from one thread at a time.
void own_leaf_gradients(const std::vector<torch::autograd::Edge>& ends, const torch::autograd::Node* boundary);

/// The leaves that a gradient of the tensor would reach, not owned.
std::unordered_set<const c10::TensorImpl*> leaves_behind(const at::Tensor& tensor);

/// True if the node has a pre-hook besides that one.
bool has_pre_hooks(torch::autograd::Node& node);
}  // namespace pipescope
