#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace pipescope {
/// The known name with the fewest letters to insert, remove or replace, if these are at most a third of the mistyped
/// name. Upper and lower case count as equal. If several are nearest, the first.
std::optional<std::string> nearest_name(std::string_view mistyped, std::span<const std::string> known);
}  // namespace pipescope
