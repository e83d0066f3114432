#include "cluster/step_bounds.h"

#include "base/stop_check.h"
#include "cluster/layout_activations.h"
#include "cluster/layout_links.h"
#include "schedule/schedules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace pipescope {
bool lies_in_a_v(const Schedule& schedule) {
    const std::vector<LaneId> placement = placement_of(schedule, 4, 2);
    return !placement.empty() && placement[2] == LaneId{1};
}

double least_work_share(const Layout& layout) {
    return least_work_share(schedule_of(layout), layout.how().pair_overlap.value_or(0));
}

namespace {
/// How far below the exact bound a search for it may end, relative to it.
constexpr double kClose = 1e-4;

/// The least of each sort of weights that one device holds for that many blocks. `weights_of`: rank_block_weights(), or
/// those that train.
RankWeights least_weights(const LanguageModel& model, const Layout& layout, double blocks,
                          RankWeights (*weights_of)(const LanguageModel&, BlockKind, int, ExpertSplit)) {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    RankWeights least{kNone, kNone};
    for (const BlockKind kind : block_kinds(model)) {
        const RankWeights each = weights_of(model, kind, layout.tensor, layout.expert_split());
        least = {std::min(least.usual, each.usual), std::min(least.experts, each.experts)};
    }
    return {blocks * least.usual, blocks * least.experts};
}
}  // namespace

double rounding_of(const Layout& layout) {
    constexpr double kOfTask = 4;  // a forward, both halves of a backward, and copies that lanes send and receive
    return kOfTask * (static_cast<double>(layout.micro_batches()) + layout.pipeline) * layout.interleave;
}

double StepBounds::of(const Layout& layout, const PipelineParts& parts) {
    return std::max(0.0, unrounded(layout, parts) - rounding_of(layout));
}

double StepBounds::unrounded(const Layout& layout, const PipelineParts& parts) {
    const double blocks = static_cast<double>(model_.layers);
    const double m = static_cast<double>(layout.micro_batches());
    const std::int64_t cuts = static_cast<std::int64_t>(layout.pipeline) * layout.interleave;
    // A schedule that splits backwards may postpone all gradients of weights until a gradient has gone back.
    const bool splits = layout.schedule && splits_backward(*layout.schedule);
    if (parts.size() > 1) {
        return least_work_share(layout) < 1 ? 0 : unlike_lanes(layout, parts, copies_of(layout, parts), splits);
    }
    const NodeGroup& group = *parts.front().group;
    const Costs& costs = costs_of(group, layout);
    const double lanes = layout.pipeline;
    if (is_bidirectional(schedule_of(layout)) || least_work_share(layout) < 1) {  // some lane does the mean
        return m * (costs.blocks + costs.embedding + costs.output) / lanes * least_work_share(layout);
    }
    const double partitions = lanes * layout.interleave;
    const CopyTimes copies = copies_of(layout, parts);
    const double least_wait = *std::ranges::min_element(copies.of_lane);
    const double mean_wait = std::accumulate(copies.of_lane.begin(), copies.of_lane.end(), 0.0) / lanes;
    // The busiest lane does at least the mean. With even cuts, the last lane does its share between two ways: the first
    // micro-batch through the other lanes' first partitions, and the last one back through them. It also does the
    // output layer, or with partitions in a V the first lane does.
    const bool even = has_even_cuts(model_, layout);
    const bool in_a_v = layout.interleave > 1 && layout.schedule && lies_in_a_v(*layout.schedule);
    // If blocks alternate, or the first ones differ, the last lane has certain ones.
    const double share = even && !in_a_v ? m * (last_blocks(costs, layout, cuts) + copies.of_lane.back())
                                         : m * (blocks / lanes * costs.least + least_wait);
    const double ways = blocks / partitions * (lanes - 1) * costs.way(splits) +
                        copies.before(static_cast<std::size_t>(layout.pipeline) - 1, splits);
    const double uneven = std::max((costs.blocks + costs.embedding + costs.output) / lanes + mean_wait,
                                   std::ceil(blocks / lanes) * costs.least + least_wait);
    const double busiest = !even    ? std::max(m * uneven, unlike_lanes(layout, parts, copies, splits))
                           : in_a_v ? std::max(share + ways, share + m * costs.output)
                                    : share + m * costs.output + ways;
    const double waiting = even ? m * (blocks / lanes * costs.least + *std::ranges::max_element(copies.of_lane))
                                : 0;  // lane that sends most
    const double pipeline = std::max({busiest, waiting, one_way(layout, parts, copies, splits)});
    const RankWeights parameters =
        least_weights(model_, layout, std::floor(blocks / lanes), rank_trained_block_weights);
    const double gather =
        (layout.zero == 1 || layout.zero == 2) && !layout.how().update_gather_overlap
            ? gather_weights_ns(parameters, cluster_, group, layout, static_cast<double>(dtype_bytes(layout.dtype)))
            : 0;
    if (layout.gradient_bucket > 0) {  // may overlap with the last backward
        return pipeline + gather;
    }
    // Each partition is summed alone. Only with an affine link do these sums take no less than one of all.
    const bool is_summed = layout.zero <= 1 && (layout.interleave == 1 || sums_by_affine_links(layout, group));
    const double sums = is_summed ? sums_ns(layout, group, std::floor(blocks / lanes)) : 0;
    return std::max(pipeline, share + sums) + gather;
}

/// Time of the last lane's blocks with even cuts, each lane's partitions in turn.
double StepBounds::last_blocks(const Costs& costs, const Layout& layout, std::int64_t cuts) const {
    const std::int64_t blocks = model_.layers / cuts;
    if (costs.of.size() == 1) {
        return static_cast<double>(model_.layers) / layout.pipeline * costs.least;
    }
    std::map<BlockKind, std::int64_t> counts;
    for (std::int64_t cut = layout.pipeline - 1; cut < cuts; cut += layout.pipeline) {
        for (std::int64_t block = cut * blocks; block < (cut + 1) * blocks; ++block) {
            ++counts[model_.kind_of(block)];
        }
    }
    double time = 0;
    for (const auto& [kind, number] : counts) {
        time += static_cast<double>(number) * costs.of.at(kind);
    }
    return time;
}

/// A bound for any cuts. Lane j works w_j on each micro-batch, between the way of the first micro-batch through the
/// lanes before and the way of the last one back: m w_j <= T - way (w_0 + .. + w_{j-1}), where `way` is the share of a
/// block's time that a way takes. From lane j on, lanes with time r left do at most c_j r blocks; a slow lane that
/// costs the others more than it does gets none. With several partitions per lane, ignores the ways.
double StepBounds::unlike_lanes(const Layout& layout, const PipelineParts& parts, const CopyTimes& copies,
                                bool splits) {
    const double m = static_cast<double>(layout.micro_batches());
    double way = layout.interleave > 1 ? 0 : 1;
    for (const PipelinePart& part : parts) {
        const Costs& costs = costs_of(*part.group, layout);
        way = std::min(way, costs.way(splits) / costs.least);
    }
    double blocks_a_ns = 0;  // c_j, starting with the last lane
    for (std::size_t k = parts.size(); k-- > 0;) {
        const double block = costs_of(*parts[k].group, layout).least;
        for (int lane = 0; lane < parts[k].lanes; ++lane) {
            blocks_a_ns += std::max(0.0, 1 / block - way * blocks_a_ns) / m;
        }
    }
    return std::max(whole_blocks(layout, parts, copies, splits, static_cast<double>(model_.layers) / blocks_a_ns),
                    one_way(layout, parts, copies, splits));
}

/// A bound for any cuts, at least `known`. Lanes have whole blocks, and each partition has a layer: a lane has as many
/// blocks as partitions, except that the embedding and the output layer may be alone in one. So a slow lane with
/// several partitions cannot have few blocks. The first micro-batch passes a block in the first partition of each lane
/// before, and the last one on its way back, or the lane sums its gradients.
double StepBounds::whole_blocks(const Layout& layout, const PipelineParts& parts, const CopyTimes& copies, bool splits,
                                double known) {
    struct Lane {
        double work = 0;     ///< of a block, for all micro-batches
        double waits = 0;    ///< for copies, of all micro-batches
        double sums = 0;     ///< of a block's gradients
        double ways = 0;     ///< of the first and the last micro-batch
        double forward = 0;  ///< way of the first one
        double least = 0;    ///< number of blocks
    };
    std::vector<Lane> lanes;
    const bool has_sums = layout.gradient_bucket == 0 && layout.zero <= 1;
    const int last = ends_share_a_lane(layout) ? 0 : layout.pipeline - 1;  // with the output layer
    double ways = 0;
    double forward = 0;
    for (const PipelinePart& part : parts) {
        const Costs& costs = costs_of(*part.group, layout);
        const double work = static_cast<double>(layout.micro_batches()) * costs.least;
        // With measured times, a sum of more blocks may take as long as a sum of one.
        const bool is_summed = has_sums && sums_by_affine_links(layout, *part.group);
        const double sums = is_summed ? sums_ns(layout, *part.group, 2) - sums_ns(layout, *part.group, 1) : 0;
        for (int k = 0; k < part.lanes; ++k) {
            const int lane = static_cast<int>(lanes.size());
            const int ends = (lane == 0 ? 1 : 0) + (lane == last ? 1 : 0);
            const std::size_t here = lanes.size();
            lanes.push_back({work, static_cast<double>(layout.micro_batches()) * copies.of_lane[here], sums,
                             ways + copies.before(here, splits), forward + copies.before(here, true),
                             static_cast<double>(layout.interleave - ends)});
            if (lane > 0) {  // the first partition may have the embedding alone
                ways += costs.way(splits);
                forward += costs.forward;
            }
        }
    }
    const auto can_end_by = [&](double ns) {
        constexpr double kRounding = 1e-9;
        double blocks = 0;
        for (const Lane& each : lanes) {
            const double fitting = std::min((ns - each.waits - each.ways) / each.work,
                                            (ns - each.waits - each.forward) / (each.work + each.sums));
            const double whole = std::floor(fitting * (1 + kRounding));
            if (whole < each.least || whole < 0) {
                return false;
            }
            blocks += whole;
        }
        return blocks >= static_cast<double>(model_.layers);
    };
    if (!(known > 0 && std::isfinite(known)) || can_end_by(known)) {
        return known;
    }
    double ends = 2 * known;
    for (; std::isfinite(ends) && !can_end_by(ends); ends *= 2) {
        check_stop();
        known = ends;
    }
    if (!std::isfinite(ends)) {  // times beyond the largest number
        return known;
    }
    while (ends - known > kClose * ends) {
        check_stop();
        const double middle = (known + ends) / 2;
        (can_end_by(middle) ? ends : known) = middle;
    }
    return known;
}

/// A bound for any cuts: one micro-batch passes all layers there and back, and some partition with the mean number of
/// blocks or more runs the others before it. Bounds pipelines with few micro-batches, whose lanes mostly wait.
double StepBounds::one_way(const Layout& layout, const PipelineParts& parts, const CopyTimes& copies, bool splits) {
    if (!is_synchronous(schedule_of(layout))) {
        return 0;  // its period may be shorter than a way
    }
    constexpr double kNone = std::numeric_limits<double>::infinity();
    const auto layers = static_cast<double>(model_.layers);
    const double partitions = static_cast<double>(layout.pipeline) * layout.interleave;
    double block = kNone;    // the least for a block on the way
    double forward = kNone;  // the least for its forward
    double both = kNone;     // the least for its forward and backward
    double ends = kNone;
    for (const PipelinePart& part : parts) {
        const Costs& costs = costs_of(*part.group, layout);
        block = std::min(block, costs.way(splits));
        forward = std::min(forward, costs.forward);
        both = std::min(both, costs.least);
        ends = std::min(ends, splits ? 0 : costs.embedding + costs.output);
    }
    // Each partition of a slower type has a block, except for those with the embedding or the output layer.
    double left = layers;
    double way = ends;
    for (const PipelinePart& part : parts) {
        constexpr double kEnds = 2;
        const double blocks = std::clamp(static_cast<double>(part.lanes) * layout.interleave - kEnds, 0.0, left);
        way += parts.size() > 1 ? blocks * costs_of(*part.group, layout).way(splits) : 0;
        left -= parts.size() > 1 ? blocks : 0;
    }
    const double longest = std::ceil(layers / partitions) * std::max(forward, splits ? 0 : both / 2);
    return way + left * block + 2 * copies.all() + (static_cast<double>(layout.micro_batches()) - 1) * longest;
}

CopyTimes StepBounds::copies_of(const Layout& layout, const PipelineParts& parts) {
    double least = std::numeric_limits<double>::infinity();
    for (const PipelinePart& part : parts) {
        least = std::min(least, costs_of(*part.group, layout).least_sent);
    }
    Hardware hardware;
    set_hardware(hardware, cluster_, parts, layout, costs_of(*parts.front().group, layout).most_sent);
    return copy_times(hardware, placement_in(layout), static_cast<std::size_t>(layout.pipeline),
                      static_cast<std::size_t>(layout.pipeline) * static_cast<std::size_t>(layout.interleave), least);
}

/// Time to sum the gradients of that many blocks over the replicas: at first parts of them, and without ZeRO all parts
/// are gathered, which takes as long.
double StepBounds::sums_ns(const Layout& layout, const NodeGroup& group, double blocks) const {
    const RankWeights weights = least_weights(model_, layout, blocks, rank_trained_block_weights);
    return (layout.zero == 0 ? 2 : 1) * gather_weights_ns(weights, cluster_, group, layout, layout.gradient_bytes);
}

/// True if sums of gradients take a latency and a time per byte.
bool StepBounds::sums_by_affine_links(const Layout& layout, const NodeGroup& group) const {
    const auto is_affine = [&](const RankGroup& copies) {
        return copies_link(cluster_, group, layout, copies).times.empty();
    };
    return is_affine(layout.weight_copies()) && (model_.experts == 0 || is_affine(layout.expert_copies()));
}

const StepBounds::Costs& StepBounds::costs_of(const NodeGroup& group, const Layout& layout) {
    // Which devices share a node depends on the total number of devices.
    const std::tuple key(&group, layout.devices(), layout.tensor, layout.context, layout.expert, layout.expert_tensor,
                         layout.micro_batch_size, layout.recompute);
    {
        const std::scoped_lock lock(mutex_);
        if (const auto found = known_.find(key); found != known_.end()) {
            return found->second;
        }
    }
    LanguageModel few = model_;  // with as few blocks as have all kinds, and the last that of modules
    const std::vector<BlockCount> counts = block_counts(model_);
    few.layers = 0;
    const auto has_all = [&] {
        const std::vector<BlockKind> kinds = block_kinds(few);
        return std::ranges::all_of(
            counts, [&](const BlockCount& each) { return std::ranges::find(kinds, each.kind) != kinds.end(); });
    };
    do {
        ++few.layers;
    } while (!has_all() || (model_.mtp > 0 && mtp_kind(few) != mtp_kind(model_)));
    Layout alone = layout;
    alone.zero = 0;
    const Profile profile = language_model_profile(few, cluster_, group, alone);
    const auto time = [&](const LayerProfile& layer) { return layer.forward_ns.front() + layer.backward_ns.front(); };
    Costs costs;
    costs.least = costs.forward = std::numeric_limits<double>::infinity();
    for (std::int64_t block = 0; block < few.layers; ++block) {
        const LayerProfile& layer = profile.layers[static_cast<std::size_t>(block) + 1];
        costs.of[few.kind_of(block)] = time(layer);
        costs.least = std::min(costs.least, time(layer));
        costs.forward = std::min(costs.forward, layer.forward_ns.front());
    }
    for (const auto& [kind, blocks] : counts) {
        costs.blocks += static_cast<double>(blocks) * costs.of.at(kind);
    }
    costs.least_sent = std::numeric_limits<double>::infinity();
    for (std::size_t l = 0; l + 1 < profile.layers.size(); ++l) {
        const double sent = profile.layers[l].output_bytes.front();
        costs.most_sent = std::max(costs.most_sent, sent);
        costs.least_sent = std::min(costs.least_sent, std::floor(sent));
    }
    costs.embedding = time(profile.layers.front());
    costs.output = time(profile.layers.back());
    const std::scoped_lock lock(mutex_);
    return known_.emplace(key, std::move(costs)).first->second;  // another thread may have computed them too
}

std::optional<Shortfall> sure_shortfall(const LanguageModel& model, const Layout& layout, const PipelineParts& parts) {
    const double element = static_cast<double>(dtype_bytes(layout.dtype));
    const auto constants_of = [&](const RankWeights& weights, const RankWeights& trained, bool in_block) {
        const auto bytes = [&](double all, double own, const RankGroup& copies) {
            const auto split = [&](int stage) { return layout.zero_parts(stage, copies); };
            return all * element / split(3) + own * (static_cast<double>(layout.gradient_bytes) / split(2) +
                                                     kept_bytes(layout, in_block) / split(1));
        };
        return bytes(weights.usual, trained.usual, layout.weight_copies()) +
               bytes(weights.experts, trained.experts, layout.expert_copies());
    };
    const RankWeights matrix{embedding_weights(model) / layout.tensor};
    const double embedding = constants_of(matrix, model.trains_embedding() ? matrix : RankWeights{}, false);
    const double output = constants_of(matrix, model.trains_output() ? matrix : RankWeights{}, false);
    const auto blocks_of = [&](double blocks) {
        return constants_of(least_weights(model, layout, blocks, rank_block_weights),
                            least_weights(model, layout, blocks, rank_trained_block_weights), true);
    };
    const double all_constants = [&] {
        double sum = embedding + (model.tied && ends_share_a_lane(layout) ? 0 : output);
        for (const auto& [kind, blocks] : block_counts(model)) {
            sum += static_cast<double>(blocks) *
                   constants_of(rank_block_weights(model, kind, layout.tensor, layout.expert_split()),
                                rank_trained_block_weights(model, kind, layout.tensor, layout.expert_split()), true);
        }
        return sum;
    }();
    const auto beyond = [](double bytes, double limit) {
        constexpr double kMost = 9e18;  // fits 64 bits
        return bytes > limit
                   ? std::optional(Shortfall{{}, static_cast<Bytes>(std::min(bytes, kMost)), static_cast<Bytes>(limit)})
                   : std::nullopt;
    };
    double kept = std::numeric_limits<double>::infinity();     // by a block
    double working = std::numeric_limits<double>::infinity();  // for recompute in a block's backward, beside `kept`
    for (const BlockKind kind : block_kinds(model)) {
        if (kind.is_frozen) {  // keeps nothing
            kept = working = 0;
            continue;
        }
        const LayoutActivations activations = layout_activations(model, kind, layout);
        kept = std::min(kept, activations.input + activations.saved);
        working = std::min(working, activations.repeated);
    }
    double memory = 0;  // of an average lane
    for (const PipelinePart& part : parts) {
        memory += static_cast<double>(part.group->device.tensor_bytes()) * part.lanes / layout.pipeline;
    }
    const double lanes = layout.pipeline;
    const auto m = static_cast<double>(layout.micro_batches());
    if (parts.size() == 1 && has_even_cuts(model, layout)) {
        // The first lane of 1F1B holds a micro-batch for each lane, or all of them. Interleaved, it warms up with 2 p -
        // 2 partitions and, for a group, with all but one of its own, and holds one more. With p micro-batches per
        // group, that makes p - 1 more (arXiv 2205.05198, section 4.2.3).
        const double group = m / static_cast<double>(interleaved_groups(layout.pipeline, layout.micro_batches()));
        const double partitions = layout.interleave;
        const double held =
            std::min(m, layout.interleave > 1 ? ((partitions - 1) * group + 2 * (lanes - 1) + 1) / partitions : lanes);
        const double blocks = static_cast<double>(model.layers) / lanes;
        const double first = blocks_of(blocks) + embedding + (layout.schedule ? 0 : blocks * kept * held) + working;
        // The lane with the most constants has at least the mean.
        return beyond(std::max(all_constants / lanes, first), memory);
    }
    // Other cuts: finds the most blocks that the lanes can hold with `times` their memory.
    const double block = blocks_of(1);
    const auto can_hold_all = [&](double times) {
        double blocks = 0;
        int lane = 0;
        for (const PipelinePart& part : parts) {
            for (int k = 0; k < part.lanes; ++k, ++lane) {
                const bool is_last = lane + 1 == layout.pipeline;
                const double room = static_cast<double>(part.group->device.tensor_bytes()) * times -
                                    (lane == 0                               ? embedding
                                     : is_last && !ends_share_a_lane(layout) ? output
                                                                             : 0);
                if (room < 0) {
                    return false;
                }
                const double held = layout.schedule ? 0 : std::min(m, lanes - lane);
                blocks += std::max(0.0, std::floor((room - working) / (block + kept * held)));
            }
        }
        return blocks >= static_cast<double>(model.layers);
    };
    double least = all_constants / lanes;
    if (least <= memory && !can_hold_all(1)) {
        double fits = 2;
        while (!can_hold_all(fits)) {
            fits *= 2;
        }
        double fails = fits / 2;
        for (constexpr double kClose = 1.001; fits > kClose * fails;) {
            const double middle = (fails + fits) / 2;
            (can_hold_all(middle) ? fits : fails) = middle;
        }
        least = std::max(least, fails * memory);
    }
    return beyond(least, memory);
}
}  // namespace pipescope
