#pragma once

#include "schedule/ids.h"
#include "schedule/quantities.h"
#include "schedule/timeline.h"

#include <string>

namespace pipescope {
// Formats figures as the commands print them. quantities.h parses user input.

/// About four digits: "12.34 us". Uses ms up to ten seconds, so that the steps of one pipeline share a unit.
std::string format_duration(Nanoseconds time);
/// Uses the largest power of 1024 that gives at least 1: "16.00 GiB", "512 B".
std::string format_bytes(Bytes bytes);
/// "1.23 %" for 0.0123.
std::string format_percent(double fraction);
/// "+1.23 %", always with a sign.
std::string format_error_percent(double fraction);
/// "+0.28 points" for a difference of fractions.
std::string format_points(double difference);
}  // namespace pipescope
