#include "cluster/cluster_plan.h"

#include "cluster/step_parts.h"
#include "schedule/error.h"
#include "schedule/parse_name.h"
#include "schedule/quantities.h"
#include "simulator/planner.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
/// A layout with a bound: no simulated step is shorter.
struct BoundedLayout {
    Layout layout;
    double least_ns = 0;
};

/// The layouts of one type on one number of devices.
struct Size {
    const NodeGroup* group = nullptr;
    int devices = 0;
    std::vector<BoundedLayout> layouts = {};
    std::vector<ClusterCandidate> found = {};
    std::optional<Shortfall> least_shortfall = {};
    std::size_t simulated = 0;
};

std::vector<int> divisors(std::int64_t number, std::int64_t most) {
    std::vector<int> all;
    for (std::int64_t k = 1; k <= std::min(number, most); ++k) {
        if (number % k == 0) {
            all.push_back(static_cast<int>(k));
        }
    }
    return all;
}

/// Powers of two, and 5/4 and 3/2 of them, from least to most, and both limits.
std::vector<int> device_numbers(int least, int most) {
    std::set<int> numbers{least, most};
    for (std::int64_t power = 1; power <= most; power *= 2) {
        for (const std::int64_t number : {power, power * 5 / 4, power * 3 / 2}) {
            if (number >= least && number <= most) {
                numbers.insert(static_cast<int>(number));
            }
        }
    }
    return {numbers.begin(), numbers.end()};
}

/// A bound of layouts' steps from the costs of their layers, which many layouts have in common.
class StepBounds {
public:
    StepBounds(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group)
        : model_(model), cluster_(cluster), group_(group) {}

    double of(const Layout& layout) {
        const auto [block, embedding, output] = costs_of(layout);
        const double blocks = static_cast<double>(model_.layers);
        const double lanes = layout.pipeline;
        const double partitions = lanes * layout.interleave;
        const double m = static_cast<double>(layout.micro_batches());
        // The busiest lane does the mean at least. With even cuts the last lane does its share and the output layer,
        // after the first micro-batch has passed the others' first partitions, and before the last one passes them
        // again.
        const bool even = model_.layers % (static_cast<std::int64_t>(layout.pipeline) * layout.interleave) == 0;
        const double pipeline = even ? m * (blocks / lanes * block + output) + blocks / partitions * (lanes - 1) * block
                                     : m * (blocks * block + embedding + output) / lanes;
        const double gradients =
            block_weights(model_) * std::floor(blocks / lanes) / layout.tensor * layout.gradient_bytes;
        const double sums = all_reduce_ns(ring_link(cluster_, group_, layout.data, layout.tensor), layout.data,
                                          layout.zero == 0 ? gradients : gradients / 2);
        return std::max(pipeline, m * blocks * block / lanes + sums);
    }

private:
    /// Forward and backward of a micro-batch.
    struct Costs {
        double block = 0;
        double embedding = 0;
        double output = 0;
    };
    Costs costs_of(const Layout& layout) {
        const auto key = std::tuple(layout.tensor, layout.micro_batch_size, layout.recompute);
        const auto found = known_.find(key);
        if (found != known_.end()) {
            return found->second;
        }
        LanguageModel one = model_;
        one.layers = 1;
        Layout alone = layout;
        alone.zero = 0;
        const Profile profile = language_model_profile(one, cluster_, group_, alone);
        const auto time = [&](std::size_t layer) {
            return profile.layers[layer].forward_ns.front() + profile.layers[layer].backward_ns.front();
        };
        return known_[key] = {time(1), time(0), time(2)};
    }

    const LanguageModel& model_;
    const Cluster& cluster_;
    const NodeGroup& group_;
    std::map<std::tuple<int, std::int64_t, Recompute>, Costs> known_;
};

bool fits_tensor(const LanguageModel& model, int tensor) {
    return model.heads % tensor == 0 && model.mlp % tensor == 0 &&
           (model.kv_heads % tensor == 0 || tensor % model.kv_heads == 0);
}

/// Adds the layouts of one size with their bounds, shortest bound first.
void add_layouts(Size& size, const LanguageModel& model, const ClusterPlanRequest& request, StepBounds& bounds) {
    constexpr std::int64_t kMostTensor = 64;
    constexpr std::int64_t kLargestMicroBatch = 16;
    constexpr std::int64_t kMostPartitions = 1024;
    constexpr int kMostInterleave = 8;
    const NodeGroup& group = *size.group;
    for (const int tensor : divisors(group.devices_per_node, kMostTensor)) {
        if (!fits_tensor(model, tensor) || size.devices % tensor != 0) {
            continue;
        }
        for (const int pipeline : divisors(size.devices / tensor, std::min(model.layers, kMostPartitions))) {
            const int data = size.devices / tensor / pipeline;
            if (request.layout.batch % data != 0) {
                continue;
            }
            for (const int samples : divisors(request.layout.batch / data, kLargestMicroBatch)) {
                for (int interleave = 1; interleave <= kMostInterleave; ++interleave) {
                    Layout layout = request.layout;
                    layout.pipeline = pipeline;
                    layout.data = data;
                    layout.tensor = tensor;
                    layout.interleave = interleave;
                    layout.micro_batch_size = samples;
                    layout.sequence_parallel = tensor > 1 && model.sequence % tensor == 0;
                    const std::int64_t partitions = static_cast<std::int64_t>(pipeline) * interleave;
                    const bool interleaves = interleave > 1;
                    if (interleaves && (pipeline == 1 || layout.schedule || model.layers % partitions != 0 ||
                                        layout.micro_batches() % pipeline != 0)) {
                        continue;
                    }
                    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
                        if (recompute == Recompute::selective && model.attention == Attention::flash) {
                            continue;  // there are no scores to compute again
                        }
                        layout.recompute = recompute;
                        for (const int zero : {0, 1}) {
                            layout.zero = zero;
                            if (zero == 0 || data > 1) {
                                size.layouts.push_back({layout, bounds.of(layout)});
                            }
                        }
                    }
                }
            }
        }
    }
    std::ranges::stable_sort(size.layouts, {}, &BoundedLayout::least_ns);
}

/// Bytes of parameters, gradients and optimizer state alone, of a lane with the mean number of blocks: what does not
/// fit needs no simulation.
bool may_fit(const LanguageModel& model, const Layout& layout, const NodeGroup& group) {
    const std::int64_t even = model.layers / layout.pipeline;
    const double blocks =
        static_cast<double>(model.layers % layout.pipeline == 0 ? even : std::max<std::int64_t>(0, even - 1));
    const double element = static_cast<double>(dtype_bytes(layout.dtype));
    const double state = element < 4 ? 12 : 8;
    const double constants = blocks * block_weights(model) / layout.tensor *
                             (element + layout.gradient_bytes + state / (layout.zero >= 1 ? layout.data : 1));
    const BlockActivations activations = block_activations(model, static_cast<double>(layout.micro_batch_size),
                                                           layout.tensor, layout.sequence_parallel, element);
    const double kept = layout.recompute == Recompute::full        ? activations.input
                        : layout.recompute == Recompute::selective ? activations.total() - activations.core
                                                                   : activations.total();
    // The first lane of 1F1B holds a micro-batch for each lane, or all of them.
    const double held = static_cast<double>(std::min<std::int64_t>(layout.pipeline, layout.micro_batches()));
    const double activation_bytes = layout.schedule ? 0 : blocks * kept * held;
    return constants + activation_bytes <= static_cast<double>(group.device.memory_bytes);
}

/// A model to plan for, and how its layouts are found and simulated.
struct PlannedModel {
    std::function<void(Size& size)> add_layouts;  ///< with their bounds, shortest first
    std::function<bool(const Layout& layout, const NodeGroup& group)> may_fit;
    std::function<LayoutStep(const Layout& layout, const NodeGroup& group, const SimulationDetail& detail)> simulate;
};

/// Simulates a size's layouts, shortest bound first, until `most` of them are shorter than every other's bound.
void simulate_size(Size& size, const PlannedModel& model, std::size_t most, const std::atomic<bool>& stop) {
    std::vector<double> steps;  // of found layouts, ascending
    for (const BoundedLayout& each : size.layouts) {
        if (stop || (steps.size() >= most && each.least_ns >= steps[most - 1])) {
            break;
        }
        if (!model.may_fit(each.layout, *size.group)) {
            continue;
        }
        LayoutStep step = model.simulate(each.layout, *size.group, {.noise = false, .memory = false});
        if (steps.size() >= most && step.step_ns() >= steps[most - 1]) {
            ++size.simulated;
            continue;
        }
        step = model.simulate(each.layout, *size.group, {.noise = false, .memory = true});
        ++size.simulated;
        if (!step.simulation.feasible) {
            const Shortfall shortfall = shortfalls(step.simulation).front();
            if (!size.least_shortfall || shortfall.bytes() < size.least_shortfall->bytes()) {
                size.least_shortfall = shortfall;
            }
            continue;
        }
        ClusterCandidate candidate;
        candidate.reason = to_string(step_parts(step));
        step.simulation.timeline = {};
        step.simulation.memory = {};
        step.profile = {};
        steps.insert(std::ranges::upper_bound(steps, step.step_ns()), step.step_ns());
        candidate.step = std::move(step);
        size.found.push_back(std::move(candidate));
    }
    std::ranges::stable_sort(size.found, {}, [](const ClusterCandidate& each) { return each.step.step_ns(); });
    if (size.found.size() > most) {
        size.found.resize(most);
    }
}

void add_run(ClusterCandidate& candidate, const NodeGroup& group, const ClusterPlanRequest& request, bool priced) {
    const int devices = candidate.step.layout.devices();
    candidate.nodes = (devices + group.devices_per_node - 1) / group.devices_per_node;
    Failures failures{0, request.checkpoint_seconds, request.restart_seconds};
    if (group.hours_between_failures > 0) {
        failures.hours_between = group.hours_between_failures / candidate.nodes;
        candidate.checkpoints = best_checkpoints(failures);
        candidate.spare_nodes = spare_nodes(candidate.nodes, group.hours_between_failures, request.repair_hours);
    }
    const double steps = request.tokens > 0 ? std::ceil(request.tokens / candidate.step.tokens) : 1;
    candidate.run_hours = steps * candidate.step.step_ns() / 1e9 / 3600 / candidate.checkpoints.effective;
    const double rented = candidate.nodes + candidate.spare_nodes;
    candidate.cost = candidate.run_hours * rented * (priced ? group.price_per_hour : group.devices_per_node);
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
    const auto figures = [](const ClusterCandidate& each) {
        return std::array{each.run_hours, each.cost, static_cast<double>(each.step.layout.devices())};
    };
    for (ClusterCandidate& each : candidates) {
        const auto mine = figures(each);
        each.pareto = std::ranges::none_of(candidates, [&](const ClusterCandidate& other) {
            const auto its = figures(other);
            const bool no_worse = its[0] <= mine[0] && its[1] <= mine[1] && its[2] <= mine[2];
            return no_worse && its != mine;
        });
    }
}

std::vector<Size> sizes_of(const Cluster& cluster, const ClusterPlanRequest& request) {
    std::vector<Size> sizes;
    for (const NodeGroup& group : cluster.groups) {
        const int most = request.most_devices > 0 ? std::min(request.most_devices, group.devices()) : group.devices();
        if (request.least_devices > most) {
            continue;
        }
        for (const int devices : device_numbers(request.least_devices, most)) {
            sizes.push_back({&group, devices});
        }
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

/// Lanes, replicas and micro-batch sizes; the bound is each lane's mean work.
void add_layouts(Size& size, const Profile& profile, const Profile& here, const ClusterPlanRequest& request) {
    const auto layers = static_cast<std::int64_t>(profile.layers.size());
    for (const int pipeline : divisors(size.devices, layers)) {
        const int data = size.devices / pipeline;
        if (request.layout.batch % data != 0) {
            continue;
        }
        for (const int samples : divisors(request.layout.batch / data, profile.samples.back())) {
            if (samples < profile.samples.front()) {
                continue;  // outside of what was measured
            }
            Layout layout = request.layout;
            layout.pipeline = pipeline;
            layout.data = data;
            layout.micro_batch_size = samples;
            const double work = work_of(here, samples) * static_cast<double>(layout.micro_batches());
            size.layouts.push_back({layout, work / pipeline});
        }
    }
    std::ranges::stable_sort(size.layouts, {}, &BoundedLayout::least_ns);
}

ClusterPlan plan_any(const PlannedModel& model, const Cluster& cluster, const ClusterPlanRequest& request) {
    if (request.least_devices < 1 || (request.most_devices != 0 && request.most_devices < request.least_devices)) {
        throw UsageError("--devices is " + std::to_string(request.least_devices) + ".." +
                         std::to_string(request.most_devices) +
                         "; it is a range from 1 up, the smaller number first; correct it");
    }
    std::vector<Size> sizes = sizes_of(cluster, request);
    ClusterPlan plan;
    plan.goal = request.goal;
    plan.priced = std::ranges::all_of(cluster.groups, [](const NodeGroup& group) { return group.price_per_hour > 0; });
    for (Size& size : sizes) {
        model.add_layouts(size);
        plan.considered += size.layouts.size();
    }
    if (plan.considered == 0) {
        throw UsageError(
            "no layout of the model fits " + std::to_string(request.least_devices) +
            " devices or more of the cluster with a batch of " + std::to_string(request.layout.batch) +
            "; replicas divide the batch, tensor-parallel ranks the heads, and devices need a rate for the dtype, " +
            request.layout.dtype + "; change --devices, --batch or --dtype");
    }
    // The largest numbers of devices take longest, so they come first.
    std::vector<std::size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t k) { return sizes[k].devices; });
    std::atomic<std::size_t> next{0};
    std::atomic<std::size_t> done{0};
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::exception_ptr fault;
    const auto work = [&] {
        for (std::size_t k = next++; k < order.size() && !stop; k = next++) {
            try {
                simulate_size(sizes[order[k]], model, std::max<std::size_t>(1, request.most_per_size), stop);
            } catch (...) {
                const std::scoped_lock lock(mutex);
                fault = std::current_exception();
                stop = true;
            }
            ++done;
        }
    };
    const unsigned threads = request.threads > 0 ? static_cast<unsigned>(request.threads)
                                                 : std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::jthread> workers;
    for (unsigned k = 0; k < std::min<std::size_t>(threads, sizes.size()); ++k) {
        workers.emplace_back(work);
    }
    while (done < sizes.size() && !stop) {
        constexpr std::chrono::milliseconds kBetweenReports{20};
        std::this_thread::sleep_for(kBetweenReports);
        if (request.progress && !request.progress(static_cast<double>(done) / static_cast<double>(sizes.size()))) {
            plan.cancelled = true;
            stop = true;
        }
    }
    workers.clear();
    if (fault) {
        std::rethrow_exception(fault);
    }
    std::optional<Shortfall> least;
    for (Size& size : sizes) {
        plan.simulated += size.simulated;
        for (ClusterCandidate& each : size.found) {
            add_run(each, *size.group, request, plan.priced);
            plan.candidates.push_back(std::move(each));
        }
        if (size.least_shortfall && (!least || size.least_shortfall->bytes() < least->bytes())) {
            least = size.least_shortfall;
        }
    }
    std::ranges::stable_sort(plan.candidates, [&](const ClusterCandidate& a, const ClusterCandidate& b) {
        return std::pair(rank_of(a, request.goal), a.step.layout.devices()) <
               std::pair(rank_of(b, request.goal), b.step.layout.devices());
    });
    mark_pareto(plan.candidates);
    if (plan.candidates.empty() && !plan.cancelled) {
        plan.infeasible_because = least
                                      ? "no layout fits: the closest needs " + format_bytes(least->peak) +
                                            " on a device of " + format_bytes(least->limit)
                                      : "no layout fits: parameters and activations alone exceed each device's memory";
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
    return parse_name<ClusterGoal>(name, {ClusterGoal::step, ClusterGoal::cost, ClusterGoal::time},
                                   "--goal is '" + std::string(name) + "' with --cluster", "leave it out for step");
}

ClusterPlan plan_cluster(const LanguageModel& model, const Cluster& cluster, const ClusterPlanRequest& request) {
    std::map<const NodeGroup*, StepBounds> bounds;
    const PlannedModel planned{
        [&](Size& size) {
            if (!size.group->device.flops_per_second.contains(request.layout.dtype)) {
                return;  // such a device cannot run the model
            }
            const auto [found, is_new] = bounds.try_emplace(size.group, model, cluster, *size.group);
            add_layouts(size, model, request, found->second);
        },
        [&](const Layout& layout, const NodeGroup& group) { return may_fit(model, layout, group); },
        [&](const Layout& layout, const NodeGroup& group, const SimulationDetail& detail) {
            return simulate_layout(model, cluster, group, layout, detail);
        }};
    return plan_any(planned, cluster, request);
}

ClusterPlan plan_cluster(const Profile& profile, const PipelineOptions& options, const Cluster& cluster,
                         const ClusterPlanRequest& request) {
    std::map<const NodeGroup*, Profile> here;
    for (const NodeGroup& group : cluster.groups) {
        try {
            here.emplace(&group, on_device(profile, group));
        } catch (const UsageError&) {  // the device has no rate for the profile's dtype
        }
    }
    const PlannedModel planned{[&](Size& size) {
                                   if (const auto found = here.find(size.group); found != here.end()) {
                                       add_layouts(size, profile, found->second, request);
                                   }
                               },
                               [](const Layout&, const NodeGroup&) { return true; },
                               [&](const Layout& layout, const NodeGroup& group, const SimulationDetail& detail) {
                                   return simulate_layout(profile, options, cluster, group, layout, detail);
                               }};
    return plan_any(planned, cluster, request);
}
}  // namespace pipescope
