#pragma once

#include "profiler/profile/profile.h"

#include <cstdint>
#include <memory>

namespace pipescope {
/// While it lives, records the device work of this thread's operators: one DeviceWork for each that computes or moves
/// anything.
///
/// Idea: torch calls an observer around every operator, nested ones included, on real and meta tensors alike, in
/// forward and in this thread's backward. Matrix products, convolutions and attention are counted by formula, a
/// multiply-add as two operations; all others with no operations and the bytes of their input and output tensors. An
/// operator that only calls others is not counted itself; one with a kernel counts as a whole. Views move nothing.
///
///     mm (m, k) (k, n)       2 m k n; bmm, addmm, baddbmm, mv, addmv, dot alike
///     convolution            2 |output| |weight| / output channels; transposed: 2 |input| |weight| / input channels
///     its backward           the same for each of the gradients of input and weight
///     attention              2 b h s t (e + f) for queries s, keys t, features e and f; backward: 2.5 times that
///
/// Source of the conventions: torch.utils.flop_counter. Threading: belongs to the thread that made it; one at a time.
class OperatorCount {
public:
    OperatorCount();
    ~OperatorCount();
    OperatorCount(const OperatorCount&) = delete;
    OperatorCount& operator=(const OperatorCount&) = delete;

    /// The operators since the last call.
    Operators take();

private:
    std::uint64_t handle_ = 0;
};

double total_flops(const Operators& work);
}  // namespace pipescope
