#pragma once

#include "analysis/slow_step.h"
#include "analysis/trace_warnings.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace pipescope {
// Output of `pipescope compare --step`.

/// docs/schemas/compare-step.schema.json.
nlohmann::ordered_json slow_step_json(const SlowStep& step, const std::vector<TraceWarning>& warnings);
std::string slow_step_report(const SlowStep& step, const std::vector<TraceWarning>& warnings);
}  // namespace pipescope
