#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace pipescope {
/// Makes a text from a file safe for a message and a terminal: one line, control characters as \x1b. C1 controls count,
/// which are two bytes in UTF-8.
inline std::string printable(std::string_view text) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string safe;
    for (std::size_t k = 0; k < text.size(); ++k) {
        const auto byte = static_cast<unsigned char>(text[k]);
        const auto next = static_cast<unsigned char>(k + 1 < text.size() ? text[k + 1] : 0);
        const bool is_c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;
        if (byte < 32 || byte == 127 || is_c1) {
            const unsigned code = is_c1 ? next : byte;
            safe.append("\\x").append(1, kDigits[code / 16]).append(1, kDigits[code % 16]);
            k += is_c1 ? 1 : 0;
        } else {
            safe += text[k];
        }
    }
    return safe;
}

/// The text, cut after `most` bytes if it is longer: "0123..".
inline std::string shortened(std::string_view text, std::size_t most) {
    return text.size() <= most ? std::string(text) : std::string(text.substr(0, most)) + "..";
}

/// Shortest text that identifies the number: 0.5, 1e+308, nan.
inline std::string shortest(double value) {
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// The elements in one text, with the separator between them: "a, b, c". `as_text` is a function of an element, or one
/// of its members.
template <class Range, class Text>
std::string joined_text(const Range& all, std::string_view separator, const Text& as_text) {
    std::string text;
    for (const auto& each : all) {
        text += text.empty() ? std::string_view() : separator;
        text += std::invoke(as_text, each);
    }
    return text;
}
}  // namespace pipescope
