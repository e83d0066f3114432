#pragma once

#include "base/ids.h"
#include "base/quantities.h"
#include "schedule/timeline.h"

#include <optional>
#include <string>

namespace pipescope {
// Formats figures as the commands print them. quantities.h formats bytes, and parses user input.

/// About four digits: "12.34 us". Uses ms up to ten seconds, so that the steps of one pipeline share a unit.
std::string format_duration(Nanoseconds time);
/// "1.23 %" for 0.0123.
std::string format_percent(double fraction);
/// "+1.23 %", always with a sign; empty for an unknown error.
std::string format_error_percent(std::optional<double> fraction);
/// "23.5 MFLOP/s" for 23.5e6 operations a second: three digits, in a suitable unit.
std::string format_operations(double per_second);
/// "+0.28 points" for a difference of fractions.
std::string format_points(double difference);
}  // namespace pipescope
