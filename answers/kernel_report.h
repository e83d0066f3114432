#pragma once

#include "analysis/kernel_sums.h"
#include "analysis/trace_comparison.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace pipescope {
/// The object of `kernels` in compare.schema.json, or null without device work.
nlohmann::ordered_json kernels_json(const KernelSums& sums);
/// The list of `kernels` in compare-runs.schema.json.
nlohmann::ordered_json kernels_json(const std::vector<ComparedKernels>& kernels);
/// Tables of the names with the largest sums; empty without device work.
std::string kernels_text(const KernelSums& sums);
std::string kernels_text(const std::vector<ComparedKernels>& kernels);
/// The share of the devices' time that nothing explains, and the lanes that have it; empty if unknown.
std::string device_text(const std::vector<LaneDeviceTime>& devices);
/// That share of all lanes, or null.
nlohmann::ordered_json unattributed_json(const std::vector<LaneDeviceTime>& devices);
}  // namespace pipescope
