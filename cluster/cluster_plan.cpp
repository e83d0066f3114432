#include "cluster/cluster_plan.h"

#include "base/error.h"
#include "base/number_ranges.h"
#include "base/parse_name.h"
#include "base/quantities.h"
#include "base/stop_check.h"
#include "base/work_threads.h"
#include "cluster/fewest_devices.h"
#include "cluster/known_profiles.h"
#include "cluster/layout_numbers.h"
#include "cluster/planned_run.h"
#include "cluster/step_bounds.h"
#include "cluster/step_parts.h"
#include "schedule/schedules.h"
#include "simulator/plan/pareto_front.h"
#include "simulator/plan/planner.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
constexpr std::int64_t kMostInterleave = 8;  // partitions per lane

/// A layout with a lower bound of its step. Layouts of the same base differ only in recompute and ZeRO.
struct BoundedLayout {
    Layout layout;
    PipelineParts parts;
    double least_ns = 0;
    std::size_t base = 0;
    bool is_cut = false;  ///< the bound knows the cuts
};

constexpr SimulationDetail kPeaksOnly{.noise = false, .memory = true, .memory_over_time = false};

/// The layouts on one number of devices, of one type or of two.
struct Size {
    std::vector<const NodeGroup*> groups = {};
    int devices = 0;
    std::vector<BoundedLayout> layouts = {};
    struct Found {
        ClusterCandidate candidate;
        PipelineParts parts;
    };
    std::vector<Found> found = {};
    std::size_t considered = 0;
    std::size_t simulated = 0;
};

/// A dtype of the layout that the group's devices have no rate for; empty if they have all.
std::string dtype_without_rate(const NodeGroup& group, const Layout& layout) {
    for (const std::string& dtype : {layout.dtype, layout.product_dtype}) {
        if (!dtype.empty() && !group.device.flops_per_second.contains(dtype)) {
            return dtype;
        }
    }
    return {};
}

bool fits_tensor(const LanguageModel& model, int tensor) {
    const std::vector<BlockKind> kinds = block_kinds(model);
    const bool has_dense = std::ranges::any_of(kinds, [](BlockKind kind) { return !kind.has_experts; });
    const bool has_states = std::ranges::any_of(kinds, &BlockKind::has_state);
    return model.heads % tensor == 0 && (!has_dense || model.mlp % tensor == 0) &&
           (!has_states || model.state_heads % tensor == 0) &&
           model.shared_experts * model.expert_hidden % tensor == 0 &&
           (model.experts == 0 || model.sequence % tensor == 0) &&
           (model.kv_heads % tensor == 0 || tensor % model.kv_heads == 0);
}

/// The ways to place a layout's lanes on the size's groups: as many lanes as possible on the quickest group, then on
/// the next, at least one on each. The quickest comes first or last. A single group gets all lanes. Empty if there is
/// none.
std::vector<PipelineParts> parts_of(const Size& size, const Layout& layout) {
    if (size.groups.size() == 1) {
        return {{{size.groups.front(), layout.pipeline}}};
    }
    if (is_bidirectional(schedule_of(layout))) {
        return {};  // two lanes hold each partition, and are alike
    }
    std::vector<const NodeGroup*> groups = size.groups;
    std::ranges::stable_sort(groups, std::greater<>(),
                             [&](const NodeGroup* group) { return peak_rate(group->device, layout.dtype); });
    PipelineParts parts;
    int left = layout.pipeline;
    for (std::size_t k = 0; k < groups.size(); ++k) {
        const int others = static_cast<int>(groups.size() - k) - 1;
        const int lanes =
            static_cast<int>(std::min<std::int64_t>(left - others, groups[k]->devices() / layout.stage_devices()));
        if (lanes < 1) {
            return {};
        }
        parts.push_back({groups[k], lanes});
        left -= lanes;
    }
    if (left > 0) {
        return {};
    }
    return {parts, PipelineParts(parts.rbegin(), parts.rend())};
}

/// True if the layout can run each batch of the ramp with that schedule.
bool can_ramp(const ClusterPlanRequest& request, const Layout& layout, const Schedule& schedule) {
    if (!request.ramp) {
        return true;
    }
    const std::int64_t samples = layout.data * layout.micro_batch_size;
    return request.ramp->start % samples == 0 && request.ramp->increment % samples == 0 &&
           std::ranges::all_of(ramp_batches(*request.ramp, request.layout.batch),
                               [&](std::int64_t batch) { return can_run(schedule, layout.pipeline, batch / samples); });
}

/// The schedules to try with that many lanes and partitions per lane; an empty schedule stands for the usual one.
std::vector<std::optional<Schedule>> schedules_of(const ClusterPlanRequest& request, const Layout& layout) {
    std::vector<std::optional<Schedule>> schedules;
    const auto micro_batches = layout.micro_batches();
    std::vector<Schedule> named = request.schedules;
    std::erase(named, Schedule(Schedule::automatic));  // see add_automatic()
    if (named.empty()) {
        named = {usual_schedule(1), usual_schedule(2)};  // automatic starts from their best layouts
    }
    for (const Schedule& each : named) {
        const bool one_each = runs_one_partition_a_lane(each) || is_bidirectional(each);
        const bool in_a_v = !one_each && lies_in_a_v(each);
        const bool fits = layout.interleave == 1 ? one_each : !one_each && (!in_a_v || layout.interleave == 2);
        if (!fits || !can_run(each, layout.pipeline, micro_batches) || !can_ramp(request, layout, each)) {
            continue;
        }
        schedules.push_back(each == usual_schedule(layout.interleave) ? std::nullopt : std::optional(each));
    }
    return schedules;
}

/// Layouts of the same base that take longer and need less memory: the next recompute, and from ZeRO 1 on the next
/// stage.
std::vector<Layout> smaller_layouts(const LanguageModel& model, const Layout& layout) {
    std::vector<Layout> smaller;
    if (layout.recompute != Recompute::full) {
        Layout& more = smaller.emplace_back(layout);
        // Flash attention has no scores to recompute.
        more.recompute = layout.recompute == Recompute::none && model.attention == Attention::standard
                             ? Recompute::selective
                             : Recompute::full;
    }
    if (layout.zero > 0 && layout.zero < most_zero(layout)) {
        ++smaller.emplace_back(layout).zero;
    }
    return smaller;
}

/// True if devices hold the same weights, so that ZeRO has something to split.
bool has_copies(const LanguageModel& model, const Layout& layout) {
    return layout.weight_copies().ranks > 1 || (model.experts > 0 && layout.expert_copies().ranks > 1);
}

/// Calls `add` with each base of one size, without recompute and ZeRO.
void for_each_base(const Size& size, const LanguageModel& model, const ClusterPlanRequest& request,
                   std::int64_t largest_micro_batch, const std::function<void(const Layout& layout)>& add) {
    constexpr std::int64_t kMostTensor = 64;
    constexpr std::int64_t kMostPartitions = 1024;
    const auto own = static_cast<std::int64_t>(request.layout.cuts.blocks().size());
    constexpr std::int64_t kEnds = 2;  // may have a partition of their own
    const std::int64_t most_partitions = model.layers + kEnds;
    int node = 0;
    for (const NodeGroup* group : size.groups) {
        node = std::gcd(node, group->devices_per_node);
    }
    // Adds micro-batches, partitions per lane, devices for the experts, and schedules.
    const auto add_sizes = [&](Layout layout) {
        for (const int samples : divisors(request.layout.batch / layout.data, largest_micro_batch)) {
            layout.micro_batch_size = samples;
            if (largest_layer_flops(model, layout) > kMostLayerFlops || layout.micro_batches() > kMostMicroBatches) {
                continue;
            }
            for (layout.interleave = 1; layout.interleave <= kMostInterleave; ++layout.interleave) {
                const std::int64_t partitions = static_cast<std::int64_t>(layout.pipeline) * layout.interleave;
                if (layout.interleave > 1 && (layout.pipeline == 1 || partitions > most_partitions)) {
                    continue;
                }
                if (own > 0 && partitions != own) {
                    continue;
                }
                for (const int expert : divisors(std::max<std::int64_t>(1, model.experts), layout.stage_devices())) {
                    if (layout.stage_devices() % expert != 0) {
                        continue;
                    }
                    layout.expert = expert;
                    layout.expert_tensor = expert_tensor_of(model, layout);
                    layout.dispatch = expert > 1 ? request.layout.dispatch : TokenDispatch::expert;
                    for (const std::optional<Schedule>& schedule : schedules_of(request, layout)) {
                        layout.schedule = schedule;
                        add(layout);
                    }
                }
            }
        }
    };
    for (const int tensor : divisors(node, kMostTensor)) {
        if (!fits_tensor(model, tensor) || size.devices % tensor != 0) {
            continue;
        }
        for (const int context : contexts_of(model, size.devices / tensor)) {
            for (const int pipeline :
                 divisors(size.devices / tensor / context, std::min(most_partitions, kMostPartitions))) {
                Layout layout = request.layout;
                layout.pipeline = pipeline;
                layout.data = size.devices / tensor / context / pipeline;
                layout.tensor = tensor;
                layout.context = context;
                layout.sequence_parallel =
                    tensor > 1 && model.sequence % ((context > 1 ? 2LL : 1LL) * context * tensor) == 0;
                const bool sends_to_experts = model.experts == 0 || tensor == 1 || layout.sequence_parallel;
                if (request.layout.batch % layout.data == 0 && (size.groups.size() == 1 || pipeline > 1) &&
                    sends_to_experts) {
                    add_sizes(layout);
                }
            }
        }
    }
}

/// Adds the bases of one size and their bounds: without recompute, with ZeRO 0 and 1, or all ZeRO stages with buckets.
void add_layouts(Size& size, const LanguageModel& model, const ClusterPlanRequest& request, StepBounds& bounds) {
    constexpr std::int64_t kLargestMicroBatch = 16;
    std::size_t base = 0;
    for_each_base(size, model, request, kLargestMicroBatch, [&](const Layout& layout) {
        check_stop();
        for (PipelineParts& parts : parts_of(size, layout)) {
            const double least = bounds.of(layout, parts);
            size.layouts.push_back({layout, std::move(parts), least, base++});
            // With buckets, messages of ZeRO 2 and 3 overlap with layers' work, so these stages may be quicker than
            // ZeRO 1.
            const int stages = layout.gradient_bucket > 0 ? most_zero(layout) : std::min(1, most_zero(layout));
            const int most = has_copies(model, layout) ? stages : 0;
            for (int zero = 1; zero <= most; ++zero) {
                BoundedLayout& with_zero = size.layouts.emplace_back(size.layouts.back());
                with_zero.layout.zero = zero;
                with_zero.least_ns = bounds.of(with_zero.layout, with_zero.parts);
            }
        }
    });
}

/// The layouts of one size that need least memory: micro-batches of one sample, full recompute and ZeRO 3. A plan tries
/// them if nothing else fits. Layouts with the fewest partitions per lane come first.
PlacedLayouts frugal_layouts(const Size& size, const LanguageModel& model, const ClusterPlanRequest& request) {
    PlacedLayouts frugal;
    for_each_base(size, model, request, 1, [&](const Layout& base) {
        Layout layout = base;
        layout.recompute = Recompute::full;
        layout.zero = has_copies(model, layout) ? most_zero(layout) : 0;
        for (PipelineParts& parts : parts_of(size, layout)) {
            frugal.emplace_back(layout, std::move(parts));
        }
    });
    std::ranges::stable_sort(frugal, {}, [](const auto& each) { return each.first.interleave; });
    return frugal;
}

/// If no layout fits, names what would make the model fit: more devices, gradients of 2 bytes, or both. Tries each.
/// Empty if none helps.
std::string what_fits(const LanguageModel& model, const Cluster& cluster, const ClusterPlanRequest& request,
                      const std::vector<Size>& sizes) {
    const int most = std::ranges::max(sizes, {}, &Size::devices).devices;
    const auto fitting_devices = [&](const ClusterPlanRequest& with) {
        return fewest_devices(
            model, cluster,
            [&](const NodeGroup& group, int devices) {
                return dtype_without_rate(group, with.layout).empty() ? frugal_layouts({{&group}, devices}, model, with)
                                                                      : PlacedLayouts();
            },
            most);
    };
    const auto named = [](const LayoutStep& step) {
        return "on " + counted(step.layout.devices(), "device", "devices") + " of type " + step.device + " (" +
               to_string(step.layout) + ", recompute " + to_string(step.layout.recompute) + ", zero " +
               std::to_string(step.layout.zero) + ")";
    };
    ClusterPlanRequest with_small_sums = request;
    with_small_sums.layout.gradient_bytes = 2;
    const bool has_large_sums = request.layout.gradient_bytes == 4;
    const bool small_sums_fit =
        has_large_sums && std::ranges::any_of(sizes, [&](const Size& size) {
            const bool can_run = std::ranges::all_of(size.groups, [&](const NodeGroup* group) {
                return dtype_without_rate(*group, request.layout).empty();
            });
            return can_run && first_that_fits(model, cluster, frugal_layouts(size, model, with_small_sums));
        });
    std::string text;
    if (const std::optional<LayoutStep> enough = fitting_devices(request)) {
        text = named(*enough);
    }
    if (small_sums_fit) {
        text += std::string(text.empty() ? "" : ", or ") + "with --gradient-bytes 2";
    }
    if (text.empty() && has_large_sums) {
        if (const std::optional<LayoutStep> enough = fitting_devices(with_small_sums)) {
            text = named(*enough) + " with --gradient-bytes 2";
        }
    }
    return text;
}

/// A model to plan for, and how its layouts are found and simulated.
struct PlannedModel {
    std::function<void(Size& size, const ClusterPlanRequest& request)> add_layouts;  ///< and their bounds
    /// If a layout does not fit: layouts of the same base that need less memory, with their bounds.
    std::function<std::vector<BoundedLayout>(const BoundedLayout& layout)> smaller;
    /// A bound for known cuts. It costs more than the first bound, and less than a simulation.
    std::function<LeastStep(const BoundedLayout& layout, KnownProfiles& known)> least_step;
    std::function<std::optional<Shortfall>(const Layout& layout, const PipelineParts& parts)> sure_shortfall;
    std::function<bool(const Layout& layout)> has_even_cuts;  ///< on one type; otherwise memory may decide the cuts
    /// Simulates on the plan's cluster, or on a similar one with other links, which has other `known` profiles.
    /// A layout that takes longer than `enough_ns` may lack its memory.
    std::function<LayoutStep(const Cluster& on, const Layout& layout, const PipelineParts& parts,
                             const SimulationDetail& detail, KnownProfiles& known, double enough_ns)>
        simulate_with;
    const Cluster& cluster;
    std::int64_t blocks = 0;
    /// Names devices or options with which the model would fit, if it fits none of these sizes. Empty if unknown.
    std::function<std::string(const std::vector<Size>& sizes)> what_fits;

    LayoutStep simulate_on(const Cluster& on, const Layout& layout, const PipelineParts& parts,
                           const SimulationDetail& detail) const {
        KnownProfiles known;
        return simulate_with(on, layout, parts, detail, known, std::numeric_limits<double>::infinity());
    }
    LayoutStep simulate(const Layout& layout, const PipelineParts& parts, const SimulationDetail& detail) const {
        return simulate_on(cluster, layout, parts, detail);
    }
};

/// The constraint that limits the step next. With schedule auto, uses the order that was found.
std::string next_constraint_of(const PlannedModel& model, const LayoutStep& found, const PipelineParts& parts) {
    Layout layout = found.layout;
    if (layout.schedule == Schedule::automatic) {
        layout.schedule = found.simulation.options.schedule;
    }
    const LayoutStep step = model.simulate(layout, parts, kPeaksOnly);
    const auto simulate = [&](const Cluster& on, const Layout& with) {
        PipelineParts same = parts;
        for (PipelinePart& part : same) {
            part.group = &on.groups[static_cast<std::size_t>(part.group - model.cluster.groups.data())];
        }
        return model.simulate_on(on, with, same, kPeaksOnly);
    };
    return next_constraint(step, step_limits(step, model.cluster, simulate));
}

/// Keeps what a list of candidates needs.
ClusterCandidate candidate_of(LayoutStep step) {
    ClusterCandidate candidate;
    candidate.reason = to_string(step_parts(step));
    step.simulation.timeline = {};
    step.simulation.memory = {};
    step.profile.reset();
    candidate.step = std::move(step);
    return candidate;
}

/// The run by batch with the step's cuts; empty without a ramp.
std::vector<RunPart> ramp_of(const PlannedModel& model, const ClusterPlanRequest& request, const LayoutStep& step,
                             const PipelineParts& parts) {
    if (!request.ramp) {
        return {};
    }
    Layout layout = step.layout;
    if (step.tokens > 0) {
        std::vector<std::int64_t> blocks = step.simulation.options.balance.layers_per_partition();
        --blocks.front();
        --blocks.back();
        layout.cuts = Cuts(std::move(blocks));
    }
    const double samples = request.tokens / step.tokens * static_cast<double>(step.layout.batch);
    return timed_ramp(request, samples, step.step_ns(), [&](std::int64_t batch) {
        check_stop();
        layout.batch = batch;
        return model.simulate(layout, parts, {.noise = false, .memory = false}).step_ns();
    });
}

/// Simulates a size's layouts, shortest bound first. Stops when enough bases are quicker than the bounds of all others,
/// when none is left, or at the thread's StopCheck. `done` counts layouts.
void simulate_size(Size& size, const PlannedModel& model, const ClusterPlanRequest& request,
                   std::atomic<std::size_t>& done) {
    const std::size_t most = size.groups.size() > 1 ? 1 : std::max<std::size_t>(1, request.most_per_size);
    const bool exhaustive = request.exhaustive;
    std::multimap<double, BoundedLayout> open;  // by bound
    std::set<std::tuple<std::size_t, Recompute, int>> seen;
    KnownProfiles known;
    const auto simulate = [&](const BoundedLayout& each, const SimulationDetail& detail, double enough_ns) {
        return model.simulate_with(model.cluster, each.layout, each.parts, detail, known, enough_ns);
    };
    size.considered = size.layouts.size();
    for (BoundedLayout& each : size.layouts) {
        seen.emplace(each.base, each.layout.recompute, each.layout.zero);
        open.emplace(each.least_ns, std::move(each));
    }
    size.layouts.clear();
    const auto add_smaller = [&](const BoundedLayout& layout) {
        for (BoundedLayout& each : model.smaller(layout)) {
            if (seen.emplace(each.base, each.layout.recompute, each.layout.zero).second) {
                ++size.considered;
                open.emplace(each.least_ns, std::move(each));
            }
        }
    };
    struct Simulated {
        LayoutStep step;
        PipelineParts parts;
        std::size_t base = 0;
    };
    std::vector<Simulated> found;  // the quickest layout of each base, quickest first
    const auto step_of = [](const Simulated& each) { return each.step.step_ns(); };
    // Orders equally quick layouts as they are listed, so that the result does not depend on which is tried first.
    const auto order_of = [](const Simulated& each) {
        return std::tuple(each.step.step_ns(), each.base, each.step.layout.recompute, each.step.layout.zero);
    };
    // Slower layouts are not among the quickest; infinity: any layout may be.
    const auto enough_ns = [&] {
        return exhaustive || found.size() < most ? std::numeric_limits<double>::infinity() : step_of(found[most - 1]);
    };
    /// Returns false if no other layout can be among the quickest.
    const auto try_next = [&] {
        BoundedLayout each = std::move(open.begin()->second);
        open.erase(open.begin());
        done += each.is_cut ? 0 : 1;
        if (std::isfinite(enough_ns()) && each.least_ns >= enough_ns()) {
            return false;
        }
        if (!each.is_cut) {
            each.is_cut = true;
            const LeastStep least = model.least_step(each, known);
            if (least.cut_to_fit) {  // even lanes that recompute may be quicker
                add_smaller(each);
            }
            if (std::isinf(least.ns) && !exhaustive) {
                return true;
            }
            if (least.ns > each.least_ns) {
                each.least_ns = least.ns;
                open.emplace(least.ns, std::move(each));
                return true;
            }
        }
        if (!exhaustive && model.sure_shortfall(each.layout, each.parts)) {
            add_smaller(each);
            return true;
        }
        ++size.simulated;
        if (std::isfinite(enough_ns()) && each.parts.size() == 1 && model.has_even_cuts(each.layout) &&
            simulate(each, {.noise = false, .memory = false}, enough_ns()).step_ns() > enough_ns()) {
            return true;
        }
        LayoutStep step = simulate(each, kPeaksOnly, enough_ns());
        if (!step.simulation.feasible) {
            add_smaller(each);
            return true;
        }
        if (step.cut_to_fit) {
            add_smaller(each);
        }
        Simulated here{std::move(step), each.parts, each.base};
        const auto other = std::ranges::find(found, each.base, &Simulated::base);
        if (other != found.end() && order_of(*other) <= order_of(here)) {
            return true;
        }
        if (other != found.end()) {
            found.erase(other);
        }
        const auto place = std::ranges::upper_bound(found, order_of(here), {}, order_of);
        found.insert(place, std::move(here));
        found.resize(std::min(found.size(), most));
        return true;
    };
    try {
        while (!open.empty() && try_next()) {
            check_stop();
        }
    } catch (const ComputationStopped&) {  // keeps what was found so far
    }
    try {
        for (Simulated& each : found) {
            std::vector<RunPart> ramp = ramp_of(model, request, each.step, each.parts);
            size.found.push_back({candidate_of(std::move(each.step)), std::move(each.parts)});
            size.found.back().candidate.ramp = std::move(ramp);
        }
    } catch (const ComputationStopped&) {  // without those whose run is not known
    }
}

double rank_of(const ClusterCandidate& candidate, ClusterGoal goal) {
    switch (goal) {
        case ClusterGoal::cost: return candidate.cost;
        case ClusterGoal::time: return candidate.run_hours;
        case ClusterGoal::step: break;
    }
    return candidate.step.step_ns();
}

void mark_pareto(std::vector<ClusterCandidate>& candidates) {
    std::vector<std::array<double, 3>> figures;
    for (const ClusterCandidate& each : candidates) {
        figures.push_back({each.run_hours, each.cost, static_cast<double>(each.step.layout.devices())});
    }
    const std::vector<bool> front = pareto_front(figures);
    for (std::size_t k = 0; k < candidates.size(); ++k) {
        candidates[k].pareto = front[k];
    }
}

/// The sizes to try: each type alone; pairs of types, for numbers of devices that the quicker type does not reach
/// alone; all types, for numbers that the two quickest do not reach together. With fewer devices, the slower ones would
/// only slow the pipeline down.
std::vector<Size> sizes_of(const Cluster& cluster, const ClusterPlanRequest& request, std::int64_t blocks) {
    const bool with_sevenths = blocks % 7 == 0 || request.layout.batch % 7 == 0;
    const std::vector<NumberRange> ranges =
        request.devices.empty() ? std::vector<NumberRange>{{1, std::numeric_limits<int>::max()}} : request.devices;
    std::vector<Size> sizes;
    const auto add = [&](const std::vector<const NodeGroup*>& groups, std::int64_t least) {
        std::int64_t all = 0;
        for (const NodeGroup* group : groups) {
            all += group->devices();
        }
        std::set<int> numbers;
        for (const NumberRange& range : ranges) {
            const std::int64_t first = std::max(range.first, least);
            const std::int64_t last = std::min(range.last, all);
            if (first <= last) {
                numbers.merge(device_numbers(static_cast<int>(first), static_cast<int>(last), with_sevenths));
            }
        }
        for (const int devices : numbers) {
            sizes.push_back({groups, devices});
        }
    };
    std::vector<const NodeGroup*> quickest;
    for (const NodeGroup& group : cluster.groups) {
        quickest.push_back(&group);
    }
    const auto rate = [&](const NodeGroup* group) {
        const auto known = group->device.flops_per_second.find(request.layout.dtype);
        return known == group->device.flops_per_second.end() ? 0 : known->second;
    };
    // Of equally quick types, the one with more devices comes first, so that fewer numbers need two types.
    std::ranges::stable_sort(quickest, std::greater<>(),
                             [&](const NodeGroup* group) { return std::pair(rate(group), group->devices()); });
    for (std::size_t k = 0; k < cluster.groups.size(); ++k) {
        add({&cluster.groups[k]}, 1);
    }
    for (std::size_t k = 0; k < quickest.size(); ++k) {
        for (std::size_t other = 0; other < k; ++other) {
            if (quickest[k]->device.name != quickest[other]->device.name) {
                add({quickest[other], quickest[k]}, std::int64_t{quickest[other]->devices()} + 1);
            }
        }
    }
    if (quickest.size() > 2) {
        add(quickest, std::int64_t{quickest[0]->devices()} + quickest[1]->devices() + 1);
    }
    return sizes;
}

/// Time of all layers for one micro-batch.
double work_of(const Profile& profile, double samples) {
    double work = 0;
    for (const LayerProfile& layer : profile.layers) {
        work += interpolate(profile.samples, layer.forward_ns, samples).value +
                interpolate(profile.samples, layer.backward_ns, samples).value;
    }
    return work;
}

/// Adds lanes, partitions per lane, replicas and micro-batch sizes. The bound is each lane's mean work. `here`: the
/// profile on each of the size's groups.
void add_layouts(Size& size, const Profile& profile, const std::map<const NodeGroup*, Profile>& here,
                 const ClusterPlanRequest& request) {
    const auto layers = static_cast<std::int64_t>(profile.layers.size());
    for (const int pipeline : divisors(size.devices, layers)) {
        const int data = size.devices / pipeline;
        if (request.layout.batch % data != 0 || (size.groups.size() > 1 && pipeline == 1)) {
            continue;
        }
        for (const int samples : divisors(request.layout.batch / data, profile.samples.back())) {
            if (samples < profile.samples.front()) {
                continue;  // not measured
            }
            Layout layout = request.layout;
            layout.pipeline = pipeline;
            layout.data = data;
            layout.micro_batch_size = samples;
            if (layout.micro_batches() > kMostMicroBatches) {
                continue;
            }
            const auto most = static_cast<int>(pipeline > 1 ? std::min(kMostInterleave, layers / pipeline) : 1);
            for (layout.interleave = 1; layout.interleave <= most; ++layout.interleave) {
                for (const std::optional<Schedule>& schedule : schedules_of(request, layout)) {
                    layout.schedule = schedule;
                    for (PipelineParts& parts : parts_of(size, layout)) {
                        double rate = 0;  // sum over the lanes
                        for (const auto& [group, lanes] : parts) {
                            rate += lanes / work_of(here.at(group), samples);
                        }
                        const double least =
                            static_cast<double>(layout.micro_batches()) / rate * least_work_share(layout);
                        size.layouts.push_back({layout, std::move(parts), least, size.layouts.size()});
                    }
                }
            }
        }
    }
}

/// True if both run the same tasks in the same order: auto may find a named schedule's order, and the quickest cuts may
/// be even.
bool is_same_step(const Size::Found& one, const Size::Found& other) {
    const LayoutStep& a = one.candidate.step;
    const LayoutStep& b = other.candidate.step;
    Layout same = a.layout;
    same.schedule = b.layout.schedule;
    same.cuts = b.layout.cuts;
    return same == b.layout && a.device == b.device && a.simulation.options.schedule == b.simulation.options.schedule &&
           a.simulation.options.balance == b.simulation.options.balance && a.step_ns() == b.step_ns();
}

/// Simulates variants of the best candidates' layouts, and adds those that fit and that `counts` accepts. `variant_of`
/// returns nothing if a layout has no variant.
void add_variants(ClusterPlan& plan, std::vector<Size::Found>& found, const PlannedModel& model,
                  const ClusterPlanRequest& request, WorkThreads& threads, double share,
                  const std::function<std::optional<Layout>(const Size::Found& found)>& variant_of,
                  const std::function<bool(const LayoutStep& variant, const LayoutStep& origin)>& counts) {
    constexpr std::size_t kMostTried = 8;
    struct Variant {
        Size::Found found;
        std::size_t origin = 0;
        bool is_added = false;
    };
    std::vector<Variant> tried;
    for (std::size_t k = 0; k < std::min(found.size(), kMostTried); ++k) {
        const std::optional<Layout> layout = variant_of(found[k]);
        const bool is_known = std::ranges::any_of(tried, [&](const Variant& each) {  // of other cuts, the best
            Layout same = each.found.candidate.step.layout;
            same.cuts = layout ? layout->cuts : same.cuts;
            return same == layout && to_string(each.found.parts) == to_string(found[k].parts);
        });
        if (layout && !is_known) {
            tried.push_back({{{}, found[k].parts}, k});
            tried.back().found.candidate.step.layout = *layout;
        }
    }
    std::atomic<std::size_t> done{0};
    threads.run(
        tried.size(),
        [&](std::size_t k) {
            Variant& each = tried[k];
            LayoutStep step = model.simulate(each.found.candidate.step.layout, each.found.parts, kPeaksOnly);
            if (step.simulation.feasible && counts(step, found[each.origin].candidate.step)) {
                std::vector<RunPart> ramp = ramp_of(model, request, step, each.found.parts);
                each.found.candidate = candidate_of(std::move(step));
                each.found.candidate.ramp = std::move(ramp);
                each.is_added = true;
            }
            ++done;
        },
        share, [&] { return static_cast<double>(done) / static_cast<double>(tried.size()); });
    plan.considered += done;
    plan.simulated += done;
    for (Variant& each : tried) {
        if (each.is_added &&
            std::ranges::none_of(found, [&](const Size::Found& other) { return is_same_step(each.found, other); })) {
            add_run(each.found.candidate, each.found.parts, request, plan.priced);
            found.push_back(std::move(each.found));
        }
    }
}

/// For layouts with even cuts, tries the quickest cuts and adds them if they are quicker.
void add_quickest_cuts(ClusterPlan& plan, std::vector<Size::Found>& found, const PlannedModel& model,
                       const ClusterPlanRequest& request, WorkThreads& threads, double share) {
    add_variants(
        plan, found, model, request, threads, share,
        [&](const Size::Found& each) {
            Layout layout = each.candidate.step.layout;
            const bool has_even = layout.pipeline > 1 && each.parts.size() == 1 && model.has_even_cuts(layout);
            layout.cuts = Cuts::quickest;
            return has_even ? std::optional(layout) : std::nullopt;
        },
        [](const LayoutStep& variant, const LayoutStep& origin) {
            return variant.step_ns() < (1 - kPlanTie) * origin.step_ns();
        });
}

/// Tries schedule auto, with one partition per lane. It takes a hundred times as long as a named schedule, so it is not
/// tried for all layouts.
void add_automatic(ClusterPlan& plan, std::vector<Size::Found>& found, const PlannedModel& model,
                   const ClusterPlanRequest& request, WorkThreads& threads, double share) {
    add_variants(
        plan, found, model, request, threads, share,
        [](const Size::Found& each) {
            Layout layout = each.candidate.step.layout;
            layout.interleave = 1;
            layout.schedule = Schedule::automatic;
            const bool is_cut = layout.cuts != Cuts::own || each.candidate.step.layout.interleave == 1;
            return layout.pipeline > 1 && is_cut ? std::optional(layout) : std::nullopt;
        },
        [](const LayoutStep&, const LayoutStep&) { return true; });
}

/// "1 device or more", "8, 16..32 devices".
std::string devices_text(const ClusterPlanRequest& request) {
    std::string text;
    for (const NumberRange& range : request.devices) {
        text += (text.empty() ? "" : ", ") + std::to_string(range.first) +
                (range.last > range.first ? ".." + std::to_string(range.last) : "");
    }
    return text.empty() ? "1 device or more" : text + (text == "1" ? " device" : " devices");
}

/// Throws UsageError if other schedules would have layouts.
void refuse_schedules(const PlannedModel& model, const Cluster& cluster, ClusterPlanRequest request) {
    std::string needs;
    for (const Schedule& each : request.schedules) {
        if (const std::string need = needs_of(each); !need.empty()) {
            needs += "; " + to_string(each) + " needs " + need;
        }
    }
    std::string names;
    for (const Schedule& each : std::exchange(request.schedules, {})) {
        names += (names.empty() ? "" : ",") + to_string(each);
    }
    const auto has_layouts = [&](Size& size) {
        model.add_layouts(size, request);
        return !size.layouts.empty();
    };
    std::vector<Size> sizes = sizes_of(cluster, request, model.blocks);
    if (!names.empty() && std::ranges::any_of(sizes, has_layouts)) {
        throw UsageError(option_name("schedule") + " is " + names + ", which no layout of the model on " +
                         devices_text(request) + " of the cluster with a batch of " +
                         std::to_string(request.layout.batch) + " can run" + needs + "; change " +
                         option_name("schedule") + ", " + option_name("devices") + " or " + option_name("batch"));
    }
}

/// True if the layout fits devices with that much more memory.
bool fits_with_more(const PlannedModel& model, const BoundedLayout& layout, Bytes more) {
    Cluster larger = model.cluster;
    for (NodeGroup& group : larger.groups) {
        group.device.memory_bytes += more;
    }
    PipelineParts same = layout.parts;
    for (PipelinePart& part : same) {
        part.group = &larger.groups[static_cast<std::size_t>(part.group - model.cluster.groups.data())];
    }
    return model.simulate_on(larger, layout.layout, same, kPeaksOnly).simulation.feasible;
}

/// All layouts of a size that a plan tries if none fits, each with the least number of bytes that it lacks, sorted by
/// this number. Leaves out layouts that lack `below` or more. Adds their number to `listed`.
std::vector<std::pair<Bytes, BoundedLayout>> layouts_by_shortfall(Size size, const PlannedModel& model,
                                                                  const ClusterPlanRequest& request, Bytes below,
                                                                  std::size_t& listed) {
    model.add_layouts(size, request);
    std::set<std::tuple<std::size_t, Recompute, int>> seen;
    const auto is_new = [&](const BoundedLayout& each) {
        return seen.emplace(each.base, each.layout.recompute, each.layout.zero).second;
    };
    std::vector<BoundedLayout> all = std::move(size.layouts);
    std::ranges::for_each(all, is_new);
    std::vector<std::pair<Bytes, BoundedLayout>> sorted;
    while (!all.empty()) {
        check_stop();
        ++listed;
        const BoundedLayout each = std::move(all.back());
        all.pop_back();
        std::ranges::copy_if(model.smaller(each), std::back_inserter(all), is_new);
        const std::optional<Shortfall> sure = model.sure_shortfall(each.layout, each.parts);
        if (const Bytes least = sure ? sure->bytes() : 0; least < below) {
            sorted.emplace_back(least, each);
        }
    }
    std::ranges::stable_sort(sorted, {}, [](const auto& each) {
        const Layout& layout = each.second.layout;
        return std::tuple(each.first, -static_cast<int>(layout.recompute), -layout.zero, layout.micro_batch_size,
                          layout.interleave);
    });
    return sorted;
}

/// How much more memory each device needs so that the layout fits, if memory decides its cuts: to a thousandth of the
/// limit, and less than `below`. Empty if that much is not enough.
std::optional<Bytes> enough_more(const PlannedModel& model, const BoundedLayout& layout, Bytes limit, Bytes least,
                                 std::optional<Bytes> below) {
    const auto fits = [&](Bytes more) { return fits_with_more(model, layout, more); };
    constexpr int kMostTimes = 10;
    Bytes enough = below ? *below - 1 : std::max(limit, least);
    for (int times = 0; !fits(enough); ++times) {
        if (below || times == kMostTimes || enough > std::numeric_limits<Bytes>::max() / 4) {
            return std::nullopt;
        }
        enough *= 2;
    }
    Bytes fails = std::min(std::max<Bytes>(least, 1) - 1, enough);
    while (enough - fails > std::max<Bytes>(1, limit / 1000)) {
        check_stop();
        const Bytes middle = fails + (enough - fails) / 2;
        (fits(middle) ? enough : fails) = middle;
    }
    return enough;
}

/// If no layout fits, describes the one that lacks least: ": the closest needs 9.69 GiB (10404495360 bytes) on a device
/// of 9.00 GiB (p1 d2 t1 v1 b1, 1f1b, recompute full, zero 3)". A plan with that limit finds it. Says "at most", and
/// that others may need less, if other layouts take too long to simulate, or if memory decides its cuts.
std::string closest_text(const PlannedModel& model, const Cluster& cluster, const ClusterPlanRequest& request) {
    constexpr std::int64_t kMostTasks = 1 << 20;  // over all layouts: some seconds
    constexpr std::int64_t kMostOfALayout = kMostTasks / 4;
    std::vector<Size> sizes = sizes_of(cluster, request, model.blocks);
    std::ranges::stable_sort(sizes, std::greater<>(), &Size::devices);
    constexpr std::size_t kMostListed = 1 << 17;  // over all layouts
    std::int64_t left = kMostTasks;
    std::size_t listed = 0;
    bool tried_all = true;
    bool is_exact = true;
    std::optional<Shortfall> closest;
    std::string name;
    for (Size& size : sizes) {
        if (listed > kMostListed) {
            tried_all = false;
            break;
        }
        const std::int64_t for_others = left / 2;
        const auto lacks = [&] { return closest ? closest->bytes() : std::numeric_limits<Bytes>::max(); };
        for (const auto& [least, each] : layouts_by_shortfall(std::move(size), model, request, lacks(), listed)) {
            const bool is_free = each.parts.size() > 1 || !model.has_even_cuts(each.layout);
            const std::int64_t tasks = 2 * each.layout.micro_batches() * each.layout.pipeline * each.layout.interleave;
            if (least >= lacks()) {
                break;
            }
            if (tasks > std::min(left - for_others, kMostOfALayout)) {
                tried_all = false;
                continue;
            }
            check_stop();
            std::optional<Shortfall> here;
            if (is_free) {
                constexpr std::int64_t kTimes = 8;  // simulates several cuts
                left -= kTimes * tasks;
                const auto limit = [](const PipelinePart& part) { return part.group->device.tensor_bytes(); };
                const Bytes lowest = limit(std::ranges::min(each.parts, {}, limit));
                if (const std::optional<Bytes> more =
                        enough_more(model, each, lowest, least, closest ? std::optional(lacks()) : std::nullopt)) {
                    here = Shortfall{{}, lowest + *more, lowest};
                }
            } else {
                left -= tasks;
                const std::vector<Shortfall> lanes =
                    shortfalls(model.simulate(each.layout, each.parts, kPeaksOnly).simulation);
                here = lanes.empty() || lanes.front().bytes() >= lacks() ? std::nullopt : std::optional(lanes.front());
            }
            if (here) {
                closest = here;
                is_exact = !is_free;
                name = to_string(each.layout) + ", " + to_string(schedule_of(each.layout)) + ", recompute " +
                       to_string(each.layout.recompute) + ", zero " + std::to_string(each.layout.zero);
            }
        }
    }
    return closest ? std::string(": the closest needs ") + (tried_all && is_exact ? "" : "at most ") +
                         format_bytes(closest->peak) + " (" + counted(closest->peak, "byte", "bytes") +
                         ") on a device of " + format_bytes(closest->limit) + " (" + name +
                         (!tried_all  ? ", which needs that; a layout that was not tried may need less"
                          : !is_exact ? ", which needs that; other cuts may need less"
                                      : "") +
                         ")"
                   : "";
}

std::optional<std::size_t> fewest_in_time(const ClusterPlan& plan) {
    std::optional<std::size_t> fewest;
    for (std::size_t k = 0; plan.deadline_hours > 0 && k < plan.candidates.size(); ++k) {
        const auto devices = [&](std::size_t of) { return plan.candidates[of].step.layout.devices(); };
        if (plan.candidates[k].in_time && (!fewest || devices(k) < devices(*fewest))) {
            fewest = k;
        }
    }
    return fewest;
}

void check_run(const ClusterPlanRequest& request) {
    const bool is_known = request.tokens > 0 || request.steps > 0;
    const auto refuse = [](const char* option, const std::string& rule, const std::string& remedy) {
        throw UsageError(option_name(option) + " is given " + rule + "; " + remedy);
    };
    const std::string run = option_name("tokens") + " or " + option_name("steps");
    if (request.tokens > 0 && request.steps > 0) {
        refuse("steps", "with " + option_name("tokens") + ", and both say how long the run is", "leave one out");
    }
    if (request.deadline_hours > 0 && !is_known) {
        refuse("deadline", "without the length of the run", "add " + run);
    }
    if (request.ramp) {
        if (!is_known) {
            refuse("ramp", "without the length of the run", "add " + run);
        }
        check_ramp(*request.ramp, request.layout.batch);
    }
}

ClusterPlan plan_any(const PlannedModel& model, const Cluster& cluster, const ClusterPlanRequest& request,
                     std::vector<std::string> left_out) {
    if (request.layout.batch < 1) {
        throw UsageError(option_name("batch") + " is " + std::to_string(request.layout.batch) +
                         "; a step has at least 1 sample; correct it");
    }
    if (request.layout.batch > kMostSamples) {
        throw UsageError(option_name("batch") + " is " + std::to_string(request.layout.batch) +
                         "; a batch has at most 2^40 samples; use a smaller one");
    }
    check_run(request);
    std::int64_t devices = 0;
    for (const NodeGroup& group : cluster.groups) {
        devices += group.devices();
    }
    for (const NumberRange& range : request.devices) {
        if (range.first > devices) {
            throw UsageError(option_name("devices") + " has " + std::to_string(range.first) + "; the cluster has " +
                             std::to_string(devices) + "; ask for fewer");
        }
        if (range.first < 1 || range.last < range.first) {
            throw UsageError(option_name("devices") + " has " + std::to_string(range.first) + ".." +
                             std::to_string(range.last) +
                             "; a range begins with 1 or more, the smaller number first; correct it");
        }
    }
    std::vector<Size> sizes = sizes_of(cluster, request, model.blocks);
    ClusterPlan plan;
    plan.goal = request.goal;
    plan.deadline_hours = request.deadline_hours;
    plan.save_seconds = request.checkpoint_seconds;
    plan.left_out = std::move(left_out);
    const auto has_price = [](const NodeGroup& group) { return group.price_per_hour > 0; };
    plan.priced = std::ranges::all_of(cluster.groups, has_price);
    if (!plan.priced && std::ranges::any_of(cluster.groups, has_price)) {
        const NodeGroup& without = *std::ranges::find_if_not(cluster.groups, has_price);
        plan.left_out.push_back(
            without.device.name +
            " has no price, so costs are device-hours; give it a price_per_hour, or plan without it "
            "(--device-types)");
    }
    const bool tries_automatic =
        !request.ramp && std::ranges::find(request.schedules, Schedule(Schedule::automatic)) != request.schedules.end();
    constexpr double kShareOfListing = 0.1;
    constexpr double kShareOfAutomatic = 0.4;
    constexpr double kShareOfCuts = 0.01;
    const double share_of_search = 1 - kShareOfListing - kShareOfCuts - (tries_automatic ? kShareOfAutomatic : 0);
    WorkThreads threads("the plan", request.threads, request.progress);
    std::atomic<std::size_t> listed{0};
    threads.run(
        sizes.size(),
        [&](std::size_t k) {
            model.add_layouts(sizes[k], request);
            ++listed;
        },
        kShareOfListing, [&] { return static_cast<double>(listed) / static_cast<double>(sizes.size()); });
    for (const Size& size : sizes) {
        plan.considered += size.layouts.size();
    }
    if (plan.considered == 0 && !threads.is_cancelled()) {
        refuse_schedules(model, cluster, request);
        std::string without;  // names the types that were left out
        for (const std::string& each : plan.left_out) {
            without += "; " + each;
        }
        throw UsageError(
            "no layout of the model fits " + devices_text(request) + " of the cluster with a batch of " +
            std::to_string(request.layout.batch) + "; replicas divide the batch into at most " +
            std::to_string(kMostMicroBatches) +
            " micro-batches, tensor-parallel ranks divide the heads, and devices need a rate for the dtype, " +
            (request.layout.product_dtype.empty() ? request.layout.dtype : request.layout.product_dtype) +
            (request.ramp ? ", and replicas times micro-batch size divide the ramp's first batch and its increment"
                          : "") +
            without + "; change " + option_name("devices") + ", " + option_name("batch") + " or " +
            option_name("dtype"));
    }
    // The largest numbers of devices take longest, so they come first.
    std::vector<std::size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t k) { return sizes[k].devices; });
    std::atomic<std::size_t> done{0};  // number of layouts
    const auto all = static_cast<double>(std::max<std::size_t>(1, plan.considered));
    threads.run(
        order.size(),
        [&](std::size_t k) {
            Size& size = sizes[order[k]];
            simulate_size(size, model, request, done);
        },
        share_of_search, [&] { return static_cast<double>(done) / all; });
    std::vector<Size::Found> found;
    plan.considered = 0;
    for (Size& size : sizes) {
        plan.considered += size.considered;
        plan.simulated += size.simulated;
        found.insert(found.end(), std::move_iterator(size.found.begin()), std::move_iterator(size.found.end()));
    }
    const auto rank = [&] {
        std::ranges::stable_sort(found, {}, [&](const Size::Found& each) {
            return std::tuple(!each.candidate.in_time, rank_of(each.candidate, request.goal),
                              each.candidate.step.layout.devices());
        });
    };
    for (Size::Found& each : found) {
        add_run(each.candidate, each.parts, request, plan.priced);
    }
    rank();
    add_quickest_cuts(plan, found, model, request, threads, kShareOfCuts);
    rank();
    if (tries_automatic) {
        add_automatic(plan, found, model, request, threads, kShareOfAutomatic);
        rank();
    }
    plan.cancelled = threads.is_cancelled();
    if (!found.empty() && !plan.cancelled) {
        plan.next_constraint = next_constraint_of(model, found.front().candidate.step, found.front().parts);
    }
    for (Size::Found& each : found) {
        plan.candidates.push_back(std::move(each.candidate));
    }
    mark_pareto(plan.candidates);
    plan.fewest_in_time = fewest_in_time(plan);
    if (plan.candidates.empty() && !plan.cancelled) {
        const std::string fits = model.what_fits(sizes);
        const std::string remedy = fits.empty() ? "; use devices with more memory" : "; the model fits " + fits;
        plan.infeasible_because = "no layout fits" + closest_text(model, cluster, request) + remedy;
    }
    return plan;
}
}  // namespace

std::string to_string(ClusterGoal goal) {
    switch (goal) {
        case ClusterGoal::step: return "step";
        case ClusterGoal::cost: return "cost";
        case ClusterGoal::time: return "time";
    }
    return "unknown";
}

ClusterGoal parse_cluster_goal(std::string_view name) {
    return parse_name<ClusterGoal>(
        name, {ClusterGoal::step, ClusterGoal::cost, ClusterGoal::time},
        option_name("rank-by") + " is '" + std::string(name) + "' with " + option_name("cluster"),
        "leave it out for step");
}

Cluster with_types(Cluster cluster, const std::string& names) {
    if (names.empty()) {
        return cluster;
    }
    std::vector<NodeGroup> named;
    for (const std::string& name : parse_list(names, option_name("device-types"))) {
        if (const std::size_t colon = name.rfind(':'); colon != std::string::npos && colon > 0) {
            throw UsageError(option_name("device-types") + " has " + name +
                             " with a number of lanes; a plan finds these itself; write it as " +
                             name.substr(0, colon));
        }
        const PipelineParts part = parse_pipeline_parts(name, cluster, 1);
        if (std::ranges::count(named, part.front().group->device.name,
                               [](const NodeGroup& each) { return each.device.name; }) > 0) {
            throw UsageError(option_name("device-types") + " names " + part.front().group->device.name +
                             " twice; each type counts once; leave one out");
        }
        named.push_back(*part.front().group);
    }
    cluster.groups = std::move(named);
    return cluster;
}

ClusterPlan plan_cluster(const LanguageModel& given, const Cluster& cluster, const ClusterPlanRequest& request) {
    const LanguageModel model = as_run(given, request.layout);
    constexpr int kMostTensorRanks = 64;
    check_layer_flops(model, {.tensor = kMostTensorRanks}, "correct the model");
    check_dispatch(model, request.layout);
    check_optimizer(model, request.layout);
    check_cuts(request.layout.cuts, static_cast<std::int64_t>(request.layout.cuts.blocks().size()), model.layers,
               model.mtp);
    StepBounds bounds(model, cluster);
    std::vector<std::string> left_out;
    for (const NodeGroup& group : cluster.groups) {
        if (const std::string dtype = dtype_without_rate(group, request.layout); !dtype.empty()) {
            left_out.push_back(group.device.name + " is left out: it has no rate for " + dtype);
        }
    }
    const PlannedModel planned{
        [&](Size& size, const ClusterPlanRequest& asked) {
            const bool can_run_all = std::ranges::all_of(size.groups, [&](const NodeGroup* group) {
                return dtype_without_rate(*group, request.layout).empty();
            });
            if (can_run_all) {
                add_layouts(size, model, asked, bounds);
            }
        },
        [&](const BoundedLayout& layout) {
            std::vector<BoundedLayout> smaller;
            for (const Layout& each : smaller_layouts(model, layout.layout)) {
                smaller.push_back({each, layout.parts, bounds.of(each, layout.parts), layout.base, false});
            }
            return smaller;
        },
        [&](const BoundedLayout& layout, KnownProfiles& known) {
            LeastStep least = least_step(model, cluster, layout.parts, layout.layout, known);
            if (layout.parts.size() > 1) {  // the first bound is that of the pipeline alone
                least.ns = std::max(least.ns, layout.least_ns + least.after_ns);
            }
            return least;
        },
        [&](const Layout& layout, const PipelineParts& parts) { return sure_shortfall(model, layout, parts); },
        [&](const Layout& layout) { return has_even_cuts(model, layout); },
        [&](const Cluster& on, const Layout& layout, const PipelineParts& parts, const SimulationDetail& detail,
            KnownProfiles& known,
            double enough_ns) { return simulate_layout(model, on, parts, layout, detail, known, enough_ns); },
        cluster,
        model.layers,
        [&](const std::vector<Size>& sizes) { return what_fits(model, cluster, request, sizes); }};
    return plan_any(planned, cluster, request, std::move(left_out));
}

ClusterPlan plan_cluster(const CheckedProfile& profile, const PipelineOptions& options, const Cluster& cluster,
                         const ClusterPlanRequest& request) {
    std::map<const NodeGroup*, Profile> here;
    std::vector<std::string> left_out;
    for (const NodeGroup& group : cluster.groups) {
        try {
            here.emplace(&group, on_device(profile, group));
        } catch (const UsageError&) {
            left_out.push_back(group.device.name + " is left out: it has no rate for " + profile->dtype);
        }
    }
    const PlannedModel planned{
        [&](Size& size, const ClusterPlanRequest& asked) {
            const bool is_known =
                std::ranges::all_of(size.groups, [&](const NodeGroup* group) { return here.contains(group); });
            const bool differs = size.groups.size() == 1 || has_operations(profile);
            if (is_known && differs) {
                add_layouts(size, profile, here, asked);
            }
        },
        [](const BoundedLayout& layout) {
            std::vector<BoundedLayout> smaller;
            if (layout.layout.recompute == Recompute::none) {
                smaller.push_back(layout);  // the bound leaves out recompute
                smaller.back().layout.recompute = Recompute::full;
            }
            return smaller;
        },
        [](const BoundedLayout& layout, KnownProfiles& /*known*/) { return LeastStep{layout.least_ns}; },
        [](const Layout&, const PipelineParts&) { return std::optional<Shortfall>(); },
        [](const Layout& layout) { return layout.pipeline == 1; },
        [&](const Cluster& on, const Layout& layout, const PipelineParts& parts, const SimulationDetail& detail,
            KnownProfiles& /*known*/,
            double /*enough_ns*/) { return simulate_layout(profile, options, on, parts, layout, detail); },
        cluster,
        static_cast<std::int64_t>(profile->layers.size()),
        [](const std::vector<Size>&) { return std::string(); }};
    return plan_any(planned, cluster, request, std::move(left_out));
}
}  // namespace pipescope
