#pragma once

#include "engine/layer.h"
#include "hardware/device_catalogue.h"
#include "profiler/profile/profile.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
struct MetaProfileOptions {
    std::vector<std::int64_t> samples = {1, 2, 4};  ///< micro-batch sizes, ascending
    std::function<void(double done)> progress;      ///< 0..1; may be empty
    bool tf32 = false;                              ///< products of float32 tensors run in TF32
    bool makes_meta_batches = false;                ///< make_batch() itself makes meta batches, of any size
    std::optional<KernelProgram> program = {};      ///< that times are estimated for; empty: eager PyTorch
};

/// Profiles the model without its memory, on torch's meta device. Shapes, parameters, saved bytes and flops equal those
/// of profile_model(). Times are estimated for `device`, one operator after the other (operator_work.h,
/// device_catalogue.h), and the profile is flagged as estimated. `transient_bytes` excludes the scratch memory of
/// kernels.
///
/// Precondition: the tracking allocator is installed; otherwise throws Error. Throws UsageError for invalid sizes, or
/// if the device has no rate for the parameters' dtype. Exceptions of a layer pass unchanged, for example torch's
/// rejection of an operator without a shape function.
Profile profile_on_meta(const ModelSpec& model, const MetaProfileOptions& options, const DeviceType& device);
/// Chooses the device once the parameters' dtype is known.
using DeviceForDtype = std::function<DeviceType(const std::string& dtype)>;
Profile profile_on_meta(const ModelSpec& model, const MetaProfileOptions& options, const DeviceForDtype& device_for);
}  // namespace pipescope
