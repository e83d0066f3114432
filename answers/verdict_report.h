#pragma once

#include "analysis/run_verdict.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace pipescope {
/// The object `verdict` of compare.schema.json.
nlohmann::ordered_json verdict_json(const RunVerdict& verdict);
/// One line. Empty for a verdict without parts.
std::string verdict_text(const RunVerdict& verdict);
}  // namespace pipescope
