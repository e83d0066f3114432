#include "cli/pipescope_program.h"

#include "base/error.h"
#include "cli/child_process.h"
#include "cli/command_definition.h"
#include "cli/commands.h"
#include "cli/man_page.h"
#include "cli/profile_from_trace.h"
#include "cli/program.h"
#include "cli/shell_completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
ExitCode forward(const std::vector<std::string>& arguments) {
    execute(torch_program_for(arguments.front()), arguments);
}

/// Adds a command that builds or runs models. pipescope-torch has its options, so that this program does not link
/// torch, which takes 0.5 s at every start.
void add_forwarded(Program& program, const char* name, const char* description) {
    CLI::App* command = program.add_command(name, description, "");
    // pipescope-torch parses everything after the name, including --help.
    command->prefix_command();
    command->set_help_flag();
    program.set_action(command, [&program] { return forward(program.arguments()); });
}
/// Adds the definitions of forwarded commands, if pipescope-torch is installed.
std::vector<CommandDefinition> all_definitions(const Program& program) {
    std::vector<CommandDefinition> commands = program.definitions();
    const auto torch = torch_program();
    for (CommandDefinition& each : torch ? definitions_of(*torch) : std::vector<CommandDefinition>{}) {
        const auto known =
            std::ranges::find_if(commands, [&](const CommandDefinition& command) { return command.name == each.name; });
        if (known != commands.end()) {
            *known = std::move(each);
        }
    }
    return commands;
}

/// Options for the installation: `--print-completion SHELL` and `--print-man`.
void add_installed_texts(Program& program) {
    program.add_hidden("--print-completion", [&program] {
        const std::string shell = program.arguments().size() == 2 ? program.arguments()[1] : "";
        std::cout << completion_script(shell, all_definitions(program));
    });
    program.add_hidden("--print-man",
                       [&program] { std::cout << man_page(all_definitions(program), PIPESCOPE_VERSION); });
}

/// Says where a former command is now.
void add_experiment(Program& program, const std::string& name) {
    program.add_hidden(name, [name] {
        throw UsageError(
            fmt::format("'{0}' is not a command; it is an experiment of benchmarks/; build "
                        "pipescope_experiments from the sources, and run 'pipescope_experiments {0}'",
                        name));
    });
}
}  // namespace

int run_pipescope(int argc, const char* const* argv) {
    const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    if (asks_for_trace_profile(arguments) && std::ranges::find(arguments, "--help") == arguments.end()) {
        // pipescope-torch has the command and lists these options too, but they do not need torch.
        Program profiling("pipescope", "Measure a profile from a recorded run", PIPESCOPE_VERSION);
        add_trace_profile_command(profiling);
        return profiling.run(argc, argv);
    }
    Program program("pipescope", "Profile, simulate and run pipeline-parallel training (GPipe) of LibTorch models",
                    PIPESCOPE_VERSION);
    // In the order of a typical workflow, and of --help.
    add_forwarded(program, "models", "List the built-in models, or show the size of a model");
    add_forwarded(program, "profile", "Measure what each layer of a model costs in time and memory");
    add_balance_command(program);
    add_simulate_command(program);
    add_advise_command(program);
    add_plan_command(program);
    add_explain_command(program);
    add_schedule_command(program);
    add_forwarded(program, "run", "Train a model through the pipeline and record it");
    add_launch_command(program);
    add_check_command(program);
    add_compare_command(program);
    add_runs_command(program);
    add_view_command(program);
    add_export_command(program);
    add_record_command(program);
    add_merge_command(program);
    add_import_command(program);
    add_recover_command(program);
    add_doctor_command(program);
    add_forwarded(program, "demo", "Profile, balance, simulate, run and compare once on this machine");
    add_installed_texts(program);
    add_experiment(program, "validate");
    add_experiment(program, "ablation");
    return program.run(argc, argv);
}
}  // namespace pipescope
