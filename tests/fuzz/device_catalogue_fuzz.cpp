#include "base/error.h"
#include "hardware/device_catalogue.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pipescope;
    try {
        for (const DeviceType& device : parse_device_catalogue({reinterpret_cast<const char*>(data), size})) {
            if (!(estimated_ns(device, "float32", {1e9, 1e6, 1}) >= 0)) {
                std::abort();
            }
        }
    } catch (const Error&) {
        return 0;
    }
    return 0;
}
