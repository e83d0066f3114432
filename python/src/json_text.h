#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace pipescope {
/// One line. Names of files need not be UTF-8; what is not is replaced.
inline std::string json_text(const nlohmann::ordered_json& object) {
    return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}
}  // namespace pipescope
