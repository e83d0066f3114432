#include "answers/layout_answer.h"
#include "answers/reports.h"
#include "answers/simulate_answer.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/option_flags.h"
#include "cli/program.h"
#include "cli/simulate_outputs.h"
#include "profiler/profile/profile_file.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace pipescope {
namespace {
ExitCode simulate_on_cluster(const SimulateQuestion& flags, LayoutQuestion layout, const SimulateOutputs& outputs,
                             bool json) {
    const ModelOrProfile what(flags.profile);
    const std::optional<MeasuredAnswer> measured = take_measured(what, flags, layout, outputs);
    const LayoutAnswer answer = simulate_layout_answer(what, flags, layout, outputs);
    print_warnings(answer.warnings);
    if (json) {
        std::cout << dump(with_measured(to_json(answer), measured));
    } else {
        std::cout << (measured ? to_text(*measured) + "\n" : "") << to_text(answer);
    }
    return answer.step.simulation.feasible ? ExitCode::success : ExitCode::infeasible;
}

ExitCode simulate_command(const SimulateQuestion& flags, const SimulateOutputs& outputs, bool json) {
    check_outputs(flags, outputs);
    const SimulateAnswer answer = simulate_answer(flags, load_profile(flags.profile));
    write_outputs(outputs, answer);
    std::cout << (json ? dump(to_json(answer)) : to_text(answer));
    return any_fits(answer) ? ExitCode::success : ExitCode::infeasible;
}
}  // namespace

void add_simulate_command(Program& program) {
    const auto flags = std::make_shared<SimulateQuestion>();
    const auto outputs = std::make_shared<SimulateOutputs>();
    const auto json = std::make_shared<bool>();
    const auto layout = std::make_shared<LayoutQuestion>();
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
        ->add_option(
            "PROFILE", flags->profile,
            "Profile file, as 'pipescope profile' writes it; with --cluster also a model, gpt:.. or hf:config.json")
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
        take_program(*table, layout->layout);
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
