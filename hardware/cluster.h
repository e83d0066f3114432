#pragma once

#include "hardware/device_catalogue.h"
#include "hardware/hardware.h"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// Nodes of one kind.
struct NodeGroup {
    DeviceType device;
    int nodes = 1;
    int devices_per_node = 1;
    int ports_per_node = 1;             ///< to other nodes; each has the bandwidth of the cluster's link
    Link link;                          ///< between two devices of one node, one way, at the rate that programs reach
    double price_per_hour = 0;          ///< per node, in any currency; 0: unknown
    double hours_between_failures = 0;  ///< mean for one node; 0: it never fails

    int devices() const { return nodes * devices_per_node; }
    friend bool operator==(const NodeGroup&, const NodeGroup&) = default;
};

/// Racks, or any groups of nodes that are closer to each other than to the rest.
struct Racks {
    int nodes = 1;  ///< per rack
    Link link;      ///< between nodes of different racks, for each port

    friend bool operator==(const Racks&, const Racks&) = default;
};

/// A cluster to rent: groups of nodes, and the links between them.
/// Invariant (checked by the parser): one group or more; counts are at least 1; links keep check_link().
struct Cluster {
    std::string name;
    std::vector<NodeGroup> groups;
    Link between_nodes;  ///< of one port, one way, at the rate that programs reach
    std::optional<Racks> racks;

    friend bool operator==(const Cluster&, const Cluster&) = default;
};

/// Parses a cluster file (docs/cluster-format.md); `catalogue` defines its devices. Throws ProfileError, which starts
/// with the JSON path of the first fault, and UsageError for a device that is not in the catalogue.
Cluster parse_cluster(std::string_view json, const std::vector<DeviceType>& catalogue);
/// Parses the file at the path, or the built-in cluster with that name (named_clusters()) if there is no such file.
/// Messages start with the name; otherwise throws as parse_cluster().
Cluster load_cluster(const std::filesystem::path& path, const std::vector<DeviceType>& catalogue);

// Devices are numbered node by node. Ranks with stride s take every s-th device. All devices of a node use its ports at
// once and equally, since every replica runs the same schedule.

/// Consecutive groups of `ranks` devices, `stride` apart, that cover `devices` devices. Nodes and racks are filled in
/// order. A group straddles nodes if its block of ranks x stride devices does not divide a node's, unless all devices
/// lie in one node.
struct RankGroup {
    int ranks = 1;
    int stride = 1;
    std::int64_t devices = 1;  ///< covered; if fewer than one group needs: just that group

    friend bool operator==(const RankGroup&, const RankGroup&) = default;
};

/// The link of each rank in the slowest ring. A ring leaves a node through its ranks' combined shares of the ports.
Link ring_link(const Cluster& cluster, const NodeGroup& group, const RankGroup& ring);
/// The link between devices of different nodes, for one device's share of the ports.
Link node_link(const Cluster& cluster, const NodeGroup& group);
/// The link between devices of different racks, for one device's share of the ports. Precondition: the cluster has
/// racks.
Link rack_link(const Cluster& cluster, const NodeGroup& group);

/// Time in ns of a ring all-reduce: 2 (R - 1) messages of bytes / R.
/// Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69 (2009).
double all_reduce_ns(const Link& link, int ranks, double bytes);
/// Time in ns of an all-to-all: each of a group's consecutive devices sends every other device an equal part of
/// `bytes`. All messages start at once, so a link's latency counts once. Messages to other nodes do not delay messages
/// inside the node. The slowest device of all groups counts. Precondition: stride is 1.
double all_to_all_ns(const Cluster& cluster, const NodeGroup& group, const RankGroup& ranks, double bytes);
/// Time in ns in which each of a group's consecutive devices sends its tokens (`bytes`) to `top_k` of `experts`
/// experts. Experts are spread evenly over the devices and are equally likely.
/// A token goes once to each node that holds some of its experts. The device that receives it there forwards it once to
/// each other device of the node that needs it. Both phases overlap, and the slower counts. Otherwise as
/// all_to_all_ns().
///
/// Source: DeepEP (deepseek-ai/DeepEP), its kernels for training.
double node_dispatch_ns(const Cluster& cluster, const NodeGroup& group, const RankGroup& ranks, double bytes,
                        double experts, double top_k);
/// Time in ns in which each rank gets the other ranks' parts of `bytes` in total: R - 1 messages.
double all_gather_ns(const Link& link, int ranks, double bytes);
}  // namespace pipescope
