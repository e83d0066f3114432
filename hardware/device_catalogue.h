#pragma once

#include "profiler/profile/profile.h"

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// What a kernel of attention reaches, for causal attention: shares of the dtype's peak, for half of the pairs.
struct AttentionRate {
    double forward = 1;  ///< heads of 128, long sequences
    double backward = 1;
    double narrow_forward = 1;  ///< heads of 64
    double narrow_backward = 1;
    double wide_forward = 1;  ///< heads of 192
    double wide_backward = 1;
    double half_length = 0;  ///< tokens of a sequence at which it reaches half of these
    /// Waves of 256 queries of a head on each multiprocessor at which it reaches half of these: with few heads, most
    /// multiprocessors wait for the last queries, which attend to the most keys.
    double forward_half_waves = 0;
    double backward_half_waves = 0;

    friend bool operator==(const AttentionRate&, const AttentionRate&) = default;
};

/// A type of device to rent, with its published figures. Rates are dense peaks; a program reaches the peak times an
/// efficiency.
///
/// The efficiencies are assumed, not published: 0.5 to 0.6 of the compute peak and 0.75 to 0.8 of the bandwidths, as in
/// other roofline estimates (torch's RuntimeEstimator: 75 % of the compute peak).
struct DeviceType {
    std::string name;                                ///< such as A100
    std::map<std::string, double> flops_per_second;  ///< by dtype; always has float32, without TF32
    Bytes memory_bytes = 0;                          ///< as the driver reports it
    Bytes headroom_bytes = 0;  ///< part of it that tensors cannot use: context, collectives' buffers, allocator
    double memory_bytes_per_second = 0;
    double link_bytes_per_second = 0;  ///< between two devices of one host, per direction
    double link_latency_ns = 0;
    double launch_ns = 0;           ///< minimum time from one kernel to the next
    double compute_efficiency = 1;  ///< greater than 0, at most 1
    double memory_efficiency = 1;
    double link_efficiency = 1;
    double matmul_efficiency = 1;        ///< for a large matrix product whose tiles fill the device
    double short_matmul_efficiency = 1;  ///< the same for a product in one of short_dtypes()
    int multiprocessors = 0;  ///< these run a product's tiles in turns; 0: unknown, every turn counts as full
    std::map<std::string, AttentionRate> attention;  ///< by kernel, such as flash-2
    double price_per_hour = 0;                       ///< in any currency; 0: unknown
    std::string source;                              ///< where the figures come from

    /// The memory available to tensors.
    Bytes tensor_bytes() const { return memory_bytes - headroom_bytes; }
    friend bool operator==(const DeviceType&, const DeviceType&) = default;
};

/// The built-in catalogue (hardware/devices.json), in file order.
std::vector<DeviceType> device_catalogue();
/// Parses another catalogue in the same format (docs/device-catalogue.md). Throws ProfileError with the JSON path of
/// the first fault.
std::vector<DeviceType> parse_device_catalogue(std::string_view json);
std::vector<DeviceType> load_device_catalogue(const std::filesystem::path& path);
/// Sets the type's headroom. Throws UsageError if it leaves no memory for tensors.
void set_headroom(DeviceType& device, Bytes headroom);
/// Finds a device by name, ignoring case. Throws UsageError that lists the names.
const DeviceType& find_device(const std::vector<DeviceType>& catalogue, std::string_view name);

/// A dtype of products alone, in which neither parameters nor activations are.
struct ShortDtype {
    std::string name;
    double bytes = 1;  ///< of a number
    std::string rate;  ///< dtype whose rate holds unless the catalogue says otherwise
    std::string with;  ///< and which the device needs besides
};

/// float8 has one scale for each tensor, and float8-rowwise for each row and column. float8-mx and float4 have one for
/// each block of numbers, which the same tensor cores multiply: devices have both or none.
const std::vector<ShortDtype>& short_dtypes();
/// Bytes of a number in a product, in a dtype of profiles or of products alone.
double product_bytes(const std::string& dtype);

/// Peak operations per second in that dtype. Throws UsageError that lists the dtypes of the device.
double peak_rate(const DeviceType& device, const std::string& dtype);

/// Multiply-adds along k that it takes to fill and drain a tile's pipeline. Assumed, as the efficiencies are.
inline constexpr double kTileDepth = 64;
/// Work of `batch` products of an m x k with a k x n matrix. A product is cut into tiles, of which each multiprocessor
/// runs one at a time, so the last turn may be partly filled. Takes the fastest of the usual tile sizes and cuts along
/// k.
///
/// The flops are scaled to a product that takes as long at compute_efficiency, so that estimated_ns() applies.
DeviceWork matmul_work(const DeviceType& device, const std::string& dtype, double m, double n, double k,
                       double batch = 1, double depth = kTileDepth);

/// Roofline estimate of the time in ns: the longer of computing and moving, each at its peak times its efficiency, and
/// at least the launches:
///
///     max(kernels launch_ns, flops / (peak compute_efficiency), bytes_moved / (bandwidth memory_efficiency))
///
/// Errors of 10 to 40 % per layer are common: the estimate ignores caches, other convolution algorithms and partly
/// filled devices. Throws UsageError for a dtype without a rate on the device.
double estimated_ns(const DeviceType& device, const std::string& dtype, const DeviceWork& work);

/// Returns the profile with times estimated for another device from the operators of the layers and the loss, as the
/// profile's program runs them (operator_times.h), and marks the times as estimated. Bytes do not change.
/// Without operators, a layer counts as one kernel forward and two backward, with its `flops` and bytes
/// (docs/device-catalogue.md). Throws UsageError if the device has no rate for the profile's dtype.
Profile with_estimated_times(const Profile& profile, const DeviceType& device);
/// with_estimated_times() for a profile from the user. Throws ProfileError if no layer has flops, as in a profile that
/// was written by hand or measured on emulated layers.
Profile retimed(const Profile& profile, const DeviceType& device);
}  // namespace pipescope
