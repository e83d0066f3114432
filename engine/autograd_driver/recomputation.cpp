#include "engine/autograd_driver/recomputation.h"

#include "engine/autograd_driver/backward_span.h"
#include "engine/autograd_driver/dependency.h"
#include "engine/autograd_driver/graph_node.h"
#include "engine/engine_error.h"
#include "engine/gradient_needs.h"
#include "engine/pipeline.h"
#include "engine/task_span.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>

#include <exception>
#include <utility>

namespace pipescope {
namespace {
bool is_standard(const std::exception_ptr& exception) {
    try {
        std::rethrow_exception(exception);
    } catch (const std::exception&) {
        return true;
    } catch (...) {
        return false;
    }
}
}  // namespace

RandomPlace AutogradForward::place(MicroBatchId micro_batch) const {
    return {pipeline->options().seed, random_step, micro_batch};
}

TaskKey AutogradForward::key(TaskKind kind, MicroBatchId micro_batch, PartitionId partition) const {
    return {step, kind, static_cast<int>(partition.value()), static_cast<int>(micro_batch.value()), -1};
}

Recomputation::Recomputation(std::shared_ptr<const AutogradForward> forward, MicroBatchId micro_batch,
                             PartitionId partition, const Tensors& inputs)
    : forward_(std::move(forward)), micro_batch_(micro_batch), partition_(partition) {
    for (const at::Tensor& input : inputs) {
        inputs_.push_back(input.defined() ? input.detach().set_requires_grad(input.requires_grad()) : input);
    }
}

void Recomputation::recompute() {
    if (state_ == State::used) {
        throw EngineError(
            "backward runs through this output a second time; a checkpointed micro-batch is freed as it goes "
            "backward; call forward() again, or use checkpoint never");
    }
    close_backward_span();
    Pipeline& pipeline = *forward_->pipeline;
    const LaneId lane = pipeline.lane_of(partition_);
    const TaskKey key = forward_->key(TaskKind::recompute, micro_batch_, partition_);
    const TaskSpan span(key, lane, false, pipeline.observer());
    const at::ThreadLocalStateGuard as_caller(*forward_->caller);
    const OnLaneDevice on_device(pipeline.devices().of(lane));
    at::autocast::set_autocast_cache_enabled(false);
    const at::AutoGradMode grad_mode(true);
    Tensors inputs = graph_.open(std::exchange(inputs_, {}));
    LayerId running{-1};
    try {
        Partition& partition = pipeline.partitions()[partition_.index()];
        graph_.close(partition.recompute(std::move(inputs), forward_->place(micro_batch_), running));
    } catch (...) {
        pipeline.set_last_failure(pipeline.failure_at(key, lane, running));
        if (pipeline.devices().of(lane).is_accelerator() && !is_standard(std::current_exception())) {
            throw EngineError(
                "a layer threw something that is no std::exception while it was recomputed; autograd's thread of a "
                "device would end the program; throw a std::exception, or use driver scheduled");
        }
        throw;
    }
    state_ = State::recomputed;
}

Tensors Recomputation::backward(Tensors gradients) {
    if (at::GradMode::is_enabled()) {
        throw EngineError(
            "create_graph is on; a checkpointed micro-batch has no gradient of its gradients; turn it off, or use "
            "checkpoint never");
    }
    if (state_ != State::recomputed) {
        recompute();
    }
    close_backward_span();
    const TaskSpan span(forward_->key(TaskKind::backward, micro_batch_, partition_),
                        forward_->pipeline->lane_of(partition_), false, forward_->pipeline->observer());
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    state_ = State::used;
    Tensors input_gradients = std::exchange(graph_, {}).backward(std::move(gradients));
    if (const LaneDevice& lane = forward_->pipeline->devices().of(forward_->pipeline->lane_of(partition_));
        lane.is_accelerator()) {
        // The inner graph's leaves are on the lane's stream; those who called backward() are on another.
        torch::autograd::Engine::get_default_engine().queue_callback(
            [done = lane.record(), device = lane.device()] { done.block(current_stream(device)); });
    }
    return input_gradients;
}

void Recomputation::release() {
    state_ = State::used;
    inputs_.clear();
    graph_ = {};
}

Tensors attach_checkpoint(const std::shared_ptr<Recomputation>& recomputation, const Tensors& inputs,
                          const Tensors& outputs) {
    std::vector<bool> differentiable;
    for (const at::Tensor& output : outputs) {
        differentiable.push_back(can_carry_gradient(output));
    }
    return attach(
        {"Checkpoint", [recomputation](Tensors gradients) { return recomputation->backward(std::move(gradients)); },
         [recomputation] { recomputation->release(); }},
        inputs, outputs, differentiable);
}

Tensors attach_recompute(const std::shared_ptr<Recomputation>& recomputation, const Tensors& outputs) {
    Forked forked = fork(outputs);
    if (!forked.phony.defined()) {
        return outputs;
    }
    return join(
        forked.tensors,
        send_through("Recompute", [recomputation](const Tensors&) { recomputation->recompute(); }, {forked.phony})[0]);
}
}  // namespace pipescope
