#include "engine/autograd_driver/autograd_run.h"

#include "engine/autograd_bridge.h"
#include "engine/autograd_driver/backward_span.h"
#include "engine/autograd_driver/dependency.h"
#include "engine/autograd_driver/graph_node.h"
#include "engine/gradients/gradient_needs.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/gradients/parameter_hooks.h"
#include "engine/lanes/process_end.h"
#include "engine/lanes/task_span.h"
#include "engine/mini_batch.h"
#include "engine/step_loss.h"
#include "engine/torch_internals.h"
#include "engine/tsan_annotations.h"
#include "schedule/clock_cycles.h"
#include "schedule/micro_batches.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
/// This driver runs partition j on lane j.
LaneId lane_of(PartitionId partition) {
    return LaneId{partition.value()};
}

/// Edges to the tensors that require a gradient.
std::vector<torch::autograd::Edge> edges_of(const Tensors& tensors) {
    std::vector<torch::autograd::Edge> edges;
    for (const at::Tensor& tensor : tensors) {
        if (needs_gradient(tensor)) {
            edges.push_back(torch::autograd::impl::gradient_edge(tensor));
        }
    }
    return edges;
}

/// A recompute sums for the hooks of its partition's own parameters only.
void refuse_hooks_of_shared(Pipeline& pipeline) {
    std::vector<at::Tensor> shared = pipeline.shared().parameters();
    for (const Partition& partition : pipeline.partitions()) {
        std::ranges::copy_if(partition.parameters(), std::back_inserter(shared),
                             [&](const at::Tensor& parameter) { return !partition.is_own(parameter); });
    }
    if (std::ranges::any_of(shared, [](const at::Tensor& each) { return each.requires_grad() && has_hooks(each); })) {
        throw UsageError(
            "a parameter that several layers use has a hook, and the driver is autograd with checkpoints, whose "
            "recomputes would call it with parts of the gradient; use driver scheduled, or checkpoint never");
    }
}
}  // namespace

AutogradRun::AutogradRun(std::shared_ptr<Pipeline> pipeline, const Tensors& input, RunFor purpose)
    : input_(input),
      pipeline_(*pipeline),
      split_(pipeline_.split()),
      output_reuse_(pipeline_.partitions().size()),
      kept_outputs_(pipeline_.partitions().size()) {
    const std::vector<std::int64_t> sizes =
        micro_batch_sizes(batch_size(input, split_->input), pipeline_.options().chunks);
    m_ = static_cast<int>(sizes.size());
    pipeline_.shared().begin();
    if (pipeline_.options().checkpoint != Checkpoint::never) {
        refuse_hooks_of_shared(pipeline_);
    }
    graph_ = pipeline_.graph(m_, purpose);
    const StepNumber number = pipeline_.take_number(purpose);
    refuse_made_gradients(input, split_->input);
    std::vector<Tensors> parts = split(input, sizes, split_->input);
    forward_ = std::make_shared<const AutogradForward>(AutogradForward{
        std::move(pipeline), std::make_shared<at::ThreadLocalState>(), number.step, number.random_step,
        std::make_shared<FirstFailure>(), std::make_shared<InputVersions>(input, parts, split_->input, true),
        std::make_shared<ParameterVersions>(), std::make_shared<std::once_flag>()});
    for (Tensors& part : parts) {
        fronts_.push_back({.tensors = std::move(part), .skips = std::vector<Skip>(pipeline_.skips().routes().size())});
    }
}

bool AutogradRun::is_checkpointed(MicroBatchId i) const {
    return pipescope::is_checkpointed(pipeline_.options().checkpoint, i, m_);
}

Tensors AutogradRun::forward() {
    if (!pipeline_.devices().on_host()) {
        pipeline_.devices().begin(fronts_[0].tensors);
    }
    const std::size_t n = pipeline_.partitions().size();
    for (const std::vector<Cell>& cycle : clock_cycles(m_, static_cast<int>(n))) {
        std::vector<std::optional<Cell>> task_of(n);  // by lane
        for (const Cell& at : cycle) {
            task_of[at.j.index()] = at;
            if (at.i.value() > 0 && pipeline_.options().autograd.dependency) {
                order_after_previous(at.i);
            }
            move_to(at);
        }
        pipeline_.lanes().run([&](LaneId lane) {
            if (task_of[lane.index()]) {
                run_task(*task_of[lane.index()]);
            }
        });
        rethrow_first_failure();
        ask_caller();
        for (const Cell& at : cycle) {
            finish(at);
        }
    }
    join_caller();
    forward_->input_versions->update_input();
    forward_->input_versions->guard(input_);
    if (is_checkpointed(MicroBatchId{0})) {
        *forward_->parameter_versions = ParameterVersions(pipeline_.partitions());
    }
    check_kept_outputs();
    std::vector<Tensors> outputs;
    for (Front& front : fronts_) {
        outputs.push_back(std::move(front.tensors));
    }
    return gather(std::move(outputs), split_->output);
}

void AutogradRun::check_kept_outputs() {
    for (const Partition& partition : pipeline_.partitions()) {
        try {
            kept_outputs_[partition.id().index()].check(partition);
        } catch (const LayerError&) {
            const TaskKey key = forward_->key(TaskKind::forward, {MicroBatchId{0}, partition.id()});
            failure_.add(graph_->find(key).value(), std::current_exception(),
                         pipeline_.failure_at(key, lane_of(partition.id())));
        }
    }
    rethrow_first_failure();
}

/// Calls the options' while_waiting, between two cycles of tasks.
void AutogradRun::ask_caller() {
    const auto now = std::chrono::steady_clock::now();
    if (pipeline_.options().while_waiting && now - asked_ > Lanes::Jobs::kPatience) {
        asked_ = now;
        pipeline_.options().while_waiting();
    }
}

/// Orders the caller's streams after the lanes' and lets the caller free the memory.
void AutogradRun::join_caller() {
    if (pipeline_.devices().on_host()) {
        return;
    }
    pipeline_.devices().end();
    for (const Front& front : fronts_) {
        record_callers_stream(front.tensors);
    }
    input_read_.synchronize();
}

at::Tensor AutogradRun::step(const Tensors& target, const LossFunction& loss) {
    const Tensors outputs = forward();
    Tensors leaves;
    for (const at::Tensor& output : outputs) {
        leaves.push_back(output.detach().set_requires_grad(output.requires_grad()));
    }
    StepLoss step_loss(pipeline_, input_, target, loss, LossScope::mini_batch, {});
    const PartitionId last = pipeline_.partitions().back().id();
    const TaskKey key = forward_->key(TaskKind::loss, {MicroBatchId{-1}, last});
    torch::autograd::variable_list roots, gradients;
    try {
        const TaskSpan span(key, lane_of(last), false, pipeline_.observer());
        const Tensors all = step_loss.run(std::nullopt, leaves);
        for (std::size_t k = 0; k < all.size(); ++k) {
            if (all[k].defined()) {
                roots.push_back(outputs[k]);
                gradients.push_back(all[k]);
            }
        }
    } catch (...) {
        pipeline_.set_last_failure(pipeline_.failure_at(key, lane_of(last)));
        throw;
    }
    try {
        torch::autograd::backward(roots, gradients);
    } catch (...) {
        tsan_acquire(forward_.get());
        std::exception_ptr thrown;
        if (forward_->non_standard->take(thrown)) {
            std::rethrow_exception(thrown);
        }
        throw;
    }
    if (!pipeline_.devices().on_host()) {
        pipeline_.devices().end();
    }
    return step_loss.value();
}

/// The previous micro-batch has just left the partition that this one enters. Backward must run in the opposite order.
void AutogradRun::order_after_previous(MicroBatchId i) {
    Front& previous = front(MicroBatchId{i.value() - 1});
    Forked forked = fork(previous.tensors);
    previous.tensors = std::move(forked.tensors);
    front(i).tensors = join(front(i).tensors, forked.phony);
}

void AutogradRun::move_to(Cell at) {
    Front& front = this->front(at.i);
    if (at.j.value() > 0) {
        if (pipeline_.options().autograd.portals) {
            move_skips_to(at);
        }
        move_all_to(at);
    } else {
        front.arrivals = std::make_shared<GradientArrivals>();
        if (!pipeline_.devices().on_host()) {
            Crossed entered = enter(forward_, lane_of(at.j), front.tensors);
            front.tensors = std::move(entered.tensors);
            input_read_ = std::move(entered.ready);
        }
    }
}

Crossing AutogradRun::crossing_of(TaskKind kind, MicroBatchId i, PartitionId from, PartitionId to) const {
    return {.forward = forward_->key(kind, {i, from}),
            .from = lane_of(from),
            .to = lane_of(to),
            .back_to = {},
            .receiver = nullptr};
}

/// Crosses one boundary. Without portals, skips travel with the batch through every partition between.
void AutogradRun::move_all_to(Cell at) {
    Front& front = this->front(at.i);
    Crossing crossing = crossing_of(TaskKind::copy_forward, at.i, PartitionId{at.j.value() - 1}, at.j);
    const std::size_t num_skips = pipeline_.options().autograd.portals ? 0 : front.skips.size();
    Tensors all;
    for (std::size_t skip = 0; skip < num_skips; ++skip) {
        all.push_back(front.skips[skip].tensor);
    }
    all.insert(all.end(), front.tensors.begin(), front.tensors.end());
    crossing.back_to.assign(all.size(), front.arrivals);
    front.arrivals = std::make_shared<GradientArrivals>();
    crossing.receiver = front.arrivals;
    Crossed crossed = cross(forward_, std::move(crossing), all, front.ready);
    for (std::size_t skip = 0; skip < num_skips; ++skip) {
        front.skips[skip].tensor = std::move(crossed.tensors[skip]);
        front.skips[skip].ready = crossed.ready;
    }
    front.tensors.assign(crossed.tensors.begin() + static_cast<std::ptrdiff_t>(num_skips), crossed.tensors.end());
    front.ready = std::move(crossed.ready);
}

/// Moves skips straight from where they were stashed.
void AutogradRun::move_skips_to(Cell at) {
    for (const std::size_t k : pipeline_.skips().of(at.j).incoming) {
        Skip& skip = front(at.i).skips[k];
        Crossing crossing = crossing_of(TaskKind::skip_forward, at.i, pipeline_.skips().routes()[k].from, at.j);
        crossing.forward.skip = static_cast<int>(k);
        crossing.back_to = {skip.arrivals};
        crossing.receiver = std::make_shared<GradientArrivals>();  // a popped skip goes no further
        Crossed crossed = cross(forward_, std::move(crossing), {skip.tensor}, skip.ready);
        skip.tensor = std::move(crossed.tensors[0]);
        skip.ready = std::move(crossed.ready);
    }
}

/// Runs on the partition's lane.
void AutogradRun::run_task(Cell at) {
    const AtWork at_work;
    const at::ThreadLocalStateGuard as_caller(*forward_->caller);
    at::autocast::set_autocast_cache_enabled(false);  // its casts would outlive the micro-batch
    const TaskKey key = forward_->key(TaskKind::forward, at);
    const LaneDevice& device = pipeline_.devices().of(lane_of(at.j));
    const OnLaneDevice on_device(device);
    Front& front = this->front(at.i);
    std::optional<TaskSpan> span;  // still open where the task threw, so that current_task() tells the layer
    try {
        device.wait(front.ready);
        for (const std::size_t skip : pipeline_.skips().of(at.j).incoming) {
            device.wait(front.skips[skip].ready);
        }
        span.emplace(key, lane_of(at.j), is_checkpointed(at.i), pipeline_.observer());
        run_forward(at);
        front.ready = device.record();
    } catch (...) {  // a layer's exception reaches the caller unchanged
        failure_.add(graph_->find(key).value(), std::current_exception(), pipeline_.failure_at(key, lane_of(at.j)));
    }
}

void AutogradRun::run_forward(Cell at) {
    Partition& partition = pipeline_.partition(at.j);
    Front& front = this->front(at.i);
    const RandomPlace place = forward_->place(at.i);
    Tensors inputs = inputs_of(at);
    if (at.i.value() == 0) {
        partition.begin_mini_batch();
    }
    if (!is_checkpointed(at.i)) {
        const at::AutoGradMode grad_mode(true);
        const TaskKey backward = forward_->key(TaskKind::backward, at);
        // The partition's backward runs between these two nodes.
        const LaneId lane = lane_of(at.j);
        TaskObserver* const observer = pipeline_.observer();
        inputs = send_through(
            "PartitionInput", [](const Tensors&) { close_backward_span(); }, inputs);
        const std::vector<torch::autograd::Edge> own_start = edges_of(inputs);
        const Tensors watched = forward_->input_versions->watched(at.j, inputs);
        const Tensors outputs = partition.forward(std::move(inputs), place);
        if (!watched.empty()) {
            forward_->input_versions->note_history(at.i, at.j, watched);
        }
        const std::vector<torch::autograd::Edge> own_ends = edges_of(outputs);  // edges keep a leaf's node alive
        own_leaf_gradients(own_ends, own_start.empty() ? nullptr : own_start.front().function.get());
        // A parameter requested alone would get only this micro-batch's part of its gradient, since the other
        // micro-batches' nodes do not lead to it.
        const bool others_are_checkpointed = is_checkpointed(MicroBatchId{0});
        front.outputs = send_through(
            "PartitionOutput",
            [=, versions = forward_->input_versions](const Tensors&) {
                versions->update_parts();
                if (others_are_checkpointed) {
                    refuse_chosen_gradients();
                }
                open_backward_span(backward, lane, observer);
            },
            outputs);
    } else if (partition.goes_backward(inputs)) {
        front.recomputation = std::make_shared<Recomputation>(forward_, at, inputs);
        {
            const at::NoGradGuard no_grad;
            // A hook that a layer puts on its input belongs to the recompute, whose graph goes backward.
            Tensors given;
            for (const at::Tensor& input : inputs) {
                given.push_back(input.defined() ? input.detach() : input);
            }
            front.outputs = partition.forward(std::move(given), place, nullptr, &front.recomputation->checkpoint());
        }
        front.outputs = attach_checkpoint(front.recomputation, pipeline_.devices().of(lane_of(at.j)).device(), inputs,
                                          front.outputs);
    } else {
        front.outputs = partition.forward_without_backward(std::move(inputs), place);
    }
    forward_->input_versions->check(at.i);
    output_reuse_[at.j.index()].check(partition, at.i, front.outputs, TaskKind::forward);
    kept_outputs_[at.j.index()].note(partition, at.i, front.outputs);
    front.outputs = wait_for_gradients(forward_, lane_of(at.j), front.arrivals, front.outputs);
    if (at.i.value() == m_ - 1) {
        partition.end_mini_batch();
    }
}

Tensors AutogradRun::inputs_of(Cell at) const {
    const Front& front = fronts_[at.i.index()];
    Tensors inputs;
    for (const std::size_t skip : pipeline_.skips().of(at.j).incoming) {
        front.skips[skip].stashed.check(front.skips[skip].tensor, pipeline_.skips().name_of(skip));
        inputs.push_back(front.skips[skip].tensor);
    }
    inputs.insert(inputs.end(), front.tensors.begin(), front.tensors.end());
    return inputs;
}

/// Turns the outputs of a finished lane into the inputs of the next.
void AutogradRun::finish(Cell at) {
    Front& front = this->front(at.i);
    Tensors outputs = std::exchange(front.outputs, {});
    if (const auto recomputation = std::exchange(front.recomputation, nullptr)) {
        outputs = attach_recompute(recomputation, outputs);
    }
    const PartitionSkips& skips = pipeline_.skips().of(at.j);
    for (const std::size_t skip : skips.incoming) {
        front.skips[skip] = {};
    }
    const auto tensors = outputs.begin() + static_cast<std::ptrdiff_t>(skips.outgoing.size());
    for (std::size_t k = 0; k < skips.outgoing.size(); ++k) {
        const StashedVersion stashed(outputs[k]);
        front.skips[skips.outgoing[k]] = {std::move(outputs[k]), front.ready, front.arrivals, stashed};
    }
    front.tensors.assign(std::make_move_iterator(tensors), std::make_move_iterator(outputs.end()));
}

void AutogradRun::rethrow_first_failure() {
    std::exception_ptr exception;
    if (auto failure = failure_.take(exception)) {
        if (!pipeline_.devices().on_host()) {
            pipeline_.devices().abandon();
        }
        forward_->input_versions->update_input();
        fronts_.clear();
        pipeline_.set_last_failure(std::move(*failure));
        std::rethrow_exception(exception);
    }
}
}  // namespace pipescope
