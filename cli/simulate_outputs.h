#pragma once

#include "answers/layout_answer.h"
#include "answers/measured_answer.h"
#include "answers/option_table.h"
#include "answers/simulate_answer.h"

#include <optional>
#include <string>

namespace pipescope {
// Files that simulate writes.

struct SimulateOutputs {
    std::string trace;
    std::string schedule_output;
    std::string measured;        ///< CSV of measured steps to fit the program to; empty: none
    std::string program_output;  ///< where the fitted program goes; empty: nowhere
    bool force = false;
};
void add_simulate_outputs(OptionTable& table, SimulateOutputs& outputs);
/// Refuses outputs that do not fit the options, or exist.
void check_outputs(const SimulateQuestion& flags, const SimulateOutputs& outputs);
/// Writes the trace and the order that schedule auto found. Throws as order_csv().
void write_outputs(const SimulateOutputs& outputs, const SimulateAnswer& answer);
/// Adds --program-output.
void add_program_output(OptionTable& table, std::string& file);
/// Writes the fitted program to the file, if one is named. Throws UsageError if there is none.
void write_fitted_program(const std::optional<MeasuredAnswer>& fitted, const std::string& file, bool force);
/// The program fitted to the steps of --measured, if they are given. Sets the layout's program, and writes it.
std::optional<MeasuredAnswer> take_measured(const ModelOrProfile& what, const SimulateQuestion& flags,
                                            LayoutQuestion& layout, const SimulateOutputs& outputs);
/// simulate with --cluster: the step of a layout (add_layout_options()). Writes the trace.
LayoutAnswer simulate_layout_answer(const ModelOrProfile& what, const SimulateQuestion& flags,
                                    const LayoutQuestion& layout, const SimulateOutputs& outputs);
}  // namespace pipescope
