#include "profiler/layers/free_memory.h"

#include "engine/device_memory.h"
#include "models/meta_device.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace pipescope {
namespace {
constexpr Bytes kKibibyte = 1024;

std::optional<Bytes> available_on_host() {
    std::ifstream file("/proc/meminfo");
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string name;
        Bytes kibibytes = 0;
        if (words >> name >> kibibytes && name == "MemAvailable:") {
            return kibibytes * kKibibyte;
        }
    }
    return std::nullopt;
}

std::optional<Bytes> number_in(const std::string& path) {
    std::ifstream file(path);
    Bytes number = 0;
    return file >> number ? std::optional(number) : std::nullopt;  // "max" is not a number: no limit
}

/// Free memory of the control group, which a container sees as its own.
std::optional<Bytes> left_by_control_group() {
    const auto most = number_in("/sys/fs/cgroup/memory.max");
    const auto used = number_in("/sys/fs/cgroup/memory.current");
    return most && used ? std::optional(std::max<Bytes>(0, *most - *used)) : std::nullopt;
}
}  // namespace

std::optional<Bytes> free_memory(c10::Device device) {
    if (!device.is_cpu()) {
        const std::optional<DeviceMemory> memory = device_memory(device);
        return memory && memory->total > 0 ? std::optional(memory->free) : std::nullopt;
    }
    const std::optional<Bytes> host = available_on_host();
    const std::optional<Bytes> group = left_by_control_group();
    return host && group ? std::min(*host, *group) : host ? host : group;
}

std::optional<Bytes> parameter_bytes_of(const ModelSpec& model) {
    try {
        const MetaDevice on_meta;
        Bytes bytes = 0;
        for (const LayerSpec& layer : model.layers) {
            for (const auto& [name, parameter] : layer.make()->parameters()) {
                bytes += static_cast<Bytes>(parameter.nbytes());
            }
        }
        return bytes;
    } catch (const std::exception&) {
        return std::nullopt;  // a user's factory may insist on real numbers; measuring then shows whether they fit
    }
}
}  // namespace pipescope
