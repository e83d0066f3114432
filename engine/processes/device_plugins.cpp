#include "engine/processes/device_plugins.h"

#include "engine/engine_error.h"
#include "engine/library_opening.h"
#include "engine/library_places.h"
#include "engine/processes/device_plugin.h"

#include <dlfcn.h>
#include <torch/version.h>

#include <filesystem>
#include <string_view>

namespace pipescope {
namespace {
constexpr const char* kNcclLibrary = "libpipescope_nccl.so";

std::string loaders_message() {
    const char* const message = dlerror();
    return message == nullptr ? "unknown error of the loader" : message;
}

bool is_path(const std::string& way) {
    return way.find('/') != std::string::npos;
}

void* open_nccl() {
    for (const std::filesystem::path& path : places_of_library(kNcclLibrary)) {
        if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
            return library;
        }
        if (std::error_code error; std::filesystem::exists(path, error)) {
            throw EngineError("'" + path.string() + "' cannot be loaded (" + loaders_message() +
                              "); NCCL and the CUDA libraries of its build must be there; install them with "
                              "scripts/setup --cuda, or send device messages through the host");
        }
    }
    throw EngineError(std::string(kNcclLibrary) +
                      " is neither in this program's folder nor in its ../lib; device messages by NCCL need it; "
                      "build PipeScope after scripts/setup --cuda, or send device messages through the host");
}

void* open(const std::string& way) {
    if (!is_path(way)) {
        return open_nccl();
    }
    void* const library = open_library(way, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        throw EngineError("'" + way + "' cannot be loaded (" + loaders_message() +
                          "); device messages need a plugin library; check the path and its libraries");
    }
    return library;
}
}  // namespace

void check_device_messages(const std::string& way) {
    if (way != "host" && way != "auto" && way != "nccl" && !is_path(way)) {
        throw UsageError(option_name("device-messages") + " is '" + way +
                         "'; it must be host, auto, nccl, or a plugin library's path with a '/'; use one of them");
    }
}

const DevicePlugin& device_plugin(const std::string& way) {
    void* const library = open(way);
    const auto function = reinterpret_cast<DevicePluginFunction>(dlsym(library, kDevicePluginFunction));
    const std::string path = is_path(way) ? way : kNcclLibrary;
    if (function == nullptr) {
        throw EngineError("'" + path + "' has no function " + kDevicePluginFunction +
                          "; a plugin for device messages exports it; use another library");
    }
    const DevicePlugin& plugin = *function();
    if (plugin.abi != kDevicePluginAbi) {
        throw EngineError("'" + path + "' has version " + std::to_string(plugin.abi) +
                          " of the interface for device messages, and this program version " +
                          std::to_string(kDevicePluginAbi) +
                          "; both must be equal; build the library with this PipeScope");
    }
    if (std::string_view(plugin.torch_version) != TORCH_VERSION) {
        throw EngineError("'" + path + "' was built with torch " + plugin.torch_version + ", and this program with " +
                          TORCH_VERSION + "; both must be equal; build the library with this PipeScope");
    }
    if (const std::string missing = plugin.missing(); !missing.empty()) {
        throw EngineError("device messages cannot go by " + std::string(plugin.name) + ": " + missing +
                          "; send them through the host");
    }
    return plugin;
}
}  // namespace pipescope
