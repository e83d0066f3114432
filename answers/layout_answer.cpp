#include "answers/layout_answer.h"

#include "analysis/bubble_causes.h"
#include "analysis/recorded_run.h"
#include "answers/or_null.h"
#include "answers/reports.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/printable.h"
#include "cluster/program_fit.h"
#include "cluster/step_parts.h"
#include "profiler/profile/profile_file.h"
#include "simulator/memory/memory_fit.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace pipescope {
namespace {
constexpr const char* kGroup = "Cluster";
}  // namespace

void add_replica_options(OptionTable& table, Layout& layout) {
    const std::size_t before = table.rows().size();
    table.add("--cuts", layout.cuts, parse_cuts,
              "Where to cut a gpt: model: even (default), the same number of blocks for each partition if they divide "
              "the blocks, as in Megatron-LM; quickest; or numbers of blocks such as 9,8,8,7, or a layout of "
              "Megatron-LM such as Et*9|t*8|t*8|t*7L",
              "HOW", kGroup);
    table.add_number("--gradient-bytes", layout.gradient_bytes,
                     "Bytes of a summed gradient of a gpt: model: 4 (default), 2 or 8", "N", kGroup);
    table.add("--gradient-bucket", layout.gradient_bucket, parse_bytes,
              "Sum gradients in parts of this size while the last backward makes them, such as 40MB; default: at the "
              "lane's end",
              "SIZE", kGroup);
    table.add("--sends", layout.sends, parse_sends,
              "blocking (default): a lane waits for its sends, as in Megatron-LM; serial: it handles one message after "
              "the other, as in DeepSpeed; or overlapped",
              "HOW", kGroup);
    table.add("--token-dispatch", layout.dispatch, parse_token_dispatch,
              "Tokens of a gpt: model with experts go to each of their experts: expert (default); or once to each node "
              "that holds some of them, as with DeepEP: node",
              "HOW", kGroup);
    table.add_flag("--no-master-weights", layout.no_master_weights,
                   "The optimizer of a gpt: model keeps no float32 copy of shorter parameters", kGroup);
    table.add("--offload", layout.offload_rate, parse_bandwidth,
              "The hosts keep a gpt: model's optimizer state, which each update reads and writes at this rate of a "
              "device's link to its host, such as 25GB/s",
              "RATE", kGroup);
    table.add("--program", layout.program, load_program,
              "How a training program runs a gpt: model: megatron-core, nemo, megatron-deepspeed, fsdp, torchtitan, "
              "deepspeed, maxtext, or a file (docs/program-format.md); default: kernels at their usual rates, and "
              "nothing else",
              "PROGRAM", kGroup);
    table.use_from(before, OptionUse::cluster);
}

void take_program(const OptionTable& table, Layout& layout) {
    const TrainingProgram& how = layout.how();
    const auto take = [&](const char* option, auto& value, const auto& usual) {
        if (usual && !table.is_given(option)) {
            value = *usual;
        }
    };
    take("gradient-bytes", layout.gradient_bytes, how.gradient_bytes);
    take("gradient-bucket", layout.gradient_bucket, how.gradient_bucket);
    take("sends", layout.sends, how.sends);
}

void add_layout_options(OptionTable& table, LayoutQuestion& question) {
    Layout& layout = question.layout;
    table.add_text("--cluster", question.cluster,
                   "Simulate on the cluster of this file (docs/cluster-format.md), or a built-in one such as dgx-h100; "
                   "PROFILE may then be a model such as gpt:layers=24,..",
                   "FILE", kGroup);
    const std::size_t before = table.rows().size();
    table.add_number("-n,--partitions", layout.pipeline, "Lanes of a pipeline; default 1", "P", kGroup);
    table.add_number("--data-parallel", layout.data, "Replicas of the pipeline; default 1", "D", kGroup);
    table.add_number("--tensor-parallel", layout.tensor, "Devices that split each layer; default 1", "T", kGroup);
    table.add_number("--context-parallel", layout.context,
                     "Devices that split the tokens of each sample of a gpt: model; default 1", "C", kGroup);
    table.add_number("--expert-parallel", layout.expert,
                     "Devices of a lane that split the experts of a gpt: model; default 1", "E", kGroup);
    table.add_number("--interleave", layout.interleave, "Partitions per lane; default 1", "V", kGroup);
    table.add_number("--micro-batch-size", layout.micro_batch_size, "Samples per micro-batch; default 1", "S", kGroup);
    table.add_flag("--sequence-parallel", layout.sequence_parallel,
                   "Tensor-parallel devices split norms and dropouts by tokens", kGroup);
    table.add_number("--zero", layout.zero,
                     "Replicas split the optimizer's state (1), gradients too (2), parameters too (3); default 0",
                     "STAGE", kGroup);
    table.use_from(before, OptionUse::cluster);
    add_replica_options(table, layout);
}

ModelOrProfile::ModelOrProfile(std::string name_of, const CheckedProfile* read_profile)
    : name(std::move(name_of)), profile(read_profile), read_(std::make_shared<std::optional<ReadModel>>()) {}

const ReadModel& ModelOrProfile::read_model() const {
    if (!*read_) {
        *read_ = read_language_model(name);
    }
    return **read_;
}

bool ModelOrProfile::is_model() const {
    return profile == nullptr && is_language_model(name);
}

CheckedProfile ModelOrProfile::profile_in_dtype(const AskedPipeline& pipeline) const {
    return in_dtype(profile != nullptr ? *profile : load_profile(name), pipeline, name);
}

void check_model_options(const OptionTable& table, const ModelOrProfile& what, bool with_cluster) {
    const bool is_model = what.is_model();
    if (is_model && !with_cluster) {
        throw UsageError("'" + what.name + "' is a model without " + option_name("cluster") +
                         "; a model runs on the devices of a cluster; " + kClusterRemedy);
    }
    if (!is_model && with_cluster && table.is_given("token-dispatch")) {
        throw UsageError(option_name("token-dispatch") +
                         " is given with a profile, whose layers are whole; leave it out");
    }
    if (!is_model && table.is_given("cuts")) {
        throw UsageError(option_name("cuts") +
                         " is given with a profile, whose cuts are always the quickest; leave it out");
    }
    for (const char* name : {"no-master-weights", "offload"}) {
        if (!is_model && with_cluster && table.is_given(name)) {
            throw UsageError(option_name(name) + " is given with a profile, whose optimizer is that of " +
                             option_name("optimizer") + "; leave it out");
        }
    }
    if (!is_model && with_cluster && table.is_given("program")) {
        throw UsageError(option_name("program") +
                         " is given with a profile, whose layers were measured in a program; leave it out");
    }
    if (!is_model && with_cluster && table.is_given("gradient-bytes")) {
        throw UsageError(option_name("gradient-bytes") +
                         " is given with a profile, which has the sizes of its gradients; leave it out");
    }
}

double parse_tokens(const std::string& text) {
    const auto tokens = number_in<double>(text);
    if (!tokens || !(*tokens >= 1 && *tokens <= 1e18)) {
        throw UsageError(option_name("tokens") + " is '" + printable(text) +
                         "'; a run has from 1 to 1e18 tokens; write it as 1e12, or leave it out for one step");
    }
    return *tokens;
}

Cluster cluster_of(const LayoutQuestion& question, const AskedPipeline& pipeline) {
    const std::vector<DeviceType> catalogue =
        pipeline.device_catalogue.empty() ? device_catalogue() : load_device_catalogue(pipeline.device_catalogue);
    check_names(question.layout.how(), catalogue);
    return load_cluster(question.cluster, catalogue);
}

void leave_room(NodeGroup& group, const AskedPipeline& pipeline, const TrainingProgram& how) {
    const Hardware& hardware = pipeline.options.hardware;
    if (!hardware.memory_limits.empty()) {
        throw UsageError(option_name("memory-limit") + " is " + memory_limit_text(hardware) + " with " +
                         option_name("cluster") + "; a layout's devices have one limit; give one size, such as 72GiB");
    }
    if (hardware.memory_limit && *hardware.memory_limit < 1) {
        throw UsageError(option_name("memory-limit") + " is " + memory_limit_text(hardware) + " with " +
                         option_name("cluster") + "; tensors need some memory; give a size, such as 72GiB");
    }
    if (pipeline.headroom) {
        set_headroom(group.device, *pipeline.headroom);
    } else if (how.context_bytes) {
        set_headroom(group.device, how.headroom_of(group.device.memory_bytes));
    }
    if (hardware.memory_limit && *hardware.memory_limit < group.device.tensor_bytes()) {
        set_headroom(group.device, group.device.memory_bytes - *hardware.memory_limit);
    }
}

namespace {
/// A model or profile with the layout described by the options.
struct LayoutCase {
    Cluster cluster;
    Layout layout;
    /// Uses the types of --device-types.
    std::function<LayoutStep(const Cluster& cluster, const Layout& layout)> simulate;
};

LayoutCase layout_case(const ModelOrProfile& what, const LayoutQuestion& question, const AskedPipeline& pipeline) {
    LayoutCase found{cluster_of(question, pipeline), question.layout, {}};
    Layout& layout = found.layout;
    layout.batch = pipeline.options.batch;
    layout.recompute = pipeline.recompute.empty() ? Recompute::none : parse_recompute(pipeline.recompute);
    if (pipeline.schedule_given) {
        layout.schedule = pipeline.options.schedule;
    }
    const auto parts_on = [types = pipeline.device_types](const Cluster& cluster, const Layout& on) {
        return parse_pipeline_parts(types, cluster, on.pipeline);
    };
    const PipelineParts parts = parts_on(found.cluster, layout);
    for (NodeGroup& group : found.cluster.groups) {
        if (std::ranges::any_of(parts, [&](const PipelinePart& part) { return part.group == &group; })) {
            leave_room(group, pipeline, layout.how());
        }
    }
    if (what.is_model()) {
        if (pipeline.checkpoint || pipeline.options.master_weights ||
            pipeline.options.balance != PipelineOptions{}.balance) {
            throw UsageError(option_name("balance") + ", " + option_name("checkpoint") + " or " +
                             option_name("master-weights") + " is given with a gpt: model, which is cut as " +
                             option_name("cuts") + " says, recomputes as " + option_name("recompute") +
                             " says, and has master weights unless " + option_name("no-master-weights") +
                             " is given; leave it out");
        }
        if (pipeline.optimizer) {
            layout.optimizer = parse_model_optimizer(*pipeline.optimizer);
        }
        if (layout.dispatch != TokenDispatch::expert && layout.expert == 1) {
            throw UsageError(option_name("token-dispatch") + " is " + to_string(layout.dispatch) +
                             " with all experts on each device, so that no token is sent; add " +
                             option_name("expert-parallel"));
        }
        set_dtype(layout, pipeline.dtype);
        found.simulate = [parts_on, model = what.model()](const Cluster& cluster, const Layout& on) {
            return simulate_layout(model, cluster, parts_on(cluster, on), on);
        };
        return found;
    }
    PipelineOptions options = pipeline.options;
    options.optimizer = pipeline.optimizer.value_or(options.optimizer);
    if (!pipeline.recompute.empty() && pipeline.checkpoint) {
        throw UsageError(option_name("recompute") + " is " + pipeline.recompute + " with " + option_name("checkpoint") +
                         " " + to_string(*pipeline.checkpoint) + "; both say what is recomputed; leave one out");
    }
    options.checkpoint = pipeline.checkpoint.value_or(Checkpoint::never);
    if (layout.recompute == Recompute::selective) {
        throw UsageError(option_name("recompute") +
                         " is selective with a profile, which does not know parts of layers; use none or full");
    }
    const CheckedProfile profile = what.profile_in_dtype(pipeline);
    set_dtype(layout, profile);
    found.simulate = [parts_on, profile, options](const Cluster& cluster, const Layout& on) {
        return simulate_layout(profile, options, cluster, parts_on(cluster, on), on);
    };
    return found;
}
}  // namespace

LayoutStep layout_step(const ModelOrProfile& what, const LayoutQuestion& question, const AskedPipeline& pipeline) {
    const LayoutCase laid_out = layout_case(what, question, pipeline);
    return laid_out.simulate(laid_out.cluster, laid_out.layout);
}

LayoutAnswer layout_answer(const ModelOrProfile& what, const LayoutQuestion& question, const AskedPipeline& pipeline) {
    const LayoutCase laid_out = layout_case(what, question, pipeline);
    LayoutAnswer answer{laid_out.simulate(laid_out.cluster, laid_out.layout), {}};
    answer.warnings = what.is_model() ? what.read_model().warnings : std::vector<std::string>{};
    answer.limits = step_limits(answer.step, laid_out.cluster, laid_out.simulate);
    if (const std::optional<std::string> cost = cost_of_cuts(answer.step, answer.limits)) {
        answer.warnings.push_back(*cost);
    }
    if (const std::string& dtype = laid_out.layout.product_dtype; !dtype.empty()) {
        Layout whole = laid_out.layout;
        whole.product_dtype.clear();
        const double share = laid_out.simulate(laid_out.cluster, whole).step_ns() / answer.step.step_ns();
        constexpr double kNamed = 0.99;
        if (share < kNamed) {
            answer.warnings.push_back(fmt::format(
                "with --dtype {} the step would be {} shorter: products in {} gain less than their casts cost{}",
                whole.dtype, format_percent(1 - share), dtype,
                whole.how().cast_launches > 0 ? ", which the host launches one by one for each expert" : ""));
        }
    }
    if (const int asked = laid_out.layout.zero; answer.step.layout.zero < asked) {
        answer.warnings.push_back(
            fmt::format("--zero {} is more than the program {} runs with several lanes; the answer is for ZeRO {}",
                        asked, laid_out.layout.how().name, answer.step.layout.zero));
    }
    if (laid_out.layout.recompute == Recompute::selective && laid_out.layout.how().selective_share == 0 &&
        what.model().attention == Attention::flash) {
        answer.warnings.push_back(
            fmt::format("--recompute selective saves no memory with flash attention, which keeps no scores; it costs "
                        "{} of the step; use none or full",
                        format_percent(step_parts(answer.step).recompute)));
    }
    return answer;
}

namespace {
/// Model FLOPs utilization of that many operations over the whole step.
std::optional<double> mfu_of(const LayoutStep& step, double flops) {
    const std::string& products = step.layout.product_dtype;
    const auto peak = device_peak(step.device, products.empty() ? step.simulation.dtype : products);
    return step.tokens > 0 && peak ? std::optional(flops / step.step_ns() * 1e9 / step.layout.devices() / *peak)
                                   : std::nullopt;
}
}  // namespace

std::string offload_text(const Layout& layout) {
    return fmt::format("{}B/s", std::llround(layout.offload_rate));
}

nlohmann::ordered_json layout_json(const LayoutStep& step) {
    const Layout& layout = step.layout;
    const auto whole = [](double ns) { return std::llround(ns); };
    Simulation counted = as_counted(step);
    counted.after_pipeline = Nanoseconds{whole(step.step_ns())} - counted.step_time;
    nlohmann::ordered_json object = simulation_json(counted);
    object["pipeline_ns"] = step.simulation.step_time.count();
    object["tied_embedding_ns"] = whole(step.tied_ns);
    object["parameter_gather_ns"] = whole(step.gather_ns);
    object["optimizer_ns"] = whole(step.optimizer_ns);
    object["program_ns"] = whole(step.program_ns);
    object.erase("tokens_per_second");  // these describe only the pipeline
    object["tflops_per_device"] = or_null(step.tflops_per_device());
    object["hardware_tflops_per_device"] = or_null(step.hardware_tflops_per_device());
    if (step.tokens > 0) {
        object["tokens_per_second"] = step.tokens_per_second();
        object["step_interval_ns"] = {whole(step.step_ns() * step.range.low), whole(step.step_ns() * step.range.high)};
        object["published_runs"] = {
            {"runs", step.range.runs},
            {"device", step.range.runs > 0 ? nlohmann::ordered_json(step.range.device) : nullptr},
            {"low", step.range.run_low},
            {"high", step.range.run_high},
            {"own", step.range.own}};
        object["model_flops"] = step.model_flops;
        object["model_tflops_per_second"] = step.model_flops / step.step_ns() * 1e9 / 1e12;
        if (const auto mfu = mfu_of(step, step.model_flops)) {
            object["mfu"] = *mfu;
            object["mfu_causal"] = *mfu_of(step, step.causal_flops);
        }
        object["model_parameters"] = std::llround(step.parameters);
        object["active_parameters"] = std::llround(step.active_parameters);
        object["trained_parameters"] = std::llround(step.trained_parameters);
        object["offloaded_bytes"] = std::llround(step.offloaded_bytes);
    }
    object["peak_bytes"] = highest_peak(step.simulation);
    for (const TypeMemory& each : step.memory) {
        object["device_memory"].push_back(
            {{"device", each.device}, {"memory_bytes", each.bytes}, {"headroom_bytes", each.headroom}});
    }
    object["layout"] = {{"pipeline", layout.pipeline},
                        {"data_parallel", layout.data},
                        {"tensor_parallel", layout.tensor},
                        {"context_parallel", layout.context},
                        {"expert_parallel", layout.expert},
                        {"interleave", layout.interleave},
                        {"devices", layout.devices()},
                        {"device", step.device},
                        {"micro_batch_size", layout.micro_batch_size},
                        {"recompute", to_string(layout.recompute)},
                        {"sequence_parallel", layout.sequence_parallel},
                        {"zero", layout.zero},
                        {"gradient_bytes", layout.gradient_bytes},
                        {"gradient_bucket_bytes", layout.gradient_bucket},
                        {"sends", to_string(layout.sends)},
                        {"token_dispatch", to_string(layout.dispatch)},
                        {"cuts", to_string(layout.cuts)},
                        {"product_dtype", layout.product_dtype.empty() ? nlohmann::ordered_json(nullptr)
                                                                       : nlohmann::ordered_json(layout.product_dtype)},
                        {"bfloat16_blocks", step.bfloat16_blocks},
                        {"optimizer", step.tokens > 0 ? nlohmann::ordered_json(to_string(layout.optimizer)) : nullptr},
                        {"no_master_weights", layout.no_master_weights},
                        {"offload", layout.offload_rate > 0 ? nlohmann::ordered_json(offload_text(layout)) : nullptr},
                        {"program", layout.program ? nlohmann::ordered_json(layout.program->name) : nullptr}};
    return object;
}

namespace {
BubbleSums bubble_sums_of(const LayoutStep& step) {
    const Simulation& simulation = step.simulation;
    const StepGraph graph = step_graph_of(simulation.timeline, {0, simulation.step_time.count()},
                                          pipeline_graph_of(*step.profile, simulation.options));
    return sum_bubbles(graph, bubbles_of(graph, step.layout.sends));
}
}  // namespace

nlohmann::ordered_json to_json(const LayoutAnswer& answer) {
    const LayoutStep& step = answer.step;
    nlohmann::ordered_json object = layout_json(step);
    const StepParts parts = step_parts(step);
    nlohmann::ordered_json& sums = object["step_parts"];
    for (const NamedPart& each : named_parts(parts)) {
        if (!each.is_bubble) {
            sums[each.name] = each.share;
        }
    }
    sums["bubble"] = parts.bubble();
    const BubbleSums causes = bubble_sums_of(step);
    for (int k = 0; k < kNumBubbleCauses; ++k) {
        const auto cause = static_cast<BubbleCause>(k);
        object["bubble_causes"][std::string(to_string(cause))] = causes.share(cause);
    }
    object["next_constraint"] = next_constraint(step, answer.limits);
    object["warnings"] = answer.warnings;
    return object;
}

nlohmann::ordered_json limits_json(const LayoutStep& step, const std::vector<StepLimit>& limits) {
    nlohmann::ordered_json object;
    object["parts"] = nlohmann::ordered_json::array();
    double before = 0;  // shares; differences of rounded sums sum to the rounded step
    const auto whole = [&](double share) { return std::llround(share * step.step_ns()); };
    for (const NamedPart& each : named_parts(step_parts(step))) {
        const double after = before + std::max(0.0, each.share);
        const auto ns = whole(after) - whole(before);
        before = after;
        object["parts"].push_back({{"part", each.is_bubble ? "bubble" : each.name},
                                   {"cause", each.is_bubble ? nlohmann::ordered_json(each.name) : nullptr},
                                   {"ns", ns},
                                   {"share", each.share}});
    }
    object["limits"] = nlohmann::ordered_json::array();
    for (const StepLimit& each : limits) {
        object["limits"].push_back(
            {{"limit", each.name}, {"step_without_ns", std::llround(each.step_ns)}, {"remedy", each.remedy}});
    }
    return object;
}

namespace {
std::string duration_text(double ns) {
    return format_duration(Nanoseconds{std::llround(ns)});
}
}  // namespace

std::string tflops_text(const LayoutStep& step) {
    const std::optional<double> tflops = step.tflops_per_device();
    return tflops ? fmt::format("{:.1f}", *tflops) : "unknown";
}

namespace {
/// How published runs of the step's program compare.
std::string range_text(const LayoutStep& step) {
    const StepRange& range = step.range;
    const std::string interval =
        fmt::format("nine of ten such steps should take {} to {}: ", duration_text(step.step_ns() * range.low),
                    duration_text(step.step_ns() * range.high));
    const std::string& program = step.layout.how().name;
    const std::string runs =
        range.own ? counted(range.runs, "measured run", "measured runs") + " of " + program
                  : counted(range.runs, "published run", "published runs") + " of " +
                        (program.ends_with(kMeasuredName) ? program.substr(0, program.size() - kMeasuredName.size())
                                                          : program);
    return interval + (range.runs > 0 ? fmt::format("{} on {} took {:.2f} to {:.2f} of the prediction\n", runs,
                                                    range.device, range.run_low, range.run_high)
                                      : "no published run of this program was compared\n");
}
}  // namespace

std::string step_text(const LayoutStep& step) {
    const Layout& layout = step.layout;
    std::string text =
        fmt::format("{} of type {}: pipeline {} x data {} x tensor {}", counted(layout.devices(), "device", "devices"),
                    step.device, layout.pipeline, layout.data, layout.tensor);
    text += layout.context > 1 ? fmt::format(" x context {}", layout.context) : "";
    text += layout.expert > 1 ? fmt::format(", experts on {} of a lane", layout.expert) : "";
    text += layout.product_dtype.empty() ? "" : ", products in " + layout.product_dtype;
    text += step.bfloat16_blocks > 0
                ? fmt::format(" but for {} at each end", counted(step.bfloat16_blocks, "block", "blocks"))
                : "";
    if (step.tokens > 0) {
        text += layout.program ? ", in the program " + layout.program->name
                               : ", without a program: every kernel at its usual rate (--program)";
    }
    if (step.parameters > 0) {
        text += fmt::format("\n{} parameters", std::llround(step.parameters));
        text += step.active_parameters < step.parameters
                    ? fmt::format(", of which {} compute a token", std::llround(step.active_parameters))
                    : "";
        text += step.trained_parameters < step.parameters
                    ? fmt::format(", {} train", std::llround(step.trained_parameters))
                    : "";
    }
    text += "\n\n";
    TextTable table({{"step time"},
                     {"pipeline"},
                     {"tied embedding"},
                     {"parameter gather"},
                     {"optimizer"},
                     {"TFLOP/s per device"},
                     {"MFU"},
                     {"causal MFU"},
                     {"samples/s"},
                     {"tokens/s"}});
    const auto mfu_text = [&](double flops) {
        const std::optional<double> mfu = mfu_of(step, flops);
        return mfu ? format_percent(*mfu) : "";
    };
    table.add_row({duration_text(step.step_ns()), format_duration(step.simulation.step_time),
                   duration_text(step.tied_ns), duration_text(step.gather_ns), duration_text(step.optimizer_ns),
                   tflops_text(step), mfu_text(step.model_flops), mfu_text(step.causal_flops),
                   fmt::format("{:.2f}", step.samples_per_second()),
                   step.tokens > 0 ? fmt::format("{:.0f}", step.tokens_per_second()) : ""});
    text += table.str();
    return step.layout.program ? text + range_text(step) : text;
}

std::string parts_text(const LayoutStep& step) {
    TextTable table({{"part of the step", Align::left}, {"time"}, {"share"}, {"", Align::left}});
    double sum = 0;
    for (const NamedPart& each : named_parts(step_parts(step))) {
        sum += each.share;
        if (each.share > 0) {
            table.add_row({each.is_bubble ? "bubble" : each.name, duration_text(each.share * step.step_ns()),
                           format_percent(each.share), each.about});
        }
    }
    table.add_row({"step", duration_text(sum * step.step_ns()), format_percent(sum), "mean of the lanes"});
    return table.str();
}

std::string limits_text(const LayoutStep& step, const std::vector<StepLimit>& limits) {
    TextTable table({{"limit", Align::left}, {"step without"}, {"shorter by"}, {"what helps", Align::left}});
    for (const StepLimit& each : limits) {
        table.add_row(
            {each.name, duration_text(each.step_ns), format_percent(1 - each.step_ns / step.step_ns()), each.remedy});
    }
    return table.str() + "\nnext: " + next_constraint(step, limits) + "\n";
}

std::string to_text(const LayoutAnswer& answer) {
    const auto& [step, limits, warnings] = answer;
    return step_text(step) + "\n" + parts_text(step) + "\nnext: " + next_constraint(step, limits) +
           "\n\nthe pipeline of one tensor-parallel rank of one replica:\n\n" +
           simulation_text(as_counted(step), Rates::left_out);
}
}  // namespace pipescope
