#pragma once

#include "schedule/ids.h"
#include "schedule/timeline.h"

#include <string>
#include <string_view>

namespace pipescope {
// What a person writes and reads. Reading: a number, then a unit without or after one blank; a plain number is in ns,
// bytes or bytes per second, and from 1000 up or 0. `option` names what was asked for in the error: UsageError with value, rule and remedy.

/// "1.5ms" is 1500000; units ns, us, ms, s.
double parse_duration_ns(std::string_view text, std::string_view option);
/// "16GiB"; units B, kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024).
Bytes parse_bytes(std::string_view text, std::string_view option);
/// "12.5GB/s": bytes per second.
double parse_bandwidth(std::string_view text, std::string_view option);

/// About four digits: "12.34 us"; ms up to ten seconds, so that the steps of one pipeline stand in one unit.
std::string format_duration(Nanoseconds time);
/// In the largest power of 1024 that leaves at least 1: "16.00 GiB", "512 B".
std::string format_bytes(Bytes bytes);
/// 0.0123 is "1.23 %".
std::string format_percent(double fraction);
/// The same with its sign: "+1.23 %".
std::string format_error_percent(double fraction);
/// "+0.28 points", from a difference of fractions.
std::string format_points(double difference);
}  // namespace pipescope
