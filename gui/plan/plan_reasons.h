#pragma once

#include "simulator/planner.h"

#include <QString>

#include <vector>

namespace pipescope {
/// Why each candidate is, or is not, one to take: the best, a trade (what it has that the best lacks), beaten by which
/// other, or over the limit by how much. In the order of the plan's candidates.
/// Cost: of the order of the candidates squared in the worst case, some ms for thousands.
std::vector<QString> planReasons(const Plan& plan);
}  // namespace pipescope
