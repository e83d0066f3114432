#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

namespace pipescope {
/// A name out of a file as a message may show it: on one line, whatever stands in it.
inline std::string printable(std::string name) {
    std::replace_if(
        name.begin(), name.end(), [](char each) { return (each >= 0 && each < 32) || each == 127; }, '?');
    return name;
}

/// The fewest digits that tell the number: 0.5, 1e+308, nan.
inline std::string shortest(double value) {
    std::array<char, 32> text{};
    return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}
}  // namespace pipescope
