#include "engine/cuda_runtime.h"

#include <c10/core/Allocator.h>
#include <c10/util/env.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

namespace pipescope {
namespace {
/// Process-wide, as loaded libraries are.
struct CudaState {
    bool asked = false;
    std::string missing = "load_cuda() was not called before LibTorch was first used";
};
CudaState& state() {
    static CudaState one;
    return one;
}

std::string loader_message() {
    const char* const message = dlerror();
    return message == nullptr ? "unknown error of the loader" : message;
}

/// Uses the driver's C interface, so that no CUDA header is needed: CUresult is an int, 0 is success.
std::string driver_problem() {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr) {
        return "no CUDA driver was found (libcuda.so.1)";
    }
    const auto initialise = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
    const auto count_devices = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
    if (initialise == nullptr || count_devices == nullptr) {
        return "libcuda.so.1 is not a CUDA driver";
    }
    if (const int error = initialise(0); error != 0) {
        return "the CUDA driver does not start (cuInit gives " + std::to_string(error) + ")";
    }
    int count = 0;
    if (count_devices(&count) != 0 || count == 0) {
        return "the CUDA driver knows no device";
    }
    return "";
}

/// Path of the library in the folder of this program's LibTorch.
std::string beside_torch(const std::string& name) {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(&c10::GetAllocator), &info) == 0 || info.dli_fname == nullptr) {
        return name;
    }
    const std::string path = info.dli_fname;
    return path.substr(0, path.rfind('/') + 1) + name;
}

std::string load() {
    const char* const wanted = std::getenv("PIPESCOPE_CUDA");
    if (wanted != nullptr && std::string_view(wanted) == "0") {
        return "the environment variable PIPESCOPE_CUDA is 0";
    }
    // Before the driver starts. By default streams share 8 queues; one that waits for another process could then hold
    // back what that process waits for (processes/lane_channels.h).
    c10::utils::set_env("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/false);
    std::string missing = driver_problem();
    if (!missing.empty()) {
        return missing;
    }
    // Its operators register themselves and refer to torch_cpu's, so each library must see the other's symbols.
    if (dlopen(beside_torch("libtorch_cuda.so").c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
        return "libtorch_cuda.so cannot be loaded (" + loader_message() +
               "); scripts/setup --cuda installs what it needs";
    }
    return "";
}
}  // namespace

bool load_cuda() {
    if (!state().asked) {
        state().asked = true;
        state().missing = load();
    }
    return state().missing.empty();
}

std::string why_no_cuda() {
    return state().missing;
}
}  // namespace pipescope
