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
    int ports_per_node = 1;             ///< to other nodes, each with the bandwidth of the cluster's link
    Link link;                          ///< between two devices of one node, one way, as programs reach it
    double price_per_hour = 0;          ///< of a node, in any currency; 0: unknown
    double hours_between_failures = 0;  ///< mean of one node; 0: it never fails

    int devices() const { return nodes * devices_per_node; }
    friend bool operator==(const NodeGroup&, const NodeGroup&) = default;
};

/// Racks, or whatever holds nodes that are nearer to each other than to the rest.
struct Racks {
    int nodes = 1;  ///< of each
    Link link;      ///< between nodes of different racks, for each port

    friend bool operator==(const Racks&, const Racks&) = default;
};

/// A cluster to rent: groups of nodes, and the links between them.
/// Invariant (checked by the parser): one group or more; counts are at least 1; links keep check_link().
struct Cluster {
    std::string name;
    std::vector<NodeGroup> groups;
    Link between_nodes;  ///< of one port, one way, as programs reach it
    std::optional<Racks> racks;

    friend bool operator==(const Cluster&, const Cluster&) = default;
};

/// Parses a cluster file (docs/cluster-format.md), whose devices are those of the catalogue. Throws ProfileError that
/// starts with the JSON path of the first fault, and UsageError for a device that the catalogue does not hold.
Cluster parse_cluster(std::string_view json, const std::vector<DeviceType>& catalogue);
/// Like the above, of the file, or of the built-in cluster of that name (named_clusters()) if there is no such file;
/// messages start with the name.
Cluster load_cluster(const std::filesystem::path& path, const std::vector<DeviceType>& catalogue);

// Devices are numbered node by node. A set of ranks with a stride of s is every s-th device. All devices of a node use
// its ports at once and equally, since every replica runs the same schedule.

/// Groups of that many devices, `stride` apart in a group, that follow each other over that many devices in all. Nodes
/// and racks are filled one after the other, so a group straddles two nodes if its block of ranks x stride devices does
/// not divide a node's, unless all lie in one node.
struct RankGroup {
    int ranks = 1;
    int stride = 1;
    std::int64_t devices = 1;  ///< if fewer than one group takes: that group alone

    friend bool operator==(const RankGroup&, const RankGroup&) = default;
};

/// The link of each rank of a ring, of the group whose ring is slowest. A ring that enters a node leaves it
/// through as many ports as its ranks there have shares in.
Link ring_link(const Cluster& cluster, const NodeGroup& group, const RankGroup& ring);
/// The link between devices of different nodes, for one device's share of the ports.
Link node_link(const Cluster& cluster, const NodeGroup& group);
/// Likewise for nodes of different racks. Precondition: the cluster has racks.
Link rack_link(const Cluster& cluster, const NodeGroup& group);

/// Time in ns of an all-reduce of that many bytes over a ring of ranks: 2 (R - 1) messages of 1 / R of the bytes.
/// Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69 (2009).
double all_reduce_ns(const Link& link, int ranks, double bytes);
/// Time in ns in which each of a group's consecutive devices sends every other one an equal part of that many bytes.
/// All messages start at once, so a link's latency counts once. Those that leave a node do not hold up those inside it.
/// The slowest device of all groups counts. Precondition: stride is 1.
double all_to_all_ns(const Cluster& cluster, const NodeGroup& group, const RankGroup& ranks, double bytes);
/// Time in ns in which each of a group's consecutive devices sends its tokens, of that many bytes, to `top_k` of
/// `experts` each, of which every device holds as many as every other one and no choice is likelier than another. A
/// token goes once to each node that holds some of its experts; the device that gets it there hands it on, once to each
/// other device of the node that does. Both run at the same time, and the slower counts. Otherwise as all_to_all_ns().
/// Source: DeepEP (deepseek-ai/DeepEP), its kernels for training.
double node_dispatch_ns(const Cluster& cluster, const NodeGroup& group, const RankGroup& ranks, double bytes,
                        double experts, double top_k);
/// Time in ns in which each rank gets the others' parts of that many bytes in total: R - 1 messages.
double all_gather_ns(const Link& link, int ranks, double bytes);
}  // namespace pipescope
