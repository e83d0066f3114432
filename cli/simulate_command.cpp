#include "analysis/stored_simulation.h"
#include "answers/reports.h"
#include "base/error.h"
#include "cli/answers.h"
#include "cli/commands.h"
#include "cli/layout_flags.h"
#include "cli/option_flags.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "profiler/profile/profile_file.h"
#include "schedule/placement.h"
#include "schedule/schedule_table.h"
#include "simulator/plan/schedule_comparison.h"
#include "simulator/simulation.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace pipescope {
namespace {
std::string answer_text(const SimulateAnswer& answer) {
    const EstimatedPipeline& pipeline = answer.pipeline;
    const auto note = [&](bool extrapolated) {
        return extrapolated ? extrapolation_text(pipeline.profile_command) : "";
    };
    if (answer.simulation) {
        return simulation_text(*answer.simulation) + note(answer.simulation->extrapolated) +
               assumptions_text(pipeline.assumptions);
    }
    const std::vector<ComparedSchedule>& schedules = answer.comparison->schedules;
    return schedules_text(*answer.comparison) + note(!schedules.empty() && schedules.front().simulation.extrapolated) +
           fewer_micro_batches(pipeline.options) + assumptions_text(pipeline.assumptions);
}

/// True if the simulation, or any of the compared ones, keeps the memory limit.
bool any_fits(const SimulateAnswer& answer) {
    return answer.simulation ? answer.simulation->feasible
                             : std::ranges::any_of(answer.comparison->schedules, [](const ComparedSchedule& each) {
                                   return each.simulation.feasible;
                               });
}

/// Refuses options that --schedule all sets itself, by row.
void check_for_all_schedules(const SimulateFlags& flags) {
    const auto refuse = [](const std::string& option, const std::string& value, const std::string& because) {
        throw UsageError(fmt::format("{} is {} with {} all, which {}; name one schedule, or leave out {}", option,
                                     value, option_name("schedule"), because, option));
    };
    const PipelineOptions& options = flags.simulated.pipeline.options;
    if (!options.placement.empty()) {
        refuse(option_name("placement"), placement_text(options.placement), "runs partition j on lane j");
    }
    if (options.replicas != 1) {
        refuse(option_name("replicas"), std::to_string(options.replicas), "compares its own numbers of replicas");
    }
    if (flags.simulated.backward_order == BackwardOrder::first_first) {
        refuse(option_name("backward"), to_string(*flags.simulated.backward_order),
               "runs the last micro-batch's backward first");
    }
}

/// Options that fit each other, before the profile is known.
PipelineOptions checked_options(const SimulateFlags& flags) {
    PipelineOptions options = simulated_pipeline_options(flags.simulated);
    if (flags.all_schedules) {
        check_for_all_schedules(flags);
    }
    return options;
}
}  // namespace

std::string order_csv(const Simulation& simulation) {
    const Schedule& found = simulation.options.schedule;
    if (found == Schedule::gpipe && simulation.micro_batches > 1) {
        throw UsageError(
            "the order found is gpipe, which computes one loss of the whole mini-batch; a file computes that of each "
            "micro-batch and takes another time; leave out " +
            option_name("schedule-output") + ", and use " + option_name("schedule") + " gpipe");
    }
    if (found.file() != nullptr) {
        return to_csv(found.file()->table);
    }
    return to_csv(schedule_table(
        make_schedule(found, {.num_partitions = static_cast<int>(simulation.options.balance.num_partitions()),
                              .num_micro_batches = static_cast<int>(simulation.micro_batches),
                              .checkpoint = simulation.options.checkpoint,
                              .placement = simulation.options.placement})));
}

SimulateAnswer simulate_answer(const SimulateFlags& flags, Profile profile) {
    const PipelineOptions options = checked_options(flags);
    const bool all = flags.all_schedules;
    if (!all) {
        check_options(options, profile.layers.size());
    }
    const int lanes = all ? static_cast<int>(options.balance.num_partitions()) : num_lanes(options);
    SimulateAnswer answer{simulated_pipeline(flags.simulated, options, std::move(profile), flags.profile, lanes),
                          std::nullopt, std::nullopt};
    if (all) {
        answer.comparison = compare_schedules(answer.pipeline.profile, answer.pipeline.options);
    } else {
        answer.simulation = simulate(answer.pipeline.profile, answer.pipeline.options,
                                     {.noise = true, .memory = true, .reserved = true});
        add_lower_bound(answer.pipeline.profile, *answer.simulation);
    }
    return answer;
}

nlohmann::ordered_json simulate_answer_json(const SimulateAnswer& answer) {
    auto object = answer.simulation ? simulation_json(*answer.simulation) : schedules_json(*answer.comparison);
    object["assumed"] = assumptions_json(answer.pipeline.assumptions);
    return object;
}

void check_outputs(const SimulateFlags& flags, const SimulateOutputs& outputs) {
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

LayoutAnswer simulate_layout_answer(const SimulateFlags& flags, const LayoutFlags& layout,
                                    const SimulateOutputs& outputs, const Profile* profile) {
    if (flags.all_schedules) {
        throw UsageError(option_name("schedule") + " is all with " + option_name("cluster") +
                         "; a layout has one schedule; name it");
    }
    if (!outputs.trace.empty()) {
        check_trace_output(outputs.trace, outputs.force);
    }
    LayoutAnswer answer =
        layout_answer({flags.profile, profile}, layout, flags.simulated.pipeline, flags.simulated.recompute);
    if (!outputs.trace.empty()) {
        const LayoutStep& step = answer.step;
        replace_trace(outputs.trace, outputs.force, [&](const std::filesystem::path& beside) {
            write_simulation(beside, step.profile, step.simulation, step_on_cluster(step));
        });
    }
    return answer;
}

namespace {
ExitCode simulate_on_cluster(const SimulateFlags& flags, const LayoutFlags& layout, const SimulateOutputs& outputs,
                             bool json) {
    const LayoutAnswer answer = simulate_layout_answer(flags, layout, outputs);
    print_warnings(answer.warnings);
    std::cout << (json ? dump(layout_answer_json(answer)) : layout_text(answer.step, answer.limits));
    return answer.step.simulation.feasible ? ExitCode::success : ExitCode::infeasible;
}

ExitCode simulate_command(const SimulateFlags& flags, const SimulateOutputs& outputs, bool json) {
    check_outputs(flags, outputs);
    const SimulateAnswer answer = simulate_answer(flags, load_profile(flags.profile));
    write_outputs(outputs, answer);
    std::cout << (json ? dump(simulate_answer_json(answer)) : answer_text(answer));
    return any_fits(answer) ? ExitCode::success : ExitCode::infeasible;
}
}  // namespace

void add_simulate_options(OptionTable& table, SimulateFlags& flags) {
    add_simulated_pipeline_options(table, flags.simulated, &flags.all_schedules);
    table.require({"batch"});
}

void add_simulate_outputs(OptionTable& table, SimulateOutputs& outputs) {
    table.add_text("--trace", outputs.trace,
                   "Write the simulated timeline to this trace, for 'pipescope view' and export", "FILE", "Output");
    table
        .add_text("--schedule-output", outputs.schedule_output,
                  "With --schedule auto: write the order that was found to this CSV, for --schedule of run and others",
                  "FILE", "Output")
        .use = OptionUse::lanes;
    add_force_option(table, outputs.force);
}

void add_simulate_command(Program& program) {
    const auto flags = std::make_shared<SimulateFlags>();
    const auto outputs = std::make_shared<SimulateOutputs>();
    const auto json = std::make_shared<bool>();
    const auto layout = std::make_shared<LayoutFlags>();
    CLI::App* command =
        program.add_command("simulate", "Predict step time, bubble and memory of a pipeline from a profile",
                            "Examples:\n"
                            "  pipescope simulate p.json --balance 3,3 -m 8 --batch 32 --link-bandwidth 12GB/s\n"
                            "  pipescope simulate p.json --balance 3,3 -m 8 --batch 32 --schedule all\n"
                            "  pipescope simulate gpt:layers=24,hidden=2304,heads=24,sequence=2048,vocabulary=51200 "
                            "--cluster dgx-a100 --data-parallel 32 --micro-batch-size 16 --batch 512 "
                            "--recompute full\n"
                            "Exit code 3: a lane needs more than --memory-limit.");
    command
        ->add_option("PROFILE", flags->profile,
                     "Profile file, as 'pipescope profile' writes it; with --cluster also a model, gpt:..")
        ->required();
    const auto table = add_options(*command, [&](OptionTable& rows) {
        add_simulate_options(rows, *flags);
        add_layout_options(rows, *layout);
        add_simulate_outputs(rows, *outputs);
    });
    add_json_flag(*command, *json);
    program.set_action(command, [flags, outputs, layout, json, table] {
        table->check_use(layout->given());
        check_model_options(*table, {flags->profile}, layout->given());
        if (layout->given()) {
            return simulate_on_cluster(*flags, *layout, *outputs, *json);
        }
        if (!table->is_given("balance")) {
            throw UsageError(option_name("balance") +
                             " is required; it says where a pipeline is cut; give it, such as " +
                             option_name("balance") + " 2,2,3, or " + option_name("cluster"));
        }
        return simulate_command(*flags, *outputs, *json);
    });
}
}  // namespace pipescope
