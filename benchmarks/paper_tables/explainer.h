#pragma once

#include <string>
#include <vector>

namespace pipescope {
/// A figure of the explainer, which has formulas instead of measurements, and the simulator's result.
struct ExplainedFigure {
    std::string table;
    std::string name;
    double published = 0;
    double predicted = 0;
};
/// Bubble fractions, speed-ups and activation memory of uniform layers, each from a simulation of that pipeline.
std::vector<ExplainedFigure> explained_figures();
}  // namespace pipescope
