#include "models/emulated_device_wait.h"

#include "base/error.h"
#include "engine/library_places.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

constexpr const char* kLibrary = "libpipescope_spin.so";
// The function of emulated_spin.cu: returns 0 on success, otherwise the runtime's error.
using Spin = int (*)(void* stream, unsigned long long nanoseconds);

struct SpinLibrary {
    std::string path;  // empty: not found
    Spin spin = nullptr;
    bool named = false;  // named by the user, who knows which device it is for
};

SpinLibrary open(const fs::path& path, bool named) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        return {};
    }
    return {path.string(), reinterpret_cast<Spin>(dlsym(library, "pipescope_spin")), named};
}

SpinLibrary find() {
    if (const char* const named = std::getenv("PIPESCOPE_SPIN_LIBRARY"); named != nullptr && *named != '\0') {
        return open(named, true);
    }
    for (const fs::path& path : places_of_library(kLibrary)) {
        if (SpinLibrary found = open(path, false); found.spin != nullptr) {
            return found;
        }
    }
    return {};
}

const SpinLibrary& spin_library() {
    static const SpinLibrary one = find();
    return one;
}
}  // namespace

void wait_on_device(c10::Device device, double nanoseconds) {
    const SpinLibrary& library = spin_library();
    if (library.spin == nullptr || !(device.is_cuda() || library.named)) {
        throw Error("device " + device.str() + " has no kernel that waits; emulated layers wait on the CPU and, with " +
                    kLibrary + ", on CUDA devices; build with the CUDA Toolkit (nvcc), or use cpu lanes");
    }
    const auto& guard = *c10::impl::getDeviceGuardImpl(device.type());
    const int error = library.spin(guard.getStreamNativeHandle(guard.getStream(device)),
                                   static_cast<unsigned long long>(std::llround(std::max(nanoseconds, 0.0))));
    if (error != 0) {
        throw Error("the waiting kernel on " + device.str() + " fails with CUDA error " + std::to_string(error) +
                    "; it must fit the device; build it on a machine with this GPU's CUDA Toolkit");
    }
}

DeviceWaitState device_wait_state() {
    const SpinLibrary& library = spin_library();
    if (library.spin != nullptr) {
        return {true, library.path};
    }
    return {false, std::string(kLibrary) +
                       " not found: emulated models run on cpu lanes only; build with the CUDA Toolkit (nvcc)"};
}
}  // namespace pipescope
