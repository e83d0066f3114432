#pragma once

#include "profiler/profile/profile.h"
#include "schedule/task_graph.h"
#include "simulator/clock/task_costs.h"
#include "simulator/memory/task_work.h"
#include "simulator/pipeline_options.h"

#include <cstddef>
#include <vector>

namespace pipescope {
/// Memory behaviour of every micro-batch of a step on every partition, and which lanes share storage. (i, j) is
/// micro-batch i on partition j. Uses the layers' tapes if all of them fit together, also across cuts; otherwise the
/// layers' bytes.
class StepMemories {
public:
    /// The arguments must outlive it.
    StepMemories(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                 const TaskGraph& graph);

    PartitionWork& work(Cell at);
    bool is_checkpointed(int i) const;
    /// True if every output of micro-batch i requires a gradient (LayerTape::all_gradients).
    bool outputs_ask(int i) const { return trains_ && is_checkpointed(i); }
    /// Bytes of the gradient that the loss computes for each output of micro-batch i; 0 for none.
    const std::vector<Bytes>& loss_gradients(int i) const {
        return loss_gradients_[kind_of_[static_cast<std::size_t>(i)]];
    }

    int last() const { return graph_.shape().num_partitions - 1; }
    LaneId lane_of(Cell at) const { return graph_.shape().lane_of(at); }
    bool is_host(LaneId lane) const { return runs_on_host(options_.hardware, lane); }
    /// Lanes of one device pass storages on without a copy.
    bool shares_storage(LaneId a, LaneId b) const { return share_device(options_.hardware, a, b, graph_.num_lanes()); }

private:
    const PipelineOptions& options_;
    const TaskGraph& graph_;
    std::vector<std::size_t> kind_of_;               // by micro-batch: index in works_
    std::vector<std::vector<PartitionWork>> works_;  // by kind of micro-batch, then partition
    std::vector<std::vector<Bytes>> loss_gradients_;
    bool trains_ = false;
};
}  // namespace pipescope
