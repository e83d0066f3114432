#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace pipescope {
/// The length of the UTF-8 character at the start of the text. 0 if there is no valid one: a stray byte, an overlong
/// form, half of a surrogate pair, or a value beyond U+10FFFF.
inline std::size_t utf8_length(std::string_view text) {
    const auto byte = [&](std::size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0U; };
    const unsigned first = byte(0);
    if (first < 0x80) {
        return text.empty() ? 0 : 1;
    }
    const std::size_t length = first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : 4;
    if (first < 0xc2 || first > 0xf4) {
        return 0;
    }
    for (std::size_t k = 1; k < length; ++k) {
        if (byte(k) < 0x80 || byte(k) >= 0xc0) {
            return 0;
        }
    }
    const bool is_wrong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0) ||
                          (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90);
    return is_wrong ? 0 : length;
}

/// Makes a text from a file safe for a message and a terminal: one line of UTF-8. Control characters and invalid bytes
/// become \x1b and the like. So do C1 controls, which a terminal accepts as one byte or as two in UTF-8.
inline std::string printable(std::string_view text) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string safe;
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        const auto byte = static_cast<unsigned char>(text[0]);
        const bool is_c1 = length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
        if (length == 0 || byte < 32 || byte == 127 || is_c1) {
            const unsigned code = is_c1 ? static_cast<unsigned char>(text[1]) : byte;
            safe.append("\\x").append(1, kDigits[code / 16]).append(1, kDigits[code % 16]);
        } else {
            safe += text.substr(0, length);
        }
        text.remove_prefix(length == 0 ? 1 : length);
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

/// The elements in one text, separated: "a, b, c". `as_text` is a function of an element, or a member of it.
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
