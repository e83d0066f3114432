#include "engine/autograd_driver/recomputation.h"

#include "engine/autograd_bridge.h"
#include "engine/autograd_driver/backward_span.h"
#include "engine/autograd_driver/dependency.h"
#include "engine/autograd_driver/graph_node.h"
#include "engine/engine_error.h"
#include "engine/first_failure.h"
#include "engine/gradients/gradient_needs.h"
#include "engine/gradients/parameter_hooks.h"
#include "engine/lanes/task_span.h"
#include "engine/pipeline.h"
#include "engine/tsan_annotations.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <exception>
#include <utility>

namespace pipescope {
RandomPlace AutogradForward::place(MicroBatchId micro_batch) const {
    return {pipeline->options().seed, random_step, micro_batch};
}

TaskKey AutogradForward::key(TaskKind kind, Cell at) const {
    return {step, kind, at.j.value(), at.i.value(), -1};
}

Recomputation::Recomputation(std::shared_ptr<const AutogradForward> forward, Cell at, const Tensors& inputs)
    : forward_(std::move(forward)), at_(at), num_inputs_(inputs.size()) {
    Tensors detached;
    for (const at::Tensor& input : inputs) {
        detached.push_back(input.defined() ? input.detach().set_requires_grad(input.requires_grad()) : input);
    }
    inputs_ = RecomputeInputs(std::move(detached), forward_->pipeline->is_training());
    hooked_ = forward_->pipeline->partition(at_.j).trained_parameters();
    std::erase_if(hooked_, [](const at::Tensor& parameter) { return !has_hooks(parameter); });
}

void Recomputation::recompute() {
    tsan_acquire(this);  // its nodes may run on different devices' threads
    try {
        compute_again();
    } catch (...) {
        fail();
    }
    tsan_release(this);
}

void Recomputation::fail() const {
    std::exception_ptr exception = std::current_exception();
    if (!is_standard(exception)) {
        forward_->non_standard->add(0, std::move(exception), {});
        exception = std::make_exception_ptr(EngineError(
            "a layer threw something that is no std::exception while autograd ran it, which passes on nothing else; "
            "throw a std::exception, call step(), or use driver scheduled"));
    }
    tsan_release(forward_.get());  // passes the exception to AutogradRun::step()
    std::rethrow_exception(exception);
}

void Recomputation::compute_again() {
    if (state_ == State::used) {
        throw EngineError(
            "backward runs through this output a second time; a checkpointed micro-batch is freed as it goes "
            "backward; call forward() again, or use checkpoint never");
    }
    close_backward_span();
    forward_->input_versions->update_parts();
    Pipeline& pipeline = *forward_->pipeline;
    std::call_once(*forward_->parameters_checked, [&] { forward_->parameter_versions->check(pipeline.partitions()); });
    const LaneId lane = pipeline.lane_of(at_.j);
    const TaskKey key = forward_->key(TaskKind::recompute, at_);
    const TaskSpan span(key, lane, false, pipeline.observer());
    const at::ThreadLocalStateGuard as_caller(*forward_->caller);
    const OnLaneDevice on_device(pipeline.devices().of(lane));
    at::autocast::set_autocast_cache_enabled(false);
    const at::AutoGradMode grad_mode(true);
    try {
        Partition& partition = pipeline.partition(at_.j);
        Tensors inputs = graph_.open(inputs_.take(partition, pipeline.is_training()), inputs_from(at_.j));
        graph_.close(partition.recompute(std::move(inputs), forward_->place(at_.i), checkpoint_));
    } catch (...) {
        pipeline.set_last_failure(pipeline.failure_at(key, lane));
        throw;
    }
    state_ = State::recomputed;
}

Tensors Recomputation::backward(Tensors gradients) {
    tsan_acquire(this);
    if (at::GradMode::is_enabled()) {
        throw EngineError(
            "create_graph is on; a checkpointed micro-batch has no gradient of its gradients; turn it off, or use "
            "checkpoint never");
    }
    refuse_chosen_gradients();
    if (state_ != State::recomputed) {
        recompute();
    }
    close_backward_span();
    Pipeline& pipeline = *forward_->pipeline;
    const LaneId lane = pipeline.lane_of(at_.j);
    const TaskKey key = forward_->key(TaskKind::backward, at_);
    const TaskSpan span(key, lane, false, pipeline.observer());
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    state_ = State::used;
    try {
        const CheckpointedForward checkpoint = std::exchange(checkpoint_, {});
        const BufferCopies::Exchange as_in_forward(checkpoint.buffers.copies());
        SummedForHooks summed(hooked_);
        Tensors of_inputs = std::exchange(graph_, {}).backward(std::move(gradients));
        of_inputs.resize(num_inputs_);
        for (at::Tensor& sum : summed.take()) {
            of_inputs.push_back(std::move(sum));
        }
        return of_inputs;
    } catch (...) {
        pipeline.set_last_failure(pipeline.failure_at(key, lane));
        fail();
    }
}

void Recomputation::release() {
    tsan_acquire(this);
    state_ = State::used;
    inputs_ = {};
    checkpoint_ = {};
    graph_ = {};
}

Tensors attach_checkpoint(const std::shared_ptr<Recomputation>& recomputation, c10::Device lane, Tensors inputs,
                          const Tensors& outputs) {
    inputs.insert(inputs.end(), recomputation->hooked().begin(), recomputation->hooked().end());
    // Autograd makes the caller of backward() wait for the streams on which its graph ends. The inner graph ends on
    // this one, so a node without gradients behind the checkpoint's makes it known.
    if (!lane.is_cpu()) {
        const at::Tensor phony = at::empty({0}, at::TensorOptions(lane).dtype(at::kFloat));
        inputs.push_back(attach({"LaneEnd", [](const Tensors&) { return Tensors{}; }}, {}, {phony}, {true})[0]);
    }
    std::vector<bool> differentiable;
    for (const at::Tensor& output : outputs) {
        differentiable.push_back(can_carry_gradient(output));
    }
    return attach({"Checkpoint",
                   [recomputation, count = inputs.size()](Tensors gradients) {
                       Tensors of_inputs = recomputation->backward(std::move(gradients));
                       of_inputs.resize(count);
                       return of_inputs;
                   },
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
