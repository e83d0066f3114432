#include "cli/layout_flags.h"

#include "analysis/bubble_causes.h"
#include "analysis/recorded_run.h"
#include "balance/profile_file.h"
#include "cli/program.h"
#include "cli/reports.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "cluster/step_parts.h"
#include "schedule/error.h"
#include "simulator/planner.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
namespace {
constexpr const char* kGroup = "Cluster";

/// Options that only a layout has.
const std::set<std::string> kOfLayouts = {"partitions", "data-parallel",    "tensor-parallel",
                                          "interleave", "micro-batch-size", "sequence-parallel",
                                          "zero",       "gradient-bytes",   "sends"};
/// Others that it takes.
const std::set<std::string> kWithLayouts = {
    "cluster", "batch", "schedule", "recompute", "dtype",      "device-types", "device-catalogue",
    "json",    "trace", "force",    "balance",   "checkpoint", "optimizer",    "master-weights"};

bool is_among(const CLI::Option& option, const std::set<std::string>& names) {
    return std::ranges::any_of(option.get_lnames(), [&](const std::string& name) { return names.contains(name); });
}
}  // namespace

void add_layout_options(CLI::App& command, LayoutFlags& flags) {
    Layout& layout = flags.layout;
    add_option(
        command, "--cluster", flags.cluster,
        "Simulate on this cluster (docs/cluster-format.md); PROFILE may then be a model such as gpt:layers=24,..",
        "FILE", kGroup);
    add_option(command, "-n,--partitions", layout.pipeline, "Lanes of a pipeline; default 1", "P", kGroup);
    add_option(command, "--data-parallel", layout.data, "Replicas of the pipeline; default 1", "D", kGroup);
    add_option(command, "--tensor-parallel", layout.tensor, "Devices that split each layer; default 1", "T", kGroup);
    add_option(command, "--interleave", layout.interleave, "Partitions a lane; default 1", "V", kGroup);
    add_option(command, "--micro-batch-size", layout.micro_batch_size, "Samples of a micro-batch; default 1", "S",
               kGroup);
    command
        .add_flag("--sequence-parallel", layout.sequence_parallel,
                  "Tensor-parallel devices split norms and dropouts by tokens")
        ->group(kGroup);
    add_option(command, "--zero", layout.zero,
               "Replicas split the optimizer's state (1), gradients too (2), parameters too (3); default 0", "STAGE",
               kGroup);
    add_option(command, "--gradient-bytes", layout.gradient_bytes, "Bytes of a summed gradient: 4 (default) or 2", "N",
               kGroup);
    add_parsed(
        command, "--sends", layout.sends, parse_sends,
        "blocking (default): a lane waits for its sends, as in Megatron-LM; serial: it handles one message after the "
        "other, as in DeepSpeed; or overlapped",
        "HOW", kGroup);
}

void check_options_with_cluster(const CLI::App& command, bool has_cluster, const std::set<std::string>& own,
                                const std::set<std::string>& others) {
    for (const CLI::Option* option : command.get_options()) {
        if (option->count() == 0 || option->get_positional()) {
            continue;
        }
        const std::string name = option->get_name(false, true);
        if (!has_cluster && is_among(*option, own)) {
            throw UsageError(name + " is given without --cluster, whose devices it is about; name a cluster file");
        }
        if (has_cluster && !is_among(*option, own) && !is_among(*option, others)) {
            throw UsageError(name + " is given with --cluster, which settles that otherwise; leave one of both out");
        }
    }
}

void check_layout_options(const CLI::App& command, const LayoutFlags& flags) {
    check_options_with_cluster(command, flags.given(), kOfLayouts, kWithLayouts);
}

Cluster cluster_of(const LayoutFlags& flags, const PipelineFlags& pipeline) {
    return load_cluster(flags.cluster, pipeline.device_catalogue.empty()
                                           ? device_catalogue()
                                           : load_device_catalogue(pipeline.device_catalogue));
}

const NodeGroup& node_group(const Cluster& cluster, const PipelineFlags& pipeline) {
    if (pipeline.device_types.empty() && cluster.groups.size() == 1) {
        return cluster.groups.front();
    }
    std::string known;
    for (const NodeGroup& group : cluster.groups) {
        if (group.device.name == pipeline.device_types) {
            return group;
        }
        known += (known.empty() ? "" : ", ") + group.device.name;
    }
    throw UsageError(fmt::format("--device-types is '{}'; a layout lies on one group of nodes; name one of {}",
                                 pipeline.device_types, known));
}

LayoutStep simulate_layout(const std::string& model_or_profile, const LayoutFlags& flags, const PipelineFlags& pipeline,
                           const std::string& recompute, const SimulationDetail& detail) {
    const Cluster cluster = cluster_of(flags, pipeline);
    const NodeGroup& group = node_group(cluster, pipeline);
    Layout layout = flags.layout;
    layout.batch = pipeline.options.batch;
    layout.recompute = recompute.empty() ? Recompute::none : parse_recompute(recompute);
    if (pipeline.schedule_given) {
        layout.schedule = pipeline.options.schedule;
    }
    if (is_language_model(model_or_profile)) {
        if (pipeline.optimizer || pipeline.checkpoint || pipeline.options.master_weights ||
            pipeline.options.balance != PipelineOptions{}.balance) {
            throw UsageError(
                "--balance, --checkpoint, --optimizer or --master-weights is given with a gpt: model, which is cut "
                "evenly, recomputes as --recompute says, and trains with Adam; leave it out");
        }
        layout.dtype = pipeline.dtype.empty() ? layout.dtype : pipeline.dtype;
        dtype_bytes(layout.dtype);
        return simulate_layout(parse_language_model(model_or_profile), cluster, group, layout, detail);
    }
    PipelineOptions options = pipeline.options;
    options.optimizer = pipeline.optimizer.value_or(options.optimizer);
    options.checkpoint = pipeline.checkpoint.value_or(options.checkpoint);
    if (layout.recompute == Recompute::selective) {
        throw UsageError(
            "--recompute is selective with a profile, which does not know parts of layers; use none or full");
    }
    if (!recompute.empty()) {
        options.checkpoint = layout.recompute == Recompute::full ? Checkpoint::always : Checkpoint::never;
    }
    const Profile profile = in_dtype(load_profile(model_or_profile), pipeline, model_or_profile);
    layout.dtype = profile.dtype;
    return simulate_layout(profile, options, cluster, group, layout, detail);
}

nlohmann::ordered_json layout_json(const LayoutStep& step) {
    const Layout& layout = step.layout;
    nlohmann::ordered_json object = simulation_json(step.simulation);
    const auto whole = [](double ns) { return std::llround(ns); };
    object["step_ns"] = whole(step.step_ns());
    object["pipeline_ns"] = step.simulation.step_time.count();
    object["tied_embedding_ns"] = whole(step.tied_ns);
    object["optimizer_ns"] = whole(step.optimizer_ns);
    object["samples_per_second"] = static_cast<double>(layout.batch) / step.step_ns() * 1e9;
    object["tflops_per_device"] = step.tflops_per_device();
    object["hardware_tflops_per_device"] = step.hardware_tflops_per_device();
    if (step.tokens > 0) {
        object["tokens_per_second"] = step.tokens_per_second();
        object["model_flops"] = step.model_flops;
        object["model_tflops_per_second"] = step.model_flops / step.step_ns() * 1e9 / 1e12;
        if (const auto peak = device_peak(step.device, step.simulation.dtype)) {
            object["mfu"] = step.tflops_per_device() * 1e12 / *peak;
        }
    }
    object["peak_bytes"] = highest_peak(step.simulation);
    object["layout"] = {{"pipeline", layout.pipeline},
                        {"data_parallel", layout.data},
                        {"tensor_parallel", layout.tensor},
                        {"interleave", layout.interleave},
                        {"devices", layout.devices()},
                        {"device", step.device},
                        {"micro_batch_size", layout.micro_batch_size},
                        {"recompute", to_string(layout.recompute)},
                        {"sequence_parallel", layout.sequence_parallel},
                        {"zero", layout.zero},
                        {"gradient_bytes", layout.gradient_bytes},
                        {"sends", to_string(layout.sends)}};
    return object;
}

namespace {
/// The pipeline's bubble by cause.
BubbleSums bubble_sums_of(const LayoutStep& step) {
    const Simulation& simulation = step.simulation;
    const StepGraph graph = step_graph_of(simulation.timeline, {0, simulation.step_time.count()},
                                          pipeline_graph_of(step.profile, simulation.options));
    return sum_bubbles(graph, bubbles_of(graph));
}
}  // namespace

nlohmann::ordered_json explanation_json(const LayoutStep& step) {
    nlohmann::ordered_json object;
    for (const auto& [name, share] : named_parts(step_parts(step))) {
        object["step_parts"][name] = share;
    }
    const BubbleSums sums = bubble_sums_of(step);
    for (int k = 0; k < kNumBubbleCauses; ++k) {
        const auto cause = static_cast<BubbleCause>(k);
        object["bubble_causes"][std::string(to_string(cause))] = sums.share(cause);
    }
    object["next_constraint"] = next_constraint(step);
    return object;
}

std::string layout_text(const LayoutStep& step) {
    const Layout& layout = step.layout;
    const auto duration = [](double ns) { return format_duration(Nanoseconds{std::llround(ns)}); };
    std::string text = fmt::format("{} of type {}: pipeline {} x data {} x tensor {}\n\n",
                                   counted(layout.devices(), "device", "devices"), step.device, layout.pipeline,
                                   layout.data, layout.tensor);
    TextTable table(
        {{"step time"}, {"pipeline"}, {"tied embedding"}, {"optimizer"}, {"TFLOP/s a device"}, {"tokens/s"}});
    table.add_row({duration(step.step_ns()), format_duration(step.simulation.step_time), duration(step.tied_ns),
                   duration(step.optimizer_ns), fmt::format("{:.1f}", step.tflops_per_device()),
                   step.tokens > 0 ? fmt::format("{:.0f}", step.tokens_per_second()) : ""});
    const BubbleSums sums = bubble_sums_of(step);
    TextTable causes({{"bubble by cause", Align::left}, {"of the pipeline"}});
    for (int k = 0; k < kNumBubbleCauses; ++k) {
        const auto cause = static_cast<BubbleCause>(k);
        if (sums.of(cause) > 0) {
            causes.add_row({std::string(describe(cause)), format_percent(sums.share(cause))});
        }
    }
    text += table.str() + "\nstep: " + to_string(step_parts(step)) + "\nnext: " + next_constraint(step) + "\n\n";
    text += causes.str();
    return text + "\nthe pipeline of one tensor-parallel rank of one replica:\n\n" + simulation_text(step.simulation);
}
}  // namespace pipescope
