#include "engine/step/rank_messages.h"

#include "engine/device/lane_device.h"
#include "engine/engine_error.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/lanes/task_ranges.h"
#include "engine/mini_batch.h"
#include "engine/processes/lane_channels.h"
#include "engine/task_observer.h"

#include <algorithm>
#include <utility>

namespace pipescope {
std::unique_ptr<StepMessages> step_messages(const RunningStep& step) {
    if (step.pipeline.channels() == nullptr) {
        return std::make_unique<StepMessages>();
    }
    return std::make_unique<RankMessages>(step);
}

std::int64_t samples_of_step(const Pipeline& pipeline, const Tensors& input, RunFor purpose) {
    LaneChannels* const channels = pipeline.channels();
    const auto samples = [&] { return batch_size(input, pipeline.split()->input); };
    if (channels == nullptr) {
        return samples();
    }
    if (channels->is_first_here() && input.empty()) {
        throw EngineError(
            "the input holds no tensor in the process of partition 0, which is the one that reads it; "
            "pass it there; other processes may pass none");
    }
    return channels
        ->start({purpose == RunFor::values ? LaneChannels::Purpose::values : LaneChannels::Purpose::training,
                 channels->is_first_here() ? samples() : 0})
        .batch;
}

std::optional<TaskIndex> whole_loss(const TaskGraph& graph) {
    return graph.find({0, TaskKind::loss, graph.shape().num_partitions - 1, -1, -1});
}

RankMessages::RankMessages(const RunningStep& step)
    : step_(step),
      channels_(*step.pipeline.channels()),
      num_micro_batches_(step.tensors.sizes().size()),
      shares_(step.pipeline.partitions().size(), num_micro_batches_) {
    for (const Partition& partition : step_.pipeline.partitions()) {
        for (std::size_t i = 0; i < num_micro_batches_; ++i) {
            shares_[{MicroBatchId{i}, partition.id()}].skips.resize(partition.skips().incoming.size());
        }
    }
}

// ---- The caller's thread ----

void RankMessages::begin(StepHalves halves) {
    const auto moves = [halves](TaskKind copy) {
        return halves == StepHalves::both || is_forward_copy(copy) == (halves == StepHalves::forward);
    };
    // A gathered loss is sent once. With replicas, the sum over all replicas follows.
    const std::optional<TaskIndex> loss_task = whole_loss(step_.graph);
    const int num_losses = halves != StepHalves::both ? 0 : has_replicas() && loss_task ? 2 : 1;
    channels_.receive(step_.graph, moves, num_losses,
                      {.copy = [this](const TaskKey& copy, const ReceivedMessage& message) { deliver(copy, message); },
                       .loss =
                           [this, loss_task](at::Tensor loss) {
                               const bool is_first = !received_loss_.defined();
                               received_loss_ = std::move(loss);
                               if (loss_task && is_first) {
                                   step_.gate.finish(*loss_task);
                               }
                           },
                       .stop = [this] { step_.gate.stop(); }});
}

void RankMessages::end(const at::Tensor& loss) {
    if (has_replicas() && loss.defined() && !step_.gate.stopped()) {
        share_loss(loss);
    }
    channels_.finish();
}

/// Combines the losses of all replicas, which the other processes of this one wait for.
void RankMessages::share_loss(const at::Tensor& loss) {
    try {
        const OnLaneDevice on_device(step_.pipeline.devices().of(step_.pipeline.lane_of(last_partition())));
        const at::Tensor own = loss.cpu();
        Tensors total = {own.to(at::kDouble)};  // a replica that computed no loss may not know its type
        channels_.reduce(std::nullopt, total, total);
        total_loss_ = total[0].to(own.scalar_type());
        channels_.send_loss(total_loss_);
    } catch (const ProcessError&) {
        step_.gate.stop();  // cause() says why, once no channel uses this step any more
    }
}

at::Tensor RankMessages::loss_for_caller(const at::Tensor& loss) {
    return !loss.defined() ? received_loss_ : has_replicas() ? total_loss_ : loss;
}

// ---- Memory that two processes share no longer ----

SharedElsewhere RankMessages::shared_inputs(Cell at, const Tensors& inputs) {
    const Shares& here = shares_[at];
    std::vector<char> all;
    for (const std::size_t route : step_.pipeline.skips().of(at.j).incoming) {
        all.push_back(share_of_skip(at.i, route));
    }
    all.insert(all.end(), here.inputs.begin(), here.inputs.end());
    return {inputs, all};
}

/// Marks an output for the task that takes it, if another output that travels apart from it has the same memory and one
/// of the two goes to another process, or if its memory is that of such an input.
void RankMessages::mark_shared(Cell at, const Tensors& outputs, const SharedElsewhere& inputs) {
    Pipeline& pipeline = step_.pipeline;
    const auto& outgoing = pipeline.skips().of(at.j).outgoing;
    const PartitionId next{std::min(at.j.value() + 1, last_partition().value())};
    const auto leaves_process = [&](std::size_t k) {
        const PartitionId to = k < outgoing.size() ? pipeline.skips().routes()[outgoing[k]].to.front() : next;
        return !pipeline.is_here(pipeline.lane_of(to));
    };
    std::vector<char> of_inputs;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        bool shares_memory =
            inputs.holds(outputs[k]) || (leaves_process(k) && pipeline.partition(at.j).keeper_of(outputs[k]).defined());
        for (std::size_t other = 0; other < outputs.size() && !shares_memory; ++other) {
            const bool apart = other != k && (k < outgoing.size() || other < outgoing.size());
            shares_memory =
                apart && (leaves_process(k) || leaves_process(other)) && share_storage(outputs[k], outputs[other]);
        }
        if (k < outgoing.size()) {
            share_of_skip(at.i, outgoing[k]) = shares_memory ? 1 : 0;
        } else {
            of_inputs.push_back(shares_memory ? 1 : 0);
        }
    }
    if (at.j < last_partition()) {
        shares_[{at.i, next}].inputs = std::move(of_inputs);
    }
}

char& RankMessages::share_of_skip(MicroBatchId i, std::size_t route) {
    const SkipLayout& skips = step_.pipeline.skips();
    const PartitionId first = *skips.first_behind(route);
    return shares_[{i, first}].skips[skips.place_in(route, first)];
}

// ---- Copies, losses and gradients ----

void RankMessages::send(TaskIndex copy) {
    const Task& task = step_.graph.tasks()[copy];
    TaskKey key = task.key;
    key.step = step_.step;
    Tensors sent;
    for (at::Tensor& tensor : step_.tensors.moved_by(key)) {
        sent.push_back(std::exchange(tensor, {}));
    }
    std::vector<char> sent_shares;
    if (key.kind == TaskKind::copy_forward) {
        sent_shares = shares_[{cell_of(key).i, PartitionId{key.partition + 1}}].inputs;
    } else if (key.kind == TaskKind::skip_forward) {
        sent_shares = {share_of_skip(cell_of(key).i, static_cast<std::size_t>(key.skip))};
    }
    std::optional<PackedMessage> message;
    const StreamEvent on_host = step_.devices.send(
        copy, sent, [&](const LaneLink* to_host) { message.emplace(channels_.pack(key, sent, sent_shares, to_host)); });
    channels_.send(task, std::move(*message), on_host, [this, copy, lane = task.lane] { step_.fail(copy, lane); });
}

/// Takes what a copy of another process has brought, and opens the task that waits for it. On the channel's thread.
void RankMessages::deliver(const TaskKey& copy, const ReceivedMessage& message) {
    const std::optional<TaskIndex> task = step_.graph.find(copy);
    if (!task || step_.pipeline.is_here(step_.graph.tasks()[*task].lane)) {
        throw EngineError("another process sent " + to_string(copy) +
                          ", which is no copy to this one; all processes must build the same model");
    }
    std::optional<TaskRange> range(copy);
    const LaneId receiver = step_.graph.tasks()[*task].receiver;
    try {
        Tensors tensors =
            step_.devices.receive(*task, [&](const LaneLink* to_device) { return message.tensors(to_device); });
        for (const at::Tensor& tensor : tensors) {
            if (step_.pipeline.observer() != nullptr && tensor.defined()) {
                step_.pipeline.observer()->received(tensor, copy, receiver);
            }
        }
        step_.tensors.put(copy, std::move(tensors));
        if (copy.kind == TaskKind::copy_forward) {
            shares_[{cell_of(copy).i, PartitionId{copy.partition + 1}}].inputs.assign(message.numbers().begin(),
                                                                                      message.numbers().end());
        } else if (copy.kind == TaskKind::skip_forward) {
            share_of_skip(cell_of(copy).i, static_cast<std::size_t>(copy.skip)) =
                static_cast<char>(message.numbers().at(0));
        }
    } catch (...) {
        step_.fail(*task, receiver);
        return;
    }
    range.reset();  // before a task that waits for the copy can start
    step_.gate.finish(*task);
}

void RankMessages::loss_computed(const at::Tensor& loss, bool is_whole) {
    if (is_whole || (++num_losses_ == num_micro_batches_ && !has_replicas())) {
        channels_.send_loss(loss.cpu());
    }
}

void RankMessages::reduce(LaneId lane, const std::vector<at::Tensor>& parameters, Tensors& gradients) {
    channels_.reduce(lane, parameters, gradients);
}

// ---- Failures ----

bool RankMessages::has_told() const {
    try {
        throw;
    } catch (const ProcessError&) {
        return channels_.processes().failure().has_value();
    } catch (...) {
        return false;
    }
}
}  // namespace pipescope
