#include "balance/profile_file.h"
#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/pipeline_flags.h"
#include "cli/program.h"
#include "cli/reports.h"
#include "cli/simulated_trace.h"
#include "simulator/simulation.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace pipescope {
namespace {
struct SimulateFlags {
    std::string profile;
    PipelineFlags pipeline;
    std::string trace;
    bool force = false;
    bool json = false;
};

ExitCode simulate_command(const SimulateFlags& flags) {
    const PipelineOptions options = pipeline_options(flags.pipeline);
    if (!flags.trace.empty()) {
        check_output(flags.trace, flags.force);
    }
    const Profile profile = load_profile(flags.profile);
    const Simulation simulation = simulate(profile, options);
    if (!flags.trace.empty()) {
        write_simulated_trace(flags.trace, flags.force, profile, simulation);
    }
    std::cout << (flags.json ? dump(simulation_json(simulation)) : simulation_text(simulation));
    return simulation.feasible ? ExitCode::success : ExitCode::infeasible;
}
}  // namespace

void add_simulate_command(Program& program) {
    const auto flags = std::make_shared<SimulateFlags>();
    CLI::App* command = program.add_command(
        "simulate", "Predict step time, bubble and memory of a pipeline from a profile",
        "Example:\n  pipescope simulate p.json --balance 3,3 -m 8 --batch 32 --link-bandwidth 12GB/s\n"
        "Exit code 3 says that a lane needs more than --memory-limit.");
    command->add_option("PROFILE", flags->profile, "Profile file, as 'pipescope profile' writes it")->required();
    add_balance_option(*command, flags->pipeline);
    add_batch_options(*command, flags->pipeline);
    add_schedule_options(*command, flags->pipeline);
    add_hardware_options(*command, flags->pipeline);
    add_optimizer_option(*command, flags->pipeline);
    command
        ->add_option("--trace", flags->trace,
                     "Write the simulated timeline to this file, for 'pipescope view' and export")
        ->type_name("FILE")
        ->group("Output");
    add_force_flag(*command, flags->force);
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags] { return simulate_command(*flags); });
}
}  // namespace pipescope
