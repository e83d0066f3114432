#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace pipescope {
/// The known name closest to the mistyped one, by letters to insert, remove or replace. Empty if these are more than a
/// third of the mistyped name. Ignores case. If several are equally near, the first.
std::optional<std::string> nearest_name(std::string_view mistyped, std::span<const std::string> known);
}  // namespace pipescope
