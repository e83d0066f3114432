// The first 8 bytes are the number of bytes of tensors, the rest is the header. An accepted header must be equal after
// writing and reading it.

#include "save/safetensors.h"
#include "save/save_error.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace pipescope;
    std::uint64_t data_bytes = 0;
    if (size < sizeof data_bytes) {
        return 0;
    }
    std::memcpy(&data_bytes, data, sizeof data_bytes);
    const std::string_view text(reinterpret_cast<const char*>(data) + sizeof data_bytes, size - sizeof data_bytes);
    SafetensorsHeader header;
    try {
        header = parse_safetensors_header(text, data_bytes);
    } catch (const SaveError&) {
        return 0;
    }
    if (parse_safetensors_header(to_json(header), data_bytes) != header) {
        std::abort();
    }
    return 0;
}
