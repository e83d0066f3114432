#include "base/error.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "cluster/cuts.h"
#include "cluster/known_profiles.h"
#include "cluster/layout.h"
#include "cluster/layout_links.h"
#include "cluster/step_bounds.h"
#include "schedule/schedules.h"
#include "simulator/clock/contention.h"
#include "simulator/clock/task_costs.h"
#include "simulator/search/automatic_schedule.h"
#include "simulator/sized_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numbers>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
/// The options' optimizer, as bytes of state per byte of gradient on this replica.
std::string optimizer_of(const Layout& layout) {
    // From stage 2 on, gradients are split too.
    const double share = layout.zero == 1 ? layout.weight_copies().ranks : 1;
    return shortest(kept_bytes(layout, true) / layout.gradient_bytes / share);
}

/// Bytes sent from lane to lane.
double boundary_bytes(const Profile& profile, double samples) {
    double most = 1;
    for (std::size_t l = 0; l + 1 < profile.layers.size(); ++l) {
        most = std::max(most, interpolate(profile.samples, profile.layers[l].output_bytes, samples).value);
    }
    return most;
}

void set_pipeline(PipelineOptions& options, const Layout& layout) {
    options.chunks = layout.micro_batches();
    options.batch = layout.batch;
    options.replicas = layout.data;
    options.weight_copies = layout.weight_copies().ranks;
    options.schedule = schedule_of(layout);
    options.gradient_bucket = layout.gradient_bucket;
    options.placement = placement_in(layout);
    options.pair_overlap = layout.how().pair_overlap;
}

/// True if a lane works on one task after the other and holds what no other lane does, as most bounds suppose.
bool works_in_turn(const PipelineOptions& options) {
    const bool has_joints = options.pair_overlap && pairs_tasks(options.schedule);
    return !is_bidirectional(options.schedule) && !has_joints &&
           least_work_share(options.schedule, options.pair_overlap.value_or(0)) == 1;
}

/// A layer's parameters on this rank; with ZeRO 3 too, all of them.
RankWeights weights_of(const LayerProfile& layer, const Layout& layout) {
    const auto experts = static_cast<double>(layer.expert_gradient_bytes);
    const double usual = static_cast<double>(layer.gradient_bytes) - experts;
    return {usual / layout.gradient_bytes * layout.zero_parts(2, layout.weight_copies()),
            experts / layout.gradient_bytes * layout.zero_parts(2, layout.expert_copies())};
}

std::vector<RankWeights> parameters_by_lane(const Profile& profile, const PipelineOptions& options,
                                            const Layout& layout) {
    std::vector<RankWeights> parameters(static_cast<std::size_t>(layout.pipeline));
    for (std::size_t j = 0; j < options.balance.num_partitions(); ++j) {
        const LayerRange layers = options.balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        for (const LaneId lane : lanes_of(options, PartitionId{j})) {
            for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
                parameters[lane.index()] += weights_of(profile.layers[l], layout);
            }
        }
    }
    return parameters;
}

/// The parts of a lane's trained weights on one rank, after ZeRO has split them.
struct UpdatedWeights {
    double blocks = 0;
    double ends = 0;   ///< of the embedding and the output layer
    double state = 0;  ///< bytes of the optimizer's state
};
UpdatedWeights updated_weights(const LanguageModel& model, const RankWeights& trained, bool has_first, bool has_last,
                               const Layout& layout) {
    const double matrix = embedding_weights(model) / layout.tensor;
    const bool shares = has_first && has_last && model.tied;
    const double ends = (has_first && model.trains_embedding() ? matrix : 0) +
                        (has_last && model.trains_output() && !shares ? matrix : 0);
    const double parts = layout.zero_parts(1, layout.weight_copies());
    UpdatedWeights mine;
    mine.ends = std::min(ends, trained.usual) / parts;
    mine.blocks = trained.usual / parts - mine.ends + trained.experts / layout.zero_parts(1, layout.expert_copies());
    mine.state = mine.blocks * state_bytes(layout, true) + mine.ends * state_bytes(layout, false);
    return mine;
}

/// Operations of Muon's update per trained weight of a block, on the mean of the blocks.
double muon_flops_a_weight(const LanguageModel& model, const Layout& layout) {
    double flops = 0;
    double weights = 0;
    for (const auto& [kind, blocks] : block_counts(model)) {
        if (kind.is_frozen) {
            continue;
        }
        const auto number = static_cast<double>(blocks);
        const auto add = [&](const std::vector<WeightMatrix>& matrices, double each) {
            for (const WeightMatrix& matrix : matrices) {
                flops += number * each * newton_schulz_flops(matrix.inputs, matrix.outputs);
            }
        };
        add(rank_single_matrices(model, kind, layout.tensor), 1);
        add(rank_expert_matrices(model, layout.expert_tensor),
            kind.has_experts ? static_cast<double>(model.experts) / layout.expert : 0);
        weights += number * rank_trained_block_weights(model, kind, layout.tensor, layout.expert_split()).all();
    }
    return weights > 0 ? flops / weights : 0;
}

/// Time of the update of these weights on one replica's device. If the host keeps the state, it comes and goes
/// meanwhile.
double update_ns_of(const LanguageModel& model, const UpdatedWeights& mine, const NodeGroup& group,
                    const Layout& layout) {
    // The gradient is read for its norm and for the update. State and copy are read and written. The parameter is
    // written, and also read if it has no copy.
    const double each = 2.0 * layout.gradient_bytes +
                        (has_master_weights(layout) ? 1 : 2) * static_cast<double>(dtype_bytes(layout.dtype));
    const double bytes = (mine.blocks + mine.ends) * each + 2 * mine.state;
    double update = estimated_ns(group.device, "float32", DeviceWork{0, bytes / layout.how().update_share, 1});
    if (layout.optimizer == ModelOptimizer::muon) {
        // Its products are large, so they reach the rate of large products.
        const double flops = mine.blocks * muon_flops_a_weight(model, layout) * group.device.compute_efficiency /
                             group.device.matmul_efficiency;
        update += flops > 0 ? estimated_ns(group.device, layout.dtype, DeviceWork{flops, 0, 1}) : 0;
    }
    return layout.offload_rate > 0 ? std::max(update, mine.state / layout.offload_rate * 1e9) : update;
}

/// Time in which replicas gather the parameters that each of them updated.
double updated_gather_ns(const RankWeights& parameters, const Cluster& cluster, const NodeGroup& group,
                         const Layout& layout) {
    const bool gathers = (layout.zero == 1 || layout.zero == 2) && !layout.how().update_gather_overlap;
    const auto element = static_cast<double>(dtype_bytes(layout.dtype));
    return gathers ? gather_weights_ns(parameters, cluster, group, layout, element) : 0;
}

/// The value below which a standard normal variable lies with that probability, from 0 to 1.
double normal_quantile(double probability) {
    double low = -10;
    double high = 10;
    constexpr int kHalvings = 60;
    for (int k = 0; k < kHalvings; ++k) {
        const double middle = (low + high) / 2;
        (std::erfc(-middle / std::numbers::sqrt2) / 2 < probability ? low : high) = middle;
    }
    return low;
}

/// What the program adds to a step of that many ns. All devices wait for the slowest one, whose time is the expected
/// maximum of normal ones (Blom's approximation).
double program_ns(const Layout& layout, double step_ns) {
    const TrainingProgram& how = layout.how();
    if (how.device_spread == 0 || layout.devices() < 2) {
        return how.step_ns;
    }
    constexpr double kBlom = 0.375;
    const double rank = (layout.devices() - kBlom) / (layout.devices() + 1 - 2 * kBlom);
    return how.step_ns + step_ns * how.device_spread * normal_quantile(rank);
}

struct AfterPipeline {
    double tied_ns = 0;
    double gather_ns = 0;
    double optimizer_ns = 0;
    double offloaded_bytes = 0;  ///< moved between a device and its host, both ways
};
/// `parameters`: of each lane's rank.
AfterPipeline after_pipeline(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                             const Layout& layout, const std::vector<RankWeights>& parameters) {
    AfterPipeline after;
    const std::vector<const NodeGroup*> groups = groups_by_lane(parts);
    const std::size_t last = ends_share_a_lane(layout) ? 0 : groups.size() - 1;
    const bool is_mirrored = is_bidirectional(schedule_of(layout));
    for (std::size_t lane = 0; lane < groups.size(); ++lane) {
        const bool has_both = is_mirrored && lane + 1 == groups.size();
        const UpdatedWeights mine =
            updated_weights(model, parameters[lane], lane == 0 || has_both, lane == last || has_both, layout);
        after.optimizer_ns = std::max(after.optimizer_ns, update_ns_of(model, mine, *groups[lane], layout));
        after.offloaded_bytes = std::max(after.offloaded_bytes, layout.offload_rate > 0 ? 2 * mine.state : 0);
        after.gather_ns =
            std::max(after.gather_ns, updated_gather_ns(parameters[lane], cluster, *groups[lane], layout));
    }
    if (model.ends_share_weights() && model.trains_embedding() && !ends_share_a_lane(layout)) {
        after.tied_ns =
            tied_sum_ns(cluster, parts, layout, embedding_weights(model) / layout.tensor * layout.gradient_bytes);
    }
    return after;
}

/// `profile_of`: gives a PartProfilePointer for a group.
PartProfiles part_profiles(const PipelineParts& parts, const auto& profile_of) {
    PartProfiles all;
    for (const PipelinePart& part : parts) {
        all.of_lane.insert(all.of_lane.end(), static_cast<std::size_t>(part.lanes), all.parts.size());
        all.parts.push_back(profile_of(*part.group));
    }
    return all;
}

/// Adds to each layer its part in the end of the step: the sums of its gradients and its update, divided by the number
/// of micro-batches. A layer takes a share of the time that a lane with the mean weights takes. `update_ns`: time to
/// update these weights on the part's devices. With buckets, sums overlap with the layer's last backward.
LayerCosts with_ends(LayerCosts costs, const PartProfiles& profiles, const Cluster& cluster, const PipelineParts& parts,
                     const Layout& layout, const auto& update_ns) {
    for (std::size_t part = 0; part < parts.size(); ++part) {
        const Profile& profile = profiles.parts[part]->profile;
        const SizedProfile& sized = profiles.parts[part]->sized;
        const auto sums_ns = [&](const RankWeights& weights) {
            const auto sum = [&](const RankGroup& copies, double each) {
                const Link link = replica_link_of(cluster, *parts[part].group, layout, copies);
                return each > 0 ? all_reduce_ns(link, copies.ranks, each * layout.gradient_bytes) : 0;
            };
            return sum(layout.weight_copies(), weights.usual) + sum(layout.expert_copies(), weights.experts);
        };
        RankWeights mean;
        for (const LayerProfile& layer : profile.layers) {
            const RankWeights own = weights_of(layer, layout);
            mean += {own.usual / layout.pipeline, own.experts / layout.pipeline};
        }
        const auto of_mean = [&](const auto& ns_of) {
            return RankWeights{mean.usual > 0 ? ns_of(RankWeights{mean.usual, 0}) : 0,
                               mean.experts > 0 ? ns_of(RankWeights{0, mean.experts}) : 0};
        };
        const RankWeights mean_sums = of_mean(sums_ns);
        const RankWeights mean_update = of_mean([&](const RankWeights& weights) { return update_ns(part, weights); });
        const auto share = [&](const RankWeights& own, const RankWeights& ns) {
            return (own.usual > 0 ? own.usual / mean.usual * ns.usual : 0) +
                   (own.experts > 0 ? own.experts / mean.experts * ns.experts : 0);
        };
        for (std::size_t l = 0; l < profile.layers.size(); ++l) {
            const RankWeights own = weights_of(profile.layers[l], layout);
            const double hidden = layout.gradient_bucket > 0 ? sized.backward[l] : 0;
            costs[part][l] += (std::max(0.0, share(own, mean_sums) - hidden) + share(own, mean_update)) /
                              static_cast<double>(layout.micro_batches());
        }
    }
    return costs;
}

std::size_t partitions_of(const Layout& layout) {
    return static_cast<std::size_t>(layout.pipeline * layout.interleave);
}

/// The costs that cuts may balance: the layers' times alone, or with the end of the step.
std::array<LayerCosts, 2> cut_costs(const PartProfiles& profiles, const Cluster& cluster, const PipelineParts& parts,
                                    const Layout& layout, const auto& update_ns) {
    const LayerCosts times = times_by_part(profiles);
    return {times, with_ends(times, profiles, cluster, parts, layout, update_ns)};
}

/// A model's profiles by part, options with placement and hardware, and cuts to start from.
struct CutModel {
    struct Start {
        Balance balance;
        LayerCosts costs = {};  ///< for other cuts to balance if these do not fit
    };
    PartProfiles profiles;
    PipelineOptions options;
    double boundary = 0;             ///< bytes from lane to lane
    std::vector<Start> starts = {};  ///< at least one
    bool is_free = false;            ///< other cuts may be taken if these do not fit
    bool bounds_memory = false;      ///< CutMemory bounds what the lanes hold

    void add_start(Balance balance, LayerCosts costs) {
        if (std::ranges::find(starts, balance, &Start::balance) == starts.end()) {
            starts.push_back({std::move(balance), std::move(costs)});
        }
    }
    /// Starts from cuts for the layers' times alone, and from cuts that include the end of the step.
    void start_free(const Cluster& cluster, const PipelineParts& parts, const Layout& layout, const auto& update_ns,
                    KnownCuts& known) {
        auto [times, whole] = cut_costs(profiles, cluster, parts, layout, update_ns);
        Balance balance = quickest_cuts(profiles, whole, options, partitions_of(layout));
        add_start(known.of(profiles, options, partitions_of(layout)), std::move(times));
        add_start(std::move(balance), std::move(whole));
        options.balance = starts.front().balance;
        is_free = true;
    }
    /// Also starts from the same layout's cuts with another recompute mode. Cuts that minimize the slowest partition
    /// may not give the quickest step, so a layout with more recompute could find quicker cuts by chance.
    void start_like(const PartProfiles& others, const Cluster& cluster, const PipelineParts& parts,
                    const Layout& layout, const auto& update_ns, KnownCuts& known) {
        const LayerCosts costs = with_ends(times_by_part(others), others, cluster, parts, layout, update_ns);
        add_start(known.of(others, options, partitions_of(layout)), starts.front().costs);
        add_start(quickest_cuts(others, costs, options, partitions_of(layout)), starts.front().costs);
    }
};

std::vector<Recompute> recompute_modes(const LanguageModel& model) {
    return model.attention == Attention::standard
               ? std::vector{Recompute::none, Recompute::selective, Recompute::full}
               : std::vector{Recompute::none, Recompute::full};  // flash attention has no scores to recompute
}

CutModel cut_model(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts, const Layout& layout,
                   KnownProfiles& known) {
    CutModel cut;
    cut.bounds_memory = true;
    const auto profiles_of = [&](const Layout& of) {
        return part_profiles(parts, [&](const NodeGroup& group) { return known.of(model, cluster, group, of); });
    };
    cut.profiles = profiles_of(layout);
    set_pipeline(cut.options, layout);
    cut.options.optimizer = optimizer_of(layout);
    if (model.experts > 0) {
        cut.options.experts = expert_sums_of(cluster, parts, layout);
    }
    cut.boundary = boundary_bytes(cut.profiles.parts.front()->profile, static_cast<double>(layout.micro_batch_size));
    set_hardware(cut.options.hardware, cluster, parts, layout, cut.boundary);
    if (layout.cuts == Cuts::own) {
        cut.options.balance = own_cuts(layout.cuts.blocks());
        cut.starts.push_back({cut.options.balance});
    } else if (parts.size() == 1 && has_even_cuts(model, layout)) {
        const std::size_t layers = cut.profiles.parts.front()->times.size();
        cut.options.balance = even_cuts(layers, layout.pipeline * layout.interleave);
        cut.starts.push_back({cut.options.balance});
    } else {
        const auto update_ns = [&](std::size_t part, const RankWeights& weights) {
            const NodeGroup& group = *parts[part].group;
            return update_ns_of(model, updated_weights(model, weights, false, false, layout), group, layout) +
                   updated_gather_ns(weights, cluster, group, layout);
        };
        cut.start_free(cluster, parts, layout, update_ns, known.cuts());
        for (const Recompute recompute : recompute_modes(model)) {
            if (Layout other = layout; recompute != layout.recompute && layout.pipeline > 1) {
                other.recompute = recompute;
                cut.start_like(profiles_of(other), cluster, parts, other, update_ns, known.cuts());
            }
        }
        const int partitions = layout.pipeline * layout.interleave;
        if (parts.size() == 1 && model.layers % partitions == 0) {  // so that the result is never slower than even cuts
            cut.add_start(even_cuts(cut.profiles.parts.front()->times.size(), partitions), cut.starts.front().costs);
        }
    }
    cut.options.checkpoint = Checkpoint::never;  // the layers' times include recompute
    return cut;
}

/// True if it fits and the other does not; otherwise if it is quicker.
bool is_better(const LayoutStep& one, const LayoutStep& other) {
    return std::pair(!one.simulation.feasible, one.step_ns()) < std::pair(!other.simulation.feasible, other.step_ns());
}

std::vector<TypeMemory> memory_of(const PipelineParts& parts) {
    std::vector<TypeMemory> memory;
    for (const PipelinePart& part : parts) {
        const DeviceType& device = part.group->device;
        memory.push_back({device.name, device.memory_bytes, device.headroom_bytes});
    }
    return memory;
}

/// Simulates the quickest of the start cuts, or of cuts that fit instead. `finish` adds the work after a step's
/// pipeline. `least_ns`: lower bound of a step with these cuts. `enough_ns`: as in simulate_layout().
void simulate_cuts(LayoutStep& step, const CutModel& cut, const SimulationDetail& detail, double enough_ns,
                   const std::function<void(LayoutStep&)>& finish,
                   const std::function<double(const Balance&)>& least_ns) {
    const bool has_limit = cut.options.hardware.memory_limit || !cut.options.hardware.memory_limits.empty();
    const auto simulated = [&](const PipelineOptions& options, const SimulationDetail& with) {
        LayoutStep one;
        one.layout = step.layout;
        one.device = step.device;
        one.memory = step.memory;
        one.profile = joined(cut.profiles, options, step.device);
        one.simulation = find_and_simulate(*one.profile, options, with);
        finish(one);
        return one;
    };
    bool is_refused = false;  // for some of the start cuts
    const bool is_automatic = cut.options.schedule == Schedule::automatic;
    const CutMemory memory(cut.profiles, cut.options, cut.boundary);
    SimulationDetail times_only = detail;
    times_only.memory = false;
    // Memory decides nothing for cuts that surely fit, so it is simulated for the quickest cuts alone.
    const auto leaves_memory = [&](const Balance& balance) {
        return cut.bounds_memory && cut.is_free && !is_automatic && detail.memory && memory.surely_fits(balance);
    };
    const auto fitting = [&](PipelineOptions options, const CutModel::Start& start, const SimulationDetail& with) {
        options.balance = start.balance;
        LayoutStep first = simulated(options, leaves_memory(start.balance) ? times_only : with);
        if (!cut.is_free || !has_limit || !with.memory || first.simulation.feasible) {
            return first;
        }
        is_refused = true;
        FittingCuts others(cut.profiles, start.costs, options);
        LayoutStep last = first;
        for (std::optional<Balance> next; !last.simulation.feasible && (next = others.after(last.simulation));) {
            options.balance = *next;
            last = simulated(options, with);
        }
        return last.simulation.feasible ? last : first;
    };
    const auto quickest = [&](const PipelineOptions& options, const SimulationDetail& with) {
        LayoutStep best = fitting(options, cut.starts.front(), with);
        for (std::size_t k = 1; k < cut.starts.size(); ++k) {
            if (best.simulation.feasible && least_ns(cut.starts[k].balance) >= best.step_ns()) {
                continue;
            }
            if (LayoutStep other = fitting(options, cut.starts[k], with); is_better(other, best)) {
                best = std::move(other);
            }
        }
        return best;
    };
    if (cut.is_free && is_automatic) {
        // Uses the cuts of the quickest named schedule, so that the step is not slower than that schedule's.
        std::optional<LayoutStep> best;
        for (const Schedule& named : schedules_for(joined(cut.profiles, cut.options, step.device), cut.options)) {
            PipelineOptions options = cut.options;
            options.schedule = named;
            LayoutStep one = quickest(options, {.noise = false, .memory = detail.memory, .memory_over_time = false});
            if (!best || is_better(one, *best)) {
                best = std::move(one);
            }
        }
        PipelineOptions options = cut.options;
        options.balance = best ? best->simulation.options.balance : options.balance;
        step = simulated(options, detail);
    } else {
        step = quickest(cut.options, detail);
        if (leaves_memory(step.simulation.options.balance) && step.step_ns() <= enough_ns) {
            step = simulated(step.simulation.options, detail);
        }
    }
    step.cut_to_fit = is_refused && step.simulation.feasible;
}

/// A bound of a step with given cuts, whatever memory they need.
struct LeastOfCuts {
    double pipeline_ns = 0;
    double rounded_ns = 0;  ///< rounding_of()
    AfterPipeline after;
    RankWeights mean;  ///< parameters per lane

    double ns() const {
        return std::max(0.0, pipeline_ns - rounded_ns) + after.tied_ns + after.gather_ns + after.optimizer_ns;
    }
};
LeastOfCuts least_of_cuts(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                          const Layout& layout, const CutModel& cut, const CopyTimes& sent, const Balance& balance) {
    const std::vector<const NodeGroup*> groups = groups_by_lane(parts);
    struct Lane {
        double work = 0;     ///< per micro-batch
        double forward = 0;  ///< of the first micro-batch, before it reaches the lane
        double both = 0;     ///< `forward`, plus the last micro-batch after it left the lane
        double sums = 0;     ///< sums of gradients over the replicas, after the lane's last task
        RankWeights parameters;
        bool has_begun = false;
    };
    std::vector<Lane> lanes(groups.size());
    // A schedule that splits backwards may postpone all gradients of weights until a gradient has gone back.
    const bool splits = splits_backward(cut.options.schedule);
    double forward_before = 0;
    double both_before = 0;
    double mean_work = 0;  // of a lane, per micro-batch
    double longest = 0;    // forward or backward of a partition
    for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
        const std::size_t on = lane_of(cut.options, j);
        Lane& lane = lanes[on];
        if (!lane.has_begun) {
            lane.forward = forward_before + sent.before(j, true);
            lane.both = (splits ? forward_before : both_before) + sent.before(j, splits);
            lane.work = sent.of_lane[on];
            lane.has_begun = true;
        }
        const double forward_until = forward_before;
        const double both_until = both_before;
        Gradients gradients;
        const LayerRange layers = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            const LayerProfile& layer = cut.profiles.at(on).layers[l];
            lane.work += layer.forward_ns.front() + layer.backward_ns.front();
            mean_work += (layer.forward_ns.front() + layer.backward_ns.front()) / static_cast<double>(lanes.size());
            forward_before += layer.forward_ns.front();
            both_before += layer.forward_ns.front() + layer.backward_ns.front();
            gradients += gradients_of(layer);
            for (const LaneId holder : lanes_of(cut.options, PartitionId{j})) {
                lanes[holder.index()].parameters += weights_of(layer, layout);
            }
        }
        const double forward = forward_before - forward_until;
        longest = std::max({longest, forward, splits ? 0 : both_before - both_until - forward});
        if (layout.gradient_bucket == 0) {
            const auto sum = [&](const RankGroup& copies, double bytes) {
                return all_reduce_ns(replica_link_of(cluster, *groups[on], layout, copies), copies.ranks, bytes);
            };
            lane.sums += sum(layout.weight_copies(), gradients.usual);
            lane.sums += gradients.experts > 0 ? sum(layout.expert_copies(), gradients.experts) : 0;
        }
    }
    LeastOfCuts least;
    const auto m = static_cast<double>(layout.micro_batches());
    least.rounded_ns = rounding_of(layout);
    std::vector<RankWeights> parameters;
    for (const Lane& lane : lanes) {
        if (works_in_turn(cut.options)) {
            least.pipeline_ns =
                std::max(least.pipeline_ns, m * lane.work + std::max(lane.both, lane.forward + lane.sums));
        }
        parameters.push_back(lane.parameters);
        least.mean += lane.parameters;
    }
    // The last micro-batch passes all partitions there and back, behind the others in the slowest one.
    if (works_in_turn(cut.options) && is_synchronous(cut.options.schedule)) {
        least.pipeline_ns =
            std::max(least.pipeline_ns, (splits ? forward_before : both_before) + 2 * sent.all() + (m - 1) * longest);
    }
    if (!works_in_turn(cut.options)) {  // some lane does the mean
        least.pipeline_ns = m * mean_work * least_work_share(layout);
    }
    const auto lane_count = static_cast<double>(lanes.size());
    least.mean = {least.mean.usual / lane_count, least.mean.experts / lane_count};
    least.after = after_pipeline(model, cluster, parts, layout, parameters);
    return least;
}
}  // namespace

LeastStep least_step(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                     const Layout& layout, KnownProfiles& known) {
    const CutModel cut = cut_model(model, cluster, parts, layout, known);
    constexpr double kNever = std::numeric_limits<double>::infinity();
    LeastStep found{kNever};
    bool is_open = false;  // whether other cuts may be taken
    const CutMemory memory(cut.profiles, cut.options, cut.boundary);
    const CopyTimes copies = copy_times(cut.profiles, cut.options);
    for (const CutModel::Start& start : cut.starts) {
        LeastOfCuts least = least_of_cuts(model, cluster, parts, layout, cut, copies, start.balance);
        if (!cut.is_free || memory.surely_fits(start.balance)) {
            found.ns = std::min(found.ns, least.ns());
            continue;
        }
        found.cut_to_fit = found.cut_to_fit || memory.surely_exceeds(start.balance);
        if (is_open) {
            continue;
        }
        is_open = true;
        const std::optional<double> fitting = memory.least_pipeline_ns();
        if (!fitting) {
            return {kNever, true};
        }
        // For any cuts: some lane has at least the mean of the parameters.
        if (works_in_turn(cut.options)) {
            least.pipeline_ns = *fitting;
        }
        for (const PipelinePart& part : parts) {
            const AfterPipeline alone = after_pipeline(model, cluster, {{part.group, 1}}, layout, {least.mean});
            least.after.gather_ns = std::min(least.after.gather_ns, alone.gather_ns);
            least.after.optimizer_ns = layout.optimizer == ModelOptimizer::muon  // depends on which weights a lane has
                                           ? 0
                                           : std::min(least.after.optimizer_ns, alone.optimizer_ns);
        }
        if (parts.size() > 1 && least.mean.experts > 0) {  // on unequal links, no lane may have the mean of both sorts
            least.after.gather_ns = 0;
        }
        found.ns = std::min(found.ns, least.ns());
        found.after_ns = least.after.tied_ns + least.after.gather_ns + least.after.optimizer_ns;
    }
    return found;
}

LeastStep least_step(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                     const Layout& layout) {
    KnownProfiles known;
    return least_step(model, cluster, parts, layout, known);
}

namespace {
std::optional<double> tflops_of(const LayoutStep& step, double flops) {
    return step.model_flops > 0 ? std::optional(flops / step.step_ns() * 1e9 / step.layout.devices() / 1e12)
                                : std::nullopt;
}
}  // namespace

std::optional<double> LayoutStep::tflops_per_device() const {
    return tflops_of(*this, model_flops);
}

std::optional<double> LayoutStep::hardware_tflops_per_device() const {
    return tflops_of(*this, model_flops + recomputed_flops);
}

namespace {
/// Throws UsageError if the work after the pipeline does not fit a number of ns.
LayoutStep checked(LayoutStep step) {
    constexpr double kMostNs = 4e18;
    if (!(step.step_ns() < kMostNs)) {
        throw UsageError("layout " + to_string(step.layout) + " would take " + shortest(step.step_ns()) +
                         " ns a step; a step stays below 4e18; correct the cluster's links, or the model");
    }
    return step;
}

/// A layout's step. The search of schedule auto deals partitions out in turn. With two partitions per lane, also tries
/// the named schedules that put them in a V.
LayoutStep quickest_placement(const Layout& layout, const std::function<LayoutStep(const Layout&)>& step_of) {
    LayoutStep best = checked(step_of(layout));
    if (layout.schedule != Schedule::automatic || layout.interleave != 2) {
        return best;
    }
    for (const Schedule& named : all_schedules()) {
        if (!lies_in_a_v(named) || !can_run(named, layout.pipeline, layout.micro_batches())) {
            continue;
        }
        Layout in_a_v = layout;
        in_a_v.schedule = named;
        LayoutStep other = step_of(in_a_v);
        if (is_better(other, best)) {
            best = std::move(other);
            best.layout.schedule = Schedule::automatic;
        }
    }
    return best;
}

/// The layers' buffers are the part of the optimizer's state that no factor for all layers gives: counts them as state.
void count_buffers_as_state(LayoutStep& step) {
    Simulation& simulation = step.simulation;
    std::vector<Bytes> moved(simulation.lanes.size());
    const Balance& balance = simulation.options.balance;
    for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
        const LayerRange layers = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        for (const LaneId lane : lanes_of(simulation.options, PartitionId{j})) {
            for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
                moved[lane.index()] += (*step.profile)->layers[l].buffer_bytes;
            }
        }
    }
    const auto move = [&](MemoryBreakdown& held, std::size_t lane) {
        if (held[MemoryCategory::parameters] >= moved[lane] && held[MemoryCategory::optimizer] >= 0) {  // is known
            held[MemoryCategory::parameters] -= moved[lane];
            held[MemoryCategory::optimizer] += moved[lane];
        }
    };
    for (std::size_t lane = 0; lane < simulation.lanes.size(); ++lane) {
        move(simulation.lanes[lane].peak, lane);
    }
    for (MemorySample& each : simulation.memory) {
        move(each.composition, each.lane.index());
    }
}

/// Operations of a step that repeat a forward. Frozen blocks repeat nothing.
double recomputed_flops(const LanguageModel& model, const Layout& layout) {
    const auto samples = static_cast<double>(layout.batch);
    const double share = layout.how().selective_share;
    const auto of_block = [&](BlockKind kind) {
        return kind.is_frozen || layout.recompute == Recompute::none ? 0
               : layout.recompute == Recompute::full                 ? block_flops(model, kind, samples)
               : share > 0                                           ? share * block_flops(model, kind, samples)
                                                                     : attention_flops(model, kind, samples);
    };
    double flops = static_cast<double>(model.mtp) * of_block(mtp_kind(model));
    for (const auto& [kind, blocks] : block_counts(model)) {
        flops += static_cast<double>(blocks) * of_block(kind);
    }
    return flops;
}

/// On several types of devices, the widest of their ranges: a step waits for the slowest lane, which may be of any
/// type.
StepRange range_on(const TrainingProgram& program, const PipelineParts& parts, bool experts) {
    StepRange all = step_range(program, parts.front().group->device.name, experts);
    for (const PipelinePart& part : parts) {
        const StepRange each = step_range(program, part.group->device.name, experts);
        if (each.device != all.device) {
            all.device += (all.device.empty() || each.device.empty() ? "" : " and ") + each.device;
            all.runs += each.runs;
        }
        all.low = std::min(all.low, each.low);
        all.high = std::max(all.high, each.high);
        all.run_low = std::min(all.run_low, each.run_low);
        all.run_high = std::max(all.run_high, each.run_high);
    }
    return all;
}

LayoutStep step_of_layout(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                          const Layout& layout, const SimulationDetail& detail, KnownProfiles& known,
                          double enough_ns) {
    LayoutStep step;
    step.layout = layout;
    step.device = to_string(parts);
    step.memory = memory_of(parts);
    const CutModel cut = cut_model(model, cluster, parts, layout, known);
    const CopyTimes copies = copy_times(cut.profiles, cut.options);
    simulate_cuts(
        step, cut, detail, enough_ns,
        [&](LayoutStep& one) {
            count_buffers_as_state(one);
            const AfterPipeline after = after_pipeline(
                model, cluster, parts, layout, parameters_by_lane(*one.profile, one.simulation.options, layout));
            one.tied_ns = after.tied_ns;
            one.gather_ns = after.gather_ns;
            one.optimizer_ns = after.optimizer_ns;
            one.offloaded_bytes = after.offloaded_bytes;
            one.program_ns = program_ns(layout, one.step_ns());
        },
        [&](const Balance& balance) {
            return least_of_cuts(model, cluster, parts, layout, cut, copies, balance).ns();
        });
    const auto batch = static_cast<double>(layout.batch);
    step.model_flops = step_flops(model, batch);
    step.causal_flops = causal_step_flops(model, batch);
    step.parameters = parameters_of(model);
    step.active_parameters = active_parameters_of(model);
    step.trained_parameters = trained_parameters_of(model);
    const auto modules = static_cast<double>(model.mtp);
    step.recomputed_flops = recomputed_flops(model, layout);
    step.tokens = batch * static_cast<double>(model.sequence);
    step.bfloat16_blocks = layout.product_dtype.empty() ? 0 : model.whole_blocks;
    step.range = range_on(layout.how(), parts, model.experts > 0);
    double work = 0;
    for (const LayerProfile& layer : (*step.profile)->layers) {
        work += layer.forward_ns.front() + layer.backward_ns.front();
    }
    std::map<std::pair<std::size_t, BlockKind>, BlockExtras> extras;  // by part
    for (std::size_t part = 0; part < parts.size(); ++part) {
        for (const BlockKind kind : block_kinds(model)) {
            extras[{part, kind}] = block_extras(model, kind, cluster, *parts[part].group, layout);
        }
    }
    const Balance& balance = step.simulation.options.balance;
    step.collective_share = (extras.begin()->second.ends + extras.rbegin()->second.ends) / 2 / work;
    for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
        const LayerRange layers = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        const std::size_t part = cut.profiles.of_lane[lane_of(step.simulation.options, j)];
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            const bool is_last = l + 1 == (*step.profile)->layers.size();
            const double blocks = l == 0 ? 0 : is_last ? modules : 1;
            if (blocks == 0) {
                continue;
            }
            const BlockKind kind = is_last ? mtp_kind(model) : model.kind_of(static_cast<std::int64_t>(l) - 1);
            const BlockExtras& here = extras.at({part, kind});
            step.recompute_share += blocks * here.recompute / work;
            // The last layer's waits are among those of the ends.
            step.collective_share += blocks * (is_last ? here.sums : here.collectives()) / work;
            step.all_to_all_share += blocks * here.all_to_all / work;
            step.context_share += blocks * here.context / work;
        }
    }
    return step;
}

}  // namespace

LayoutStep simulate_layout(const LanguageModel& asked, const Cluster& cluster, const PipelineParts& parts,
                           const Layout& layout, const SimulationDetail& detail, KnownProfiles& known,
                           double enough_ns) {
    const LanguageModel model = as_run(asked, layout);
    check_layout(model, layout, parts);
    Layout split = layout;
    split.expert_tensor = expert_tensor_of(model, layout);
    split.zero = std::min(layout.zero, most_zero(layout));
    return quickest_placement(split, [&](const Layout& each) {
        return step_of_layout(model, cluster, parts, each, detail, known, enough_ns);
    });
}

LayoutStep simulate_layout(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                           const Layout& layout, const SimulationDetail& detail) {
    KnownProfiles known;
    return simulate_layout(model, cluster, parts, layout, detail, known);
}

LayoutStep simulate_layout(const LanguageModel& model, const Cluster& cluster, const NodeGroup& group,
                           const Layout& layout, const SimulationDetail& detail) {
    return simulate_layout(model, cluster, PipelineParts{{&group, layout.pipeline}}, layout, detail);
}

bool has_operations(const Profile& profile) {
    return std::ranges::any_of(profile.layers, [](const LayerProfile& layer) {
        return std::ranges::any_of(layer.flops, [](double flops) { return flops > 0; });
    });
}

Profile on_device(const Profile& profile, const NodeGroup& group) {
    // Each lane has a separate device. Parts of several types are joined, so one factor could not fit all.
    return has_operations(profile) && profile.device != group.device.name ? retimed(profile, group.device)
                                                                          : with_times_alone(profile);
}

namespace {
LayoutStep step_of_layout(const Profile& profile, const PipelineOptions& given, const Cluster& cluster,
                          const PipelineParts& parts, const Layout& layout, const SimulationDetail& detail) {
    LayoutStep step;
    step.layout = layout;
    step.device = to_string(parts);
    step.memory = memory_of(parts);
    CutModel cut{part_profiles(parts,
                               [&](const NodeGroup& group) {
                                   return std::make_shared<const PartProfile>(on_device(profile, group),
                                                                              layout.micro_batch_size);
                               }),
                 given};
    const PartProfiles& profiles = cut.profiles;
    PipelineOptions& options = cut.options;
    set_pipeline(options, layout);
    if (layout.recompute == Recompute::full) {
        options.checkpoint = Checkpoint::always;
    }
    options.hardware = {};
    cut.boundary = boundary_bytes(profiles.parts.front()->profile, static_cast<double>(layout.micro_batch_size));
    set_hardware(options.hardware, cluster, parts, layout, cut.boundary);
    if (profile.memory_unknown) {
        options.hardware.memory_limit.reset();
        options.hardware.memory_limits.clear();
    }
    const int partitions = layout.pipeline * layout.interleave;
    if (given.balance.num_partitions() == 1 && partitions > 1) {
        double all = 0;
        for (const LayerProfile& layer : profile.layers) {
            all += weights_of(layer, layout).all();
        }
        const auto update_ns = [&](std::size_t part, const RankWeights& weights) {
            return profiles.parts[part]->profile.optimizer_ns * weights.all() / all;
        };
        KnownCuts known;
        cut.start_free(cluster, parts, layout, update_ns, known);
    } else {
        if (partitions == 1) {
            options.balance = Balance({static_cast<std::int64_t>(profile.layers.size())});
        }
        cut.starts.push_back({options.balance});
    }
    check_options(options, profile.layers.size());
    simulate_cuts(
        step, cut, detail, std::numeric_limits<double>::infinity(),
        [&](LayoutStep& one) {
            std::vector<double> update(one.simulation.lanes.size());
            const Balance& balance = one.simulation.options.balance;
            for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
                const LayerRange layers = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
                for (const LaneId lane : lanes_of(options, PartitionId{j})) {
                    update[lane.index()] += optimizer_time(profiles.at(lane.index()), layers);
                }
            }
            one.optimizer_ns = std::ranges::max(update);
        },
        [](const Balance&) { return 0.0; });
    step.model_flops = step.simulation.flops ? step.simulation.flops->step : 0;
    const auto m = static_cast<double>(layout.micro_batches());
    const double repeated = options.checkpoint == Checkpoint::always        ? 1
                            : options.checkpoint == Checkpoint::except_last ? (m - 1) / m
                                                                            : 0;
    step.recomputed_flops = step.model_flops / 3 * repeated;  // times one forward
    return step;
}

}  // namespace

LayoutStep simulate_layout(const CheckedProfile& profile, const PipelineOptions& options, const Cluster& cluster,
                           const PipelineParts& parts, const Layout& layout, const SimulationDetail& detail) {
    check_layout(profile, layout, parts);
    return quickest_placement(
        layout, [&](const Layout& each) { return step_of_layout(profile, options, cluster, parts, each, detail); });
}

LayoutStep simulate_layout(const CheckedProfile& profile, const PipelineOptions& options, const Cluster& cluster,
                           const NodeGroup& group, const Layout& layout, const SimulationDetail& detail) {
    return simulate_layout(profile, options, cluster, PipelineParts{{&group, layout.pipeline}}, layout, detail);
}
}  // namespace pipescope
