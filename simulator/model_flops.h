#pragma once

#include "profiler/profile/profile.h"
#include "simulator/pipeline_options.h"

#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The operations that a step's model needs, and what its devices could do.
///
/// A step needs three times the operations of its forwards: a backward computes the gradients of its input and of its
/// weights, each with as many operations as the forward. A recompute is no work of the model and does not count, nor do
/// the loss and the optimizer.
/// Source: PaLM (arXiv 2204.02311), appendix B, which defines model FLOPs utilization (MFU).
struct ModelFlops {
    double step = 0;            ///< of the whole mini-batch, all replicas
    std::vector<double> lanes;  ///< by lane, of one replica
    /// Peak operations per second of all devices in the profile's dtype; empty unless the profile's device is one of
    /// the built-in catalogue.
    std::optional<double> peak_per_second;

    /// Operations per second of a step that takes that many ns.
    double per_second(double step_ns) const { return step_ns > 0 ? step / step_ns * 1e9 : 0; }
    double lane_per_second(std::size_t lane, double step_ns) const {
        return step_ns > 0 ? lanes.at(lane) / step_ns * 1e9 : 0;
    }
    /// 0 to 1; empty if the peak is not known.
    std::optional<double> utilization(double step_ns) const {
        return peak_per_second ? std::optional(per_second(step_ns) / *peak_per_second) : std::nullopt;
    }
};

/// Empty if the profile has no operations. Preconditions: the profile was checked, and check_options() passes.
std::optional<ModelFlops> model_flops(const Profile& profile, const PipelineOptions& options);

/// Peak operations per second of a device, by the name that its driver gives it, such as "NVIDIA A100-SXM4-80GB", or by
/// its name in the built-in catalogue. Of a pipeline over several types, such as "V100:1,H100:8", the mean of its
/// lanes. Empty for devices that are not in the catalogue, as variants with other clocks, and for dtypes without a
/// rate.
std::optional<double> device_peak(const std::string& device, const std::string& dtype);
}  // namespace pipescope
