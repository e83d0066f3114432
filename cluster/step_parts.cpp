#include "cluster/step_parts.h"

#include "base/quantities.h"
#include "simulator/memory/memory_fit.h"
#include "simulator/plan/planner.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
std::string percent(double share) {
    const auto tenths = std::llround(share * 1000);
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

/// Length of the part of [start, end) that the ranges cover. They may touch but not overlap.
std::int64_t covered(const std::vector<MessageRange>& ranges, std::int64_t start, std::int64_t end) {
    std::int64_t sum = 0;
    auto each = std::ranges::lower_bound(ranges, start, {}, &MessageRange::end);
    for (; each != ranges.end() && each->start < end; ++each) {
        sum += std::max<std::int64_t>(0, std::min(end, each->end) - std::max(start, each->start));
    }
    return sum;
}

constexpr double kWorthIt = 0.02;
constexpr const char* kEvenCuts = "even cuts";
constexpr const char* kOwnCuts = "own cuts";

Cluster with_free_links(Cluster cluster, bool inside, bool between) {
    for (NodeGroup& group : cluster.groups) {
        group.link = inside ? Link{} : group.link;
    }
    if (between) {
        cluster.between_nodes = {};
        if (cluster.racks) {
            cluster.racks->link = {};
        }
    }
    return cluster;
}

Cluster with_any_memory(Cluster cluster) {
    for (NodeGroup& group : cluster.groups) {
        group.device.memory_bytes = Bytes{1} << 60;
        group.device.headroom_bytes = 0;
    }
    return cluster;
}
}  // namespace

double StepParts::bubble() const {
    double sum = 0;
    for (const double each : bubbles) {
        sum += each;
    }
    return sum;
}

namespace {
PipelineOptions counted_options(const LayoutStep& step) {
    PipelineOptions options = step.simulation.options;
    if (step.tokens > 0) {
        options.optimizer = to_string(step.layout.optimizer);
        options.master_weights = has_master_weights(step.layout);
        if (step.layout.recompute == Recompute::full) {
            options.checkpoint = Checkpoint::always;
        }
    }
    return options;
}
}  // namespace

Simulation as_counted(const LayoutStep& step) {
    Simulation simulation = step.simulation;
    simulation.options = counted_options(step);
    return simulation;
}

StepOnCluster step_on_cluster(const LayoutStep& step) {
    const PipelineOptions counted = counted_options(step);
    return {.layout = to_string(step.layout),
            .pipeline = step.simulation.step_time,
            .whole = Nanoseconds{std::llround(step.step_ns())},
            .batch = step.layout.batch,
            .model_flops = step.model_flops,
            .lane_devices = step.layout.stage_devices() / step.layout.data,
            .checkpoint = to_string(counted.checkpoint),
            .optimizer = counted.optimizer};
}

StepParts step_parts(const LayoutStep& step) {
    const Simulation& simulation = step.simulation;
    const double all = step.step_ns() * static_cast<double>(simulation.lanes.size());
    StepParts parts;
    if (!(all > 0)) {
        return parts;
    }
    std::int64_t computed = 0;  // end of the last compute task
    double repeated = 0;
    for (const Slice& slice : simulation.timeline.slices) {
        if (is_compute(slice.key.kind)) {
            computed = std::max(computed, slice.end.count());
        }
        if (slice.key.kind == TaskKind::recompute) {
            repeated += static_cast<double>(slice.duration().count());
        }
    }
    const double busy = mean_busy_ns(simulation) * static_cast<double>(simulation.lanes.size());
    parts.recompute = (busy * step.recompute_share + repeated) / all;
    parts.collectives = busy * step.collective_share / all;
    parts.all_to_all = busy * step.all_to_all_share / all;
    parts.context = busy * step.context_share / all;
    parts.compute = busy / all - parts.recompute - parts.collectives - parts.all_to_all - parts.context;

    const StepGraph graph = step_graph_of(simulation.timeline, {0, simulation.step_time.count()},
                                          pipeline_graph_of(*step.profile, simulation.options));
    const std::vector<std::vector<MessageRange>> held = held_by_messages(graph, step.layout.sends);
    for (const Bubble& bubble : bubbles_of(graph, step.layout.sends)) {
        const std::int64_t end = std::min(bubble.end, computed);
        const auto length = static_cast<double>(std::max<std::int64_t>(0, end - bubble.start));
        const double sends =
            length > 0 ? static_cast<double>(covered(held[bubble.lane.index()], bubble.start, end)) : 0;
        (bubble.cause == BubbleCause::computes_loss ? parts.compute
                                                    : parts.bubbles[static_cast<std::size_t>(bubble.cause)]) +=
            (length - sends) / all;
        parts.sends += sends / all;
    }
    const double exposed = static_cast<double>(simulation.step_time.count() - computed) + step.tied_ns + step.gather_ns;
    parts.gradients = std::max(0.0, exposed) / step.step_ns();
    parts.optimizer = step.optimizer_ns / step.step_ns();
    parts.program = step.program_ns / step.step_ns();
    return parts;
}

std::vector<NamedPart> named_parts(const StepParts& parts) {
    std::vector<NamedPart> named{{"compute", "layers' operators", parts.compute},
                                 {"recompute", "operators that repeat a forward", parts.recompute},
                                 {"collectives", "collectives inside layers", parts.collectives},
                                 {"all_to_all", "tokens' ways to experts and back", parts.all_to_all},
                                 {"context", "waits for keys and values of other devices", parts.context},
                                 {"sends", "lanes wait for their copies", parts.sends},
                                 {"gradients", "exposed sums over replicas", parts.gradients},
                                 {"optimizer", "update of the parameters", parts.optimizer}};
    if (parts.program > 0) {
        named.push_back({"program", "what the program adds once per step", parts.program});
    }
    for (std::size_t k = 0; k < parts.bubbles.size(); ++k) {
        const auto cause = static_cast<BubbleCause>(k);
        if (cause != BubbleCause::computes_loss) {
            named.push_back({std::string(to_string(cause)), std::string(describe(cause)), parts.bubbles[k], true});
        }
    }
    return named;
}

std::string to_string(const StepParts& parts) {
    std::vector<std::pair<std::string, double>> all{{"bubble", parts.bubble()}};
    for (const NamedPart& each : named_parts(parts)) {
        if (!each.is_bubble) {
            all.emplace_back(each.name, each.share);
        }
    }
    std::ranges::stable_sort(all, std::greater<>(), &std::pair<std::string, double>::second);
    std::string text;
    for (const auto& [name, share] : all) {
        constexpr double kLeast = 0.005;
        if (share >= kLeast) {
            text += (text.empty() ? "" : ", ") + name + " " + percent(share);
        }
    }
    return text;
}

namespace {
/// A remedy, and whether it is still available.
struct Remedy {
    bool is_open = true;
    const char* text = "";
};
/// "a, b or c", of the available remedies.
std::string listed(const std::vector<Remedy>& remedies) {
    std::vector<std::string> open;
    for (const Remedy& each : remedies) {
        if (each.is_open) {
            open.emplace_back(each.text);
        }
    }
    std::string text;
    for (std::size_t k = 0; k < open.size(); ++k) {
        text += (k == 0 ? "" : k + 1 == open.size() ? " or " : ", ") + open[k];
    }
    return text;
}

bool can_have_more_lanes(const LayoutStep& step) {
    const std::size_t blocks =
        (*step.profile)->layers.size() - (step.tokens > 0 ? 2 : 0);  // embedding and output layer
    return static_cast<std::size_t>(step.layout.pipeline) < blocks;
}
}  // namespace

std::vector<StepLimit> step_limits(const LayoutStep& step, const Cluster& cluster, const LayoutSimulator& simulate) {
    const StepParts parts = step_parts(step);
    const Layout& layout = step.layout;
    const double whole = step.step_ns();
    std::vector<StepLimit> limits;
    const auto add = [&](const char* name, double ns, const std::string& remedy) {
        limits.push_back({name, std::min(ns, whole), remedy});
    };
    add("bubble", whole * (1 - parts.bubble()),
        "more micro-batches (now " + std::to_string(layout.micro_batches()) +
            "), more partitions per lane, fewer lanes or another schedule shrink it");
    const bool can_overlap = layout.pipeline > 1 && layout.sends != Sends::overlapped;
    add("optimizer", whole - step.optimizer_ns,
        listed({{layout.zero == 0 && layout.weight_copies().ranks > 1, "ZeRO"},
                {can_have_more_lanes(step), "more lanes"},
                {step.tokens > 0, "more tensor-parallel devices"},
                {true, "faster memory"}}) +
            " would shorten the update");
    add("links of a node", simulate(with_free_links(cluster, true, false), layout).step_ns(),
        listed({{true, "a faster link"},
                {layout.expert > 1, "fewer expert-parallel devices"},
                {layout.context > 1, "fewer context-parallel devices"},
                {layout.tensor > 1, "fewer tensor-parallel devices"},
                {can_overlap, "overlapped sends"}}) +
            " would help");
    add("links between nodes", simulate(with_free_links(cluster, false, true), layout).step_ns(),
        listed(
            {{true, "faster ports"},
             {layout.micro_batch_size > 1, "more micro-batches"},
             {layout.data > 1, "fewer replicas"},
             {layout.expert > 1, "fewer expert-parallel devices"},
             {step.tokens > 0 && layout.gradient_bytes == 4 && layout.weight_copies().ranks > 1, "--gradient-bytes 2"},
             {can_overlap, "overlapped sends"}}) +
            " would help");
    if (layout.how().launch_ns > 0) {
        TrainingProgram quick = layout.how();
        quick.launch_ns = 0;
        Layout without = layout;
        without.program = std::make_shared<const TrainingProgram>(std::move(quick));
        add("host", simulate(cluster, without).step_ns(),
            "it launches kernels one by one: " +
                listed({{true, "larger micro-batches"},
                        {layout.expert > 1 || step.active_parameters < step.parameters, "fewer experts on a device"},
                        {!layout.product_dtype.empty() && layout.how().cast_launches > 0, "--dtype bfloat16"},
                        {layout.tensor > 1, "fewer tensor-parallel devices"},
                        {true, "graphs of kernels"}}) +
                " would help");
    }
    const bool has_several_types = !step.simulation.options.hardware.memory_limits.empty();
    if (layout.recompute != Recompute::none || has_several_types) {
        Layout without = layout;
        without.recompute = Recompute::none;
        const bool recomputes = layout.recompute != Recompute::none;
        const std::optional<LayoutStep> kept = recomputes ? std::optional(simulate(cluster, without)) : std::nullopt;
        if (kept && kept->simulation.feasible) {
            add("recompute", kept->step_ns(),
                "without it the layout fits too, with a highest peak of " +
                    format_bytes(highest_peak(kept->simulation)) + ": --recompute none");
        } else {
            add("memory", simulate(with_any_memory(cluster), without).step_ns(),
                recomputes ? "recompute " + to_string(layout.recompute) +
                                 " saves it: more memory, lanes or tensor-parallel devices would do without"
                           : "layers are dealt out so that each type holds its own: more memory would let speed alone "
                             "decide");
        }
    }
    const bool is_own = layout.cuts == Cuts::own;
    const bool is_even = layout.cuts == Cuts::even && !has_several_types &&
                         ((*step.profile)->layers.size() - 2) % step.simulation.options.balance.num_partitions() == 0;
    if (step.tokens > 0 && layout.pipeline > 1 && (is_own || is_even)) {
        Layout free = layout;
        free.cuts = Cuts::quickest;
        const LayoutStep other = simulate(cluster, free);
        if (other.simulation.feasible && other.step_ns() < whole) {
            add(is_own ? kOwnCuts : kEvenCuts, other.step_ns(), "--cuts quickest has other numbers of blocks");
        }
    }
    std::ranges::stable_sort(limits, {}, &StepLimit::step_ns);
    return limits;
}

std::optional<std::string> cost_of_cuts(const LayoutStep& step, const std::vector<StepLimit>& limits) {
    constexpr double kNamed = 0.01;
    for (const StepLimit& each : limits) {
        const double share = 1 - each.step_ns / step.step_ns();
        if ((each.name == kEvenCuts || each.name == kOwnCuts) && share >= kNamed) {
            return each.name + " cost " + percent(share) + " of the step; --cuts quickest would save that";
        }
    }
    return std::nullopt;
}

std::string next_constraint(const LayoutStep& step, const std::vector<StepLimit>& limits) {
    if (const std::vector<Shortfall> lanes = shortfalls(step.simulation); !lanes.empty()) {
        const Shortfall& worst = lanes.front();
        return "memory: lane " + std::to_string(worst.lane.value()) + "'s peak of " + format_bytes(worst.peak) +
               " is above its limit of " + format_bytes(worst.limit) + "; " +
               listed({{step.layout.recompute != Recompute::full, "recompute"},
                       {step.tokens > 0 && step.layout.zero < most_zero(step.layout) &&
                            step.layout.weight_copies().ranks > 1,
                        "more ZeRO"},
                       {can_have_more_lanes(step), "more lanes"},
                       {step.tokens > 0, "more tensor-parallel devices"},
                       {true, "devices with more memory"}}) +
               " would help";
    }
    std::string text = "the device's own speed limits the step";
    if (!limits.empty() && limits.front().step_ns <= (1 - kWorthIt) * step.step_ns()) {
        const StepLimit& first = limits.front();
        text = first.name + ": without it, the step would be " + percent(1 - first.step_ns / step.step_ns()) +
               " shorter; " + first.remedy;
    }
    if (step.simulation.memory_unknown) {
        return text;
    }
    text += "; the highest peak is " + format_bytes(highest_peak(step.simulation));
    const std::vector<SimulatedLane>& lanes = step.simulation.lanes;
    const std::vector<Bytes> memory =
        memory_limits_of(step.simulation.options.hardware, static_cast<int>(lanes.size()));
    const auto fullest = std::ranges::max_element(lanes, {}, &SimulatedLane::peak_bytes) - lanes.begin();
    return memory.empty() ? text : text + " of " + format_bytes(memory[static_cast<std::size_t>(fullest)]);
}
}  // namespace pipescope
