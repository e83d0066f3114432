#include "engine/step_streams.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace pipescope {
namespace {
/// True if only this handle holds the tensor's memory.
bool is_unshared(const at::Tensor& tensor) {
    return tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}
}  // namespace

StepStreams::StepStreams(PipelineDevices& devices, const TaskGraph& graph, StepTensors& tensors, bool trains)
    : devices_(devices),
      graph_(graph),
      tensors_(tensors),
      trains_(trains),
      left_(graph.tasks().size()),
      entered_(tensors.sizes().size()) {}

void StepStreams::before(TaskIndex task) {
    const Task& each = task_at(task);
    if (each.key.kind == TaskKind::forward && each.key.partition == 0) {
        enter(each.key.micro_batch, each.lane);
    }
    for (const TaskIndex dependency : graph_.dependencies(task)) {
        devices_.of(each.lane).wait(left_[dependency].ready);
    }
}

void StepStreams::after(TaskIndex task) {
    const Task& each = task_at(task);
    const StreamEvent done = devices_.of(each.lane).record();
    if (is_awaited(task)) {
        left_[task].ready = done;
    }
    if (each.key.kind == TaskKind::backward) {
        release(task, each.lane, done);
        release(forward_of(each.key), each.lane, done);
    } else if (each.key.kind == TaskKind::forward) {
        trains_ ? release_unshared(task, each.lane, done) : release(task, each.lane, done);
    }
}

/// True if a copy waits for it, or a task of another lane that takes no tensors from it: the loss precedes all
/// backwards.
bool StepStreams::is_awaited(TaskIndex task) const {
    const auto dependents = graph_.dependents(task);
    return std::any_of(dependents.begin(), dependents.end(), [&](TaskIndex dependent) {
        return is_copy(task_at(dependent).key.kind) || task_at(dependent).lane != task_at(task).lane;
    });
}

void StepStreams::run_copy(TaskIndex copy) {
    const Task& each = task_at(copy);
    const std::span<at::Tensor> moved = tensors_.moved_by(each.key);
    Tensors sent(moved.begin(), moved.end());
    const TaskIndex producer = graph_.dependencies(copy).front();
    Arrival arrival = devices_.link(each.lane, each.receiver).send(sent, left_[producer].ready);
    std::copy(arrival.tensors.begin(), arrival.tensors.end(), moved.begin());
    if (arrival.copied) {
        devices_.deferred(each.lane).hold(std::move(sent), arrival.ready);
    }
    left_[copy].ready = arrival.ready;
    if (devices_.of(each.receiver).is_accelerator()) {
        left_[copy].received = std::move(arrival.tensors);
    }
}

/// Copies a micro-batch's input to the first lane when that lane is about to compute on it. The host runs ahead of the
/// device, so the copy overlaps the previous micro-batch.
void StepStreams::enter(int micro_batch, LaneId lane) {
    for (at::Tensor& input : tensors_.input_part(micro_batch)) {
        const c10::Device from = input.device();
        const Arrival arrival = devices_.input_link(from, lane).send({input}, devices_.caller_event(from));
        devices_.of(lane).wait(arrival.ready);
        input = arrival.tensors.front();
        entered_[static_cast<std::size_t>(micro_batch)].push_back(input);
        if (from.is_cpu()) {
            input_read_ = arrival.ready;
        }
    }
}

void StepStreams::wait_for_input() const {
    input_read_.synchronize();
}

TaskIndex StepStreams::forward_of(const TaskKey& key) const {
    return graph_.find({key.step, TaskKind::forward, key.partition, key.micro_batch, -1}).value();
}

void StepStreams::release(TaskIndex reader, LaneId lane, const StreamEvent& done) {
    DeferredRelease& deferred = devices_.deferred(lane);
    for (const TaskIndex dependency : graph_.dependencies(reader)) {
        if (!left_[dependency].received.empty()) {
            deferred.hold(std::exchange(left_[dependency].received, {}), done);
        }
    }
    const TaskKey& key = task_at(reader).key;
    if (key.kind == TaskKind::forward && key.partition == 0) {
        deferred.hold(std::exchange(entered_[static_cast<std::size_t>(key.micro_batch)], {}), done);
    }
}

/// For a forward whose backward follows: autograd may have saved none of its inputs.
void StepStreams::release_unshared(TaskIndex reader, LaneId lane, const StreamEvent& done) {
    Tensors unshared;
    const auto take_from = [&unshared](Tensors& received) {
        const auto end = std::stable_partition(received.begin(), received.end(), [](const at::Tensor& tensor) {
            return !tensor.defined() || !is_unshared(tensor);
        });
        unshared.insert(unshared.end(), std::make_move_iterator(end), std::make_move_iterator(received.end()));
        received.erase(end, received.end());
    };
    for (const TaskIndex dependency : graph_.dependencies(reader)) {
        take_from(left_[dependency].received);
    }
    if (!unshared.empty()) {
        devices_.deferred(lane).hold(std::move(unshared), done);
    }
}
}  // namespace pipescope
