#pragma once

// For the handler's files only: predefined types of NVTX's payload extension (NVTX_PAYLOAD_ENTRY_TYPE_*).

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pipescope {
inline constexpr std::size_t kMostPayloadElements = 1000;  ///< of an array, or of displayed bytes; the rest is omitted

template <class Value>
Value value_at(const std::byte* at) {
    Value value;
    std::memcpy(&value, at, sizeof(value));
    return value;
}

struct PayloadScalar {
    std::size_t size = 0;  ///< bytes; 0: not a scalar, such as a number of a schema or enum
    nlohmann::ordered_json (*read)(const std::byte* at) = nullptr;
};
PayloadScalar payload_scalar(std::uint64_t type);

/// Bytes per character of a character or string type; 0 for other types.
std::size_t character_bytes(std::uint64_t type);
bool is_string(std::uint64_t type);
/// The characters up to a zero, at most `most` of them.
nlohmann::ordered_json payload_text(std::uint64_t type, const std::byte* at, std::size_t most);
/// "0x..", for bytes of unknown meaning.
nlohmann::ordered_json payload_bytes(const std::byte* at, std::size_t size);
}  // namespace pipescope
