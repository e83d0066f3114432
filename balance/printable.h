#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

namespace pipescope {
/// Makes a name from a file safe for a message: one line, whatever it contains.
inline std::string printable(std::string name) {
    std::replace_if(
        name.begin(), name.end(), [](char each) { return (each >= 0 && each < 32) || each == 127; }, '?');
    return name;
}

/// Shortest text that identifies the number: 0.5, 1e+308, nan.
inline std::string shortest(double value) {
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}
}  // namespace pipescope
