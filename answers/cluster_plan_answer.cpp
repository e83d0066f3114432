#include "answers/cluster_plan_answer.h"

#include "answers/reports.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "base/error.h"
#include "base/number_ranges.h"
#include "base/quantities.h"
#include "simulator/plan/planner.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr const char* kRunGroup = "Cluster";

nlohmann::ordered_json candidate_json(const ClusterCandidate& candidate) {
    nlohmann::ordered_json object = layout_json(candidate.step);
    object["nodes"] = candidate.nodes;
    object["spare_nodes"] = candidate.spare_nodes;
    object["missing_nodes"] = candidate.missing_nodes;
    object["run_hours"] = candidate.run_hours;
    object["wait_hours"] = candidate.wait_hours;
    object["cost"] = candidate.cost;
    object["effective_share"] = candidate.checkpoints.effective;
    object["checkpoint_interval_seconds"] = candidate.checkpoints.interval_seconds;
    object["pareto"] = candidate.pareto;
    object["reason"] = candidate.reason;
    return object;
}

const char* cost_unit(const ClusterPlan& plan) {
    return plan.priced ? "price" : "device-hours";
}

constexpr double kNever = 1e7;  // hours: a thousand years
std::string hours_text(double hours) {
    constexpr double kDay = 24;
    if (!(hours < kNever)) {
        return "never";
    }
    return hours >= 2 * kDay ? fmt::format("{:.1f} days", hours / kDay)
           : hours >= 1      ? fmt::format("{:.2f} h", hours)
                             : fmt::format("{:.2f} s", hours * 3600);
}

/// Such as "pareto, 3 spares missing".
std::string notes_of(const ClusterCandidate& candidate) {
    std::string notes = candidate.pareto ? "pareto" : "";
    if (candidate.missing_nodes > 0) {
        notes += (notes.empty() ? "" : ", ") + counted(candidate.missing_nodes, "spare", "spares") + " missing";
    }
    return notes;
}

}  // namespace

std::string to_text(const ClusterPlan& plan, std::size_t most) {
    TextTable table({{"devices"},
                     {"type", Align::left},
                     {"layout", Align::left},
                     {"schedule", Align::left},
                     {"recompute", Align::left},
                     {"zero"},
                     {"step"},
                     {"TFLOP/s"},
                     {"peak"},
                     {"run"},
                     {cost_unit(plan)},
                     {"effective"},
                     {"", Align::left},
                     {"step consists of", Align::left}});
    std::size_t rows = 0;
    const bool has_context =
        std::ranges::any_of(plan.candidates, [](const ClusterCandidate& each) { return each.step.layout.context > 1; });
    const bool has_experts =
        std::ranges::any_of(plan.candidates, [](const ClusterCandidate& each) { return each.step.layout.expert > 1; });
    for (const ClusterCandidate& each : plan.candidates) {
        if (rows >= most && !(each.pareto && rows < 2 * most)) {
            continue;
        }
        ++rows;
        const LayoutStep& step = each.step;
        table.add_row({std::to_string(step.layout.devices()), step.device, to_string(step.layout),
                       to_string(step.simulation.options.schedule), to_string(step.layout.recompute),
                       std::to_string(step.layout.zero), format_duration(Nanoseconds{std::llround(step.step_ns())}),
                       tflops_text(step), format_bytes(highest_peak(step.simulation)), hours_text(each.run_hours),
                       fmt::format("{:.6g}", each.cost), format_percent(each.checkpoints.effective), notes_of(each),
                       each.reason});
    }
    std::string text = table.str();
    text += fmt::format(
        "\n{} layouts, {} simulated; ranked by {}; p lanes, d replicas, t tensor-parallel devices, {}{}v "
        "partitions per lane, b samples per micro-batch\n",
        plan.considered, plan.simulated, to_string(plan.goal), has_context ? "c devices per sample, " : "",
        has_experts ? "e devices for the experts, " : "");
    if (!plan.candidates.empty()) {
        const ClusterCandidate& best = plan.candidates.front();
        if (best.checkpoints.interval_seconds > 0) {
            text += fmt::format("best: a save every {:.1f} min, {}\n", best.checkpoints.interval_seconds / 60,
                                counted(best.spare_nodes, "spare node", "spare nodes"));
            text += best.missing_nodes > 0
                        ? fmt::format("the cluster lacks {} for it: waits for repairs {}\n",
                                      counted(best.missing_nodes, "further spare node", "further spare nodes"),
                                      best.wait_hours < kNever ? "take " + hours_text(best.wait_hours) + " of the run"
                                                               : std::string("never end"))
                        : "";
        }
    }
    text += plan.next_constraint.empty() ? "" : "next constraint of the best: " + plan.next_constraint + "\n";
    for (const std::string& each : plan.left_out) {
        text += each + "\n";
    }
    if (plan.infeasible_because) {
        text += "infeasible: " + *plan.infeasible_because + "\n";
    }
    return text;
}

void add_cluster_plan_options(OptionTable& table, ClusterPlanQuestion& question) {
    table.add_text("--cluster", question.cluster,
                   "Plan layouts on the cluster of this file (docs/cluster-format.md), or a built-in one such as "
                   "dgx-h100; PROFILE may then be a model such as gpt:layers=24,..; --devices is a range such as "
                   "64..1024",
                   "FILE", kRunGroup);
    const std::size_t before = table.rows().size();
    table.add("--tokens", question.request.tokens, parse_tokens,
              "Tokens of the whole run, such as 1e12; default: one step", "N", kRunGroup);
    add_replica_options(table, question.request.layout);
    table.add("--checkpoint-time", question.checkpoint_ns, parse_duration_ns,
              "How long a save stops the training; default 60s", "TIME", kRunGroup);
    table.add("--restart-time", question.restart_ns, parse_duration_ns,
              "Time from a failure until the training continues; default 900s", "TIME", kRunGroup);
    table.add("--repair-time", question.repair_ns, parse_duration_ns,
              "Time until a failed node is back, for spare nodes; default 1d", "TIME", kRunGroup);
    table.use_from(before, OptionUse::cluster);
}

namespace {
/// The cluster's node types that the plan considers, with the memory that tensors may take.
Cluster planned_cluster(const ClusterPlanQuestion& question, const AskedPipeline& pipeline) {
    Cluster cluster = with_types(cluster_of({question.cluster, {}}, pipeline), pipeline.device_types);
    for (NodeGroup& group : cluster.groups) {
        leave_room(group, pipeline, question.request.layout.how());
    }
    return cluster;
}

/// The pipeline options for lanes with a profile.
PipelineOptions profile_options(const AskedPipeline& pipeline) {
    PipelineOptions options;
    options.optimizer = pipeline.optimizer.value_or(options.optimizer);
    options.checkpoint = Checkpoint::never;
    return options;
}
}  // namespace

ClusterPlan cluster_plan_of(const ModelOrProfile& what, ClusterPlanQuestion question, const AskedPipeline& pipeline,
                            const std::string& rank_by, const std::function<bool(double)>& progress) {
    ClusterPlanRequest& request = question.request;
    const Cluster cluster = planned_cluster(question, pipeline);
    constexpr double kNsPerSecond = 1e9;
    if (!(question.checkpoint_ns > 0)) {
        throw UsageError(option_name("checkpoint-time") +
                         " is 0; a save takes some time, or the best interval would be 0; write it as 1s");
    }
    request.checkpoint_seconds = question.checkpoint_ns / kNsPerSecond;
    request.restart_seconds = question.restart_ns / kNsPerSecond;
    request.repair_hours = question.repair_ns / kNsPerSecond / 3600;
    request.layout.batch = pipeline.options.batch;
    request.goal = rank_by.empty() ? ClusterGoal::step : parse_cluster_goal(rank_by);
    for (const Schedule& each : request.schedules) {
        if (each.file() != nullptr || !is_synchronous(each)) {
            throw UsageError(option_name("schedule") + " has " + to_string(each) + " with " + option_name("cluster") +
                             "; a plan tries named schedules that drain; leave it out");
        }
    }
    if (!pipeline.options.hardware.devices.empty()) {
        request.devices = ranges_of(pipeline.options.hardware.devices, option_name("devices"));
    }
    request.progress = progress;
    if (what.is_model()) {
        if (pipeline.optimizer) {
            throw UsageError(option_name("optimizer") +
                             " is given with a gpt: model, which trains with Adam; leave it out");
        }
        set_dtype(request.layout, pipeline.dtype);
        return plan_cluster(parse_language_model(what.name), cluster, request);
    }
    const CheckedProfile profile = what.profile_in_dtype(pipeline);
    set_dtype(request.layout, profile);
    if (request.tokens > 0) {
        throw UsageError(option_name("tokens") +
                         " is given with a profile, which does not know the tokens of a sample; leave it out");
    }
    return plan_cluster(profile, profile_options(pipeline), cluster, request);
}

LayoutStep simulated_candidate(const ModelOrProfile& what, const ClusterPlanQuestion& question,
                               const AskedPipeline& pipeline, const Layout& layout, const std::string& device) {
    const Cluster cluster = planned_cluster(question, pipeline);
    const PipelineParts parts = parse_pipeline_parts(device, cluster, layout.pipeline);
    if (what.is_model()) {
        return simulate_layout(parse_language_model(what.name), cluster, parts, layout);
    }
    return simulate_layout(what.profile_in_dtype(pipeline), profile_options(pipeline), cluster, parts, layout);
}

AskedPlan::AskedPlan() {
    add_plan_options(options, lanes);
    add_cluster_plan_options(options, cluster);
}

void AskedPlan::check(const ModelOrProfile& what) {
    options.check_use(cluster.given());
    check_model_options(options, what, cluster.given());
    take_program(options, cluster.request.layout);
    check_most(lanes);
    if (options.is_given("schedule")) {
        cluster.request.schedules = lanes.request.schedules;
    }
}

ClusterPlan cluster_plan_of(const ModelOrProfile& what, const AskedPlan& asked,
                            const std::function<bool(double)>& progress) {
    return cluster_plan_of(what, asked.cluster, asked.lanes.pipeline, asked.lanes.rank_by, progress);
}

namespace {
/// True if runs might rank the two steps the other way round: their ratio lies within nine of ten ratios of two runs,
/// each with the range of its program's runs.
bool is_like(const LayoutStep& step, const LayoutStep& best) {
    const auto half = [](const LayoutStep& each) { return (each.range.run_high - each.range.run_low) / 2; };
    return std::abs(step.step_ns() / best.step_ns() - 1) <= std::hypot(half(step), half(best));
}
}  // namespace

nlohmann::ordered_json to_json(const ClusterPlan& plan) {
    nlohmann::ordered_json object;
    object["candidates"] = nlohmann::ordered_json::array();
    for (const ClusterCandidate& each : plan.candidates) {
        object["candidates"].push_back(candidate_json(each));
        if (each.step.tokens > 0) {
            object["candidates"].back()["like_best"] = is_like(each.step, plan.candidates.front().step);
        }
    }
    object["rank_by"] = to_string(plan.goal);
    object["cost_unit"] = cost_unit(plan);
    object["considered"] = plan.considered;
    object["simulated"] = plan.simulated;
    object["cancelled"] = plan.cancelled;
    object["left_out"] = plan.left_out;
    object["next_constraint"] = nullptr;
    if (!plan.next_constraint.empty()) {
        object["next_constraint"] = plan.next_constraint;
    }
    object["infeasible_because"] = nullptr;
    if (plan.infeasible_because) {
        object["infeasible_because"] = *plan.infeasible_because;
    }
    return object;
}
}  // namespace pipescope
