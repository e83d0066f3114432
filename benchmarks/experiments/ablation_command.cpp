#include "answers/asked_pipeline.h"
#include "answers/reports.h"
#include "base/error.h"
#include "base/number_ranges.h"
#include "base/quantities.h"
#include "benchmarks/experiments/ablation.h"
#include "benchmarks/experiments/experiment_commands.h"
#include "cli/option_flags.h"
#include "cli/program.h"
#include "cli/progress_bar.h"
#include "cli/stop_signals.h"
#include "cli/torch/self_profile.h"
#include "cli/torch/training.h"
#include "models/zoo.h"
#include "schedule/micro_batches.h"
#include "simulator/search/balance_search.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <optional>

namespace pipescope {
namespace {
struct AblationFlags {
    std::string model = "unet:B=1,C=8,size=96";
    AskedPipeline pipeline;
    std::optional<Balance> balance;  ///< default: the best one
    int lanes = 2;
    std::int64_t rounds = 3;
    std::int64_t steps = 4;
    bool markdown = false;
    bool json = false;
};

/// Uses the given balance, or the best one for the costs measured here.
PipelineOptions pipeline_for(const AblationFlags& flags, const ModelSpec& model) {
    PipelineOptions options = pipeline_options(flags.pipeline);
    std::vector<std::string>& devices = options.hardware.devices;
    if (devices.empty()) {
        devices.assign(static_cast<std::size_t>(flags.lanes), "cpu");
    }
    if (flags.balance) {
        options.balance = *flags.balance;
        return options;
    }
    const auto lanes = static_cast<int>(devices.size());
    if (static_cast<std::size_t>(lanes) > model.layers.size()) {
        throw UsageError(fmt::format("{} lanes are asked for; each needs a layer, and {} has {}; use fewer", lanes,
                                     flags.model, model.layers.size()));
    }
    options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(lanes), 1));
    ProgressBar bar("profiling " + flags.model);
    const CheckedProfile profile = profile_for_run(model, options, 0, [&](double done) { bar.show(done); });
    options.balance = find_balance(profile, options, lanes, BalanceAlgorithm::optimal).balance;
    return options;
}

ExitCode ablation_command(const AblationFlags& flags) {
    const StopSignals signals;
    if (flags.lanes < 1) {
        throw UsageError(fmt::format("-n is {}; it counts lanes; use 1 or more", flags.lanes));
    }
    if (flags.rounds < 1 || flags.steps < 1) {
        throw UsageError(fmt::format("--rounds is {} and --steps {}; each row is measured at least once; use 1 or more",
                                     flags.rounds, flags.steps));
    }
    const ModelSpec model = make_model(flags.model);
    AblationPlan plan;
    plan.pipeline = pipeline_for(flags, model);
    plan.rounds = flags.rounds;
    plan.steps = flags.steps;
    std::vector<AblationRow> rows;
    {
        ProgressBar bar("training " + flags.model);
        plan.progress = [&](double done) { bar.show(done); };
        rows = run_ablation(model, plan);
    }
    if (flags.json) {
        auto object = ablation_json(flags.model, plan.pipeline, rows);
        if (stop_signal() != 0) {
            object["interrupted"] = true;
        }
        std::cout << dump(object);
        return stop_exit_code();
    }
    std::cout << fmt::format("{}, balance {}, batch {}, {}, checkpoint {}\n\n", flags.model,
                             to_string(plan.pipeline.balance), plan.pipeline.batch,
                             counted(micro_batch_sizes(plan.pipeline.batch, plan.pipeline.chunks).size(), "micro-batch",
                                     "micro-batches"),
                             to_string(plan.pipeline.checkpoint))
              << ablation_text(rows, flags.markdown) << fewer_micro_batches(plan.pipeline)
              << (stop_signal() == 0 ? "" : "interrupted: rows without a complete turn are omitted\n");
    return stop_exit_code();
}
}  // namespace

void add_ablation_command(Program& program) {
    const auto flags = std::make_shared<AblationFlags>();
    PipelineOptions& options = flags->pipeline.options;
    options.batch = 8;
    options.chunks = 4;
    CLI::App* command = program.add_command(
        "ablation", "Measure what each part of the paper's driver contributes: none, dependency, copy streams, portals",
        "Example:\n"
        "  pipescope_experiments ablation unet:B=2,C=8,size=96 -n 2 --batch 16 -m 8\n"
        "Trains a U-Net with the driver in which autograd finds the backward order, adding one part at a time, and\n"
        "last with the scheduled driver. Rows take turns, --rounds times. Without --balance the model is profiled\n"
        "and balanced first.");
    command->add_option("MODEL", flags->model, "Default " + flags->model);
    command->add_option("-n,--lanes", flags->lanes, "Lanes on this host, unless --devices names them; default 2")
        ->type_name("N");
    add_parsed(*command, "--balance", flags->balance, parse_balance, "Layers of each partition; default: the best one",
               "LIST");
    command->add_option("--batch", options.batch, "Samples of a step; default 8")->type_name("N");
    command->add_option("-m,--chunks", options.chunks, "Micro-batches; default 4")->type_name("N");
    add_parsed(*command, "--checkpoint", options.checkpoint, parse_checkpoint, "always, except_last (default) or never",
               "MODE");
    add_parsed(
        *command, "--devices", options.hardware.devices,
        [](const std::string& text) { return parse_list(text, option_name("devices")); }, "Device of each lane",
        "LIST");
    command->add_option("--rounds", flags->rounds, "Measurements of each row; default 3")->type_name("N");
    command->add_option("--steps", flags->steps, "Measured steps of each measurement, after one of warm-up; default 4")
        ->type_name("N");
    command->add_flag("--markdown", flags->markdown, "Print the table as Markdown")->group("Output");
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags] { return ablation_command(*flags); });
}
}  // namespace pipescope
