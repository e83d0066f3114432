#pragma once

#include "cluster/layout.h"
#include "hardware/hardware.h"
#include "simulator/pipeline_options.h"

#include <vector>

namespace pipescope {
/// The group of each lane of a pipeline.
std::vector<const NodeGroup*> groups_by_lane(const PipelineParts& parts);
/// The link of a ring over devices that hold the same weights, at the rate that the layout's program reaches.
Link copies_link(const Cluster& cluster, const NodeGroup& group, const Layout& layout, const RankGroup& copies);
/// A link over which an all-reduce of a partition's gradients takes as long as these copies need to sum them at the end
/// of the step. With ZeRO 1 each copy gets only the sum of its part, half of an all-reduce. From ZeRO 2 on every
/// backward sums them instead.
Link replica_link_of(const Cluster& cluster, const NodeGroup& group, const Layout& layout, const RankGroup& copies);
/// Sets links and memory limits of a pipeline on these parts. `bytes`: sent from lane to lane.
void set_hardware(Hardware& hardware, const Cluster& cluster, const PipelineParts& parts, const Layout& layout,
                  double bytes);
/// How experts' gradients are summed.
ExpertSums expert_sums_of(const Cluster& cluster, const PipelineParts& parts, const Layout& layout);
/// Time in ns in which both ends of the pipeline sum `bytes` of the tied embedding's gradients.
double tied_sum_ns(const Cluster& cluster, const PipelineParts& parts, const Layout& layout, double bytes);
}  // namespace pipescope
