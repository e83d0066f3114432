#pragma once

#include "schedule/task_graph.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace pipescope {
/// Writes a lane's program task by task, and adds the tasks that go with one: the loss right after a forward of the
/// last partition, the recompute right before the backward of a checkpointed micro-batch.
class LanePlan {
public:
    /// `shape` must outlive the plan.
    explicit LanePlan(const PipelineShape& shape) : shape_(shape) {}

    void forward(Cell at) {
        add(TaskKind::forward, at);
        if (at.j.value() == shape_.num_partitions - 1) {
            add(TaskKind::loss, at);
        }
    }
    void backward(Cell at) {
        if (is_checkpointed(shape_.checkpoint, at.i, shape_.num_micro_batches)) {
            add(TaskKind::recompute, at);
        }
        add(TaskKind::backward, at);
    }
    void backward_weight(Cell at) { add(TaskKind::backward_weight, at); }
    /// The task alone.
    void add(TaskKind kind, Cell at) { program_.push_back({0, kind, at.j.value(), at.i.value(), -1}); }

    /// Position of the next task.
    std::size_t size() const { return program_.size(); }
    /// The tasks from that position on run as one.
    void join_from(std::size_t first) { joints_.push_back({first, program_.size() - first}); }

    LaneProgram take() { return std::move(program_); }
    LaneJoints take_joints() { return std::move(joints_); }

private:
    const PipelineShape& shape_;
    LaneProgram program_;
    LaneJoints joints_;
};

/// A plan for each lane.
class LanePlans {
public:
    /// `shape` must outlive the plans.
    explicit LanePlans(const PipelineShape& shape)
        : shape_(shape), plans_(static_cast<std::size_t>(shape.num_lanes()), LanePlan(shape)) {}

    LanePlan& of(PartitionId partition) { return plans_[shape_.lane_of(partition).index()]; }

    std::vector<LaneProgram> take() {
        std::vector<LaneProgram> programs;
        for (LanePlan& plan : plans_) {
            programs.push_back(plan.take());
        }
        return programs;
    }

private:
    const PipelineShape& shape_;
    std::vector<LanePlan> plans_;
};
}  // namespace pipescope
