#include "answers/asked_pipeline.h"
#include "answers/layout_answer.h"
#include "answers/pipeline_rows.h"
#include "answers/reports.h"
#include "base/error.h"
#include "base/number_ranges.h"
#include "cli/cluster_plan_command.h"
#include "cli/commands.h"
#include "cli/option_flags.h"
#include "cli/program.h"
#include "cli/stop_signals.h"
#include "cluster/language_model.h"
#include "schedule/schedules.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

namespace pipescope {
namespace {
struct ExplainFlags {
    std::string model;
    AskedPipeline pipeline;
    LayoutQuestion layout;
    std::string rank_by;
    double tokens = 0;
};

/// Options of one layout, without which the best one is found.
bool names_a_layout(const OptionTable& table) {
    constexpr std::array kOfOneLayout = {"partitions",
                                         "data-parallel",
                                         "tensor-parallel",
                                         "context-parallel",
                                         "expert-parallel",
                                         "interleave",
                                         "micro-batch-size",
                                         "zero",
                                         "schedule",
                                         "device-types",
                                         "sequence-parallel",
                                         "recompute",
                                         "balance",
                                         "checkpoint",
                                         "cuts"};
    return std::ranges::any_of(kOfOneLayout, [&](const char* name) { return table.is_given(name); });
}

void check_explain_options(OptionTable& table, const ExplainFlags& flags) {
    if (!flags.layout.given()) {
        throw UsageError(option_name("cluster") + " is required; it says what a layout runs on; " + kClusterRemedy);
    }
    if (!names_a_layout(table)) {
        table.row("master-weights").use = OptionUse::lanes;
    }
    for (const char* name : {"devices", "rank-by", "tokens"}) {
        if (names_a_layout(table) && table.is_given(name)) {
            throw UsageError(fmt::format(
                "{} is given with one layout; it is for a plan, which compares many; leave one of the two out",
                option_name(name)));
        }
    }
    table.check_use(true);
}

/// Sets the layout to the best one of a plan. Returns why there is none.
std::optional<std::string> find_best(ExplainFlags& flags) {
    ClusterPlanQuestion plan;
    plan.cluster = flags.layout.cluster;
    plan.request.layout = flags.layout.layout;
    plan.request.tokens = flags.tokens;
    const ClusterPlan found = cluster_plan_with_bar({flags.model}, plan, flags.pipeline, flags.rank_by);
    if (found.cancelled) {
        throw Interrupted();
    }
    if (found.candidates.empty()) {
        return found.infeasible_because;
    }
    const LayoutStep& best = found.candidates.front().step;
    flags.layout.layout = best.layout;
    flags.pipeline.recompute = to_string(best.layout.recompute);
    flags.pipeline.device_types = best.device;
    flags.pipeline.schedule_given = best.layout.schedule.has_value();
    flags.pipeline.options.schedule = best.layout.schedule.value_or(Schedule::one_f_one_b);
    return std::nullopt;
}

/// The options of simulate that give this layout.
std::string options_text(const LayoutStep& step, const ExplainFlags& flags) {
    const bool of_language_model = is_language_model(flags.model);
    const Layout& layout = step.layout;
    std::string text = fmt::format("-n {}", layout.pipeline);
    const auto add = [&](const char* option, auto value, auto usual) {
        text += value != usual ? fmt::format(" {} {}", option, value) : "";
    };
    add("--data-parallel", layout.data, 1);
    add("--tensor-parallel", layout.tensor, 1);
    add("--context-parallel", layout.context, 1);
    add("--expert-parallel", layout.expert, 1);
    add("--interleave", layout.interleave, 1);
    add("--micro-batch-size", layout.micro_batch_size, 1);
    add("--zero", layout.zero, 0);
    text += layout.sequence_parallel ? " --sequence-parallel" : "";
    text += layout.schedule ? " --schedule " + to_string(*layout.schedule) : "";
    text += layout.recompute != Recompute::none ? " --recompute " + to_string(layout.recompute) : "";
    text += layout.cuts == Cuts::quickest ? " --cuts quickest" : "";
    text += layout.gradient_bucket > 0 ? fmt::format(" --gradient-bucket {}B", layout.gradient_bucket) : "";
    text += layout.sends != Sends::blocking ? " --sends " + to_string(layout.sends) : "";
    text += layout.dispatch != TokenDispatch::expert && layout.expert > 1
                ? " --token-dispatch " + to_string(layout.dispatch)
                : "";
    if (of_language_model) {
        add("--dtype", layout.dtype, Layout{}.dtype);
        add("--gradient-bytes", layout.gradient_bytes, layout.dtype == "float64" ? 8 : Layout{}.gradient_bytes);
    }
    const AskedPipeline& pipeline = flags.pipeline;
    text += pipeline.headroom ? fmt::format(" --headroom {}B", *pipeline.headroom) : "";
    const std::optional<Bytes> limit = pipeline.options.hardware.memory_limit;
    text += limit ? fmt::format(" --memory-limit {}B", *limit) : "";
    return text + " --device-types " + step.device;
}

ExitCode explain_command(ExplainFlags flags, bool best_of_plan, bool json) {
    if (best_of_plan) {
        if (const std::optional<std::string> because = find_best(flags)) {
            std::cout << (json ? dump(nlohmann::ordered_json{{"infeasible_because", *because}})
                               : "infeasible: " + *because + "\n");
            return ExitCode::infeasible;
        }
    }
    const LayoutAnswer answer = layout_answer({flags.model}, flags.layout, flags.pipeline);
    const auto& [step, limits, warnings] = answer;
    print_warnings(warnings);
    if (json) {
        nlohmann::ordered_json object = to_json(answer);
        object.update(limits_json(step, limits));
        std::cout << dump(object);
    } else {
        std::cout << (best_of_plan ? "best: " : "") << options_text(step, flags) << "\n\n"
                  << step_text(step) << "\n"
                  << parts_text(step) << "\n"
                  << limits_text(step, limits);
    }
    return step.simulation.feasible ? ExitCode::success : ExitCode::infeasible;
}

/// Those of a pipeline that a layout takes.
void add_explain_options(OptionTable& table, ExplainFlags& flags) {
    AskedPipeline& pipeline = flags.pipeline;
    add_mini_batch_option(table, pipeline);
    add_schedule_option(table, pipeline,
                        "Order of the tasks of one layout: " + runnable_schedule_names(", ") +
                            ", a file that ends in "
                            ".csv, or auto; default: 1f1b, or interleaved with several partitions per lane");
    table.add_text("--recompute", pipeline.recompute,
                   "What a backward of one layout computes again: none (default), selective (of a gpt: model) or full",
                   "WHAT", "Pipeline");
    add_balance_option(table, pipeline);
    add_checkpoint_option(table, pipeline);
    add_parameter_options(table, pipeline);
    table.add_list("--devices", pipeline.options.hardware.devices,
                   "Without a layout: numbers of devices to plan for, such as 64..512 or 8,16; default: up to all",
                   "RANGE", "Cluster");
    add_device_type_options(table, pipeline,
                            "Types of one layout's devices, with their lanes if there are several, "
                            "such as A100:4,V100:4");
    add_memory_limit_option(table, pipeline);
    table.add_text("--rank-by", flags.rank_by, "Without a layout: the best by step (default), cost or time", "NAME",
                   "Cluster");
    table.add("--tokens", flags.tokens, parse_tokens, "Without a layout: tokens of the whole run; default: one step",
              "N", "Cluster");
    table.require({"batch"});
}
}  // namespace

void add_explain_command(Program& program) {
    const auto flags = std::make_shared<ExplainFlags>();
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
    command->add_option("MODEL", flags->model, "A model, gpt:.., or a profile file, as 'pipescope profile' writes it")
        ->required();
    const auto table = add_options(*command, [&](OptionTable& rows) {
        add_layout_options(rows, flags->layout);
        add_explain_options(rows, *flags);
    });
    add_json_flag(*command, *json);
    program.set_action(command, [flags, json, table] {
        check_explain_options(*table, *flags);
        check_model_options(*table, {flags->model}, true);
        return explain_command(*flags, !names_a_layout(*table), *json);
    });
}
}  // namespace pipescope
