#pragma once

#include "base/ids.h"
#include "engine/first_failure.h"
#include "engine/gradients/micro_batch_graph.h"
#include "engine/in_place_checks.h"
#include "engine/input_versions.h"
#include "engine/layer.h"
#include "engine/partition.h"
#include "schedule/task_key.h"

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace at {
class ThreadLocalState;
}

namespace pipescope {
class Pipeline;

/// State shared by all nodes of one forward.
struct AutogradForward {
    std::shared_ptr<Pipeline> pipeline;
    /// Grad mode and autocast, which backward's threads lack.
    std::shared_ptr<const at::ThreadLocalState> caller;
    std::int32_t step;
    std::int64_t random_step;  ///< as counted by RandomPlace
    /// An exception that a layer threw during backward, if it is no std::exception: torch's engine cannot pass it on
    /// and gets a stand-in.
    std::shared_ptr<FirstFailure> non_standard;
    std::shared_ptr<InputVersions> input_versions;
    /// Noted at the forward's end, and checked by the first recompute: a layer's recompute may change its parameters.
    std::shared_ptr<ParameterVersions> parameter_versions;
    std::shared_ptr<std::once_flag> parameters_checked;

    RandomPlace place(MicroBatchId micro_batch) const;
    TaskKey key(TaskKind kind, Cell at) const;
};

/// A micro-batch on a partition whose graph was not kept: its inputs and, once recomputed, its graph.
/// Threading: one thread at a time, the one in which autograd runs the nodes.
class Recomputation {
public:
    Recomputation(std::shared_ptr<const AutogradForward> forward, Cell at, const Tensors& inputs);

    /// For the forward to fill.
    CheckpointedForward& checkpoint() noexcept { return checkpoint_; }
    /// Runs the forward again, with a graph. Call once.
    void recompute();
    /// Parameters with hooks. Their gradients continue through the caller's graph, which sums those of all
    /// micro-batches.
    const std::vector<at::Tensor>& hooked() const noexcept { return hooked_; }
    /// Takes the gradients of the outputs; returns those of the inputs, then of hooked(). Adds those of other
    /// parameters to their .grad.
    Tensors backward(Tensors gradients);
    void release();

private:
    void compute_again();
    /// For a catch block: throws an exception that torch's engine can pass on.
    [[noreturn]] void fail() const;

    std::shared_ptr<const AutogradForward> forward_;
    const Cell at_;
    RecomputeInputs inputs_;
    CheckpointedForward checkpoint_;
    const std::size_t num_inputs_;
    std::vector<at::Tensor> hooked_;
    MicroBatchGraph graph_;
    enum class State { waiting, recomputed, used } state_ = State::waiting;
};

/// Puts the checkpoint's node after the outputs of a forward without gradients; its backward runs the recomputed graph.
/// Without a graph, which outputs require a gradient is unknown, so every output that can does.
/// `lane` is the lane's device; call on its stream.
Tensors attach_checkpoint(const std::shared_ptr<Recomputation>& recomputation, c10::Device lane, Tensors inputs,
                          const Tensors& outputs);

/// Ties the recompute's node to the outputs, so that backward recomputes before it passes the checkpoint and before it
/// waits for the gradient. Source: torchgpipe (arXiv 2004.09910), section 3.2.3.
Tensors attach_recompute(const std::shared_ptr<Recomputation>& recomputation, const Tensors& outputs);
}  // namespace pipescope
