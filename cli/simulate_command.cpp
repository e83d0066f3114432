#include "analysis/stored_simulation.h"
#include "balance/profile_file.h"
#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/pipeline_flags.h"
#include "cli/program.h"
#include "cli/reports.h"
#include "schedule/error.h"
#include "schedule/micro_batches.h"
#include "schedule/placement.h"
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
    PipelineFlags pipeline;
    bool all_schedules = false;
    std::optional<int> most_in_flight;
    std::optional<BackwardOrder> backward_order;
    std::string trace;
    bool force = false;
    bool json = false;
};

/// Adds options that only the simulator has.
void add_simulation_options(CLI::App& command, SimulateFlags& flags) {
    PipelineOptions& options = flags.pipeline.options;
    command
        .add_flag("--expandable-segments", options.hardware.expandable_segments,
                  "Compute reserved memory as with PyTorch's setting of that name")
        ->group("Hardware");
    add_option(command, "--in-flight", flags.most_in_flight,
               "Most micro-batches between first forward and last backward; default: no limit", "N", "Pipeline");
    add_parsed(command, "--backward", flags.backward_order, parse_backward_order,
               "Order of gpipe's backwards: last-first (default) or first-first", "ORDER", "Pipeline");
    add_parsed(command, "--recompute", options.recompute_start, parse_recompute_start,
               "When to recompute: early (default), while the gradient is on its way, or ordinary, once it has arrived",
               "WHEN", "Pipeline");
}

PipelineOptions options_of(const SimulateFlags& flags) {
    PipelineOptions options = pipeline_options(flags.pipeline);
    if (flags.most_in_flight && *flags.most_in_flight < 1) {
        throw UsageError(
            fmt::format("--in-flight is {}; at least one micro-batch must be in flight; leave it out for no limit",
                        *flags.most_in_flight));
    }
    options.most_in_flight = flags.most_in_flight.value_or(0);
    if (flags.backward_order && options.schedule != Schedule::gpipe) {
        throw UsageError(fmt::format(
            "--backward is {} with schedule {}, which fixes the order of its backwards; leave it out, or use gpipe",
            to_string(*flags.backward_order), to_string(options.schedule)));
    }
    options.backward_order = flags.backward_order.value_or(options.backward_order);
    return options;
}

/// A warning if micro-batches are of a size outside the profile; otherwise empty.
std::string extrapolation_note(const SimulateFlags& flags, const EstimatedPipeline& pipeline, bool extrapolated) {
    if (!extrapolated) {
        return "";
    }
    const PipelineOptions& options = pipeline.options;
    return extrapolation_text(profile_command_of(load_profile(flags.profile), flags.profile,
                                                 {micro_batch_sizes(replica_batch(options), options.chunks), {}}));
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
    const PipelineOptions& options = flags.pipeline.options;
    if (!options.placement.empty()) {
        refuse("--placement", placement_text(options.placement), "runs partition j on lane j");
    }
    if (options.replicas != 1) {
        refuse("--replicas", std::to_string(options.replicas), "compares replicas of its own");
    }
    if (flags.backward_order == BackwardOrder::first_first) {
        refuse("--backward", to_string(*flags.backward_order), "runs the last micro-batch's backward first");
    }
}

ExitCode simulate_command(const SimulateFlags& flags) {
    const PipelineOptions options = options_of(flags);
    const bool all = flags.all_schedules;
    if (all && !flags.trace.empty()) {
        throw UsageError("--trace is '" + flags.trace +
                         "' with --schedule all; a trace holds one schedule; name it, or leave out --trace");
    }
    if (all) {
        check_for_all_schedules(flags);
    }
    if (!flags.trace.empty()) {
        check_output(flags.trace, flags.force);
        check_not_input(flags.trace, flags.profile);
        check_not_input(flags.trace, flags.pipeline.device_catalogue);
    }
    Profile profile = load_profile(flags.profile);
    if (!all) {
        check_options(options, profile.layers.size());
    }
    const int lanes = all ? static_cast<int>(options.balance.num_partitions()) : num_lanes(options);
    EstimatedPipeline pipeline = estimated_pipeline(flags.pipeline, options, std::move(profile), flags.profile, lanes);
    for (int lane = 0; lane < lanes && !flags.pipeline.device_types.empty(); ++lane) {
        pipeline.options.hardware.devices.push_back(pipeline.profile.device + " " + std::to_string(lane));
    }
    if (all) {
        return compare_all_schedules(flags, pipeline);
    }
    const Simulation simulation =
        simulate(pipeline.profile, pipeline.options, {.noise = true, .memory = true, .reserved = true});
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
    add_balance_option(*command, flags->pipeline);
    add_batch_options(*command, flags->pipeline);
    add_schedule_options(*command, flags->pipeline,
                         runnable_schedule_names() +
                             "; for comparison zero-bubble-h1, pipedream, model-parallel; or all, which compares them "
                             "in a table; default gpipe",
                         &flags->all_schedules);
    add_hardware_options(*command, flags->pipeline);
    add_device_type_options(*command, flags->pipeline, "Type of all devices, such as A100");
    add_replicas_option(*command, flags->pipeline);
    add_simulation_options(*command, *flags);
    add_parameter_options(*command, flags->pipeline);
    add_option(*command, "--trace", flags->trace,
               "Write the simulated timeline to this trace, for 'pipescope view' and export", "FILE", "Output");
    add_force_flag(*command, flags->force);
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags] { return simulate_command(*flags); });
}
}  // namespace pipescope
