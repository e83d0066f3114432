// The first byte selects the quantity. An accepted value must be finite and not negative.

#include "base/error.h"
#include "base/quantities.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pipescope;
    if (size == 0) {
        return 0;
    }
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    double value = 0;
    try {
        switch (data[0] % 3) {
            case 0: value = parse_duration_ns(text, "--link-latency"); break;
            case 1: value = static_cast<double>(parse_bytes(text, "--memory-limit")); break;
            default: value = parse_bandwidth(text, "--link-bandwidth");
        }
    } catch (const UsageError&) {
        return 0;
    }
    if (!std::isfinite(value) || value < 0) {
        std::abort();
    }
    return 0;
}
