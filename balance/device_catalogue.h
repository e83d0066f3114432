#pragma once

#include "balance/profile.h"

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// A kind of device one can rent, by its published figures. Rates are dense peaks; what a program reaches of them is
/// the peak times the efficiency, which is our assumption and not published: halves and three quarters, as roofline
/// estimates of others take them (torch's RuntimeEstimator: 75 % of the compute peak).
struct DeviceType {
    std::string name;                                ///< such as A100
    std::map<std::string, double> flops_per_second;  ///< by dtype; float32 is always there, without TF32
    Bytes memory_bytes = 0;                          ///< what the driver reports
    double memory_bytes_per_second = 0;
    double link_bytes_per_second = 0;  ///< between two devices of one host, one way
    double link_latency_ns = 0;
    double launch_ns = 0;           ///< from one kernel to the next, at least
    double compute_efficiency = 1;  ///< 0 exclusive to 1
    double memory_efficiency = 1;
    double link_efficiency = 1;
    double price_per_hour = 0;  ///< in any currency; 0: not given
    std::string source;         ///< of the figures

    friend bool operator==(const DeviceType&, const DeviceType&) = default;
};

/// The catalogue that comes with PipeScope (balance/devices.json), in its order.
std::vector<DeviceType> device_catalogue();
/// Another one, in the same format (docs/device-catalogue.md). Throws ProfileError with the JSON path of the first
/// fault.
std::vector<DeviceType> parse_device_catalogue(std::string_view json);
std::vector<DeviceType> load_device_catalogue(const std::filesystem::path& path);
/// By name, letters of either case. Throws UsageError that lists the names.
const DeviceType& find_device(const std::vector<DeviceType>& catalogue, std::string_view name);

/// Peak operations a second in that dtype. Throws UsageError that lists the dtypes the device has rates for.
double peak_rate(const DeviceType& device, const std::string& dtype);

/// What a piece of work asks of a device.
struct DeviceWork {
    double flops = 0;
    double bytes_moved = 0;  ///< read from and written to the device's memory
    double kernels = 1;      ///< launches
};
/// How long it takes there, in ns: a roofline. The slower of computing and moving, each at its peak times its
/// efficiency, and not less than the launches:
///
///     max(kernels launch_ns, flops / (peak compute_efficiency), bytes_moved / (bandwidth memory_efficiency))
///
/// Errors of 10 to 40 % a layer are usual: caches, other algorithms for a convolution and partly filled devices are
/// outside. Throws UsageError for a dtype that the device has no rate for.
double estimated_ns(const DeviceType& device, const std::string& dtype, const DeviceWork& work);

/// What one layer's forward and backward ask for at size `k` of the profile, from its flops and bytes. Moved forward:
/// input, output, saved tensors and parameters once each; backward: input, output and their gradients, saved tensors,
/// parameters, and gradients read and written. Backward computes twice the forward's flops, for the gradients of input
/// and parameters, and once where one of them is not wanted: in layer 0, in a layer without trainable parameters.
DeviceWork forward_work(const Profile& profile, std::size_t layer, std::size_t k);
DeviceWork backward_work(const Profile& profile, std::size_t layer, std::size_t k);

/// The same model with the times of another device, estimated (and flagged so) from `flops` and bytes; bytes stay.
/// Throws ProfileError if no layer has flops: such a profile says nothing about another device; UsageError if the
/// device has no rate for the profile's dtype.
Profile retimed(const Profile& profile, const DeviceType& device);
}  // namespace pipescope
