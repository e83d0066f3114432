#include "save/save_json.h"

#include "base/printable.h"

namespace pipescope {
std::string shown(const nlohmann::json& value) {
    constexpr std::size_t kLongest = 80;
    return shortened(value.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace), kLongest);
}
}  // namespace pipescope
