#pragma once

#include "analysis/run_list.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace pipescope {
// Output of `pipescope runs`. Pure functions.

/// "2026-11-30 13:04" in UTC; empty if it is not known.
std::string recorded_text(const ListedRun& run);
/// The step's change against the run before: "-5.10 %", "-0.30 %, within the noise", "-5.10 %, noise unknown", "other
/// work". Empty for the first run.
std::string change_text(const ListedRun& run);

/// docs/schemas/runs.schema.json
nlohmann::ordered_json run_list_json(const RunList& list);
std::string run_list_text(const RunList& list);
}  // namespace pipescope
