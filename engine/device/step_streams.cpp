#include "engine/device/step_streams.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pipescope {
namespace {
/// True if only this handle holds the tensor's memory.
bool is_unshared(const at::Tensor& tensor) {
    return tensor.use_count() == 1 && tensor.has_storage() && tensor.storage().use_count() == 1;
}
}  // namespace

std::unique_ptr<StepDevices> step_devices(PipelineDevices& devices, const TaskGraph& graph, bool trains) {
    if (devices.on_host()) {
        return std::make_unique<StepDevices>();
    }
    return std::make_unique<StepStreams>(devices, graph, trains);
}

StepStreams::StepStreams(PipelineDevices& devices, const TaskGraph& graph, bool trains)
    : devices_(devices),
      graph_(graph),
      trains_(trains),
      results_(graph.tasks().size()),
      entered_(static_cast<std::size_t>(graph.shape().num_micro_batches)),
      weights_read_(graph.shape().shared.size()) {}

void StepStreams::end() {
    devices_.end();
    // The caller's optimizer writes what these copies have read; a lane on the host knows of them, but no stream.
    for (const auto& [lane, read] : weights_read_) {
        if (devices_.of(lane).is_accelerator()) {
            read.block(current_stream(devices_.of(lane).device()));
        }
    }
    input_read_.synchronize();
}

void StepStreams::enter(MicroBatchId micro_batch, LaneId lane, Tensors& inputs) {
    for (at::Tensor& input : inputs) {
        const c10::Device from = input.device();
        const Arrival arrival = devices_.input_link(from, lane).send({input}, devices_.caller_event(from));
        devices_.of(lane).wait(arrival.ready);
        input = arrival.tensors.front();
        entered_[micro_batch.index()].push_back(input);
        if (from.is_cpu()) {
            input_read_ = arrival.ready;
        }
    }
}

void StepStreams::before(TaskIndex task) {
    for (const TaskIndex dependency : graph_.dependencies(task)) {
        devices_.of(task_at(task).lane).wait(results_[dependency].ready);
    }
}

void StepStreams::after(TaskIndex task) {
    const Task& each = task_at(task);
    const StreamEvent done = devices_.of(each.lane).record();
    if (is_awaited(task)) {
        results_[task].ready = done;
    }
    const bool is_split = each.key.kind == TaskKind::backward && graph_.is_split(task);
    if (each.key.kind == TaskKind::backward_weight || (each.key.kind == TaskKind::backward && !is_split)) {
        for (const TaskKind reader : {TaskKind::backward, TaskKind::forward}) {
            TaskKey key = each.key;
            key.kind = reader;
            release(graph_.find(key).value(), each.lane, done);
        }
    } else if (each.key.kind == TaskKind::shared_sum) {
        release(task, each.lane, done);
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

void StepStreams::run_copy(TaskIndex copy, std::span<at::Tensor> moved) {
    const Task& each = task_at(copy);
    Tensors sent(moved.begin(), moved.end());
    const TaskIndex producer = graph_.dependencies(copy).front();
    Arrival arrival = devices_.link(each.lane, each.receiver).send(sent, results_[producer].ready);
    std::copy(arrival.tensors.begin(), arrival.tensors.end(), moved.begin());
    if (arrival.copied) {
        devices_.deferred(each.lane).hold(std::move(sent), arrival.ready);
    }
    results_[copy].ready = arrival.ready;
    note_read_weights(each, arrival.ready);
    if (devices_.of(each.receiver).is_accelerator()) {
        results_[copy].received = std::move(arrival.tensors);
    }
}

void StepStreams::note_read_weights(const Task& copy, const StreamEvent& read) {
    if (copy.key.kind == TaskKind::shared_forward) {
        weights_read_[static_cast<std::size_t>(copy.key.skip)] = {copy.lane, read};
    }
}

void StepStreams::release(LaneId lane, Tensors read) {
    if (!read.empty() && devices_.of(lane).is_accelerator()) {
        devices_.deferred(lane).hold(std::move(read), devices_.of(lane).record());
    }
}

StreamEvent StepStreams::send(TaskIndex copy, Tensors sent, const std::function<void(const LaneLink*)>& pack) {
    const Task& each = task_at(copy);
    const LaneLink& link = devices_.link(each.lane, each.receiver);
    if (!link.copies()) {
        pack(nullptr);
        return {};
    }
    const TaskIndex producer = graph_.dependencies(copy).front();
    const StreamEvent done = link.run(results_[producer].ready, [&] { pack(&link); });
    devices_.deferred(each.lane).hold(std::move(sent), done);
    note_read_weights(each, done);
    return link.peer() != nullptr ? StreamEvent() : done;
}

Tensors StepStreams::receive(TaskIndex copy, const std::function<Tensors(const LaneLink*)>& unpack) {
    const Task& each = task_at(copy);
    const LaneLink& link = devices_.link(each.lane, each.receiver);
    if (!link.copies()) {
        return unpack(nullptr);
    }
    Tensors received;
    results_[copy].ready = link.run({}, [&] { received = unpack(&link); });
    results_[copy].received = received;
    return received;
}

/// Releases what the reader received, once `done` has passed.
void StepStreams::release(TaskIndex reader, LaneId lane, const StreamEvent& done) {
    DeferredRelease& deferred = devices_.deferred(lane);
    for (const TaskIndex dependency : graph_.dependencies(reader)) {
        if (!results_[dependency].received.empty()) {
            deferred.hold(std::exchange(results_[dependency].received, {}), done);
        }
    }
    const TaskKey& key = task_at(reader).key;
    if (key.kind == TaskKind::forward && key.partition == 0) {
        deferred.hold(std::exchange(entered_[cell_of(key).i.index()], {}), done);
    }
}

/// For a forward whose backward follows: autograd may have saved none of its inputs.
void StepStreams::release_unshared(TaskIndex reader, LaneId lane, const StreamEvent& done) {
    Tensors unshared;
    for (const TaskIndex dependency : graph_.dependencies(reader)) {
        Tensors& received = results_[dependency].received;
        const auto end = std::stable_partition(received.begin(), received.end(), [](const at::Tensor& tensor) {
            return !tensor.defined() || !is_unshared(tensor);
        });
        unshared.insert(unshared.end(), std::make_move_iterator(end), std::make_move_iterator(received.end()));
        received.erase(end, received.end());
    }
    if (!unshared.empty()) {
        devices_.deferred(lane).hold(std::move(unshared), done);
    }
}
}  // namespace pipescope
