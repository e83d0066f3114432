#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace pipescope {
/// Parses one of the small JSON texts of a save. Throws SaveError for text that is not JSON, for a key that appears
/// twice in an object (the parsed value would hide it), and for nesting deeper than these formats have.
nlohmann::json parse_strict_json(std::string_view text);

/// The value of `key`. Throws SaveError unless `object` is an object that has it.
const nlohmann::json& member(const nlohmann::json& object, const std::string& key);
/// The value of `key`, which must be a number from 0 to the largest of the type, or a text. Throws SaveError otherwise.
std::uint64_t unsigned_member(const nlohmann::json& object, const std::string& key);
std::string text_member(const nlohmann::json& object, const std::string& key);

/// The value for a message: in ASCII, and cut if long.
std::string shown(const nlohmann::json& value);
}  // namespace pipescope
