#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace pipescope {
/// Reads the whole text as a number, with the rules of std::from_chars(): no leading space or plus sign. Empty if it is
/// not a number or does not fit.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}
}  // namespace pipescope
