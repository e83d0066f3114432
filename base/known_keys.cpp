#include "base/known_keys.h"

#include "base/nearest_name.h"
#include "base/printable.h"

#include <functional>

namespace pipescope {
std::string instead_of_key(std::string_view key, const std::vector<std::string>& known) {
    if (const std::optional<std::string> nearest = nearest_name(key, known)) {
        return "the nearest key is " + *nearest;
    }
    return "the keys here are " + joined_text(known, ", ", std::identity());
}
}  // namespace pipescope
