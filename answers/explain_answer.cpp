#include "answers/explain_answer.h"

#include "answers/pipeline_rows.h"
#include "base/error.h"
#include "cluster/language_model.h"
#include "schedule/schedules.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace pipescope {
namespace {
/// Adds the pipeline options that a layout uses.
void add_explain_options(OptionTable& table, ExplainQuestion& question) {
    AskedPipeline& pipeline = question.pipeline;
    add_mini_batch_option(table, pipeline);
    add_schedule_option(table, pipeline,
                        "Order of the tasks of one layout: " + runnable_schedule_names(", ") +
                            ", a file that ends in .csv, or auto; default: 1f1b, or interleaved with several "
                            "partitions per lane");
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
    table.add_text("--rank-by", question.rank_by, "Without a layout: the best by step (default), cost or time", "NAME",
                   "Cluster");
    table.add("--tokens", question.tokens, parse_tokens, "Without a layout: tokens of the whole run; default: one step",
              "N", "Cluster");
    table.require({"batch"});
}
}  // namespace

ExplainQuestion::ExplainQuestion() {
    add_layout_options(options, layout);
    add_explain_options(options, *this);
}

bool ExplainQuestion::names_a_layout() const {
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
    return std::ranges::any_of(kOfOneLayout, [&](const char* name) { return options.is_given(name); });
}

void ExplainQuestion::check() {
    if (!layout.given()) {
        throw UsageError(option_name("cluster") + " is required; it says what a layout runs on; " + kClusterRemedy);
    }
    for (const char* name : {"devices", "rank-by", "tokens"}) {
        if (names_a_layout() && options.is_given(name)) {
            throw UsageError(fmt::format(
                "{} is given with one layout; it is for a plan, which compares many; leave one of the two out",
                option_name(name)));
        }
    }
    if (!names_a_layout() && options.is_given("master-weights")) {
        refuse_with_cluster("master-weights");
    }
    check_model_options(options, {model}, true);
    take_program(options, layout.layout);
}

namespace {
/// Sets the layout to the plan's best.
void take_best(const ClusterPlan& plan, LayoutQuestion& layout, AskedPipeline& pipeline) {
    const LayoutStep& best = plan.candidates.front().step;
    layout.layout = best.layout;
    pipeline.recompute = to_string(best.layout.recompute);
    pipeline.device_types = best.device;
    pipeline.schedule_given = best.layout.schedule.has_value();
    pipeline.options.schedule = best.layout.schedule.value_or(Schedule::one_f_one_b);
}

/// The options of simulate that give this layout.
std::string options_text(const LayoutStep& step, const std::string& model, const AskedPipeline& pipeline) {
    const bool of_language_model = is_language_model(model);
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
    text += layout.cuts != Cuts::even ? " --cuts " + to_string(layout.cuts) : "";
    text += layout.gradient_bucket > 0 ? fmt::format(" --gradient-bucket {}B", layout.gradient_bucket) : "";
    text += of_language_model && layout.optimizer != ModelOptimizer::adam
                ? " --optimizer " + to_string(layout.optimizer)
                : "";
    text += layout.no_master_weights ? " --no-master-weights" : "";
    text += layout.offload_rate > 0 ? " --offload " + offload_text(layout) : "";
    text += layout.program ? " --program " + layout.program->name : "";
    text += layout.sends != Sends::blocking ? " --sends " + to_string(layout.sends) : "";
    text += layout.dispatch != TokenDispatch::expert && layout.expert > 1
                ? " --token-dispatch " + to_string(layout.dispatch)
                : "";
    if (of_language_model) {
        add("--dtype", layout.product_dtype.empty() ? layout.dtype : layout.product_dtype, Layout{}.dtype);
        add("--gradient-bytes", layout.gradient_bytes, layout.dtype == "float64" ? 8 : Layout{}.gradient_bytes);
    }
    text += pipeline.headroom ? fmt::format(" --headroom {}B", *pipeline.headroom) : "";
    const std::optional<Bytes> limit = pipeline.options.hardware.memory_limit;
    text += limit ? fmt::format(" --memory-limit {}B", *limit) : "";
    return text + " --device-types " + step.device;
}
}  // namespace

ExplainAnswer explain_answer(const ExplainQuestion& question, const PlanMaker& plan) {
    const ModelOrProfile what(question.model);
    LayoutQuestion layout = question.layout;
    AskedPipeline pipeline = question.pipeline;
    ExplainAnswer answer;
    answer.is_best_of_plan = !question.names_a_layout();
    if (answer.is_best_of_plan) {
        ClusterPlanQuestion asked;
        asked.cluster = layout.cluster;
        asked.request.layout = layout.layout;
        asked.request.tokens = question.tokens;
        const ClusterPlan found = plan(what, asked);
        if (found.candidates.empty()) {
            answer.infeasible_because = found.infeasible_because;
            return answer;
        }
        take_best(found, layout, pipeline);
    }
    answer.layout = layout_answer(what, layout, pipeline);
    answer.options = options_text(answer.layout->step, question.model, pipeline);
    return answer;
}

nlohmann::ordered_json to_json(const ExplainAnswer& answer) {
    if (!answer.layout) {
        return {{"infeasible_because", answer.infeasible_because.value_or("")}};
    }
    nlohmann::ordered_json object = to_json(*answer.layout);
    object.update(limits_json(answer.layout->step, answer.layout->limits));
    return object;
}

std::string to_text(const ExplainAnswer& answer) {
    if (!answer.layout) {
        return "infeasible: " + answer.infeasible_because.value_or("") + "\n";
    }
    const LayoutStep& step = answer.layout->step;
    return (answer.is_best_of_plan ? "best: " : "") + answer.options + "\n\n" + step_text(step) + "\n" +
           parts_text(step) + "\n" + limits_text(step, answer.layout->limits);
}
}  // namespace pipescope
