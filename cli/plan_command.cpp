#include "answers/pipeline_rows.h"
#include "answers/plan_answer.h"
#include "answers/reports.h"
#include "answers/simulate_answer.h"
#include "base/error.h"
#include "base/printable.h"
#include "cli/cluster_plan_command.h"
#include "cli/commands.h"
#include "cli/option_flags.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "cli/progress_bar.h"
#include "cli/simulate_outputs.h"
#include "cli/stop_signals.h"
#include "profiler/profile/profile_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>

namespace pipescope {
namespace {
PlanAnswer answer_with_bar(const PlanQuestion& flags) {
    const CheckedProfile profile = load_profile(flags.profile);
    ProgressBar bar("planning " + profile->model);
    return plan_answer(flags, profile, [&bar](double done) {
        bar.show(done);
        return true;
    });
}

/// The file for the best candidate's order.
struct OrderOutput {
    std::string file;  ///< empty: nowhere
    bool force = false;
};

void check_order_output(const PlanQuestion& flags, const OrderOutput& order) {
    if (order.file.empty()) {
        return;
    }
    if (std::ranges::find(flags.request.schedules, Schedule(Schedule::automatic)) == flags.request.schedules.end()) {
        throw UsageError(
            fmt::format("{} is '{}' without schedule auto; it writes the order that auto finds; add auto to {}; "
                        "'pipescope schedule' writes other schedules",
                        option_name("schedule-output"), order.file, option_name("schedule")));
    }
    check_output(order.file, order.force);
}

ExitCode plan_command(const PlanQuestion& flags, const OrderOutput& order, bool json) {
    check_plan(flags);  // before the profile is read
    check_order_output(flags, order);
    const PlanAnswer answer = answer_with_bar(flags);
    const Plan& found = answer.plan;
    for (const std::string& note : answer.price_notes) {
        std::cerr << "pipescope: " << printable(note) << "\n";
    }
    if (json) {
        std::cout << dump(to_json(answer));
    } else {
        std::cout << to_text(flags, answer);
    }
    if (!order.file.empty() && found.best) {
        write_output(order.file, order.force, order_csv(found.candidates[*found.best].simulation));
    } else if (!order.file.empty()) {
        std::cerr << "pipescope: '" << printable(order.file)
                  << "' was not written; no candidate keeps the memory limit\n";
    }
    return found.best ? ExitCode::success : ExitCode::infeasible;
}

ExitCode plan_on_cluster(const ModelOrProfile& what, AskedPlan& asked, const std::string& program_output, bool force,
                         bool json) {
    const PlanQuestion& lanes = asked.lanes;
    const std::optional<MeasuredAnswer> measured = fit_measured(what, asked.cluster, lanes.pipeline);
    write_fitted_program(measured, program_output, force);
    const ClusterPlan plan = cluster_plan_with_bar(what, asked.cluster, lanes.pipeline, lanes.rank_by);
    if (plan.cancelled && plan.candidates.empty()) {
        throw Interrupted();
    }
    if (what.is_model()) {
        print_warnings(what.read_model().warnings);
    }
    if (json) {
        std::cout << dump(with_measured(to_json(plan), measured));
    } else {
        std::cout << (measured ? to_text(*measured) + "\n" : "") << to_text(plan, static_cast<std::size_t>(lanes.most));
    }
    if (plan.cancelled) {
        print_warnings({"interrupted before all layouts were tried; there may be better ones than those above"});
        return stop_exit_code();
    }
    return plan.candidates.empty() ? ExitCode::infeasible : ExitCode::success;
}
}  // namespace

void add_plan_command(Program& program) {
    const auto asked = std::make_shared<AskedPlan>();
    const auto json = std::make_shared<bool>();
    CLI::App* command = program.add_command(
        "plan", "Simulate many pipelines and choose the fastest that fits",
        "Examples:\n"
        "  pipescope plan p.json -n 1..8 -m 1..64 --batch 64 --memory-limit 16GiB\n"
        "  pipescope plan p.json --batch 64 --device-types A100,H100 --price-per-lane-hour A100=1.5,H100=3\n"
        "  pipescope plan gpt:layers=48,hidden=8192,heads=64,sequence=2048,vocabulary=51200 --batch 512 --devices "
        "64..512 --cluster dgx-a100\n"
        "Every combination of partitions, micro-batches, schedule and checkpoint mode is simulated with its best\n"
        "balance. The fastest that keeps --memory-limit is best; of equally fast ones (0.05 %), the one with the\n"
        "fewest lanes.\n"
        "Exit code 3: no candidate keeps the limit. The candidates are still printed.");
    command
        ->add_option(
            "PROFILE", asked->lanes.profile,
            "Profile file, as 'pipescope profile' writes it; with --cluster also a model, gpt:.. or hf:config.json")
        ->required();
    add_options(*command, std::shared_ptr<OptionTable>(asked, &asked->options));
    add_json_flag(*command, *json);
    const auto order = std::make_shared<OrderOutput>();
    const auto program_output = std::make_shared<std::string>();
    const auto outputs = add_options(*command, [&](OptionTable& rows) {
        rows.add_text("--schedule-output", order->file,
                      "With schedule auto: write the best candidate's order to this CSV, for --schedule of run and "
                      "others",
                      "FILE", "Output")
            .use = OptionUse::lanes;
        add_program_output(rows, *program_output);
        add_force_option(rows, order->force);
    });
    program.set_action(command, [asked, order, json, outputs, program_output] {
        const ModelOrProfile what{asked->lanes.profile};
        asked->check(what);
        outputs->check_use(asked->cluster.given());
        return asked->cluster.given() ? plan_on_cluster(what, *asked, *program_output, order->force, *json)
                                      : plan_command(asked->lanes, *order, *json);
    });
}
}  // namespace pipescope
