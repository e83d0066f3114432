#pragma once

#include "profiler/profile/operators.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace pipescope {
/// During its lifetime, records the device work of this thread's operators: one DeviceWork for each operator that
/// computes or moves anything, with its shape if it is a product or attention; and the chains of the others that a
/// compiler makes one kernel (operator_chains.h).
///
/// Idea: torch calls an observer around every operator, including nested ones, on real and meta tensors alike, in
/// forward and in this thread's backward. Matrix products, convolutions and attention are counted by formula, a
/// multiply-add as two operations. All others count as no operations and the bytes of their input and output tensors;
/// those that look rows up in a table count these rows.
/// An operator that only calls others does not count itself; one with a kernel counts as a whole. Views move nothing.
///
///     mm (m, k) (k, n)       2 m k n; the same for bmm, addmm, baddbmm, mv, addmv, dot
///     convolution            2 |output| |weight| / output channels; transposed: 2 |input| |weight| / input channels
///     its backward           the same for each of the gradients of input and weight
///     attention              2 b h s t (e + f) for queries s, keys t, features e and f; backward: 2.5 times that.
///                            Causal attention counts all pairs too, but its shape says that half of them are computed
///
/// Source of the conventions: torch.utils.flop_counter. Threading: belongs to the thread that made it; one at a time.
class OperatorCount {
public:
    OperatorCount();
    ~OperatorCount();
    OperatorCount(const OperatorCount&) = delete;
    OperatorCount& operator=(const OperatorCount&) = delete;

    /// The operators since the last call: a part of the record.
    Operators take();
    /// Says that something outside needs these tensors as they are now, although they will be gone at the end.
    void keep(const std::vector<at::Tensor>& tensors);
    /// For each part so far: its chains. What exists now was written.
    std::vector<Operators> chains() const;

private:
    std::uint64_t handle_ = 0;
};

double total_flops(const Operators& work);
}  // namespace pipescope
