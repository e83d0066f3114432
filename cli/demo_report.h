#pragma once

#include "cli/reports.h"
#include "cli/text_table.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// A second run, whose layers were profiled again between its steps: both met the same machine.
struct RunInTurns {
    Nanoseconds measured{0};  ///< mean step
    Nanoseconds simulated{0};
    double step_error() const { return relative_error(simulated, measured).value_or(0); }
};

/// Prediction and measurement of one pipeline of the demo.
struct DemoPart {
    std::string title;
    TraceComparison compared;
    std::optional<double> loss_before;  ///< at the first and last step; empty if the model learns nothing
    std::optional<double> loss_after;
    /// Difference between the step times of two equal runs, relative to their mean: the limit of any prediction.
    std::optional<double> repeat_spread;
    std::optional<RunInTurns> in_turns;
    std::optional<std::string> picture;  ///< file name beside the report
    std::vector<std::string> commands;   ///< to repeat it by hand
};

/// Step time, bubble fraction and peak memory per lane: measured, predicted, and error.
TextTable demo_table(const DemoPart& part);
/// The table with title, loss and spread, for the terminal.
std::string demo_text(const DemoPart& part);
/// The report file, with a section per part: table, picture, commands. `environment` is a JSON object of strings and
/// numbers.
std::string demo_markdown(const std::vector<DemoPart>& parts, const std::string& environment);
/// comparison_json() of the part, with title, loss_before, loss_after, repeat_spread and in_turns.
nlohmann::ordered_json demo_json(const DemoPart& part);
}  // namespace pipescope
