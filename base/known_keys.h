#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
// A file that people write refuses keys that its format does not have: a mistyped key would silently leave the default
// in place. Files that only programs write, such as profiles, may get further keys within a version.

/// What to write instead of an unknown key: "the nearest key is times", or "the keys here are format, times".
std::string instead_of_key(std::string_view key, const std::vector<std::string>& known);

struct UnknownKey {
    std::string key;
    std::string instead;  ///< instead_of_key()
};
/// The first key of a JSON object that is not among `known`. Empty if there is none.
template <class Object>
std::optional<UnknownKey> unknown_key_of(const Object& object, const std::vector<std::string>& known) {
    for (const auto& [key, value] : object.items()) {
        if (std::ranges::find(known, key) == known.end()) {
            return UnknownKey{key, instead_of_key(key, known)};
        }
    }
    return std::nullopt;
}
}  // namespace pipescope
