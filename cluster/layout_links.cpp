#include "cluster/layout_links.h"

#include "hardware/cluster.h"

#include <algorithm>
#include <cstdint>

namespace pipescope {
std::vector<const NodeGroup*> groups_by_lane(const PipelineParts& parts) {
    std::vector<const NodeGroup*> groups;
    for (const PipelinePart& part : parts) {
        groups.insert(groups.end(), static_cast<std::size_t>(part.lanes), part.group);
    }
    return groups;
}

namespace {
/// The link for messages that take half as long.
Link halved(Link link) {
    link.bytes_per_second *= 2;
    link.latency_ns /= 2;
    for (LinkTime& time : link.times) {
        time.ns /= 2;
        time.exchange_ns /= 2;
    }
    return link;
}
}  // namespace

Link copies_link(const Cluster& cluster, const NodeGroup& group, const Layout& layout, const RankGroup& copies) {
    Link ring = ring_link(cluster, group, copies);
    const bool leaves_node = static_cast<std::int64_t>(copies.ranks) * copies.stride > group.devices_per_node;
    if (leaves_node && layout.how().between_share < 1) {
        ring.bytes_per_second *= layout.how().between_share;
        for (LinkTime& time : ring.times) {
            time.ns /= layout.how().between_share;
            time.exchange_ns /= layout.how().between_share;
        }
    }
    return ring;
}

Link replica_link_of(const Cluster& cluster, const NodeGroup& group, const Layout& layout, const RankGroup& copies) {
    const Link ring = copies_link(cluster, group, layout, copies);
    return layout.zero >= 2 ? Link{} : layout.zero == 1 ? halved(ring) : ring;
}

namespace {
/// The link of a copy of `bytes` between two lanes: each tensor-parallel rank sends its part, and the receivers, in
/// `group`, gather the parts.
Link hop_link(const Link& base, LinkPlace place, const Cluster& cluster, const NodeGroup& group, const Layout& layout,
              double bytes) {
    const bool gathers = layout.tensor > 1 && !layout.sequence_parallel;
    const double part = gathers ? bytes / layout.tensor : bytes;
    const Link ring = ring_link(cluster, group, layout.tensor_ranks());
    const double ns = base.message_ns(part) + (gathers ? all_gather_ns(ring, layout.tensor, bytes) : 0);
    Link link;
    link.sends = layout.sends;
    link.place = place;
    link.latency_ns = std::min(base.least_ns(), ns);
    const double moving = ns - link.latency_ns;
    link.bytes_per_second = moving > 0 ? bytes / moving * 1e9 : 0;
    return link;
}

/// Sets the tiers of a pipeline on one group. Precondition: has_tiers().
void set_tiers(Hardware& hardware, const Cluster& cluster, const NodeGroup& group, const Layout& layout, double bytes) {
    const std::int64_t stage = layout.stage_devices();
    const std::int64_t lanes_a_node = group.devices_per_node / stage;
    const bool in_one_node = stage * layout.pipeline <= group.devices_per_node;
    const Link inside = hop_link(group.link, LinkPlace::inside_node, cluster, group, layout, bytes);
    if (in_one_node) {
        hardware.link = inside;
        return;
    }
    if (lanes_a_node > 1) {
        hardware.nearer.push_back({static_cast<int>(lanes_a_node), inside});
    }
    hardware.link = hop_link(node_link(cluster, group), LinkPlace::between_nodes, cluster, group, layout, bytes);
    if (cluster.racks) {
        const std::int64_t lanes_a_rack =
            static_cast<std::int64_t>(cluster.racks->nodes) * group.devices_per_node / stage;
        if (lanes_a_rack < layout.pipeline) {
            if (lanes_a_rack > std::max<std::int64_t>(1, lanes_a_node)) {
                hardware.nearer.push_back({static_cast<int>(lanes_a_rack), hardware.link});
            }
            hardware.link =
                hop_link(rack_link(cluster, group), LinkPlace::between_racks, cluster, group, layout, bytes);
        }
    }
}

const Link& slower(const Link& a, const Link& b, double bytes) {
    return a.message_ns(bytes) >= b.message_ns(bytes) ? a : b;
}

/// True if no lane is cut by the end of a node or rack that it shares with other lanes. All lanes of a pipeline on one
/// group then lie alike in nodes and racks.
bool has_tiers(const Cluster& cluster, const NodeGroup& group, const Layout& layout) {
    const std::int64_t stage = layout.stage_devices();
    const auto cuts_a_lane = [&](std::int64_t box) {
        return box > stage && box < stage * layout.pipeline && box % stage != 0;
    };
    const std::int64_t node = group.devices_per_node;
    return !cuts_a_lane(node) && !(cluster.racks && cuts_a_lane(node * cluster.racks->nodes));
}

/// Sets links between lanes that a micro-batch passes one after the other; the slowest device of a lane counts. The
/// lanes of each group begin with a new node. If there are racks, lanes of different groups are in different racks.
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
        // Some message leaves the box if a box ends between the first device of `a` and the last device of `b`.
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
                                  slower(hop_link(link, place, cluster, *groups[a], layout, bytes),
                                         hop_link(link, place, cluster, *groups[b], layout, bytes), bytes)});
    };
    for (std::size_t k = 0; k + 1 < groups.size(); ++k) {
        add(k, k + 1);
    }
    if (groups.size() > 2) {
        add(0, groups.size() - 1);  // interleaved partitions
    }
    hardware.link = hardware.pairs.back().link;
}
}  // namespace

void set_hardware(Hardware& hardware, const Cluster& cluster, const PipelineParts& parts, const Layout& layout,
                  double bytes) {
    if (parts.size() == 1) {
        const NodeGroup& group = *parts.front().group;
        hardware.memory_limit = group.device.tensor_bytes();
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
        hardware.memory_limits.push_back(group->device.tensor_bytes());
        if (layout.weight_copies().ranks > 1) {
            hardware.pairs.push_back({lane, lane, replica_link_of(cluster, *group, layout, layout.weight_copies())});
        }
        ++lane;
    }
}

ExpertSums expert_sums_of(const Cluster& cluster, const PipelineParts& parts, const Layout& layout) {
    const RankGroup copies = layout.expert_copies();
    ExpertSums sums{copies.ranks, {}, 1};
    for (const PipelinePart& part : parts) {
        sums.links.insert(sums.links.end(), parts.size() > 1 ? static_cast<std::size_t>(part.lanes) : 1,
                          replica_link_of(cluster, *part.group, layout, copies));
    }
    if (layout.zero == 1) {  // optimizer_of() counts the share of other weights
        sums.state = static_cast<double>(layout.weight_copies().ranks) / copies.ranks;
    }
    return sums;
}

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
}  // namespace pipescope
