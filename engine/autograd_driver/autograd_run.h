#pragma once

#include "engine/autograd_driver/crossing.h"
#include "engine/autograd_driver/recomputation.h"
#include "engine/first_failure.h"
#include "engine/in_place_checks.h"
#include "engine/layer.h"
#include "engine/pipeline.h"
#include "schedule/task_graph.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace pipescope {
/// One forward by the paper's driver: the clock-cycles run the forwards on the lanes, one cycle after the other, and
/// build one connected autograd graph. The caller's backward() takes its order from that graph. Phony edges add the
/// order that the data leaves open: micro-batches go backward last first on every partition, and a partition recomputes
/// before it waits for its gradient.
///
/// On a CPU, autograd runs a graph in the thread that called backward(), so lanes overlap in the forward only. On
/// accelerators each device's autograd thread only launches, and the lanes' streams overlap.
/// Threading: as StepRun. Errors: the first failing task's exception in schedule order, unchanged.
/// Source: torchgpipe (arXiv 2004.09910), sections 3.2 and 3.3.
class AutogradRun {
public:
    /// Throws EngineError if the input cannot be cut. Borrows the input.
    AutogradRun(std::shared_ptr<Pipeline> pipeline, const Tensors& input, RunFor purpose);

    /// The gathered output, in the caller's graph.
    Tensors forward();
    /// Forward, the loss on the gathered output, and backward in the calling thread; returns the loss, detached.
    at::Tensor step(const Tensors& target, const LossFunction& loss);

private:
    /// A skip in flight: on the lane that stashed it, or, without portals, on the micro-batch's lane.
    struct Skip {
        at::Tensor tensor;
        StreamEvent ready;
        std::shared_ptr<GradientArrivals> arrivals;  ///< of the partition that stashed it
        StashedVersion stashed;
    };
    /// A micro-batch at the boundary it has reached.
    struct Front {
        Tensors tensors;
        std::vector<Skip> skips = {};                            ///< by SkipLayout::routes(); only those in flight
        Tensors outputs = {};                                    ///< of the partition just run: skips, then tensors
        std::shared_ptr<Recomputation> recomputation = nullptr;  ///< null if the graph was kept
        StreamEvent ready = {};                                  ///< of the tensors and the skips that came with them
        std::shared_ptr<GradientArrivals> arrivals = nullptr;    ///< of the current or previous partition
    };

    Front& front(MicroBatchId i) { return fronts_[i.index()]; }
    void order_after_previous(MicroBatchId i);
    void move_to(Cell at);
    void move_skips_to(Cell at);
    void move_all_to(Cell at);
    void run_task(Cell at);
    void run_forward(Cell at);
    Tensors inputs_of(Cell at) const;
    void finish(Cell at);
    Crossing crossing_of(TaskKind kind, MicroBatchId i, PartitionId from, PartitionId to) const;
    void ask_caller();
    void check_kept_outputs();
    void join_caller();
    void rethrow_first_failure();
    bool is_checkpointed(MicroBatchId i) const;

    const Tensors& input_;
    std::shared_ptr<const AutogradForward> forward_;
    Pipeline& pipeline_;
    const std::shared_ptr<const MiniBatchSplit> split_;
    int m_;
    std::shared_ptr<const TaskGraph> graph_;
    std::vector<Front> fronts_;  // by micro-batch
    StreamEvent input_read_;
    std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
    FirstFailure failure_;
    std::vector<OutputReuse> output_reuse_;  // by partition
    std::vector<KeptOutputs> kept_outputs_;  // by partition
};
}  // namespace pipescope
