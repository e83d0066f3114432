#pragma once

#include "hardware/device_catalogue.h"
#include "profiler/profile/kernel_program.h"
#include "profiler/profile/operators.h"

#include <optional>
#include <string>

namespace pipescope {
/// Times in ns of single operators on a type of device, as a program runs them: of described models (gpt:, hf:) and of
/// traced ones alike.
///
/// Borrows device and program. Throws UsageError for a dtype without a rate on the device, where it is needed.
class OperatorTimes {
public:
    OperatorTimes(const DeviceType& device, std::string dtype, const KernelProgram& program);
    OperatorTimes(const DeviceType& device, std::string dtype, KernelProgram&& program) = delete;

    /// A product of weights, or of activations.
    double product(const ProductShape& shape) const { return product(shape, dtype_); }
    /// In another dtype than the model's, such as float8.
    ///
    /// Many products at once, such as those of heads, lie in larger tensors. If their rows are no multiple of 16 bytes,
    /// tensor cores cannot load them, and the usual cores compute (NVIDIA, Matrix Multiplication Background User's
    /// Guide).
    double product(const ProductShape& shape, const std::string& dtype) const;
    /// Products with as many weight matrices as `shape.batch` says, such as those of experts: each lies by itself, and
    /// has a kernel of its own, whose start nothing hides.
    double matrices(const ProductShape& shape, const std::string& dtype) const;
    /// A kernel of attention that never stores scores.
    double attention(const AttentionShape& shape) const;
    /// A kernel that only moves bytes. Takes at least a launch.
    double pass(double bytes) const { return roofline({0, bytes, 1}); }
    /// The same, but without bytes there is no kernel.
    double added_pass(double bytes) const { return bytes > 0 ? pass(bytes) : 0; }
    /// Work without a shape, at the device's usual rate.
    double roofline(const DeviceWork& work) const;
    /// Any of these, by its shape.
    double of(const DeviceWork& work) const;
    /// A layer's or a loss's pass: `operators` one after the other, or with a program that fuses, the operators with
    /// products and the `chains` of all others (docs/profile-format.md). `tensors` is the number of tensors that a
    /// block moves in addition.
    double all(const Operators& operators, const Operators& chains, double tensors) const;
    /// A pass whose kernels take `work` on the device, with the time of the host that launches so many.
    double launched(double work, double kernels) const;

private:
    double aligned_product(const ProductShape& shape, const std::string& dtype) const;
    std::optional<AttentionRate> attention_rate(const AttentionShape& shape) const;

    const DeviceType& device_;
    std::string dtype_;
    const KernelProgram& program_;
    double work_factor_ = 1;  // of the program on this type of device
    double element_ = 2;      // bytes
};
}  // namespace pipescope
