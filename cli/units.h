#pragma once

#include "schedule/ids.h"
#include "schedule/quantities.h"
#include "schedule/timeline.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace pipescope {
// Figures as the commands print them. quantities.h reads what a person writes.

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
/// "1 sample", "3 samples".
std::string counted(std::int64_t number, std::string_view one, std::string_view many);
}  // namespace pipescope
