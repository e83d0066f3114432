#pragma once

#include "cluster/layout.h"

#include <array>
#include <string>
#include <utility>

namespace pipescope {
/// The parts of a step: shares of its time, mean over the lanes of a pipeline, that sum to 1.
struct StepParts {
    double compute = 0;      ///< layers' operators, without the three below
    double recompute = 0;    ///< operators that repeat a forward
    double collectives = 0;  ///< sums over tensor-parallel devices, gathered parameters
    double sends = 0;        ///< lanes wait for their copies
    double bubble = 0;       ///< lanes wait for others, or have no work yet or no more
    double gradients = 0;    ///< exposed sums over replicas, tied embeddings included
    double optimizer = 0;
};
/// Precondition: the step has its timeline and profile.
StepParts step_parts(const LayoutStep& step);
/// The parts with their names, in the order above.
std::array<std::pair<const char*, double>, 7> named_parts(const StepParts& parts);
/// "compute 71 %, recompute 18 %, bubble 6 %, ..", the largest first, without those below half a per cent.
std::string to_string(const StepParts& parts);

/// Names what to change first: the largest part that a change of layout could shrink, and what limits that.
std::string next_constraint(const LayoutStep& step);
}  // namespace pipescope
