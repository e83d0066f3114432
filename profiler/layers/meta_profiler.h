#pragma once

#include "balance/device_catalogue.h"
#include "balance/profile.h"
#include "engine/layer.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pipescope {
struct MetaProfileOptions {
    std::vector<std::int64_t> samples = {1, 2, 4};  ///< micro-batch sizes, ascending
    std::function<void(double done)> progress;      ///< 0..1; may be empty
    bool tf32 = false;                              ///< products of float32 tensors run in TF32
};

/// A profile of the model without its memory, on torch's meta device: shapes, parameters, saved bytes and flops are
/// those that profile_model() measures; times are estimated for `device`, one operator after the other
/// (operator_work.h, device_catalogue.h), and the profile is flagged so. `transient_bytes` leaves out the scratch
/// memory of kernels. Precondition: the tracking allocator is installed; throws Error. Throws UsageError for sizes that
/// make no sense, or a dtype of parameters that the device has no rate for; what a layer throws passes unchanged, such
/// as torch's refusal of an operator that has no shape function.
Profile profile_on_meta(const ModelSpec& model, const MetaProfileOptions& options, const DeviceType& device);
/// The same for a device that is made once the dtype of the parameters is known.
using DeviceForDtype = std::function<DeviceType(const std::string& dtype)>;
Profile profile_on_meta(const ModelSpec& model, const MetaProfileOptions& options, const DeviceForDtype& device_for);
}  // namespace pipescope
