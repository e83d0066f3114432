#include "schedule/known_keys.h"

#include "schedule/nearest_name.h"

namespace pipescope {
std::string instead_of_key(std::string_view key, const std::vector<std::string>& known) {
    if (const std::optional<std::string> nearest = nearest_name(key, known)) {
        return "the nearest key is " + *nearest;
    }
    std::string text = "the keys here are ";
    for (const std::string& each : known) {
        text += (&each == known.data() ? "" : ", ") + each;
    }
    return text;
}
}  // namespace pipescope
