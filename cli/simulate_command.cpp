#include "analysis/stored_simulation.h"
#include "balance/profile_file.h"
#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "cli/reports.h"
#include "cli/simulated_pipeline.h"
#include "schedule/error.h"
#include "schedule/placement.h"
#include "schedule/schedule_table.h"
#include "simulator/schedule_comparison.h"
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
struct SimulateFlags {
    std::string profile;
    SimulatedPipelineFlags simulated;
    bool all_schedules = false;
    std::string trace;
    std::string schedule_output;
    bool force = false;
    bool json = false;
};

/// A warning if micro-batches are of a size outside the profile; otherwise empty.
std::string extrapolation_note(const SimulateFlags& flags, const EstimatedPipeline& pipeline, bool extrapolated) {
    return extrapolated ? extrapolation_note(flags.profile, pipeline.options) : "";
}

ExitCode compare_all_schedules(const SimulateFlags& flags, const EstimatedPipeline& pipeline) {
    const ScheduleComparison comparison = compare_schedules(pipeline.profile, pipeline.options);
    if (flags.json) {
        auto object = schedules_json(comparison);
        object["assumed"] = assumptions_json(pipeline.assumptions);
        std::cout << dump(object);
    } else {
        const bool extrapolated = !comparison.schedules.empty() && comparison.schedules.front().simulation.extrapolated;
        std::cout << schedules_text(comparison) << extrapolation_note(flags, pipeline, extrapolated)
                  << fewer_micro_batches(pipeline.options) << assumptions_text(pipeline.assumptions);
    }
    const bool any_fits = std::ranges::any_of(comparison.schedules,
                                              [](const ComparedSchedule& each) { return each.simulation.feasible; });
    return any_fits ? ExitCode::success : ExitCode::infeasible;
}

/// Refuses options that --schedule all sets itself, by row.
void check_for_all_schedules(const SimulateFlags& flags) {
    const auto refuse = [](const std::string& option, const std::string& value, const std::string& because) {
        throw UsageError(fmt::format("{} is {} with --schedule all, which {}; name one schedule, or leave out {}",
                                     option, value, because, option));
    };
    const PipelineOptions& options = flags.simulated.pipeline.options;
    if (!options.placement.empty()) {
        refuse("--placement", placement_text(options.placement), "runs partition j on lane j");
    }
    if (options.replicas != 1) {
        refuse("--replicas", std::to_string(options.replicas), "compares replicas of its own");
    }
    if (flags.simulated.backward_order == BackwardOrder::first_first) {
        refuse("--backward", to_string(*flags.simulated.backward_order), "runs the last micro-batch's backward first");
    }
}

/// The order that schedule auto found.
std::string schedule_csv(const Simulation& simulation) {
    const Schedule& found = simulation.options.schedule;
    if (found == Schedule::gpipe) {
        throw UsageError(
            "schedule auto found gpipe, which computes one loss of the whole mini-batch; a file computes "
            "that of each micro-batch and takes another time; leave out --schedule-output, and use "
            "--schedule gpipe");
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

ExitCode simulate_command(const SimulateFlags& flags) {
    const PipelineOptions options = simulated_pipeline_options(flags.simulated);
    const bool all = flags.all_schedules;
    if (all && !flags.trace.empty()) {
        throw UsageError("--trace is '" + flags.trace +
                         "' with --schedule all; a trace holds one schedule; name it, or leave out --trace");
    }
    if (all) {
        check_for_all_schedules(flags);
    }
    if (!flags.schedule_output.empty()) {
        if (options.schedule != Schedule::automatic) {
            throw UsageError(
                fmt::format("--schedule-output is '{}' with schedule {}; it takes what schedule auto finds; "
                            "'pipescope schedule' writes other schedules",
                            flags.schedule_output, all ? "all" : to_string(options.schedule)));
        }
        check_output(flags.schedule_output, flags.force);
        check_not_input(flags.schedule_output, flags.profile);
    }
    if (!flags.trace.empty()) {
        check_output(flags.trace, flags.force);
        check_not_input(flags.trace, flags.profile);
        check_not_input(flags.trace, flags.simulated.pipeline.device_catalogue);
    }
    Profile profile = load_profile(flags.profile);
    if (!all) {
        check_options(options, profile.layers.size());
    }
    const int lanes = all ? static_cast<int>(options.balance.num_partitions()) : num_lanes(options);
    const EstimatedPipeline pipeline =
        simulated_pipeline(flags.simulated, options, std::move(profile), flags.profile, lanes);
    if (all) {
        return compare_all_schedules(flags, pipeline);
    }
    const Simulation simulation =
        simulate(pipeline.profile, pipeline.options, {.noise = true, .memory = true, .reserved = true});
    if (!flags.schedule_output.empty()) {
        write_output(flags.schedule_output, flags.force, schedule_csv(simulation));
    }
    if (!flags.trace.empty()) {
        replace_output(flags.trace, flags.force, [&](const std::filesystem::path& beside) {
            write_simulation(beside, pipeline.profile, simulation);
        });
    }
    if (flags.json) {
        auto object = simulation_json(simulation);
        object["assumed"] = assumptions_json(pipeline.assumptions);
        std::cout << dump(object);
    } else {
        std::cout << simulation_text(simulation) << extrapolation_note(flags, pipeline, simulation.extrapolated)
                  << assumptions_text(pipeline.assumptions);
    }
    return simulation.feasible ? ExitCode::success : ExitCode::infeasible;
}
}  // namespace

void add_simulate_command(Program& program) {
    const auto flags = std::make_shared<SimulateFlags>();
    CLI::App* command =
        program.add_command("simulate", "Predict step time, bubble and memory of a pipeline from a profile",
                            "Examples:\n"
                            "  pipescope simulate p.json --balance 3,3 -m 8 --batch 32 --link-bandwidth 12GB/s\n"
                            "  pipescope simulate p.json --balance 3,3 -m 8 --batch 32 --schedule all\n"
                            "Exit code 3: a lane needs more than --memory-limit.");
    command->add_option("PROFILE", flags->profile, "Profile file, as 'pipescope profile' writes it")->required();
    add_simulated_pipeline_options(*command, flags->simulated, &flags->all_schedules);
    add_option(*command, "--trace", flags->trace,
               "Write the simulated timeline to this trace, for 'pipescope view' and export", "FILE", "Output");
    add_option(*command, "--schedule-output", flags->schedule_output,
               "With --schedule auto: write the order that was found to this CSV, for --schedule of run and others",
               "FILE", "Output");
    add_force_flag(*command, flags->force);
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags] { return simulate_command(*flags); });
}
}  // namespace pipescope
