#pragma once

#include "balance/profile.h"
#include "schedule/task_graph.h"
#include "simulator/pipeline_options.h"
#include "simulator/task_costs.h"
#include "simulator/task_work.h"

#include <vector>

namespace pipescope {
/// What every micro-batch of a step does on every partition, and who shares memory with whom. (i, j) is micro-batch i
/// on partition j. From the layers' tapes where all of them fit together, across the cuts too; else from the layers'
/// bytes.
class StepMemories {
public:
    /// The arguments must outlive it.
    StepMemories(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                 const TaskGraph& graph);

    const TaskCosts& costs() const { return costs_; }
    const PipelineShape& shape() const { return graph_.shape(); }
    PartitionWork& work(int i, int j);
    bool is_checkpointed(int i) const;

    int last() const { return graph_.shape().num_partitions - 1; }
    LaneId lane_of(int j) const { return graph_.shape().lane_of(PartitionId{j}); }
    bool is_host(LaneId lane) const { return device_of(options_, lane) == "cpu"; }
    /// Lanes of one device hand storages over as they are.
    bool shares_storage(LaneId a, LaneId b) const { return device_of(options_, a) == device_of(options_, b); }

private:
    const PipelineOptions& options_;
    const TaskCosts& costs_;
    const TaskGraph& graph_;
    std::vector<PartitionWork> largest_;   // by partition, of the larger micro-batches
    std::vector<PartitionWork> smallest_;  // of the smaller ones; empty if there are none
};
}  // namespace pipescope
