#pragma once

#include "simulator/schedule_comparison.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace pipescope {
/// Output of `pipescope simulate --schedule all`. docs/cli.md lists the keys.
nlohmann::ordered_json schedules_json(const ScheduleComparison& comparison);
std::string schedules_text(const ScheduleComparison& comparison);
}  // namespace pipescope
