#pragma once

#include "simulator/schedule_comparison.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace pipescope {
/// What `pipescope simulate --schedule all` prints; keys in docs/cli.md.
nlohmann::ordered_json schedules_json(const ScheduleComparison& comparison);
std::string schedules_text(const ScheduleComparison& comparison);
}  // namespace pipescope
