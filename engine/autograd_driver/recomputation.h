#pragma once

#include "engine/input_versions.h"
#include "engine/layer.h"
#include "engine/micro_batch_graph.h"
#include "engine/partition.h"
#include "engine/recompute_inputs.h"
#include "schedule/ids.h"
#include "schedule/task_key.h"

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

namespace at {
class ThreadLocalState;
}

namespace pipescope {
class Pipeline;

/// What a layer threw while backward ran it, where that is no std::exception: torch's engine can only pass on those, so
/// it gets a stand-in. Any thread.
class OddException {
public:
    void keep(std::exception_ptr exception);
    /// Null where there is none.
    std::exception_ptr take();

private:
    std::mutex mutex_;
    std::exception_ptr exception_;
};

/// What all nodes of one forward share.
struct AutogradForward {
    std::shared_ptr<Pipeline> pipeline;
    /// Grad mode and autocast, which backward's threads do not have.
    std::shared_ptr<const at::ThreadLocalState> caller;
    std::int32_t step;
    std::int64_t random_step;  ///< as RandomPlace counts them
    std::shared_ptr<OddException> odd_exception;
    std::shared_ptr<InputVersions> input_versions;

    RandomPlace place(MicroBatchId micro_batch) const;
    TaskKey key(TaskKind kind, MicroBatchId micro_batch, PartitionId partition) const;
};

/// A micro-batch on a partition whose graph was not kept: its inputs, and the graph once it is computed again.
/// Threading: one thread at a time, that in which autograd runs the nodes.
class Recomputation {
public:
    Recomputation(std::shared_ptr<const AutogradForward> forward, MicroBatchId micro_batch, PartitionId partition,
                  const Tensors& inputs);

    /// Computes the forward again, with a graph; once.
    void recompute();
    /// Parameters with hooks: their gradients go on through the caller's graph, where all micro-batches' are summed.
    const std::vector<at::Tensor>& hooked() const noexcept { return hooked_; }
    /// Gradients of the outputs in; of the inputs out, then of hooked(). Those of other parameters are added to their
    /// .grad.
    Tensors backward(Tensors gradients);
    void release();

private:
    void compute_again();
    /// From a catch block: throws what torch's engine can pass on.
    [[noreturn]] void fail() const;

    std::shared_ptr<const AutogradForward> forward_;
    MicroBatchId micro_batch_;
    PartitionId partition_;
    RecomputeInputs inputs_;
    const std::size_t num_inputs_;
    std::vector<at::Tensor> hooked_;
    MicroBatchGraph graph_;
    enum class State { waiting, recomputed, used } state_ = State::waiting;
};

/// Puts the checkpoint's node behind what a forward without gradients returned: its backward runs the recomputed
/// graph. Without a graph nobody knows which output would require a gradient; any that can does.
/// `lane` is its device; call on its stream.
Tensors attach_checkpoint(const std::shared_ptr<Recomputation>& recomputation, c10::Device lane, Tensors inputs,
                          const Tensors& outputs);

/// Ties the recompute's node to the outputs, so that backward computes again before it goes through the checkpoint, and
/// before the gradient's arrival is waited for. Source: torchgpipe (arXiv 2004.09910), section 3.2.3.
Tensors attach_recompute(const std::shared_ptr<Recomputation>& recomputation, const Tensors& outputs);
}  // namespace pipescope
