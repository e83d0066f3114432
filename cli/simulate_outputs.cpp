#include "cli/simulate_outputs.h"

#include "analysis/stored_simulation.h"
#include "answers/pipeline_rows.h"
#include "base/error.h"
#include "cli/output_file.h"

#include <fmt/format.h>

#include <filesystem>

namespace pipescope {
void check_outputs(const SimulateQuestion& flags, const SimulateOutputs& outputs) {
    const Schedule schedule = checked_options(flags).schedule;
    if (flags.all_schedules && !outputs.trace.empty()) {
        throw UsageError(option_name("trace") + " is '" + outputs.trace + "' with " + option_name("schedule") +
                         " all; a trace holds one schedule; name it, or leave out " + option_name("trace"));
    }
    if (!outputs.schedule_output.empty()) {
        if (schedule != Schedule::automatic) {
            throw UsageError(
                fmt::format("{} is '{}' with schedule {}; it writes the order that auto finds; 'pipescope schedule' "
                            "writes other schedules",
                            option_name("schedule-output"), outputs.schedule_output,
                            flags.all_schedules ? "all" : to_string(schedule)));
        }
        check_schedule_output(outputs.schedule_output, outputs.force);
    }
    if (!outputs.trace.empty()) {
        check_trace_output(outputs.trace, outputs.force);
    }
}

void write_outputs(const SimulateOutputs& outputs, const SimulateAnswer& answer) {
    if (!outputs.schedule_output.empty()) {
        write_output(outputs.schedule_output, outputs.force, order_csv(*answer.simulation));
    }
    if (!outputs.trace.empty()) {
        replace_trace(outputs.trace, outputs.force, [&](const std::filesystem::path& beside) {
            write_simulation(beside, answer.pipeline.profile, *answer.simulation);
        });
    }
}

void write_fitted_program(const std::optional<MeasuredAnswer>& fitted, const std::string& file, bool force) {
    if (file.empty()) {
        return;
    }
    if (!fitted) {
        throw UsageError(option_name("program-output") + " is '" + file + "' without " + option_name("measured") +
                         "; it writes the program that fits measured steps; add " + option_name("measured"));
    }
    write_output(file, force, program_text(fitted->fit.program));
}

void add_program_output(OptionTable& table, std::string& file) {
    table
        .add_text("--program-output", file,
                  "Write the program that fits the measured steps to this file, for --program", "FILE", "Output")
        .use = OptionUse::cluster;
}

std::optional<MeasuredAnswer> take_measured(const ModelOrProfile& what, const SimulateQuestion& flags,
                                            LayoutQuestion& layout, const SimulateOutputs& outputs) {
    std::optional<MeasuredAnswer> answer;
    if (!outputs.measured.empty()) {
        answer = measured_answer(what, flags, layout, outputs.measured);
        layout.layout.program = std::make_shared<const TrainingProgram>(answer->fit.program);
    }
    write_fitted_program(answer, outputs.program_output, outputs.force);
    return answer;
}

LayoutAnswer simulate_layout_answer(const ModelOrProfile& what, const SimulateQuestion& flags,
                                    const LayoutQuestion& layout, const SimulateOutputs& outputs) {
    if (flags.all_schedules) {
        throw UsageError(option_name("schedule") + " is all with " + option_name("cluster") +
                         "; a layout has one schedule; name it");
    }
    if (!outputs.trace.empty()) {
        check_trace_output(outputs.trace, outputs.force);
    }
    LayoutAnswer answer = layout_answer(what, layout, flags.pipeline);
    if (!outputs.trace.empty()) {
        const LayoutStep& step = answer.step;
        replace_trace(outputs.trace, outputs.force, [&](const std::filesystem::path& beside) {
            write_simulation(beside, *step.profile, step.simulation, step_on_cluster(step));
        });
    }
    return answer;
}

void add_simulate_outputs(OptionTable& table, SimulateOutputs& outputs) {
    table.add_text("--trace", outputs.trace,
                   "Write the simulated timeline to this trace, for 'pipescope view' and export", "FILE", "Output");
    table
        .add_text("--schedule-output", outputs.schedule_output,
                  "With --schedule auto: write the order that was found to this CSV, for --schedule of run and others",
                  "FILE", "Output")
        .use = OptionUse::lanes;
    table
        .add_text("--measured", outputs.measured,
                  "Fit the program to the measured steps of a gpt: model in this CSV: columns are options and seconds "
                  "(docs/program-format.md)",
                  "FILE", "Cluster")
        .use = OptionUse::cluster;
    add_program_output(table, outputs.program_output);
    add_force_option(table, outputs.force);
}
}  // namespace pipescope
