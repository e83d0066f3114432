#pragma once

#include <optional>

namespace pipescope {
/// The value of a hexadecimal digit. Empty for other characters.
constexpr std::optional<unsigned> hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return static_cast<unsigned>(c - '0');
    }
    const auto lower = static_cast<unsigned char>(static_cast<unsigned char>(c) | 0x20U);
    return lower >= 'a' && lower <= 'f' ? std::optional(lower - 'a' + 10U) : std::nullopt;
}
}  // namespace pipescope
