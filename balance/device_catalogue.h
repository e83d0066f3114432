#pragma once

#include "balance/profile.h"

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// A type of device to rent, with its published figures. Rates are dense peaks. A program reaches the peak times an
/// efficiency. The efficiencies are our assumption and not published: 1/2 and 3/4, as in other roofline estimates
/// (torch's RuntimeEstimator: 75 % of the compute peak).
struct DeviceType {
    std::string name;                                ///< such as A100
    std::map<std::string, double> flops_per_second;  ///< by dtype; always has float32, without TF32
    Bytes memory_bytes = 0;                          ///< as the driver reports it
    double memory_bytes_per_second = 0;
    double link_bytes_per_second = 0;  ///< between two devices of one host, per direction
    double link_latency_ns = 0;
    double launch_ns = 0;           ///< minimum time from one kernel to the next
    double compute_efficiency = 1;  ///< greater than 0, at most 1
    double memory_efficiency = 1;
    double link_efficiency = 1;
    double price_per_hour = 0;  ///< in any currency; 0: unknown
    std::string source;         ///< of the figures

    friend bool operator==(const DeviceType&, const DeviceType&) = default;
};

/// The built-in catalogue (balance/devices.json), in file order.
std::vector<DeviceType> device_catalogue();
/// Parses another catalogue in the same format (docs/device-catalogue.md). Throws ProfileError with the JSON path of
/// the first fault.
std::vector<DeviceType> parse_device_catalogue(std::string_view json);
std::vector<DeviceType> load_device_catalogue(const std::filesystem::path& path);
/// Finds a device by name, ignoring case. Throws UsageError that lists the names.
const DeviceType& find_device(const std::vector<DeviceType>& catalogue, std::string_view name);

/// Peak operations per second in that dtype. Throws UsageError that lists the dtypes of the device.
double peak_rate(const DeviceType& device, const std::string& dtype);

/// Demand of a piece of work on a device.
struct DeviceWork {
    double flops = 0;
    double bytes_moved = 0;  ///< read from and written to the device's memory
    double kernels = 1;      ///< launches
};
/// Roofline estimate of the time in ns: the slower of computing and moving, each at its peak times its efficiency, but
/// at least the launches:
///
///     max(kernels launch_ns, flops / (peak compute_efficiency), bytes_moved / (bandwidth memory_efficiency))
///
/// Errors of 10 to 40 % per layer are common: the estimate ignores caches, other convolution algorithms and partly
/// filled devices. Throws UsageError for a dtype without a rate on the device.
double estimated_ns(const DeviceType& device, const std::string& dtype, const DeviceWork& work);

/// Demand of one layer's forward and backward at size `k` of the profile, from its flops and bytes. Forward moves
/// input, output, saved tensors and parameters once each. Backward moves input, output and their gradients, saved
/// tensors and parameters, and reads and writes parameter gradients. Backward needs twice the flops of forward, for the
/// gradients of input and parameters. It needs only once the flops if one of them is not wanted: in layer 0, and in
/// layers without trainable parameters.
DeviceWork forward_work(const Profile& profile, std::size_t layer, std::size_t k);
DeviceWork backward_work(const Profile& profile, std::size_t layer, std::size_t k);

/// The same model with times estimated for another device, and flagged so, from `flops` and bytes. Bytes do not change.
/// Throws ProfileError if no layer has flops, and UsageError if the device has no rate for the profile's dtype.
Profile retimed(const Profile& profile, const DeviceType& device);
}  // namespace pipescope
