#pragma once

#include "analysis/two_runs.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace pipescope {
// Output of `pipescope compare` for two runs. Pure functions.

/// docs/schemas/compare-runs.schema.json
nlohmann::ordered_json two_runs_json(const TwoRuns& runs);
std::string two_runs_text(const TwoRuns& runs);
}  // namespace pipescope
