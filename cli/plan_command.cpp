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
#include "profiler/profile/profile_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>

namespace pipescope {
namespace {
PlanAnswer answer_with_bar(const PlanFlags& flags) {
    const Profile profile = load_profile(flags.profile);
    ProgressBar bar("planning " + profile.model);
    return plan_answer(flags, profile, [&bar](double done) {
        bar.show(done);
        return true;
    });
}

/// The file that takes the best candidate's order.
struct OrderOutput {
    std::string file;  ///< empty: nowhere
    bool force = false;
};

void check_order_output(const PlanFlags& flags, const OrderOutput& order) {
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

ExitCode plan_command(const PlanFlags& flags, const OrderOutput& order, bool json) {
    check_plan(flags);  // before the profile is read
    check_order_output(flags, order);
    const PlanAnswer answer = answer_with_bar(flags);
    const Plan& found = answer.plan;
    for (const std::string& note : answer.price_notes) {
        std::cerr << "pipescope: " << printable(note) << "\n";
    }
    if (json) {
        std::cout << dump(plan_answer_json(answer));
    } else {
        std::cout << plan_answer_text(flags, answer);
    }
    if (!order.file.empty() && found.best) {
        write_output(order.file, order.force, order_csv(found.candidates[*found.best].simulation));
    } else if (!order.file.empty()) {
        std::cerr << "pipescope: '" << printable(order.file)
                  << "' was not written; no candidate keeps the memory limit\n";
    }
    return found.best ? ExitCode::success : ExitCode::infeasible;
}
}  // namespace

void add_plan_command(Program& program) {
    const auto flags = std::make_shared<PlanFlags>();
    const auto json = std::make_shared<bool>();
    CLI::App* command = program.add_command(
        "plan", "Simulate many pipelines and choose the fastest that fits",
        "Examples:\n"
        "  pipescope plan p.json -n 1..8 -m 1..64 --batch 64 --memory-limit 16GiB\n"
        "  pipescope plan p.json --batch 64 --device-types A100,H100 --price-per-lane-hour A100=1.5,H100=3\n"
        "  pipescope plan gpt:layers=48,hidden=8192,heads=64,sequence=2048,vocabulary=51200 --batch 512 --devices "
        "64..512 "
        "--cluster dgx-a100\n"
        "Every combination of partitions, micro-batches, schedule and checkpoint mode is simulated with its best\n"
        "balance. The fastest that keeps --memory-limit is best; of equally fast ones (0.05 %), the one with the\n"
        "fewest lanes.\n"
        "Exit code 3: no candidate keeps the limit. The candidates are still printed.");
    command
        ->add_option("PROFILE", flags->profile,
                     "Profile file, as 'pipescope profile' writes it; with --cluster also a model, gpt:..")
        ->required();
    const auto cluster = std::make_shared<ClusterPlanFlags>();
    const auto table = add_options(*command, [&](OptionTable& rows) {
        add_plan_options(rows, *flags);
        add_cluster_plan_options(rows, *cluster);
    });
    add_json_flag(*command, *json);
    const auto order = std::make_shared<OrderOutput>();
    const auto outputs = add_options(*command, [&](OptionTable& rows) {
        rows.add_text("--schedule-output", order->file,
                      "With schedule auto: write the best candidate's order to this CSV, for --schedule of run and "
                      "others",
                      "FILE", "Output");
        add_force_option(rows, order->force);
        rows.use_from(0, OptionUse::lanes);
    });
    program.set_action(command, [flags, cluster, order, json, table, outputs] {
        table->check_use(cluster->given());
        outputs->check_use(cluster->given());
        check_model_options(*table, {flags->profile}, cluster->given());
        check_most(*flags);
        if (cluster->given()) {
            if (table->is_given("schedule")) {
                cluster->request.schedules = flags->request.schedules;
            }
            return plan_on_cluster(flags->profile, *cluster, flags->pipeline, flags->rank_by,
                                   static_cast<std::size_t>(flags->most), *json);
        }
        return plan_command(*flags, *order, *json);
    });
}
}  // namespace pipescope
