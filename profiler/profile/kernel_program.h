#pragma once

#include <map>
#include <string>
#include <vector>

namespace pipescope {
/// How a training program's kernels run on a device, beside what the device can do (docs/program-format.md). The
/// defaults describe no program: every kernel reaches its usual rate, and nothing is added.
struct KernelProgram {
    std::string name = {};
    /// Operators between two products are one kernel, which moves the bytes that enter and leave it. Otherwise each
    /// operator moves its own: eager PyTorch. Counts for traced models; described ones are always fused.
    bool fused = true;
    /// Kernels of attention by preference; the first one for which the device has rates counts. Without any, attention
    /// reaches 0.7 of a product's rate.
    std::vector<std::string> attention = {};
    double product_share = 1;                             ///< of the device's matmul_efficiency
    std::map<std::string, double> product_share_on = {};  ///< by type of device; replaces product_share there
    double product_depth = 64;  ///< multiply-adds along the summed dimension to fill and drain a product's tile
    double work_factor = 1;     ///< of all kernels' times: what a calibration with measured steps sets
    std::map<std::string, double> work_factor_on = {};  ///< by type of device; multiplies work_factor there
    /// Tensors of the hidden width that a block moves per pass beside those of fused kernels: unfused operators,
    /// transposes, conversions of dtypes. In a traced model a block is an operator of attention, whose result is such a
    /// tensor.
    double forward_tensors = 0;
    double backward_tensors = 0;
    double loss_bytes = 20;   ///< moved per logit, forward and backward together
    double launch_ns = 0;     ///< host's time per kernel
    bool host_waits = false;  ///< the host launches a kernel only after the one before has ended

    /// The share of the device's matmul_efficiency that products reach on this type.
    double product_share_of(const std::string& device) const {
        const auto found = product_share_on.find(device);
        return found == product_share_on.end() ? product_share : found->second;
    }
    double work_factor_of(const std::string& device) const {
        const auto found = work_factor_on.find(device);
        return work_factor * (found == work_factor_on.end() ? 1 : found->second);
    }
    friend bool operator==(const KernelProgram&, const KernelProgram&) = default;
};
}  // namespace pipescope
