#pragma once

#include "base/ids.h"

#include <concepts>
#include <string>
#include <string_view>

namespace pipescope {
// Parsers of quantities as people write them: a number and a unit, with at most one blank between them. A plain number
// is in ns, bytes or bytes per second. It must be 0 or at least 1000: a smaller number is taken for a forgotten unit.
//
// Errors: UsageError with value, rule and remedy, which names the value `option`.

/// Parses "1.5ms" as 1500000. Units: ns, us, ms, s.
double parse_duration_ns(std::string_view text, std::string_view option);
/// Parses "16GiB". Units: B, kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024).
Bytes parse_bytes(std::string_view text, std::string_view option);
/// Parses "12.5GB/s" as bytes per second.
double parse_bandwidth(std::string_view text, std::string_view option);

/// "1 lane", "2 lanes".
template <std::integral Number>
std::string counted(Number number, std::string_view one, std::string_view many) {
    return std::to_string(number).append(" ").append(number == 1 ? one : many);
}

/// Uses the largest power of 1024 that gives at least 1, with about four digits: "16.00 GiB", "512 B".
std::string format_bytes(Bytes bytes);
}  // namespace pipescope
