#pragma once

#include <string_view>

namespace pipescope {
/// A library exception's message without the error number in front. "[json.exception.parse_error.101] parse error at
/// line 1, column 3" becomes "parse error at line 1, column 3".
inline std::string_view without_error_number(std::string_view what) {
    const std::size_t behind = what.find("] ");
    return what.starts_with('[') && behind != std::string_view::npos ? what.substr(behind + 2) : what;
}
}  // namespace pipescope
