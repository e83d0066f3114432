#pragma once

#include "balance/profile.h"
#include "schedule/task_graph.h"
#include "simulator/caching_allocator.h"
#include "simulator/partition_tape.h"
#include "simulator/pipeline_options.h"
#include "simulator/task_costs.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// What the caching allocators of the accelerators reserve while a step runs: every storage of every task, taken and
/// let go in the order of the schedule, in one allocator for each device with a stream for each lane. Storages come
/// from the layers' tapes, or are made up from their bytes where there are none. memory_model.h says when each is held.
/// Simplified: what a task takes and lets go happens when it starts; a received tensor is one block on the receiver's
/// stream; with a split backward the graph goes with the backward of the inputs.
class ReservedMemory {
public:
    /// The arguments must outlive it. Parameters, gradients and optimizer state are there from the start.
    ReservedMemory(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                   const TaskGraph& graph);

    void start(const Task& task);
    void end(const Task& task);

    /// Held by the lane's stream now, and the most so far; 0 on the host.
    Bytes reserved(LaneId lane) const;
    Bytes peak(LaneId lane) const { return peaks_[lane.index()]; }

private:
    using Storage = std::int64_t;  ///< 0: none
    struct Held {
        std::size_t lane = 0;
        CachingAllocator::Block block = 0;
    };
    /// What there is of one micro-batch on one partition.
    struct Cell {
        Storage input = 0;
        Storage gradient = 0;  ///< of the output
        Storage input_gradient = 0;
        std::map<std::int32_t, Storage> blocks;  ///< of the graph, by the tape's numbers
        std::vector<Storage> outputs;
        std::map<std::int32_t, Storage> skips;  ///< by skip, here
    };

    Storage take(LaneId lane, Bytes bytes);
    void let_go(Storage& storage);
    void let_go(std::vector<Storage>& storages);
    void take_constants();
    Cell& cell(int i, int j);
    const PartitionTape& tape(int i, int j) const;
    LaneId lane_of(int j) const { return graph_.shape().lane_of(PartitionId{j}); }
    int last() const { return graph_.shape().num_partitions - 1; }
    bool is_checkpointed_here(int i) const;
    void play_forward(int i, int j, const std::vector<std::int32_t>& events, bool keeps_graph, bool hands_on);
    void play_backward(int i, int j);
    void let_go_of_popped(int i, int j);
    void end_backward(int i, int j);
    void start_loss(int i);
    void end_loss(int i);
    void start_copy(const Task& task);
    void end_copy(const Task& task);
    bool shares_storage(const Task& copy) const;

    const Profile& profile_;
    const PipelineOptions& options_;
    const TaskCosts& costs_;
    const TaskGraph& graph_;
    std::map<std::string, CachingAllocator> allocators_;  // by device; none for the host
    std::map<Storage, Held> held_;
    Storage next_ = 1;
    std::vector<Cell> cells_;
    std::vector<PartitionTape> large_, small_;  // by partition, of the larger and smaller micro-batches
    Storage gathered_ = 0;
    Storage gathered_gradient_ = 0;
    int backwards_left_ = 0;
    std::vector<Bytes> peaks_;
};
}  // namespace pipescope
