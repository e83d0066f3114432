#include "engine/step_tasks.h"

#include "engine/engine_error.h"
#include "engine/gradients/gradient_needs.h"
#include "engine/random.h"
#include "engine/task_observer.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>

#include <algorithm>
#include <string>
#include <utility>

namespace pipescope {
StepTasks::StepTasks(Pipeline& pipeline, StepKind kind, const Tensors& input, std::vector<std::int64_t> sizes)
    : pipeline_(pipeline),
      kind_(kind),
      tensors_(pipeline.skips(), static_cast<int>(pipeline.partitions().size()), std::move(sizes)),
      output_reuse_(pipeline.partitions().size()) {
    tensors_.set_input(input, kind_.trains);
}

bool StepTasks::is_checkpointed(int micro_batch) const {
    return kind_.trains && pipescope::is_checkpointed(pipeline_.options().checkpoint, MicroBatchId{micro_batch},
                                                      tensors_.num_micro_batches());
}

void StepTasks::run(const TaskKey& key, LayerId& running) {
    switch (key.kind) {
        case TaskKind::forward: {
            Partition& partition = partition_at(key.partition);
            if (key.micro_batch == 0) {
                partition.begin_mini_batch();
            }
            run_forward(key.micro_batch, key.partition, running);
            if (key.micro_batch == tensors_.num_micro_batches() - 1) {
                partition.end_mini_batch();
            }
            break;
        }
        case TaskKind::recompute: run_recompute(key.micro_batch, key.partition, running); break;
        case TaskKind::backward: run_backward(key.micro_batch, key.partition); break;
        default: throw EngineError(to_string(key) + " is a kind of task this engine does not run");
    }
}

void StepTasks::run_loss(const TaskKey& key, StepLoss& loss) {
    const bool whole = key.micro_batch < 0;
    const Tensors outputs = whole ? tensors_.gather_outputs() : tensors_.take_outputs(key.micro_batch);
    Tensors gradients = loss.run(key.micro_batch, outputs);
    tensors_.input_versions().update_parts();  // the loss may have changed the input, which may be its target
    if (whole) {
        tensors_.set_output_gradients(gradients);
    } else {
        tensors_.set_output_gradients(key.micro_batch, std::move(gradients));
    }
}

void StepTasks::run_copy(const Task& copy) {
    if (pipeline_.observer() == nullptr) {
        return;
    }
    // Lanes of one host share memory: the storage is passed on, and only its owner changes.
    for (const at::Tensor& tensor : tensors_.moved_by(copy.key)) {
        if (tensor.defined()) {
            pipeline_.observer()->moved(tensor, copy.receiver);
        }
    }
}

void StepTasks::run_forward(int micro_batch, int partition, LayerId& running) {
    Partition& layers = partition_at(partition);
    Tensors inputs = tensors_.take_inputs(micro_batch, partition);
    if (kind_.trains && !is_checkpointed(micro_batch)) {
        const at::AutoGradMode grad_mode(true);
        MicroBatchGraph& graph = tensors_.graph(micro_batch, partition);
        inputs = graph.open(inputs);
        const Tensors given = partition == 0 ? inputs : Tensors{};
        const Tensors outputs = layers.forward(std::move(inputs), place_of(micro_batch), running);
        if (partition == 0) {
            tensors_.input_versions().note_history(micro_batch, given);
        }
        tensors_.input_versions().check(micro_batch);
        output_reuse_[static_cast<std::size_t>(partition)].add(layers, micro_batch, outputs);
        graph.close(outputs);
        tensors_.put_outputs(micro_batch, partition, boundary(outputs, false));
        return;
    }
    const at::NoGradGuard no_grad;
    // Without a graph, which outputs require a gradient is unknown, so every output that can may.
    const bool may_require = kind_.trains && (layers.trains() || any_requires_grad(inputs));
    if (kind_.trains) {
        tensors_.kept_inputs(micro_batch, partition) = RecomputeInputs(inputs, pipeline_.is_training());
    }
    const Tensors outputs = layers.forward(std::move(inputs), place_of(micro_batch), running);
    tensors_.input_versions().check(micro_batch);
    output_reuse_[static_cast<std::size_t>(partition)].add(layers, micro_batch, outputs);
    tensors_.put_outputs(micro_batch, partition, boundary(outputs, may_require));
}

/// The outputs as the next partition's leaves.
Tensors StepTasks::boundary(const Tensors& outputs, bool may_require) const {
    Tensors leaves;
    for (const at::Tensor& output : outputs) {
        at::Tensor leaf = output.defined() ? output.detach() : output;
        if (leaf.defined() && kind_.trains && (output.requires_grad() || (may_require && can_carry_gradient(output)))) {
            leaf.set_requires_grad(true);
        }
        leaves.push_back(std::move(leaf));
    }
    return leaves;
}

void StepTasks::run_recompute(int micro_batch, int partition, LayerId& running) {
    const at::AutoGradMode grad_mode(true);
    MicroBatchGraph& graph = tensors_.graph(micro_batch, partition);
    Partition& layers = partition_at(partition);
    Tensors inputs = graph.open(tensors_.kept_inputs(micro_batch, partition).take(layers, pipeline_.is_training()));
    graph.close(layers.recompute(std::move(inputs), place_of(micro_batch), running));
}

void StepTasks::run_backward(int micro_batch, int partition) {
    // Gradients use the precision of their forward; autocast must not choose again.
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    const SeededRandom random(
        backward_seed(pipeline_.options().seed, kind_.random_step, MicroBatchId{micro_batch}, PartitionId{partition}));
    MicroBatchGraph graph = std::exchange(tensors_.graph(micro_batch, partition), {});
    tensors_.put_input_gradients(micro_batch, partition,
                                 graph.backward(tensors_.take_gradients(micro_batch, partition)));
}
}  // namespace pipescope
