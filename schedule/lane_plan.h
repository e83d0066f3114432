#pragma once

#include "schedule/task_graph.h"

#include <utility>

namespace pipescope {
/// Task (i, j): micro-batch i on partition j.
struct LaneTask {
    int micro_batch;
    int partition;
};

/// Writes a lane's program task by task, and adds the tasks that go with one: the loss right after a forward of the
/// last partition, the recompute right before the backward of a checkpointed micro-batch.
class LanePlan {
public:
    /// `shape` must outlive the plan.
    explicit LanePlan(const PipelineShape& shape) : shape_(shape) {}

    void forward(const LaneTask& task) {
        add(TaskKind::forward, task);
        if (task.partition == shape_.num_partitions - 1) {
            add(TaskKind::loss, task);
        }
    }
    void backward(const LaneTask& task) {
        if (is_checkpointed(shape_.checkpoint, MicroBatchId{task.micro_batch}, shape_.num_micro_batches)) {
            add(TaskKind::recompute, task);
        }
        add(TaskKind::backward, task);
    }
    void backward_weight(const LaneTask& task) { add(TaskKind::backward_weight, task); }
    /// The task alone.
    void add(TaskKind kind, const LaneTask& task) {
        program_.push_back({0, kind, task.partition, task.micro_batch, -1});
    }

    LaneProgram take() { return std::move(program_); }

private:
    const PipelineShape& shape_;
    LaneProgram program_;
};
}  // namespace pipescope
