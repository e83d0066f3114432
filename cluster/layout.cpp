#include "cluster/layout.h"

#include "cluster/cuts.h"
#include "schedule/error.h"
#include "schedule/parse_name.h"
#include "schedule/printable.h"
#include "schedule/quantities.h"
#include "simulator/balance_search.h"
#include "simulator/number_ranges.h"
#include "simulator/sized_profile.h"
#include "simulator/task_costs.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
[[noreturn]] void refuse(const std::string& value, const std::string& rule, const std::string& remedy) {
    throw UsageError("layout " + value + "; " + rule + "; " + remedy);
}

void check_count(const char* name, std::int64_t count) {
    if (count < 1) {
        refuse(std::string(name) + " is " + std::to_string(count), "each count is at least 1", "correct it");
    }
}

bool is_mixed(const std::string& dtype) {
    return dtype_bytes(dtype) < 4;
}

/// Bytes of optimizer state a parameter: Adam's two moments, and a float32 copy of a shorter parameter.
double state_bytes(const Layout& layout) {
    const double moments = 2 * std::max(4.0, static_cast<double>(dtype_bytes(layout.dtype)));
    return moments + (is_mixed(layout.dtype) ? 4 : 0);
}

/// The options' optimizer, as bytes of state per byte of gradient on this replica.
std::string optimizer_of(const Layout& layout) {
    // From 2 on gradients are split too.
    const double share = layout.zero == 1 ? layout.weight_copies().ranks : 1;
    return shortest(state_bytes(layout) / layout.gradient_bytes / share);
}

/// The link with messages that take half as long.
Link halved(Link link) {
    link.bytes_per_second *= 2;
    link.latency_ns /= 2;
    for (LinkTime& time : link.times) {
        time.ns /= 2;
        time.exchange_ns /= 2;
    }
    return link;
}

/// The link on which an all-reduce of a partition's gradients takes what that many copies of its weights take to sum
/// them at the end of the step. With ZeRO 1 each gets the sum of its own part only, which is half of an all-reduce.
/// From ZeRO 2 on every backward does that.
Link replica_link_of(const Cluster& cluster, const NodeGroup& group, const Layout& layout, const RankGroup& copies) {
    const Link ring = ring_link(cluster, group, copies);
    return layout.zero >= 2 ? Link{} : layout.zero == 1 ? halved(ring) : ring;
}

/// A copy of `bytes` between two lanes: each tensor-parallel rank sends its part, and the receivers gather it.
Link hop_link(const Link& base, LinkPlace place, const NodeGroup& group, const Layout& layout, double bytes) {
    const bool gathers = layout.tensor > 1 && !layout.sequence_parallel;
    const double part = gathers ? bytes / layout.tensor : bytes;
    const double ns = base.message_ns(part) + (gathers ? all_gather_ns(group.link, layout.tensor, bytes) : 0);
    Link link;
    link.sends = layout.sends;
    link.place = place;
    link.latency_ns = std::min(base.least_ns(), ns);
    const double moving = ns - link.latency_ns;
    link.bytes_per_second = moving > 0 ? bytes / moving * 1e9 : 0;
    return link;
}

/// Tiers of a pipeline on one group. Precondition: has_tiers().
void set_tiers(Hardware& hardware, const Cluster& cluster, const NodeGroup& group, const Layout& layout, double bytes) {
    const std::int64_t stage = layout.stage_devices();
    const std::int64_t lanes_a_node = group.devices_per_node / stage;
    const bool in_one_node = stage * layout.pipeline <= group.devices_per_node;
    const Link inside = hop_link(group.link, LinkPlace::inside_node, group, layout, bytes);
    if (in_one_node) {
        hardware.link = inside;
        return;
    }
    if (lanes_a_node > 1) {
        hardware.nearer.push_back({static_cast<int>(lanes_a_node), inside});
    }
    hardware.link = hop_link(node_link(cluster, group), LinkPlace::between_nodes, group, layout, bytes);
    if (cluster.racks) {
        const std::int64_t lanes_a_rack =
            static_cast<std::int64_t>(cluster.racks->nodes) * group.devices_per_node / stage;
        if (lanes_a_rack < layout.pipeline) {
            if (lanes_a_rack > std::max<std::int64_t>(1, lanes_a_node)) {
                hardware.nearer.push_back({static_cast<int>(lanes_a_rack), hardware.link});
            }
            hardware.link = hop_link(rack_link(cluster, group), LinkPlace::between_racks, group, layout, bytes);
        }
    }
}

/// The part of each lane.
std::vector<const NodeGroup*> groups_by_lane(const PipelineParts& parts) {
    std::vector<const NodeGroup*> groups;
    for (const PipelinePart& part : parts) {
        groups.insert(groups.end(), static_cast<std::size_t>(part.lanes), part.group);
    }
    return groups;
}

const Link& slower(const Link& a, const Link& b, double bytes) {
    return a.message_ns(bytes) >= b.message_ns(bytes) ? a : b;
}

/// True if the lanes of a pipeline on one group lie in nodes and in racks alike: no node or rack ends inside a lane
/// that shares it with another one.
bool has_tiers(const Cluster& cluster, const NodeGroup& group, const Layout& layout) {
    const std::int64_t stage = layout.stage_devices();
    const auto cuts_a_lane = [&](std::int64_t box) {
        return box > stage && box < stage * layout.pipeline && box % stage != 0;
    };
    const std::int64_t node = group.devices_per_node;
    return !cuts_a_lane(node) && !(cluster.racks && cuts_a_lane(node * cluster.racks->nodes));
}

/// Links for each two lanes that a micro-batch passes one after the other; the slowest of a lane's devices counts. A
/// group's lanes begin with a node of their own. Two lanes of different groups are in different racks, if there are
/// racks.
void set_pairs(Hardware& hardware, const Cluster& cluster, const PipelineParts& parts, const Layout& layout,
               double bytes) {
    const std::vector<const NodeGroup*> groups = groups_by_lane(parts);
    const std::int64_t stage = layout.stage_devices();
    std::vector<std::int64_t> first(groups.size());  // device of the group
    for (std::size_t k = 1; k < groups.size(); ++k) {
        first[k] = groups[k] == groups[k - 1] ? first[k - 1] + stage : 0;
    }
    const auto place_of = [&](std::size_t a, std::size_t b) {
        const bool same_group = groups[a] == groups[b];
        // Some device's message leaves the box if a box ends between the first device of `a` and the last one of `b`.
        const auto leaves = [&](std::int64_t box) {
            return !same_group || first[a] / box != (first[b] + stage - 1) / box;
        };
        const std::int64_t node = groups[a]->devices_per_node;
        return !leaves(node)                                          ? LinkPlace::inside_node
               : cluster.racks && leaves(node * cluster.racks->nodes) ? LinkPlace::between_racks
                                                                      : LinkPlace::between_nodes;
    };
    const auto base = [&](const NodeGroup& group, LinkPlace place) {
        return place == LinkPlace::inside_node     ? group.link
               : place == LinkPlace::between_nodes ? node_link(cluster, group)
                                                   : rack_link(cluster, group);
    };
    const auto add = [&](std::size_t a, std::size_t b) {
        const LinkPlace place = place_of(a, b);
        const Link link = slower(base(*groups[a], place), base(*groups[b], place), bytes);
        hardware.pairs.push_back({static_cast<int>(a), static_cast<int>(b),
                                  slower(hop_link(link, place, *groups[a], layout, bytes),
                                         hop_link(link, place, *groups[b], layout, bytes), bytes)});
    };
    for (std::size_t k = 0; k + 1 < groups.size(); ++k) {
        add(k, k + 1);
    }
    if (groups.size() > 2) {
        add(0, groups.size() - 1);  // interleaved partitions
    }
    hardware.link = hardware.pairs.back().link;
}

void set_hardware(Hardware& hardware, const Cluster& cluster, const PipelineParts& parts, const Layout& layout,
                  double bytes) {
    if (parts.size() == 1) {
        const NodeGroup& group = *parts.front().group;
        hardware.memory_limit = group.device.memory_bytes;
        if (has_tiers(cluster, group, layout)) {
            set_tiers(hardware, cluster, group, layout, bytes);
        } else {
            set_pairs(hardware, cluster, parts, layout, bytes);
        }
        if (layout.weight_copies().ranks > 1) {
            hardware.replica_link = replica_link_of(cluster, group, layout, layout.weight_copies());
        }
        return;
    }
    set_pairs(hardware, cluster, parts, layout, bytes);
    int lane = 0;
    for (const NodeGroup* group : groups_by_lane(parts)) {
        hardware.memory_limits.push_back(group->device.memory_bytes);
        if (layout.weight_copies().ranks > 1) {
            hardware.pairs.push_back({lane, lane, replica_link_of(cluster, *group, layout, layout.weight_copies())});
        }
        ++lane;
    }
}

/// How the gradients of experts are summed.
ExpertSums expert_sums_of(const Cluster& cluster, const PipelineParts& parts, const Layout& layout) {
    const RankGroup copies = layout.expert_copies();
    ExpertSums sums{copies.ranks, {}, 1};
    for (const PipelinePart& part : parts) {
        sums.links.insert(sums.links.end(), parts.size() > 1 ? static_cast<std::size_t>(part.lanes) : 1,
                          replica_link_of(cluster, *part.group, layout, copies));
    }
    if (layout.zero == 1) {  // optimizer_of() has the share of other weights
        sums.state = static_cast<double>(layout.weight_copies().ranks) / copies.ranks;
    }
    return sums;
}

/// Bytes that go from lane to lane.
double boundary_bytes(const Profile& profile, double samples) {
    double most = 1;
    for (std::size_t l = 0; l + 1 < profile.layers.size(); ++l) {
        most = std::max(most, interpolate(profile.samples, profile.layers[l].output_bytes, samples).value);
    }
    return most;
}

Schedule schedule_of(const Layout& layout) {
    return layout.schedule.value_or(layout.interleave > 1 ? Schedule::interleaved_1f1b : Schedule::one_f_one_b);
}

/// Lane of each partition; empty if each lane has one.
std::vector<LaneId> placement_in(const Layout& layout) {
    if (layout.interleave == 1) {
        return {};
    }
    const auto partitions = static_cast<std::size_t>(layout.pipeline) * static_cast<std::size_t>(layout.interleave);
    std::vector<LaneId> placement =
        placement_of(schedule_of(layout), partitions, static_cast<std::size_t>(layout.pipeline));
    for (std::size_t j = 0; placement.size() < partitions; ++j) {  // auto: dealt out in turn
        placement.push_back(LaneId{static_cast<std::int64_t>(j) % layout.pipeline});
    }
    return placement;
}

void set_pipeline(PipelineOptions& options, const Layout& layout) {
    options.chunks = layout.micro_batches();
    options.batch = layout.batch;
    options.replicas = layout.data;
    options.weight_copies = layout.weight_copies().ranks;
    options.schedule = schedule_of(layout);
    options.gradient_bucket = layout.gradient_bucket;
    options.placement = placement_in(layout);
}

/// A layer's parameters on this rank, all of them with ZeRO 3 too.
RankWeights weights_of(const LayerProfile& layer, const Layout& layout) {
    const auto experts = static_cast<double>(layer.expert_gradient_bytes);
    const double usual = static_cast<double>(layer.gradient_bytes) - experts;
    return {usual / layout.gradient_bytes * layout.zero_parts(2, layout.weight_copies()),
            experts / layout.gradient_bytes * layout.zero_parts(2, layout.expert_copies())};
}

/// Those of each lane.
std::vector<RankWeights> parameters_by_lane(const Profile& profile, const PipelineOptions& options,
                                            const Layout& layout) {
    std::vector<RankWeights> parameters(static_cast<std::size_t>(layout.pipeline));
    for (std::size_t j = 0; j < options.balance.num_partitions(); ++j) {
        const LayerRange layers = options.balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            parameters[lane_of(options, j)] += weights_of(profile.layers[l], layout);
        }
    }
    return parameters;
}

/// Time of Adam's update of that many parameters on one replica's device.
double adam_ns(const RankWeights& parameters, const NodeGroup& group, const Layout& layout) {
    // The gradient is read for its norm and for the update; states and copy are read and written; the parameter is
    // written, and read if it has no copy.
    const double bytes = 2.0 * layout.gradient_bytes + 2 * state_bytes(layout) +
                         (is_mixed(layout.dtype) ? 1 : 2) * static_cast<double>(dtype_bytes(layout.dtype));
    const double mine = parameters.usual / layout.zero_parts(1, layout.weight_copies()) +
                        parameters.experts / layout.zero_parts(1, layout.expert_copies());
    return estimated_ns(group.device, "float32", DeviceWork{0, mine * bytes, 1});
}

/// Both ends of the pipeline sum the gradients of the tied embedding.
double tied_sum_ns(const Cluster& cluster, const PipelineParts& parts, const Layout& layout, double bytes) {
    const NodeGroup& first = *parts.front().group;
    const auto stride = static_cast<int>(layout.stage_devices() * (layout.pipeline - 1));
    if (parts.size() == 1) {
        return all_reduce_ns(ring_link(cluster, first, {2, stride, layout.devices()}), 2, bytes);
    }
    const NodeGroup& last = *parts.back().group;
    const Link link = cluster.racks ? slower(rack_link(cluster, first), rack_link(cluster, last), bytes)
                                    : slower(node_link(cluster, first), node_link(cluster, last), bytes);
    return all_reduce_ns(link, 2, bytes);
}

/// Work after a language model's pipeline.
struct AfterPipeline {
    double tied_ns = 0;
    double gather_ns = 0;
    double optimizer_ns = 0;
};
/// `parameters`: of each lane's rank.
AfterPipeline after_pipeline(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                             const Layout& layout, const std::vector<RankWeights>& parameters) {
    AfterPipeline after;
    const std::vector<const NodeGroup*> groups = groups_by_lane(parts);
    const auto element = static_cast<double>(dtype_bytes(layout.dtype));
    for (std::size_t lane = 0; lane < groups.size(); ++lane) {
        after.optimizer_ns = std::max(after.optimizer_ns, adam_ns(parameters[lane], *groups[lane], layout));
        if (layout.zero == 1 || layout.zero == 2) {
            after.gather_ns =
                std::max(after.gather_ns, gather_weights_ns(parameters[lane], cluster, *groups[lane], layout, element));
        }
    }
    if (model.tied && !ends_share_a_lane(layout)) {
        after.tied_ns =
            tied_sum_ns(cluster, parts, layout, embedding_weights(model) / layout.tensor * layout.gradient_bytes);
    }
    return after;
}
}  // namespace

bool ends_share_a_lane(const Layout& layout) {
    const std::vector<LaneId> placement = placement_in(layout);
    return layout.pipeline == 1 || (!placement.empty() && placement.front() == placement.back());
}

std::string to_string(TokenDispatch dispatch) {
    switch (dispatch) {
        case TokenDispatch::expert: return "expert";
        case TokenDispatch::node: return "node";
    }
    return "unknown";
}

TokenDispatch parse_token_dispatch(std::string_view name) {
    return parse_name<TokenDispatch>(name, {TokenDispatch::expert, TokenDispatch::node},
                                     "--token-dispatch is '" + printable(name) + "'", "leave it out for expert");
}

void set_dtype(Layout& layout, const std::string& dtype) {
    layout.dtype = dtype.empty() ? layout.dtype : dtype;
    layout.gradient_bytes = std::max(layout.gradient_bytes, dtype_bytes(layout.dtype) > 4 ? 8 : 2);
}

void set_dtype(Layout& layout, const Profile& profile) {
    layout.dtype = profile.dtype;
    layout.gradient_bytes = static_cast<int>(std::clamp<std::int64_t>(dtype_bytes(profile.dtype), 2, 8));
}

std::string to_string(const PipelineParts& parts) {
    std::string text;
    for (const PipelinePart& part : parts) {
        text += (text.empty() ? "" : ",") + part.group->device.name +
                (parts.size() > 1 ? ":" + std::to_string(part.lanes) : "");
    }
    return text;
}

std::string to_string(const Layout& layout) {
    return "p" + std::to_string(layout.pipeline) + " d" + std::to_string(layout.data) +
           (layout.context > 1 ? " c" + std::to_string(layout.context) : "") + " t" + std::to_string(layout.tensor) +
           (layout.expert > 1 ? " e" + std::to_string(layout.expert) : "") + " v" + std::to_string(layout.interleave) +
           " b" + std::to_string(layout.micro_batch_size);
}

PipelineParts parse_pipeline_parts(const std::string& text, const Cluster& cluster, int lanes) {
    if (text.empty() && cluster.groups.size() == 1) {
        return {{&cluster.groups.front(), lanes}};
    }
    std::string known;
    for (const NodeGroup& group : cluster.groups) {
        known += (known.empty() ? "" : ", ") + group.device.name;
    }
    const auto refuse_types = [&](const std::string& rule) {
        throw UsageError(
            (text.empty() ? "--device-types is missing; " : "--device-types is '" + printable(text) + "'; ") + rule +
            "; name one of " + known + ", or several with their numbers of lanes, in order, such as A100:4,V100:4");
    };
    if (text.empty()) {
        refuse_types("the cluster has several types");
    }
    PipelineParts parts;
    for (const std::string& item : parse_list(text, "--device-types")) {
        const std::size_t colon = std::min(item.find(':'), item.size());
        const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
        const auto group = std::ranges::find_if(cluster.groups, [&](const NodeGroup& each) {
            return std::ranges::equal(each.device.name, item.substr(0, colon), same);
        });
        if (group == cluster.groups.end()) {
            refuse_types("the cluster has no type '" + printable(item.substr(0, colon)) + "'");
        }
        int own = lanes;
        if (colon < item.size()) {
            own = parse_number<int>(text, item.substr(colon + 1), "--device-types", "A100:4,V100:4");
        }
        if (own < 1) {
            refuse_types("a type has one lane or more");
        }
        parts.push_back({&*group, own});
    }
    return parts;
}

void check_layout(const Layout& layout, const PipelineParts& parts) {
    check_count("--partitions", layout.pipeline);
    check_count("data-parallel", layout.data);
    check_count("tensor-parallel", layout.tensor);
    check_count("context-parallel", layout.context);
    check_count("expert-parallel", layout.expert);
    check_count("interleave", layout.interleave);
    check_count("micro-batch-size", layout.micro_batch_size);
    check_count("batch", layout.batch);
    constexpr std::int64_t kMostPartitionsOfAll = 4096;
    if (static_cast<std::int64_t>(layout.pipeline) * layout.interleave > kMostPartitionsOfAll) {
        refuse(to_string(layout) + " has more than 4096 partitions", "a pipeline has at most that many",
               "use fewer lanes, or less interleaving");
    }
    std::int64_t lanes = 0;
    for (std::size_t k = 0; k < parts.size(); ++k) {
        const auto& [group, own] = parts[k];
        lanes += own;
        const double devices = static_cast<double>(own) * layout.data * layout.context * layout.tensor;  // may be large
        if (devices > group->devices()) {
            refuse(
                to_string(layout) + " needs " + shortest(devices) + " devices" +
                    (parts.size() > 1 ? " of type " + group->device.name : ""),
                "the cluster has " + counted(group->devices(), "device", "devices") + " of type " + group->device.name,
                "use fewer lanes, replicas or tensor-parallel ranks");
        }
        for (std::size_t other = 0; other < k; ++other) {
            if (parts[other].group == group) {
                refuse("lies on " + to_string(parts), "lanes on one type are next to each other",
                       "name each type once");
            }
        }
    }
    if (lanes != layout.pipeline) {
        refuse("lies on " + to_string(parts) + ", " + counted(lanes, "lane", "lanes"),
               "the pipeline has " + std::to_string(layout.pipeline), "let the lanes of the types add up to it");
    }
    if (layout.micro_batch_size > kMostSamples || layout.batch > kMostSamples) {
        refuse("batch is " + std::to_string(layout.batch), "a batch has at most 2^40 samples", "use a smaller one");
    }
    if (layout.batch % (layout.micro_batch_size * layout.data) != 0) {
        refuse("batch is " + std::to_string(layout.batch),
               "it must be a multiple of replicas times micro-batch size, " +
                   std::to_string(layout.micro_batch_size * layout.data),
               "change one of the three");
    }
    if (layout.stage_devices() % layout.expert != 0) {
        refuse("expert-parallel is " + std::to_string(layout.expert),
               "it must divide the devices of a lane, the product of those of data, context and tensor parallelism, " +
                   std::to_string(layout.stage_devices()),
               "use another number");
    }
    if (layout.zero < 0 || layout.zero > 3) {
        refuse("zero is " + std::to_string(layout.zero), "ZeRO has stages 0 to 3", "correct it");
    }
    if (layout.gradient_bytes != 2 && layout.gradient_bytes != 4 && layout.gradient_bytes != 8) {
        refuse("gradient-bytes is " + std::to_string(layout.gradient_bytes), "a gradient takes 2, 4 or 8 bytes",
               "correct it");
    }
    if (layout.gradient_bucket < 0) {
        refuse("gradient-bucket is " + std::to_string(layout.gradient_bucket), "it counts bytes", "use 0 for none");
    }
    if (layout.sequence_parallel && layout.tensor == 1) {
        refuse("has sequence parallelism with one tensor-parallel rank", "such ranks split the tokens among them",
               "leave it out");
    }
    if (layout.micro_batches() > kMostMicroBatches) {
        refuse("has " + counted(layout.micro_batches(), "micro-batch", "micro-batches"),
               "a pipeline has at most " + std::to_string(kMostMicroBatches),
               "use larger micro-batches, or more replicas");
    }
    if (layout.interleave == 1 && layout.pipeline > 1 && !runs_one_partition_a_lane(schedule_of(layout)) &&
        schedule_of(layout) != Schedule::automatic && schedule_of(layout).file() == nullptr) {
        refuse("interleave is 1 with schedule " + to_string(schedule_of(layout)),
               "that schedule runs several partitions a lane", "use --interleave 2");
    }
    if (layout.interleave > 1 && runs_one_partition_a_lane(schedule_of(layout)) &&
        schedule_of(layout) != Schedule::automatic) {
        refuse(
            "interleave is " + std::to_string(layout.interleave) + " with schedule " + to_string(schedule_of(layout)),
            "that schedule runs one partition per lane", "use interleaved, or leave one of both out");
    }
}

double largest_layer_flops(const LanguageModel& model, const Layout& layout) {
    const auto samples = static_cast<double>(layout.micro_batch_size);
    double most = output_flops(model, samples);
    for (const BlockKind kind : block_kinds(model)) {
        most = std::max(most, block_flops(model, kind, samples));
    }
    return most / layout.tensor / layout.context;
}

void check_layer_flops(const LanguageModel& model, const Layout& layout) {
    if (const double flops = largest_layer_flops(model, layout); flops > kMostLayerFlops) {
        throw UsageError("model has a layer of " + shortest(flops) + " operations for a micro-batch, with hidden " +
                         std::to_string(model.hidden) + ", mlp " + std::to_string(model.mlp) + ", sequence " +
                         std::to_string(model.sequence) + " and vocabulary " + std::to_string(model.vocabulary) +
                         "; a layer has at most 2^53 on one device; correct the model, or split it further");
    }
}

void check_dispatch(const LanguageModel& model, const Layout& layout) {
    if (layout.dispatch != TokenDispatch::expert && model.experts == 0) {
        refuse("token-dispatch is " + to_string(layout.dispatch), "the model has no experts", "leave it out");
    }
}

void check_layout(const LanguageModel& model, const Layout& layout, const PipelineParts& parts) {
    check_layout(layout, parts);
    check_layer_flops(model, layout);
    const auto check = [&](const char* name, std::int64_t number) {
        if (number % layout.tensor != 0) {
            refuse("tensor-parallel is " + std::to_string(layout.tensor),
                   "it must divide the model's " + std::string(name) + ", " + std::to_string(number),
                   "use another number of ranks");
        }
    };
    check("heads", model.heads);
    if (model.kind_of(0) == BlockKind::dense) {
        check("mlp", model.mlp);
    }
    if (model.shared_experts > 0) {
        check("shared experts' width", model.shared_experts * model.expert_hidden);
    }
    if (model.kv_heads % layout.tensor != 0 && layout.tensor % model.kv_heads != 0) {
        check("kv_heads", model.kv_heads);
    }
    if (layout.sequence_parallel) {
        check("sequence", model.sequence);
    }
    if (layout.context > 1) {
        const int pieces = 2 * layout.context * (layout.sequence_parallel ? layout.tensor : 1);
        if (model.attention != Attention::flash) {
            refuse("context-parallel is " + std::to_string(layout.context) + " with standard attention",
                   "keys and values of other devices come one after the other, which only flash attention can take",
                   "add attention=flash to the model");
        }
        if (model.sequence % pieces != 0) {
            refuse("context-parallel is " + std::to_string(layout.context),
                   "each device has two parts of a sample's tokens, so that " + std::to_string(pieces) +
                       " must divide the model's sequence, " + std::to_string(model.sequence),
                   "use another number of devices");
        }
    }
    if (layout.expert > 1 && (model.experts == 0 || model.experts % layout.expert != 0)) {
        refuse("expert-parallel is " + std::to_string(layout.expert),
               model.experts == 0 ? "the model has no experts"
                                  : "it must divide the model's experts, " + std::to_string(model.experts),
               "use another number, or leave it out");
    }
    check_dispatch(model, layout);
    if (model.experts > 0 && layout.tensor > 1 && !layout.sequence_parallel) {
        refuse("has " + std::to_string(layout.tensor) + " tensor-parallel devices without sequence parallelism",
               "each device sends tokens of its own to the experts", "add --sequence-parallel");
    }
    const std::int64_t partitions = static_cast<std::int64_t>(layout.pipeline) * layout.interleave;
    if (partitions > model.layers) {
        refuse("has " + counted(partitions, "partition", "partitions"),
               "each holds at least one of the model's " + counted(model.layers, "block", "blocks"),
               "use fewer lanes, or less interleaving");
    }
}

namespace {
template <class ProfileOf>
PartProfiles part_profiles(const PipelineParts& parts, ProfileOf profile_of) {
    PartProfiles all;
    for (const PipelinePart& part : parts) {
        all.of_lane.insert(all.of_lane.end(), static_cast<std::size_t>(part.lanes), all.profiles.size());
        all.profiles.push_back(profile_of(*part.group));
    }
    return all;
}

/// A model's profiles by part, and options with its placement, hardware and cuts.
struct CutModel {
    PartProfiles profiles;
    PipelineOptions options;
    double boundary = 0;   ///< bytes from lane to lane
    bool is_free = false;  ///< other cuts may be taken if these do not fit
};
CutModel cut_model(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                   const Layout& layout) {
    CutModel cut;
    cut.profiles = part_profiles(
        parts, [&](const NodeGroup& group) { return language_model_profile(model, cluster, group, layout); });
    set_pipeline(cut.options, layout);
    cut.options.optimizer = optimizer_of(layout);
    if (model.experts > 0) {
        cut.options.experts = expert_sums_of(cluster, parts, layout);
    }
    cut.boundary = boundary_bytes(cut.profiles.profiles.front(), static_cast<double>(layout.micro_batch_size));
    set_hardware(cut.options.hardware, cluster, parts, layout, cut.boundary);
    const int partitions = layout.pipeline * layout.interleave;
    const std::optional<Balance> even =
        parts.size() == 1 ? even_cuts(cut.profiles.profiles.front().layers.size(), partitions) : std::nullopt;
    cut.options.balance =
        even ? *even
             : quickest_cuts(cut.profiles, cut.options, static_cast<std::size_t>(partitions), layout.micro_batch_size);
    cut.is_free = !even;
    cut.options.checkpoint = Checkpoint::never;  // what is recomputed is part of the layers' times
    return cut;
}

/// Simulates the cuts, or the quickest ones that fit.
void simulate_cuts(LayoutStep& step, const CutModel& cut, const SimulationDetail& detail) {
    PipelineOptions options = cut.options;
    const auto simulate_one = [&] {
        step.profile = joined(cut.profiles, options, step.device);
        step.simulation = simulate(step.profile, options, detail);
    };
    const bool has_limit = options.hardware.memory_limit || !options.hardware.memory_limits.empty();
    if (!cut.is_free || !detail.memory || !has_limit) {
        simulate_one();
        return;
    }
    const bool is_automatic = options.schedule == Schedule::automatic;
    if (is_automatic) {  // takes long: the cuts of the usual schedule
        options.schedule = options.placement.empty() ? Schedule::one_f_one_b : Schedule::interleaved_1f1b;
    }
    simulate_one();
    FittingCuts others(cut.profiles, cut.options, step.layout.micro_batch_size);
    for (std::optional<Balance> next; !step.simulation.feasible && (next = others.after(step.simulation));) {
        options.balance = *next;
        simulate_one();
    }
    if (!step.simulation.feasible && options.balance != cut.options.balance) {
        options.balance = cut.options.balance;
        simulate_one();
    }
    step.cut_to_fit = options.balance != cut.options.balance;
    if (is_automatic) {
        options.schedule = Schedule::automatic;
        simulate_one();
    }
}
}  // namespace

LeastStep least_step(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                     const Layout& layout) {
    const CutModel cut = cut_model(model, cluster, parts, layout);
    const auto& [profiles, options, boundary, is_free] = cut;
    const std::vector<const NodeGroup*> groups = groups_by_lane(parts);
    struct Lane {
        double work = 0;     ///< of a micro-batch
        double forward = 0;  ///< of the first micro-batch, before it comes to the lane
        double both = 0;     ///< that, and of the last one after it has left the lane
        double sums = 0;     ///< of gradients over the replicas, once the lane has ended
        RankWeights parameters;
        bool has_begun = false;
    };
    std::vector<Lane> lanes(groups.size());
    // A schedule that splits backwards may put off all gradients of weights until a gradient has gone back.
    const bool splits = options.schedule == Schedule::automatic || splits_backward(options.schedule);
    double forward_before = 0;
    double both_before = 0;
    for (std::size_t j = 0; j < options.balance.num_partitions(); ++j) {
        const std::size_t on = lane_of(options, j);
        Lane& lane = lanes[on];
        if (!lane.has_begun) {
            lane.forward = forward_before;
            lane.both = splits ? forward_before : both_before;
            lane.has_begun = true;
        }
        Gradients gradients;
        const LayerRange layers = options.balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            const LayerProfile& layer = profiles.at(on).layers[l];
            lane.work += layer.forward_ns.front() + layer.backward_ns.front();
            forward_before += layer.forward_ns.front();
            both_before += layer.forward_ns.front() + layer.backward_ns.front();
            gradients += gradients_of(layer);
            lane.parameters += weights_of(layer, layout);
        }
        if (layout.gradient_bucket == 0) {
            const auto sum = [&](const RankGroup& copies, double bytes) {
                return all_reduce_ns(replica_link_of(cluster, *groups[on], layout, copies), copies.ranks, bytes);
            };
            lane.sums += sum(layout.weight_copies(), gradients.usual);
            lane.sums += gradients.experts > 0 ? sum(layout.expert_copies(), gradients.experts) : 0;
        }
    }
    const auto m = static_cast<double>(layout.micro_batches());
    // The simulation rounds each of a lane's tasks, and each of the ways, to whole ns.
    const double rounded = 2 * (m * layout.interleave + layout.pipeline);
    double pipeline = 0;
    for (const Lane& lane : lanes) {
        pipeline = std::max(pipeline, m * lane.work + std::max(lane.both, lane.forward + lane.sums));
    }
    std::vector<RankWeights> parameters;
    RankWeights mean;
    for (const Lane& lane : lanes) {
        parameters.push_back(lane.parameters);
        mean += lane.parameters;
    }
    AfterPipeline after = after_pipeline(model, cluster, parts, layout, parameters);
    const auto bound = [&] {
        return std::max(0.0, pipeline - rounded) + after.tied_ns + after.gather_ns + after.optimizer_ns;
    };
    if (!is_free) {
        return {bound()};
    }
    const CutMemory memory(profiles, options, layout.micro_batch_size, boundary);
    if (memory.surely_fits()) {
        return {bound()};
    }
    const std::optional<double> fitting = memory.least_pipeline_ns();
    if (!fitting) {
        return {std::numeric_limits<double>::infinity(), true};
    }
    // Any cuts: some lane has the mean of the parameters at least.
    pipeline = *fitting;
    const auto lane_count = static_cast<double>(lanes.size());
    mean = {mean.usual / lane_count, mean.experts / lane_count};
    for (const PipelinePart& part : parts) {
        const AfterPipeline alone = after_pipeline(model, cluster, {{part.group, 1}}, layout, {mean});
        after.gather_ns = std::min(after.gather_ns, alone.gather_ns);
        after.optimizer_ns = std::min(after.optimizer_ns, alone.optimizer_ns);
    }
    if (parts.size() > 1 && mean.experts > 0) {  // on unlike links, no lane may have the mean of both sorts
        after.gather_ns = 0;
    }
    return {bound(), memory.surely_exceeds()};
}

double LayoutStep::tflops_per_device() const {
    return model_flops / step_ns() * 1e9 / layout.devices() / 1e12;
}

double LayoutStep::hardware_tflops_per_device() const {
    return (model_flops + recomputed_flops) / step_ns() * 1e9 / layout.devices() / 1e12;
}

LayoutStep simulate_layout(const LanguageModel& model, const Cluster& cluster, const PipelineParts& parts,
                           const Layout& layout, const SimulationDetail& detail) {
    check_layout(model, layout, parts);
    LayoutStep step;
    step.layout = layout;
    step.device = to_string(parts);
    const CutModel cut = cut_model(model, cluster, parts, layout);
    simulate_cuts(step, cut, detail);

    const AfterPipeline after = after_pipeline(model, cluster, parts, layout,
                                               parameters_by_lane(step.profile, step.simulation.options, layout));
    step.tied_ns = after.tied_ns;
    step.gather_ns = after.gather_ns;
    step.optimizer_ns = after.optimizer_ns;
    const auto batch = static_cast<double>(layout.batch);
    step.model_flops = step_flops(model, batch);
    const double blocks = static_cast<double>(model.layers);
    const auto s = static_cast<double>(model.sequence);
    step.recomputed_flops = layout.recompute == Recompute::full ? blocks_flops(model, batch)
                            : layout.recompute == Recompute::selective
                                ? blocks * 4 * s * s * model.attention_width() * batch
                                : 0;
    step.tokens = batch * s;
    double work = 0;
    for (const LayerProfile& layer : step.profile.layers) {
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
            if (l == 0 || l + 1 == step.profile.layers.size()) {
                continue;  // not a block
            }
            const BlockExtras& here = extras.at({part, model.kind_of(static_cast<std::int64_t>(l) - 1)});
            step.recompute_share += here.recompute / work;
            step.collective_share += here.collectives / work;
            step.all_to_all_share += here.all_to_all / work;
            step.context_share += here.context / work;
        }
    }
    return step;
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
    return has_operations(profile) && profile.device != group.device.name ? retimed(profile, group.device) : profile;
}

LayoutStep simulate_layout(const Profile& profile, const PipelineOptions& given, const Cluster& cluster,
                           const PipelineParts& parts, const Layout& layout, const SimulationDetail& detail) {
    check_layout(layout, parts);
    if (layout.tensor != 1 || layout.context != 1 || layout.expert != 1 || layout.zero != 0 ||
        layout.sequence_parallel) {
        refuse(to_string(layout) + " splits the layers of a profile", "a profile's costs are those of whole layers",
               "use pipeline and data parallelism only");
    }
    if (parts.size() > 1 && !has_operations(profile)) {
        refuse("lies on " + to_string(parts), "a profile without operations has the times of one device only",
               "profile again, or name one type");
    }
    LayoutStep step;
    step.layout = layout;
    step.device = to_string(parts);
    CutModel cut{part_profiles(parts, [&](const NodeGroup& group) { return on_device(profile, group); }), given};
    const PartProfiles& profiles = cut.profiles;
    PipelineOptions& options = cut.options;
    set_pipeline(options, layout);
    if (layout.recompute == Recompute::full) {
        options.checkpoint = Checkpoint::always;
    }
    options.hardware = {};
    cut.boundary = boundary_bytes(profiles.profiles.front(), static_cast<double>(layout.micro_batch_size));
    set_hardware(options.hardware, cluster, parts, layout, cut.boundary);
    if (profile.memory_unknown) {
        options.hardware.memory_limit.reset();
        options.hardware.memory_limits.clear();
    }
    const int partitions = layout.pipeline * layout.interleave;
    if (given.balance.num_partitions() == 1 && partitions > 1) {
        options.balance =
            quickest_cuts(profiles, options, static_cast<std::size_t>(partitions), layout.micro_batch_size);
        cut.is_free = true;
    } else if (partitions == 1) {
        options.balance = Balance({static_cast<std::int64_t>(profile.layers.size())});
    }
    check_options(options, profile.layers.size());
    simulate_cuts(step, cut, detail);
    std::vector<double> update(step.simulation.lanes.size());
    const Balance& balance = step.simulation.options.balance;
    for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
        const std::size_t lane = lane_of(options, j);
        update[lane] += optimizer_time(profiles.at(lane), balance.layers_of(PartitionId{static_cast<std::int64_t>(j)}));
    }
    step.optimizer_ns = std::ranges::max(update);
    step.model_flops = step.simulation.flops ? step.simulation.flops->step : 0;
    const auto m = static_cast<double>(layout.micro_batches());
    const double repeated = options.checkpoint == Checkpoint::always        ? 1
                            : options.checkpoint == Checkpoint::except_last ? (m - 1) / m
                                                                            : 0;
    step.recomputed_flops = step.model_flops / 3 * repeated;  // of forwards
    return step;
}

LayoutStep simulate_layout(const Profile& profile, const PipelineOptions& options, const Cluster& cluster,
                           const NodeGroup& group, const Layout& layout, const SimulationDetail& detail) {
    return simulate_layout(profile, options, cluster, PipelineParts{{&group, layout.pipeline}}, layout, detail);
}
}  // namespace pipescope
