#include "engine/autograd_driver/autograd_run.h"

#include "engine/autograd_driver/backward_span.h"
#include "engine/autograd_driver/dependency.h"
#include "engine/autograd_driver/graph_node.h"
#include "engine/gradients/chosen_gradients.h"
#include "engine/gradients/gradient_needs.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/lanes/process_end.h"
#include "engine/lanes/task_span.h"
#include "engine/mini_batch.h"
#include "engine/pipeline.h"
#include "engine/step_loss.h"
#include "engine/tsan_annotations.h"
#include "schedule/gpipe_schedule.h"
#include "schedule/micro_batches.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace pipescope {
namespace {
LaneId lane_of(int partition) {
    return LaneId{partition};
}

/// Edges to the tensors that require a gradient.
std::vector<torch::autograd::Edge> edges_of(const Tensors& tensors) {
    std::vector<torch::autograd::Edge> edges;
    for (const at::Tensor& tensor : tensors) {
        if (tensor.defined() && tensor.requires_grad()) {
            edges.push_back(torch::autograd::impl::gradient_edge(tensor));
        }
    }
    return edges;
}
}  // namespace

AutogradRun::AutogradRun(std::shared_ptr<Pipeline> pipeline, const Tensors& input, RunFor purpose)
    : input_(input), pipeline_(*pipeline), output_reuse_(pipeline_.partitions().size()) {
    const std::vector<std::int64_t> sizes = micro_batch_sizes(batch_size(input), pipeline_.options().chunks);
    m_ = static_cast<int>(sizes.size());
    graph_ = pipeline_.graph(m_, true);
    const StepNumber number = pipeline_.take_number(purpose == RunFor::training);
    std::vector<Tensors> parts = split(input, sizes);
    forward_ = std::make_shared<const AutogradForward>(
        AutogradForward{std::move(pipeline), std::make_shared<at::ThreadLocalState>(), number.step, number.random_step,
                        std::make_shared<NonStandardException>(), std::make_shared<InputVersions>(input, parts, true)});
    for (Tensors& part : parts) {
        fronts_.push_back({.tensors = std::move(part), .skips = std::vector<Skip>(pipeline_.skips().skips().size())});
    }
}

bool AutogradRun::is_checkpointed(int micro_batch) const {
    return pipescope::is_checkpointed(pipeline_.options().checkpoint, MicroBatchId{micro_batch}, m_);
}

Tensors AutogradRun::forward() {
    if (!pipeline_.devices().on_host()) {
        pipeline_.devices().begin(fronts_[0].tensors);
    }
    const int n = static_cast<int>(pipeline_.partitions().size());
    for (const std::vector<Cell>& cycle : clock_cycles(m_, n)) {
        std::vector<int> micro_batch_of(static_cast<std::size_t>(n), -1);
        for (const Cell& cell : cycle) {
            const int i = static_cast<int>(cell.i.value());
            const int j = static_cast<int>(cell.j.value());
            micro_batch_of[cell.j.index()] = i;
            if (i > 0 && pipeline_.options().autograd.dependency) {
                tie_to_previous(i);
            }
            bring_to(j, i);
        }
        pipeline_.lanes().run([&](LaneId lane) { run_on_lane(lane, micro_batch_of); });
        rethrow_first_failure();
        for (const Cell& cell : cycle) {
            finish(static_cast<int>(cell.i.value()), static_cast<int>(cell.j.value()));
        }
    }
    join_caller();
    forward_->input_versions->update_input();
    forward_->input_versions->guard(input_);
    std::vector<Tensors> outputs;
    for (Front& front : fronts_) {
        outputs.push_back(std::move(front.tensors));
    }
    return gather(std::move(outputs));
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

at::Tensor AutogradRun::step(const Tensors& target, const GPipe::LossFunction& loss) {
    const Tensors outputs = forward();
    Tensors leaves;
    for (const at::Tensor& output : outputs) {
        leaves.push_back(output.detach().set_requires_grad(output.requires_grad()));
    }
    const std::vector<std::int64_t> whole_batch;
    const PartitionId last{static_cast<std::int64_t>(pipeline_.partitions().size()) - 1};
    Tensors own_target;
    for (const at::Tensor& tensor : target) {
        own_target.push_back(tensor.defined() ? tensor.to(pipeline_.devices().of(pipeline_.lane_of(last)).device())
                                              : tensor);
    }
    StepLoss step_loss(own_target, loss, LossScope::mini_batch, pipeline_.options().reduction, whole_batch);
    const TaskKey key = forward_->key(TaskKind::loss, MicroBatchId{-1}, last);
    torch::autograd::variable_list roots, gradients;
    try {
        const TaskSpan span(key, pipeline_.lane_of(last), false, pipeline_.observer());
        const Tensors all = step_loss.run(-1, leaves);
        for (std::size_t k = 0; k < all.size(); ++k) {
            if (all[k].defined()) {
                roots.push_back(outputs[k]);
                gradients.push_back(all[k]);
            }
        }
    } catch (...) {
        pipeline_.set_last_failure(pipeline_.failure_at(key, pipeline_.lane_of(last), LayerId{-1}));
        throw;
    }
    try {
        torch::autograd::backward(roots, gradients);
    } catch (...) {
        tsan_acquire(forward_.get());
        if (const std::exception_ptr thrown = forward_->non_standard_exception->take()) {
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
void AutogradRun::tie_to_previous(int micro_batch) {
    Front& front = fronts_[static_cast<std::size_t>(micro_batch)];
    Front& previous = fronts_[static_cast<std::size_t>(micro_batch) - 1];
    Forked forked = fork(previous.tensors);
    previous.tensors = std::move(forked.tensors);
    front.tensors = join(front.tensors, forked.phony);
}

void AutogradRun::bring_to(int partition, int micro_batch) {
    Front& front = fronts_[static_cast<std::size_t>(micro_batch)];
    if (partition > 0) {
        if (pipeline_.options().autograd.portals) {
            bring_skips_to(partition, micro_batch);
        }
        bring_all_to(partition, micro_batch);
    } else {
        front.arrivals = std::make_shared<GradientArrivals>();
        if (!pipeline_.devices().on_host()) {
            Crossed entered = enter(forward_, lane_of(0), front.tensors);
            front.tensors = std::move(entered.tensors);
            input_read_ = std::move(entered.ready);
        }
    }
}

Crossing AutogradRun::crossing_of(TaskKind kind, int micro_batch, int from, int to) const {
    const TaskKey key = forward_->key(kind, MicroBatchId{micro_batch}, PartitionId{from});
    return {.forward = key, .from = lane_of(from), .to = lane_of(to), .back_to = {}, .receiver = nullptr};
}

/// Crosses one boundary. Without portals, skips travel with the batch through every partition between.
void AutogradRun::bring_all_to(int partition, int micro_batch) {
    Front& front = fronts_[static_cast<std::size_t>(micro_batch)];
    Crossing crossing = crossing_of(TaskKind::copy_forward, micro_batch, partition - 1, partition);
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
void AutogradRun::bring_skips_to(int partition, int micro_batch) {
    Front& front = fronts_[static_cast<std::size_t>(micro_batch)];
    for (const std::size_t k : pipeline_.skips().of(PartitionId{partition}).incoming) {
        Skip& skip = front.skips[k];
        const auto from = static_cast<int>(pipeline_.skips().routes()[k].from.value());
        Crossing crossing = crossing_of(TaskKind::skip_forward, micro_batch, from, partition);
        crossing.forward.skip = static_cast<int>(k);
        crossing.back_to = {skip.arrivals};
        crossing.receiver = std::make_shared<GradientArrivals>();  // a popped skip goes no further
        Crossed crossed = cross(forward_, std::move(crossing), {skip.tensor}, skip.ready);
        skip.tensor = std::move(crossed.tensors[0]);
        skip.ready = std::move(crossed.ready);
    }
}

void AutogradRun::run_on_lane(LaneId lane, const std::vector<int>& micro_batch_of) {
    const int micro_batch = micro_batch_of[lane.index()];
    if (micro_batch < 0) {
        return;
    }
    const AtWork at_work;
    const at::ThreadLocalStateGuard as_caller(*forward_->caller);
    at::autocast::set_autocast_cache_enabled(false);  // its casts would outlive the micro-batch
    const TaskKey key = forward_->key(TaskKind::forward, MicroBatchId{micro_batch}, PartitionId{lane.value()});
    const LaneDevice& device = pipeline_.devices().of(lane);
    const OnLaneDevice on_device(device);
    Front& front = fronts_[static_cast<std::size_t>(micro_batch)];
    LayerId running{-1};
    try {
        device.wait(front.ready);
        for (const std::size_t skip : pipeline_.skips().of(PartitionId{key.partition}).incoming) {
            device.wait(front.skips[skip].ready);
        }
        const TaskSpan span(key, lane, is_checkpointed(micro_batch), pipeline_.observer());
        run_forward(micro_batch, key.partition, running);
        front.ready = device.record();
    } catch (...) {  // a layer's exception reaches the caller unchanged
        failure_.add(graph_->find(key).value(), std::current_exception(), pipeline_.failure_at(key, lane, running));
    }
}

void AutogradRun::run_forward(int micro_batch, int partition, LayerId& running) {
    Partition& layers = pipeline_.partitions()[static_cast<std::size_t>(partition)];
    Front& front = fronts_[static_cast<std::size_t>(micro_batch)];
    const RandomPlace place = forward_->place(MicroBatchId{micro_batch});
    Tensors inputs = inputs_of(micro_batch, partition);
    if (micro_batch == 0) {
        layers.begin_mini_batch();
    }
    if (!is_checkpointed(micro_batch)) {
        const at::AutoGradMode grad_mode(true);
        const TaskKey backward = forward_->key(TaskKind::backward, MicroBatchId{micro_batch}, PartitionId{partition});
        // The partition's backward runs between these two nodes.
        const LaneId lane = lane_of(partition);
        TaskObserver* const observer = pipeline_.observer();
        inputs = send_through(
            "PartitionInput", [](const Tensors&) { close_backward_span(); }, inputs);
        const std::vector<torch::autograd::Edge> own_start = edges_of(inputs);
        const Tensors given = partition == 0 ? inputs : Tensors{};
        const Tensors outputs = layers.forward(std::move(inputs), place, running);
        if (partition == 0) {
            forward_->input_versions->note_history(micro_batch, given);
        }
        const std::vector<torch::autograd::Edge> own_ends = edges_of(outputs);  // edges keep a leaf's node alive
        own_leaf_gradients(own_ends, own_start.empty() ? nullptr : own_start.front().function.get());
        // A parameter requested alone would get only this micro-batch's part of its gradient, since the other
        // micro-batches' nodes do not lead to it.
        const bool others_are_checkpointed = is_checkpointed(0);
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
    } else {
        if (layers.trains() || any_requires_grad(inputs)) {
            front.recomputation =
                std::make_shared<Recomputation>(forward_, MicroBatchId{micro_batch}, PartitionId{partition}, inputs);
        }
        {
            const at::NoGradGuard no_grad;
            front.outputs = layers.forward(inputs, place, running);
        }
        if (front.recomputation) {
            front.outputs = attach_checkpoint(front.recomputation, pipeline_.devices().of(lane_of(partition)).device(),
                                              inputs, front.outputs);
        }
    }
    forward_->input_versions->check(micro_batch);
    output_reuse_[static_cast<std::size_t>(partition)].add(layers, micro_batch, front.outputs);
    front.outputs = wait_for_gradients(forward_, lane_of(partition), front.arrivals, front.outputs);
    if (micro_batch == m_ - 1) {
        layers.end_mini_batch();
    }
}

Tensors AutogradRun::inputs_of(int micro_batch, int partition) const {
    const Front& front = fronts_[static_cast<std::size_t>(micro_batch)];
    Tensors inputs;
    for (const std::size_t skip : pipeline_.skips().of(PartitionId{partition}).incoming) {
        front.skips[skip].stashed.check(front.skips[skip].tensor, pipeline_.skips().skips()[skip].name);
        inputs.push_back(front.skips[skip].tensor);
    }
    inputs.insert(inputs.end(), front.tensors.begin(), front.tensors.end());
    return inputs;
}

/// Turns the outputs of a finished lane into the inputs of the next.
void AutogradRun::finish(int micro_batch, int partition) {
    Front& front = fronts_[static_cast<std::size_t>(micro_batch)];
    Tensors outputs = std::exchange(front.outputs, {});
    if (const auto recomputation = std::exchange(front.recomputation, nullptr)) {
        outputs = attach_recompute(recomputation, outputs);
    }
    const PartitionSkips& skips = pipeline_.skips().of(PartitionId{partition});
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
