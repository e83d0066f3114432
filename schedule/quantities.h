#pragma once

#include "schedule/ids.h"

#include <string_view>

namespace pipescope {
// Quantities as a person writes them: a number, then a unit without or after one blank; a plain number is in ns, bytes
// or bytes per second, and is 0, or 1000 or more: a smaller one is taken for a forgotten unit. `option` names what was
// asked for in the error: UsageError with value, rule and remedy.

/// "1.5ms" is 1500000; units ns, us, ms, s.
double parse_duration_ns(std::string_view text, std::string_view option);
/// "16GiB"; units B, kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024).
Bytes parse_bytes(std::string_view text, std::string_view option);
/// "12.5GB/s": bytes per second.
double parse_bandwidth(std::string_view text, std::string_view option);
}  // namespace pipescope
