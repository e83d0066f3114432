#include "cli/torch/environment.h"

#include "base/error.h"
#include "engine/cores/usable_cores.h"
#include "engine/device/lane_device.h"
#include "engine/engine_error.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <sys/utsname.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace pipescope {
namespace {
std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(": ");
        if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
            return line.substr(colon + 2);
        }
    }
    return "unknown";
}
}  // namespace

std::string environment_json() {
    utsname system{};
    uname(&system);
    return nlohmann::ordered_json{{"pipescope", PIPESCOPE_VERSION},
                                  {"libtorch", TORCH_VERSION},
                                  {"compiler", "GCC " __VERSION__},
                                  {"processor", processor_name()},
                                  {"cores", usable_cores()},
                                  {"threads", at::get_num_threads()},
                                  {"cpu_capability", at::get_cpu_capability()},
                                  {"kernel", std::string(system.sysname) + " " + system.release}}
        .dump();
}

c10::Device device_of_flag(const std::string& name) {
    try {
        return usable_device(name);
    } catch (const EngineError& error) {
        throw UsageError(error.what());
    }
}
}  // namespace pipescope
