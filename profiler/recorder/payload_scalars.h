#pragma once

// For the files of the handler only: the predefined types of NVTX's payload extension (NVTX_PAYLOAD_ENTRY_TYPE_*).

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>

namespace pipescope {
inline constexpr std::size_t kMostPayloadElements = 1000;  ///< of an array, or of bytes shown; the rest is left out

struct PayloadScalar {
    std::size_t size = 0;  ///< bytes; 0: no scalar, such as a schema's or an enum's number
    nlohmann::ordered_json (*read)(const std::byte* at) = nullptr;
};
PayloadScalar payload_scalar(std::uint64_t type);

/// Bytes of one character of a character or a string; 0 for all other types.
std::size_t character_bytes(std::uint64_t type);
bool is_string(std::uint64_t type);
/// The characters themselves, up to a zero or `most` of them.
nlohmann::ordered_json payload_text(std::uint64_t type, const std::byte* at, std::size_t most);
/// "0x..", where nothing tells what the bytes mean.
nlohmann::ordered_json payload_bytes(const std::byte* at, std::size_t size);
}  // namespace pipescope
