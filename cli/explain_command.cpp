#include "answers/explain_answer.h"
#include "answers/reports.h"
#include "cli/cluster_plan_command.h"
#include "cli/commands.h"
#include "cli/option_flags.h"
#include "cli/program.h"
#include "cli/stop_signals.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace pipescope {
namespace {
ExitCode explain_command(ExplainQuestion& question, bool json) {
    question.check();
    const ExplainAnswer answer =
        explain_answer(question, [&](const ModelOrProfile& what, const ClusterPlanQuestion& asked) {
            ClusterPlan plan = cluster_plan_with_bar(what, asked, question.pipeline, question.rank_by);
            if (plan.cancelled) {
                throw Interrupted();
            }
            return plan;
        });
    if (answer.layout) {
        print_warnings(answer.layout->warnings);
    }
    std::cout << (json ? dump(to_json(answer)) : to_text(answer));
    return answer.layout && answer.layout->step.simulation.feasible ? ExitCode::success : ExitCode::infeasible;
}
}  // namespace

void add_explain_command(Program& program) {
    const auto question = std::make_shared<ExplainQuestion>();
    const auto json = std::make_shared<bool>();
    CLI::App* command = program.add_command(
        "explain", "Show the parts of a step on a cluster, and what limits it",
        "Examples:\n"
        "  pipescope explain gpt:layers=48,hidden=8192,heads=64,sequence=2048,vocabulary=51200 --batch 512 \\\n"
        "    --cluster dgx-a100 --devices 256\n"
        "  pipescope explain gpt:layers=48,hidden=8192,heads=64,sequence=2048,vocabulary=51200 --batch 512 \\\n"
        "    --cluster dgx-a100 -n 4 --tensor-parallel 8 --data-parallel 8\n"
        "Without a layout it takes the best one of 'plan'.\n"
        "Exit code 3: the layout does not fit into memory.");
    command
        ->add_option("MODEL", question->model,
                     "A model, gpt:.. or hf:config.json, or a profile file, as 'pipescope profile' writes it")
        ->required();
    add_options(*command, std::shared_ptr<OptionTable>(question, &question->options));
    add_json_flag(*command, *json);
    program.set_action(command, [question, json] { return explain_command(*question, *json); });
}
}  // namespace pipescope
