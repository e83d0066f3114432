#pragma once

#include "engine/layer.h"

namespace pipescope {
// Edges without values, by which the paper's driver gives autograd an order. fork() takes a phony from a tensor and
// join() ties it to another. Backward then cannot pass the forked tensor before it has passed the joined one.
//
//     (i-1, j) ──> output ── fork ──> output'              forward, left to right
//                             │ phony
//     (i, j-1) ──> output ── join ──> output' ──> (i, j)   backward: (i, j) before (i-1, j)
//
// Source: torchgpipe (arXiv 2004.09910), section 3.2.2.

struct Forked {
    Tensors tensors;   ///< the same tensors; the first that requires a gradient is now behind the fork
    at::Tensor phony;  ///< no elements, requires a gradient; undefined if no tensor does, or if gradients are off
};
Forked fork(const Tensors& tensors);

/// Returns the same tensors; the first that can carry a gradient now comes from the join. Returns them unchanged if
/// none can or if the phony requires no gradient.
Tensors join(const Tensors& tensors, const at::Tensor& phony);
}  // namespace pipescope
