#pragma once

#include <algorithm>
#include <string>

namespace pipescope {
/// A name out of a file as a message may show it: on one line, whatever stands in it.
inline std::string printable(std::string name) {
    std::replace_if(
        name.begin(), name.end(), [](char each) { return (each >= 0 && each < 32) || each == 127; }, '?');
    return name;
}
}  // namespace pipescope
