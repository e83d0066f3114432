#pragma once

#include "simulator/planner.h"

#include <QString>

#include <vector>

namespace pipescope {
/// Explains each candidate, in plan order: the best, a trade-off (its advantage over the best), dominated (by which
/// one), or over the limit (by how much).
/// Cost: quadratic in the candidates at worst, some ms for thousands.
std::vector<QString> planReasons(const Plan& plan);
}  // namespace pipescope
