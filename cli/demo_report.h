#pragma once

#include "cli/reports.h"
#include "cli/text_table.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// One pipeline of the demo: what was predicted, what was measured.
struct DemoPart {
    std::string title;
    TraceComparison compared;
    std::optional<double> loss_before;  ///< of the first and the last step; nothing where nothing is learned
    std::optional<double> loss_after;
    /// Step times of two equal runs differ by this share of their mean: what no prediction can beat.
    std::optional<double> repeat_spread;
    std::optional<std::string> picture;  ///< file name beside the report
    std::vector<std::string> commands;   ///< that do the same by hand
};

/// Step time, bubble fraction and peak memory per lane: measured, predicted, and how far off.
TextTable demo_table(const DemoPart& part);
/// The table under its title, with the loss and the spread; for the terminal.
std::string demo_text(const DemoPart& part);
/// The report file: a section for each part, with picture and commands. `environment` is a JSON object of strings and
/// numbers.
std::string demo_markdown(const std::vector<DemoPart>& parts, const std::string& environment);
/// comparison_json() of the part with title, loss_before, loss_after and repeat_spread.
nlohmann::ordered_json demo_json(const DemoPart& part);
}  // namespace pipescope
