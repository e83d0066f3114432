#include "engine/autograd_driver/autograd_run.h"

#include "engine/autograd_driver/backward_span.h"
#include "engine/autograd_driver/dependency.h"
#include "engine/autograd_driver/graph_node.h"
#include "engine/gradient_needs.h"
#include "engine/mini_batch.h"
#include "engine/pipeline.h"
#include "engine/step_loss.h"
#include "engine/task_span.h"
#include "schedule/gpipe_schedule.h"
#include "schedule/micro_batches.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace pipescope {
namespace {
void tell_moved(TaskObserver* observer, const Tensors& tensors, LaneId to) {
    for (const at::Tensor& tensor : tensors) {
        if (observer != nullptr && tensor.defined()) {
            observer->moved(tensor, to);
        }
    }
}

LaneId lane_of(int partition) {
    return LaneId{partition};
}
}  // namespace

AutogradRun::AutogradRun(std::shared_ptr<Pipeline> pipeline, const Tensors& input) : pipeline_(*pipeline) {
    const std::vector<std::int64_t> sizes = micro_batch_sizes(batch_size(input), pipeline_.options().chunks);
    m_ = static_cast<int>(sizes.size());
    graph_ = pipeline_.graph(m_, true);
    const StepNumber number = pipeline_.take_number(true);
    forward_ = std::make_shared<const AutogradForward>(AutogradForward{
        std::move(pipeline), std::make_shared<at::ThreadLocalState>(), number.step, number.random_step});
    for (Tensors& part : split(input, sizes)) {
        fronts_.push_back({std::move(part), Tensors(pipeline_.skips().skips().size()), {}, nullptr});
    }
}

bool AutogradRun::is_checkpointed(int micro_batch) const {
    return pipescope::is_checkpointed(pipeline_.options().checkpoint, MicroBatchId{micro_batch}, m_);
}

Tensors AutogradRun::forward() {
    const int n = static_cast<int>(pipeline_.partitions().size());
    for (const std::vector<CycleTask>& cycle : clock_cycles(m_, n)) {
        std::vector<int> micro_batch_of(static_cast<std::size_t>(n), -1);
        for (const CycleTask& task : cycle) {
            const int i = static_cast<int>(task.micro_batch.value());
            const int j = static_cast<int>(task.partition.value());
            micro_batch_of[task.partition.index()] = i;
            if (i > 0 && pipeline_.options().autograd.dependency) {
                tie_to_previous(i);
            }
            bring_to(j, i);
        }
        pipeline_.lanes().run([&](LaneId lane) { run_on_lane(lane, micro_batch_of); });
        rethrow_first_failure();
        for (const CycleTask& task : cycle) {
            finish(static_cast<int>(task.micro_batch.value()), static_cast<int>(task.partition.value()));
        }
    }
    std::vector<Tensors> outputs;
    for (Front& front : fronts_) {
        outputs.push_back(std::move(front.tensors));
    }
    return gather(std::move(outputs));
}

at::Tensor AutogradRun::step(const Tensors& target, const GPipe::LossFunction& loss) {
    const Tensors outputs = forward();
    Tensors leaves;
    for (const at::Tensor& output : outputs) {
        leaves.push_back(output.detach().set_requires_grad(output.requires_grad()));
    }
    const std::vector<std::int64_t> whole_batch;
    StepLoss step_loss(target, loss, LossScope::mini_batch, pipeline_.options().reduction, whole_batch);
    const PartitionId last{static_cast<std::int64_t>(pipeline_.partitions().size()) - 1};
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
    torch::autograd::backward(roots, gradients);
    return step_loss.value();
}

/// The micro-batch before has just left the partition that this one enters: backward must go the other way round.
void AutogradRun::tie_to_previous(int micro_batch) {
    Front& front = fronts_[static_cast<std::size_t>(micro_batch)];
    Front& previous = fronts_[static_cast<std::size_t>(micro_batch) - 1];
    Forked forked = fork(previous.tensors);
    previous.tensors = std::move(forked.tensors);
    front.tensors = join(front.tensors, forked.phony);
}

void AutogradRun::bring_to(int partition, int micro_batch) {
    if (partition == 0) {
        return;
    }
    Front& front = fronts_[static_cast<std::size_t>(micro_batch)];
    const TaskKey copy = forward_->key(TaskKind::copy_forward, MicroBatchId{micro_batch}, PartitionId{partition - 1});
    if (pipeline_.options().autograd.portals) {
        front.tensors = moved(front.tensors, copy, lane_of(partition - 1), lane_of(partition));
        bring_skips_to(partition, micro_batch);
        return;
    }
    // Without portals what is stashed travels with the batch, through every partition between.
    Tensors all = front.skips;
    all.insert(all.end(), front.tensors.begin(), front.tensors.end());
    all = moved(all, copy, lane_of(partition - 1), lane_of(partition));
    const auto skips_end = all.begin() + static_cast<std::ptrdiff_t>(front.skips.size());
    front.skips.assign(all.begin(), skips_end);
    front.tensors.assign(skips_end, all.end());
}

void AutogradRun::bring_skips_to(int partition, int micro_batch) {
    Front& front = fronts_[static_cast<std::size_t>(micro_batch)];
    for (const std::size_t skip : pipeline_.skips().of(PartitionId{partition}).incoming) {
        const PartitionId from = pipeline_.skips().routes()[skip].from;
        TaskKey key = forward_->key(TaskKind::skip_forward, MicroBatchId{micro_batch}, from);
        key.skip = static_cast<int>(skip);
        front.skips[skip] =
            moved({front.skips[skip]}, key, lane_of(static_cast<int>(from.value())), lane_of(partition))[0];
    }
}

Tensors AutogradRun::moved(const Tensors& tensors, const TaskKey& forward, LaneId from, LaneId to) {
    TaskObserver* const observer = pipeline_.observer();
    {
        const TaskSpan span(forward, from, false, observer);
        tell_moved(observer, tensors, to);
    }
    if (!any_requires_grad(tensors)) {
        return tensors;
    }
    TaskKey backward = forward;
    backward.kind = forward.kind == TaskKind::skip_forward ? TaskKind::skip_backward : TaskKind::copy_backward;
    return send_through(
        "Copy",
        [=](const Tensors& gradients) {
            close_backward_span();
            const TaskSpan span(backward, to, false, observer);
            tell_moved(observer, gradients, from);
        },
        tensors);
}

void AutogradRun::run_on_lane(LaneId lane, const std::vector<int>& micro_batch_of) {
    const int micro_batch = micro_batch_of[lane.index()];
    if (micro_batch < 0) {
        return;
    }
    const at::ThreadLocalStateGuard as_caller(*forward_->caller);
    at::autocast::set_autocast_cache_enabled(false);  // its casts would outlive the micro-batch
    const TaskKey key = forward_->key(TaskKind::forward, MicroBatchId{micro_batch},
                                      PartitionId{static_cast<std::int64_t>(lane.value())});
    LayerId running{-1};
    try {
        const TaskSpan span(key, lane, is_checkpointed(micro_batch), pipeline_.observer());
        run_forward(micro_batch, key.partition, running);
    } catch (...) {  // whatever a layer throws goes to the caller as it is
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
        // Between these two nodes the partition's backward runs.
        const LaneId lane = lane_of(partition);
        TaskObserver* const observer = pipeline_.observer();
        inputs = send_through(
            "PartitionInput", [](const Tensors&) { close_backward_span(); }, inputs);
        front.outputs = send_through(
            "PartitionOutput", [=](const Tensors&) { open_backward_span(backward, lane, observer); },
            layers.forward(std::move(inputs), place, running));
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
            front.outputs = attach_checkpoint(front.recomputation, inputs, front.outputs);
        }
    }
    if (micro_batch == m_ - 1) {
        layers.end_mini_batch();
    }
}

Tensors AutogradRun::inputs_of(int micro_batch, int partition) const {
    const Front& front = fronts_[static_cast<std::size_t>(micro_batch)];
    Tensors inputs;
    for (const std::size_t skip : pipeline_.skips().of(PartitionId{partition}).incoming) {
        inputs.push_back(front.skips[skip]);
    }
    inputs.insert(inputs.end(), front.tensors.begin(), front.tensors.end());
    return inputs;
}

/// The lane is done: what it computed becomes what the next one takes.
void AutogradRun::finish(int micro_batch, int partition) {
    Front& front = fronts_[static_cast<std::size_t>(micro_batch)];
    Tensors outputs = std::exchange(front.outputs, {});
    if (const auto recomputation = std::exchange(front.recomputation, nullptr)) {
        outputs = attach_recompute(recomputation, outputs);
    }
    const PartitionSkips& skips = pipeline_.skips().of(PartitionId{partition});
    for (const std::size_t skip : skips.incoming) {
        front.skips[skip] = at::Tensor();
    }
    const auto tensors = outputs.begin() + static_cast<std::ptrdiff_t>(skips.outgoing.size());
    for (std::size_t k = 0; k < skips.outgoing.size(); ++k) {
        front.skips[skips.outgoing[k]] = std::move(outputs[k]);
    }
    front.tensors.assign(std::make_move_iterator(tensors), std::make_move_iterator(outputs.end()));
}

void AutogradRun::rethrow_first_failure() {
    std::exception_ptr exception;
    if (auto failure = failure_.take(exception)) {
        fronts_.clear();
        pipeline_.set_last_failure(std::move(*failure));
        std::rethrow_exception(exception);
    }
}
}  // namespace pipescope
