#pragma once

#include <string>
#include <vector>

namespace pipescope {
/// One figure of the explainer that comes with formulas instead of measurements, and what the simulator says.
struct ExplainedFigure {
    std::string table;
    std::string name;
    double published = 0;
    double predicted = 0;
};
/// Bubble fractions, speed-ups and activation memory of uniform layers, each by a simulation of exactly that pipeline.
std::vector<ExplainedFigure> explained_figures();
}  // namespace pipescope
