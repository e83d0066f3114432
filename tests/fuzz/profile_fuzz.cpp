// An accepted profile must be equal after writing and reading it.

#include "profiler/profile/profile.h"
#include "profiler/profile/profile_file.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pipescope;
    std::string text;
    try {
        text = to_json(parse_profile({reinterpret_cast<const char*>(data), size}));
    } catch (const ProfileError&) {
        return 0;
    }
    if (to_json(parse_profile(text)) != text) {
        std::abort();
    }
    return 0;
}
