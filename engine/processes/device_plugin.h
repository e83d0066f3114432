#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <string>

// The interface of a plugin library that carries tensors from the device of one process to that of another. NCCL's is
// engine/processes/nccl/nccl_plugin.cpp. Only such libraries and the engine include this file, built with one compiler
// against one torch.

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace pipescope {
/// Changes with everything below.
inline constexpr std::uint32_t kDevicePluginAbi = 1;

/// One of the two ends of a connection. Both ends call connect() with the same store and name.
struct DeviceEnd {
    c10d::Store* store;                  ///< of this connection alone
    std::string name;                    ///< equal on both ends, and of no other connection of this run
    int rank;                            ///< 0: sends; 1: receives
    c10::Device device;                  ///< where the tensors are
    std::chrono::milliseconds patience;  ///< for the other end to come
};

/// Threading: all functions from any thread. They may throw std::exception.
struct DevicePlugin {
    std::uint32_t abi;          ///< kDevicePluginAbi of the library's build. Always the first member
    const char* torch_version;  ///< TORCH_VERSION of the library's build
    const char* name;           ///< for messages: "NCCL"
    const char* device_type;    ///< torch's name of the devices that it serves: "cuda"
    /// Says why this process cannot use the library; empty if it can.
    std::string (*missing)();
    /// Equal for one device in all processes of all hosts, and different for any two devices.
    std::string (*identity)(c10::Device device);
    /// A backend of two ranks. Its send() and recv() take one contiguous tensor on the device, return once they are
    /// enqueued after the current stream's work, and are matched in order; Work::synchronize() makes the current stream
    /// wait for their end. Its abort() ends all enqueued work, from any thread. The caller takes over the reference, as
    /// from c10::intrusive_ptr::release().
    c10d::Backend* (*connect)(const DeviceEnd& end);
};

/// The library's only exported function, with C linkage; returns a plugin that lives as long as the process.
using DevicePluginFunction = const DevicePlugin* (*)();
inline constexpr const char* kDevicePluginFunction = "pipescope_device_plugin";
}  // namespace pipescope
