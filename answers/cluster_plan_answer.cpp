#include "answers/cluster_plan_answer.h"

#include "answers/reports.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "base/error.h"
#include "base/number_ranges.h"
#include "base/number_text.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "cluster/planned_run.h"
#include "simulator/memory/memory_fit.h"
#include "simulator/plan/planner.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr const char* kRunGroup = "Cluster";
constexpr double kUsualSaveNs = 60e9;

double parse_steps(const std::string& text) {
    const auto steps = number_in<double>(text);
    if (!steps || !(*steps >= 1 && *steps <= 1e12) || *steps != std::floor(*steps)) {
        throw UsageError(option_name("steps") + " is '" + printable(text) +
                         "'; a run has from 1 to 1e12 whole steps; write it as 100000, or leave it out for one step");
    }
    return *steps;
}

/// The range, in bytes, of the most memory that nine of ten devices should show. Precondition: the step is that of a
/// language model.
std::pair<Bytes, Bytes> peak_interval(const LayoutStep& step) {
    const auto shown = static_cast<double>(step.layout.how().shown_bytes(highest_peak(step.simulation)));
    return {std::llround(shown * step.range.peak_low), std::llround(shown * step.range.peak_high)};
}

Bytes least_memory(const LayoutStep& step) {
    return std::ranges::min(step.memory, {}, &TypeMemory::bytes).bytes;
}

/// True if the whole interval of the memory that devices show lies below what they have.
bool surely_fits(const LayoutStep& step) {
    return peak_interval(step).second <= least_memory(step);
}

nlohmann::ordered_json candidate_json(const ClusterCandidate& candidate) {
    nlohmann::ordered_json object = layout_json(candidate.step);
    object["nodes"] = candidate.nodes;
    object["spare_nodes"] = candidate.spare_nodes;
    object["missing_nodes"] = candidate.missing_nodes;
    object["run_hours"] = candidate.run_hours;
    object["wait_hours"] = candidate.wait_hours;
    object["cost"] = candidate.cost;
    const LayoutStep& step = candidate.step;
    if (step.tokens > 0) {
        const auto [least, most] = peak_interval(step);
        object["cost_interval"] = {candidate.cost * step.range.low, candidate.cost * step.range.high};
        object["peak_interval_bytes"] = {least, most};
        object["surely_fits"] = surely_fits(step);
    }
    if (!candidate.ramp.empty()) {
        for (const RunPart& part : candidate.ramp) {
            object["ramp"].push_back(
                {{"batch", part.batch}, {"steps", part.steps}, {"step_ns", std::llround(part.step_ns)}});
        }
    }
    object["in_time"] = candidate.in_time;
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

/// What the plan ranks by.
double ranked(const ClusterCandidate& candidate, ClusterGoal goal) {
    return goal == ClusterGoal::cost   ? candidate.cost
           : goal == ClusterGoal::time ? candidate.run_hours
                                       : candidate.step.step_ns();
}

/// True if runs might rank the two the other way round. On the same type of device, the errors of program, model and
/// device are common to both, so only the difference of two layouts' errors counts: nine of ten pairs of published runs
/// (docs/evidence/published-pipelines.md). On different types the errors are independent: nine of ten ratios of two
/// runs, each within the range of its program's runs.
bool is_like(const ClusterCandidate& one, const ClusterCandidate& best, ClusterGoal goal) {
    constexpr double kPairs = 0.11;
    constexpr double kPairsOfExperts = 0.14;
    const auto half = [](const LayoutStep& each) { return (each.range.run_high - each.range.run_low) / 2; };
    const bool has_experts = one.step.active_parameters < one.step.parameters;
    const double spread = one.step.device != best.step.device ? std::hypot(half(one.step), half(best.step))
                          : has_experts                       ? kPairsOfExperts
                                                              : kPairs;
    return std::abs(ranked(one, goal) / ranked(best, goal) - 1) <= spread;
}

bool has_intervals(const ClusterPlan& plan) {
    return !plan.candidates.empty() && plan.candidates.front().step.tokens > 0;
}

/// The intervals of the best candidate's type, and what "like best" means.
std::string intervals_text(const ClusterPlan& plan) {
    if (!has_intervals(plan)) {
        return "";
    }
    const LayoutStep& best = plan.candidates.front().step;
    const StepRange& range = best.range;
    std::string text = fmt::format(
        "nine of ten runs like the best take {:.2f} to {:.2f} of its step and cost, and show {:.2f} to {:.2f} of its "
        "memory\nlike best: real runs might rank the candidate first, because the errors of two layouts differ by more "
        "than these candidates do\n",
        range.low, range.high, range.peak_low, range.peak_high);
    if (!surely_fits(best)) {
        text += fmt::format("the best may not fit: devices may show {} of {}; ",
                            format_bytes(peak_interval(best).second), format_bytes(least_memory(best)));
        const auto sure =
            std::ranges::find_if(plan.candidates, [](const ClusterCandidate& each) { return surely_fits(each.step); });
        text += sure == plan.candidates.end()
                    ? "no candidate of this plan surely fits\n"
                    : fmt::format(
                          "the first candidate that surely fits is {} devices of type {}, {}, recompute {}, zero "
                          "{}: {}\n",
                          sure->step.layout.devices(), sure->step.device, to_string(sure->step.layout),
                          to_string(sure->step.layout.recompute), sure->step.layout.zero,
                          format_duration(Nanoseconds{std::llround(sure->step.step_ns())}));
    }
    return text;
}

/// Such as "pareto, 3 spares missing".
std::string notes_of(const ClusterPlan& plan, const ClusterCandidate& candidate) {
    std::string notes = candidate.pareto ? "pareto" : "";
    const ClusterCandidate& best = plan.candidates.front();
    if (has_intervals(plan) && &candidate != &best && is_like(candidate, best, plan.goal)) {
        notes += (notes.empty() ? "" : ", ") + std::string("like best");
    }
    if (!candidate.in_time) {
        notes += (notes.empty() ? "" : ", ") + std::string("too late");
    }
    if (candidate.missing_nodes > 0) {
        notes += (notes.empty() ? "" : ", ") + counted(candidate.missing_nodes, "spare", "spares") + " missing";
    }
    return notes;
}

/// The fewest devices with which the run ends before the deadline, or how late it ends.
std::string deadline_text(const ClusterPlan& plan) {
    if (plan.deadline_hours == 0) {
        return "";
    }
    const std::string deadline = hours_text(plan.deadline_hours);
    if (plan.fewest_in_time) {
        const ClusterCandidate& fewest = plan.candidates[*plan.fewest_in_time];
        return fmt::format(
            "fewest devices of this plan that end the run within {}: {} of type {} ({}), {}, {:.6g} {}\n", deadline,
            fewest.step.layout.devices(), fewest.step.device, to_string(fewest.step.layout),
            hours_text(fewest.run_hours), fewest.cost, cost_unit(plan));
    }
    const auto hours = [](const ClusterCandidate& each) { return each.run_hours; };
    const auto device_hours = [](const ClusterCandidate& each) { return each.run_hours * each.step.layout.devices(); };
    const ClusterCandidate& quickest = std::ranges::min(plan.candidates, {}, hours);
    const ClusterCandidate& frugal = std::ranges::min(plan.candidates, {}, device_hours);
    std::string text = fmt::format("no candidate ends the run within {}: the quickest takes {}", deadline,
                                   hours_text(quickest.run_hours));
    if (const double least = std::ceil(device_hours(frugal) / plan.deadline_hours); least < 1e9) {
        text += fmt::format("; even if more devices lost nothing, it would need {:.0f} of type {}", least,
                            frugal.step.device);
    }
    return text + "\n";
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
                       fmt::format("{:.6g}", each.cost), format_percent(each.checkpoints.effective),
                       notes_of(plan, each), each.reason});
    }
    std::string text = rows > 0 ? table.str() + "\n" : "";
    text += fmt::format(
        "{}, {} simulated; ranked by {}; p lanes, d replicas, t tensor-parallel devices, {}{}v "
        "partitions per lane, b samples per micro-batch\n",
        counted(plan.considered, "layout", "layouts"), plan.simulated, to_string(plan.goal),
        has_context ? "c devices per sample, " : "", has_experts ? "e devices for the experts, " : "");
    if (!plan.candidates.empty()) {
        const ClusterCandidate& best = plan.candidates.front();
        text += intervals_text(plan) + deadline_text(plan);
        if (best.checkpoints.interval_seconds > 0) {
            text += fmt::format("best: a save every {:.1f} min, which takes {:.3g} s, {}\n",
                                best.checkpoints.interval_seconds / 60, plan.save_seconds,
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
    table.add("--steps", question.request.steps, parse_steps, "Steps of the whole run, instead of --tokens", "N",
              kRunGroup);
    table.add("--deadline", question.deadline_ns, parse_duration_ns,
              "When the run must be over, such as 30d: candidates that end later come last", "TIME", kRunGroup);
    table.add(
        "--ramp", question.request.ramp, parse_batch_ramp,
        "The batch grows as with Megatron-LM's --rampup-batch-size: first batch, increment, and samples of the ramp",
        "B,I,N", kRunGroup);
    table.add_text("--measured", question.measured,
                   "Fit the program to the measured steps of a gpt: model in this CSV, and plan with it: columns are "
                   "options of simulate and seconds (docs/program-format.md)",
                   "FILE", kRunGroup);
    add_replica_options(table, question.request.layout);
    table.add("--checkpoint-time", question.checkpoint_ns, parse_duration_ns,
              "How long a save stops the training; default 60s, or as --storage-bandwidth says", "TIME", kRunGroup);
    table.add("--storage-bandwidth", question.storage_rate, parse_bandwidth,
              "Rate at which all devices together write a save, such as 40GB/s; a save holds parameters and optimizer "
              "state",
              "RATE", kRunGroup);
    table.add("--restart-time", question.restart_ns, parse_duration_ns,
              "Time from a failure until the training continues; default 900s", "TIME", kRunGroup);
    table.add("--repair-time", question.repair_ns, parse_duration_ns,
              "Time until a failed node is back, for spare nodes; default 1d", "TIME", kRunGroup);
    table.use_from(before, OptionUse::cluster);
}

namespace {
/// The cluster's node types that the plan considers, with the memory that tensors may take.
Cluster planned_cluster(const ClusterPlanQuestion& question, const AskedPipeline& pipeline) {
    Cluster cluster =
        with_types(cluster_of({question.cluster, question.request.layout}, pipeline), pipeline.device_types);
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

/// Bytes that a save of a profiled model holds.
double save_bytes(const Profile& profile, const PipelineOptions& options) {
    const OptimizerStates states = optimizer_states(options, profile.dtype);
    double bytes = 0;
    for (const LayerProfile& layer : profile.layers) {
        bytes += static_cast<double>(layer.parameter_bytes + layer.buffer_bytes + states.of(layer));
    }
    return bytes;
}
}  // namespace

std::optional<MeasuredAnswer> fit_measured(const ModelOrProfile& what, ClusterPlanQuestion& question,
                                           const AskedPipeline& pipeline) {
    if (question.measured.empty()) {
        return std::nullopt;
    }
    SimulateQuestion rows;
    rows.profile = what.name;
    rows.pipeline = pipeline;
    rows.pipeline.schedule_given = false;
    if (pipeline.device_types.find(',') != std::string::npos) {  // types to try; a row says its own
        rows.pipeline.device_types.clear();
    }
    Layout& layout = question.request.layout;
    MeasuredAnswer answer =
        measured_answer(what, rows, {question.cluster, layout}, std::exchange(question.measured, {}));
    layout.program = std::make_shared<const TrainingProgram>(answer.fit.program);
    return answer;
}

ClusterPlan cluster_plan_of(const ModelOrProfile& what, ClusterPlanQuestion question, const AskedPipeline& pipeline,
                            const std::string& rank_by, const std::function<bool(double)>& progress) {
    fit_measured(what, question, pipeline);
    ClusterPlanRequest& request = question.request;
    const Cluster cluster = planned_cluster(question, pipeline);
    constexpr double kNsPerSecond = 1e9;
    if (question.checkpoint_ns && !(*question.checkpoint_ns > 0)) {
        throw UsageError(option_name("checkpoint-time") +
                         " is 0; a save takes some time, or the best interval would be 0; write it as 1s");
    }
    if (question.checkpoint_ns && question.storage_rate) {
        throw UsageError(option_name("checkpoint-time") + " is given with " + option_name("storage-bandwidth") +
                         "; both say how long a save takes; leave one out");
    }
    request.checkpoint_seconds = question.checkpoint_ns.value_or(kUsualSaveNs) / kNsPerSecond;
    request.deadline_hours = question.deadline_ns / kNsPerSecond / 3600;
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
            request.layout.optimizer = parse_model_optimizer(*pipeline.optimizer);
        }
        set_dtype(request.layout, pipeline.dtype);
        const LanguageModel& model = what.model();
        if (question.storage_rate) {
            request.checkpoint_seconds = save_bytes(model, request.layout) / *question.storage_rate;
        }
        return plan_cluster(model, cluster, request);
    }
    const CheckedProfile profile = what.profile_in_dtype(pipeline);
    set_dtype(request.layout, profile);
    if (question.storage_rate) {
        request.checkpoint_seconds = save_bytes(*profile, profile_options(pipeline)) / *question.storage_rate;
    }
    if (request.tokens > 0) {
        throw UsageError(option_name("tokens") +
                         " is given with a profile, which does not know the tokens of a sample; leave it out");
    }
    return plan_cluster(profile, profile_options(pipeline), cluster, request);
}

LayoutStep simulated_candidate(const ModelOrProfile& what, const ClusterPlanQuestion& question,
                               const AskedPipeline& pipeline, const Layout& layout, const std::string& device) {
    ClusterPlanQuestion asked = question;
    asked.request.layout.program = layout.program;  // that --measured may have fitted
    const Cluster cluster = planned_cluster(asked, pipeline);
    const PipelineParts parts = parse_pipeline_parts(device, cluster, layout.pipeline);
    if (what.is_model()) {
        return simulate_layout(what.model(), cluster, parts, layout);
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

nlohmann::ordered_json to_json(const ClusterPlan& plan) {
    nlohmann::ordered_json object;
    object["candidates"] = nlohmann::ordered_json::array();
    for (const ClusterCandidate& each : plan.candidates) {
        object["candidates"].push_back(candidate_json(each));
        if (each.step.tokens > 0) {
            object["candidates"].back()["like_best"] = is_like(each, plan.candidates.front(), plan.goal);
        }
    }
    object["rank_by"] = to_string(plan.goal);
    object["cost_unit"] = cost_unit(plan);
    object["considered"] = plan.considered;
    object["simulated"] = plan.simulated;
    object["cancelled"] = plan.cancelled;
    object["save_seconds"] = plan.save_seconds;
    object["deadline_hours"] = plan.deadline_hours > 0 ? nlohmann::ordered_json(plan.deadline_hours) : nullptr;
    object["fewest_in_time"] = plan.fewest_in_time ? nlohmann::ordered_json(*plan.fewest_in_time) : nullptr;
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
