#pragma once

#include "engine/layer.h"

namespace pipescope {
// How the paper's driver tells autograd an order: edges that carry no values. fork() takes a phony from a tensor and
// join() ties it to another; backward then cannot go through the forked tensor before it went through the joined one.
//
//     (i-1, j) ──> output ── fork ──> output'              forward, left to right
//                             │ phony
//     (i, j-1) ──> output ── join ──> output' ──> (i, j)   backward: (i, j) before (i-1, j)
//
// Source: torchgpipe (arXiv 2004.09910), section 3.2.2.

struct Forked {
    Tensors tensors;   ///< the same, the first that requires a gradient now behind the fork
    at::Tensor phony;  ///< without elements, requires a gradient; undefined if none of them does, or gradients are off
};
Forked fork(const Tensors& tensors);

/// The same tensors, the first that can carry a gradient behind the join; as they are if none can or the phony requires
/// none.
Tensors join(const Tensors& tensors, const at::Tensor& phony);
}  // namespace pipescope
