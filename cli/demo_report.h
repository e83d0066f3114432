#pragma once

#include "answers/reports.h"
#include "answers/text_table.h"
#include "base/machine_load.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// If other programs or the host took a larger share of the cores' time, the demo does not judge its prediction.
inline constexpr double kMostTaken = 0.1;
double taken_share(const MachineLoad& load);
inline bool can_be_judged(const MachineLoad& load) {
    return taken_share(load) <= kMostTaken;
}

/// Prediction and measurement of one pipeline of the demo.
struct DemoPart {
    std::string title;
    TraceComparison compared;
    std::optional<double> loss_before;  ///< at the first and last step; empty if the model learns nothing
    std::optional<double> loss_after;
    /// True if the trace's profile was measured between the steps, so that both met the same machine.
    bool in_turns = false;
    std::optional<Nanoseconds>
        beforehand;                     ///< mean step predicted before the training; empty: there is no other profile
    std::optional<double> uncertainty;  ///< standard error of the measured mean step, relative to the mean
    std::optional<MachineLoad> load;    ///< during the training; empty if unknown

    bool is_judged() const { return !load || can_be_judged(*load); }
    std::optional<std::string> picture;  ///< file name beside the report
    std::vector<std::string> commands;   ///< to repeat it by hand
};

/// Step time, bubble fraction and peak memory per lane: measured, predicted, and error.
TextTable demo_table(const DemoPart& part);
/// The table with title, loss and spread, for the terminal.
std::string demo_text(const DemoPart& part);
/// The report file, with a section per part: table, picture, commands. `environment`: a JSON object of strings and
/// numbers.
std::string demo_markdown(const std::vector<DemoPart>& parts, const std::string& environment);
/// comparison_json() of the part, with the keys of docs/cli/demo.md.
nlohmann::ordered_json demo_json(const DemoPart& part);
}  // namespace pipescope
