#pragma once

#include "engine/output_reuse.h"
#include "engine/partition.h"
#include "engine/pipeline.h"
#include "engine/step_loss.h"
#include "engine/step_tensors.h"
#include "schedule/task_graph.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// Determines a run's random numbers, and whether it keeps tensors for backward.
struct StepKind {
    bool trains = false;
    std::int64_t random_step = 0;  ///< differs between any two forwards of a model
};

/// Runs the tasks of one mini-batch, one at a time; StepRun decides when. Threading: that of StepTensors.
class StepTasks {
public:
    /// Borrows the pipeline. `input` is cut into `sizes`.
    StepTasks(Pipeline& pipeline, StepKind kind, const Tensors& input, std::vector<std::int64_t> sizes);

    StepTensors& tensors() noexcept { return tensors_; }
    /// True if the micro-batch keeps only its inputs in forward.
    bool is_checkpointed(int micro_batch) const;

    /// Runs a forward, recompute or backward. Sets `running` to the running layer, if any.
    void run(const TaskKey& key, LayerId& running);
    void run_loss(const TaskKey& key, StepLoss& loss);
    /// Passes the output of the copy's producer to the receiving lane.
    void run_copy(const Task& copy);

private:
    void run_forward(int micro_batch, int partition, LayerId& running);
    void run_recompute(int micro_batch, int partition, LayerId& running);
    void run_backward(int micro_batch, int partition);
    Tensors boundary(const Tensors& outputs, bool may_require) const;
    Partition& partition_at(int j) { return pipeline_.partitions()[static_cast<std::size_t>(j)]; }
    RandomPlace place_of(int micro_batch) const {
        return {pipeline_.options().seed, kind_.random_step, MicroBatchId{micro_batch}};
    }

    Pipeline& pipeline_;
    const StepKind kind_;
    StepTensors tensors_;
    std::vector<OutputReuse> output_reuse_;  // by partition
};
}  // namespace pipescope
