#pragma once

#include "cluster/cluster_plan.h"
#include "cluster/layout.h"
#include "hardware/cluster.h"

#include <string>
#include <vector>

namespace pipescope {
/// A device without launches or partly filled turns: 1 flop, or 1 byte, a ns.
inline DeviceType plain_device() {
    DeviceType device;
    device.name = "plain";
    device.flops_per_second = {{"float32", 1e9}, {"bfloat16", 1e9}};
    device.memory_bytes = Bytes{1} << 50;
    device.memory_bytes_per_second = 1e9;
    return device;
}

/// Nodes of four such devices with four ports. Links move 1 byte a ns in a node, 1/2 between nodes.
inline Cluster plain_cluster(int nodes) {
    Cluster cluster;
    cluster.name = "plain";
    NodeGroup group;
    group.device = plain_device();
    group.nodes = nodes;
    group.devices_per_node = 4;
    group.ports_per_node = 4;
    group.link.bytes_per_second = 1e9;
    cluster.groups = {group};
    cluster.between_nodes.bytes_per_second = 0.5e9;
    return cluster;
}

/// A step of the model of that text on the cluster's first group.
inline LayoutStep step_of(const std::string& model, const Cluster& cluster, const Layout& layout) {
    return simulate_layout(parse_language_model(model), cluster, cluster.groups.front(), layout);
}

/// Layouts and steps of a plan's candidates.
inline std::vector<std::string> candidates_of(const ClusterPlan& plan) {
    std::vector<std::string> all;
    for (const ClusterCandidate& each : plan.candidates) {
        all.push_back(each.step.device + " " + to_string(each.step.layout) + " " +
                      to_string(each.step.layout.recompute) + " zero " + std::to_string(each.step.layout.zero) + " " +
                      to_string(each.step.simulation.options.schedule) + " " + std::to_string(each.step.step_ns()));
    }
    return all;
}
}  // namespace pipescope
