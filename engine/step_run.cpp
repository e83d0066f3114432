#include "engine/step_run.h"

#include "engine/first_failure.h"
#include "engine/micro_batch_graph.h"
#include "engine/mini_batch.h"
#include "engine/pipeline.h"
#include "engine/task_gate.h"
#include "engine/task_span.h"
#include "schedule/micro_batches.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <exception>
#include <utility>

namespace pipescope {
namespace {
// Inference forwards must not repeat the numbers of training steps, which count from 0.
constexpr std::int64_t kFirstInference = std::int64_t{1} << 40;

bool can_carry_gradient(const at::Tensor& tensor) {
    return tensor.is_floating_point() || tensor.is_complex();
}

bool any_requires_grad(const Tensors& tensors) {
    for (const at::Tensor& tensor : tensors) {
        if (tensor.defined() && tensor.requires_grad()) {
            return true;
        }
    }
    return false;
}

/// What one micro-batch has on one partition. Written by the lane of the partition, by the lanes beside it only before
/// the gate lets this one in.
struct Cell {
    Tensors inputs;     // detached, requires_grad where a gradient goes back; kept after a checkpointed forward
    Tensors gradients;  // of the outputs
    MicroBatchGraph graph;
};
}  // namespace

class StepRun::Impl {
public:
    Impl(std::shared_ptr<Pipeline> pipeline, const Tensors& input, bool trains);

    Tensors forward();
    Tensors backward(const Tensors& output_gradients);
    at::Tensor step(const Tensors& target, const GPipe::LossFunction& loss);

private:
    enum class Part { forward, backward, all };
    static bool belongs_to(Part part, TaskKind kind) {
        switch (part) {
            case Part::forward: return kind == TaskKind::forward || kind == TaskKind::loss;
            case Part::backward: return kind == TaskKind::recompute || kind == TaskKind::backward;
            case Part::all: return true;
        }
        return false;
    }

    Cell& cell(int micro_batch, int partition) {
        return cells_[static_cast<std::size_t>(partition) * sizes_.size() + static_cast<std::size_t>(micro_batch)];
    }
    int last_partition() const { return static_cast<int>(pipeline_->partitions().size()) - 1; }
    bool is_checkpointed(int micro_batch) const {
        return trains_ && pipescope::is_checkpointed(pipeline_->options().checkpoint, MicroBatchId{micro_batch}, m_);
    }
    RandomPlace place_of(int micro_batch) const {
        return {pipeline_->options().seed, trains_ ? step_ : inference_, MicroBatchId{micro_batch}};
    }
    TaskKey key_of(TaskIndex task) const {
        TaskKey key = graph_->tasks()[task].key;
        key.step = step_;
        return key;
    }

    void run(Part part);
    void run_lane(LaneId lane, Part part);
    void run_task(TaskIndex task, LayerId& running);
    void run_copies_after(TaskIndex producer);
    void run_forward(int micro_batch, int partition, LayerId& running);
    void run_recompute(int micro_batch, int partition, LayerId& running);
    void run_backward(int micro_batch, int partition);
    void run_loss();
    void hand_on(const Tensors& outputs, bool gradients_unknown, int micro_batch, int partition);
    void gather_outputs();
    void set_output_gradients(const Tensors& gradients);
    Failure failure_at(TaskIndex task, LayerId running) const;

    std::shared_ptr<Pipeline> pipeline_;
    const bool trains_;
    const std::int32_t step_;            // -1 where no step is counted
    const std::int64_t inference_;       // 0 where the run trains
    const at::ThreadLocalState caller_;  // grad mode, autocast, inference mode, saved-tensor hooks
    std::vector<std::int64_t> sizes_;    // samples of each micro-batch
    const int m_;
    std::shared_ptr<const TaskGraph> graph_;
    TaskGate gate_;
    std::vector<Cell> cells_;
    std::vector<Tensors> last_outputs_;       // per micro-batch, until gathered
    std::vector<std::int64_t> output_sizes_;  // first dimensions, for cutting the gradient as the output was joined
    Tensors output_;                          // gathered
    std::vector<Tensors> input_gradients_;    // per micro-batch
    Tensors input_;                           // the input, detached, where it needs a gradient
    const Tensors* target_ = nullptr;         // during step()
    const GPipe::LossFunction* loss_function_ = nullptr;
    at::Tensor loss_;
    FirstFailure failure_;
};

StepRun::Impl::Impl(std::shared_ptr<Pipeline> pipeline, const Tensors& input, bool trains)
    : pipeline_(std::move(pipeline)),
      trains_(trains),
      step_(trains ? pipeline_->take_step() : -1),
      inference_(trains ? 0 : kFirstInference + pipeline_->take_inference()),
      sizes_(micro_batch_sizes(batch_size(input), pipeline_->options().chunks)),
      m_(static_cast<int>(sizes_.size())),
      graph_(pipeline_->graph(m_)),
      gate_(*graph_),
      cells_(pipeline_->partitions().size() * sizes_.size()),
      last_outputs_(sizes_.size()),
      input_gradients_(sizes_.size()) {
    Tensors leaves;
    for (const at::Tensor& tensor : input) {
        leaves.push_back(tensor.detach());
    }
    std::vector<Tensors> parts = split(leaves, sizes_);
    for (int i = 0; i < m_; ++i) {
        Tensors& part = parts[static_cast<std::size_t>(i)];
        for (std::size_t k = 0; k < part.size(); ++k) {
            part[k] = part[k].detach();  // a view made in no_grad mode could not become a leaf otherwise
            if (trains_ && input[k].requires_grad()) {
                part[k].set_requires_grad(true);
            }
        }
        cell(i, 0).inputs = std::move(part);
    }
    for (std::size_t k = 0; k < input.size(); ++k) {
        input_.push_back(trains_ && input[k].requires_grad() ? std::move(leaves[k]) : at::Tensor());
    }
}

Tensors StepRun::Impl::forward() {
    run(Part::forward);
    return std::exchange(output_, {});
}

Tensors StepRun::Impl::backward(const Tensors& output_gradients) {
    set_output_gradients(output_gradients);
    const TaskKey loss{0, TaskKind::loss, last_partition(), -1, -1};
    gate_.finish(graph_->find(loss).value());
    run(Part::backward);
    const at::NoGradGuard no_grad;
    return gather_gradients(std::exchange(input_gradients_, {}), std::exchange(input_, {}), sizes_);
}

at::Tensor StepRun::Impl::step(const Tensors& target, const GPipe::LossFunction& loss) {
    target_ = &target;
    loss_function_ = &loss;
    run(Part::all);
    return loss_;
}

void StepRun::Impl::run(Part part) {
    pipeline_->lanes().run([this, part](LaneId lane) { run_lane(lane, part); });
    if (gate_.stopped()) {
        cells_.clear();
        last_outputs_.clear();
        std::exception_ptr exception;
        if (auto failure = failure_.take(exception)) {
            pipeline_->set_last_failure(std::move(*failure));
            std::rethrow_exception(exception);
        }
    }
}

void StepRun::Impl::run_lane(LaneId lane, Part part) {
    const at::ThreadLocalStateGuard as_caller(caller_);
    // The cache of casted weights is one for the process and cleared when the caller leaves autocast. A cast made under
    // no_grad would lose the weight's gradient, and one made by a late recompute would outlive the next optimizer step.
    at::autocast::set_autocast_cache_enabled(false);
    for (const TaskIndex task : graph_->lane_order(lane)) {
        const TaskKind kind = graph_->tasks()[task].key.kind;
        if (!belongs_to(part, kind)) {
            continue;
        }
        if (!gate_.wait(task)) {
            return;
        }
        LayerId running{-1};
        try {
            if (kind == TaskKind::loss && part == Part::forward) {
                gather_outputs();  // the loss itself is the caller's
                return;
            }
            run_task(task, running);
        } catch (...) {  // whatever a layer throws goes to the caller as it is
            failure_.add(task, std::current_exception(), failure_at(task, running));
            gate_.stop();
            return;
        }
        gate_.finish(task);
        run_copies_after(task);
    }
}

void StepRun::Impl::run_task(TaskIndex task, LayerId& running) {
    const TaskKey key = key_of(task);
    const bool checkpointed_forward = key.kind == TaskKind::forward && is_checkpointed(key.micro_batch);
    const TaskSpan span(key, graph_->tasks()[task].lane, checkpointed_forward, pipeline_->observer());
    switch (key.kind) {
        case TaskKind::forward: {
            Partition& partition = pipeline_->partitions()[static_cast<std::size_t>(key.partition)];
            if (key.micro_batch == 0) {
                partition.begin_mini_batch();
            }
            run_forward(key.micro_batch, key.partition, running);
            if (key.micro_batch == m_ - 1) {
                partition.end_mini_batch();
            }
            break;
        }
        case TaskKind::recompute: run_recompute(key.micro_batch, key.partition, running); break;
        case TaskKind::backward: run_backward(key.micro_batch, key.partition); break;
        case TaskKind::loss: run_loss(); break;
        default: throw EngineError(to_string(key) + " is a kind of task this engine does not run");
    }
}

void StepRun::Impl::run_copies_after(TaskIndex producer) {
    for (const TaskIndex task : graph_->dependents(producer)) {
        const TaskKey key = key_of(task);
        if (!is_copy(key.kind)) {
            continue;
        }
        {
            // Lanes of one host share memory: the storage is handed over as it is, only its account changes.
            const TaskSpan span(key, graph_->tasks()[task].lane, false, pipeline_->observer());
            if (pipeline_->observer() != nullptr) {
                const bool forwards = key.kind == TaskKind::copy_forward;
                const Tensors& moved = forwards ? cell(key.micro_batch, key.partition + 1).inputs
                                                : cell(key.micro_batch, key.partition).gradients;
                for (const at::Tensor& tensor : moved) {
                    if (tensor.defined()) {
                        pipeline_->observer()->moved(tensor, graph_->tasks()[task].receiver);
                    }
                }
            }
        }
        gate_.finish(task);
    }
}

void StepRun::Impl::run_forward(int micro_batch, int partition, LayerId& running) {
    Partition& layers = pipeline_->partitions()[static_cast<std::size_t>(partition)];
    Cell& here = cell(micro_batch, partition);
    Tensors inputs = std::exchange(here.inputs, {});
    if (trains_ && !is_checkpointed(micro_batch)) {
        const at::AutoGradMode grad_mode(true);
        inputs = here.graph.open(inputs);
        const Tensors outputs = layers.forward(std::move(inputs), place_of(micro_batch), running);
        here.graph.close(outputs);
        hand_on(outputs, false, micro_batch, partition);
        return;
    }
    const at::NoGradGuard no_grad;
    // Without a graph nobody knows which output would require a gradient; any that can may.
    const bool may_require = trains_ && (layers.trains() || any_requires_grad(inputs));
    if (trains_) {
        here.inputs = inputs;
    }
    hand_on(layers.forward(std::move(inputs), place_of(micro_batch), running), may_require, micro_batch, partition);
}

void StepRun::Impl::hand_on(const Tensors& outputs, bool may_require, int micro_batch, int partition) {
    Tensors leaves;
    for (const at::Tensor& output : outputs) {
        at::Tensor leaf = output.detach();
        if (trains_ && (output.requires_grad() || (may_require && can_carry_gradient(output)))) {
            leaf.set_requires_grad(true);
        }
        leaves.push_back(std::move(leaf));
    }
    if (partition < last_partition()) {
        cell(micro_batch, partition + 1).inputs = std::move(leaves);
    } else {
        last_outputs_[static_cast<std::size_t>(micro_batch)] = std::move(leaves);
    }
}

void StepRun::Impl::run_recompute(int micro_batch, int partition, LayerId& running) {
    Partition& layers = pipeline_->partitions()[static_cast<std::size_t>(partition)];
    Cell& here = cell(micro_batch, partition);
    const at::AutoGradMode grad_mode(true);
    Tensors inputs = here.graph.open(std::exchange(here.inputs, {}));
    here.graph.close(layers.recompute(std::move(inputs), place_of(micro_batch), running));
}

void StepRun::Impl::run_backward(int micro_batch, int partition) {
    Cell& here = cell(micro_batch, partition);
    // Gradients are computed in the precision their forward had; autocast must not choose again.
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    Tensors gradients = std::exchange(here.graph, {}).backward(std::exchange(here.gradients, {}));
    if (partition > 0) {
        cell(micro_batch, partition - 1).gradients = std::move(gradients);
    } else {
        input_gradients_[static_cast<std::size_t>(micro_batch)] = std::move(gradients);
    }
}

void StepRun::Impl::run_loss() {
    gather_outputs();
    Tensors leaves = std::exchange(output_, {});
    const at::AutoGradMode grad_mode(true);
    at::Tensor loss = (*loss_function_)(leaves, *target_);
    if (!loss.defined() || loss.numel() != 1) {
        throw EngineError("the loss function returned " +
                          (loss.defined() ? std::to_string(loss.numel()) + " values" : std::string("no tensor")) +
                          "; a step goes backward from one value; reduce it by mean or sum");
    }
    if (!loss.requires_grad()) {
        throw EngineError(
            "the loss does not depend on the model's output; a step goes backward from it; "
            "compute it from the output, with gradients on");
    }
    {
        const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
        loss.backward();
    }
    loss_ = loss.detach();
    Tensors gradients;
    for (const at::Tensor& leaf : leaves) {
        gradients.push_back(leaf.requires_grad() ? std::exchange(leaf.mutable_grad(), at::Tensor()) : at::Tensor());
    }
    set_output_gradients(gradients);
}

void StepRun::Impl::gather_outputs() {
    const at::NoGradGuard no_grad;
    std::vector<bool> wants(last_outputs_.front().size(), false);
    output_sizes_.clear();
    for (const Tensors& outputs : last_outputs_) {
        output_sizes_.push_back(outputs.front().dim() > 0 ? outputs.front().size(0) : 0);
        for (std::size_t k = 0; k < outputs.size() && k < wants.size(); ++k) {
            wants[k] = wants[k] || outputs[k].requires_grad();
        }
    }
    output_ = gather(std::exchange(last_outputs_, {}));
    for (std::size_t k = 0; k < output_.size(); ++k) {
        output_[k] = output_[k].detach();
        output_[k].set_requires_grad(wants[k]);
    }
}

void StepRun::Impl::set_output_gradients(const Tensors& gradients) {
    const at::NoGradGuard no_grad;
    std::vector<Tensors> parts = m_ == 1 ? std::vector<Tensors>{gradients} : split(gradients, output_sizes_);
    for (int i = 0; i < m_; ++i) {
        cell(i, last_partition()).gradients = std::move(parts[static_cast<std::size_t>(i)]);
    }
}

Failure StepRun::Impl::failure_at(TaskIndex task, LayerId running) const {
    const TaskKey key = key_of(task);
    const Partition& partition = pipeline_->partitions()[static_cast<std::size_t>(key.partition)];
    Failure failure{key, graph_->tasks()[task].lane, partition.range().first, partition.name()};
    if (key.kind == TaskKind::loss) {
        failure.layer = LayerId{-1};
        failure.layer_name = "loss";
    } else if (running.value() >= 0) {
        failure.layer = running;
        failure.layer_name = partition.layers()[running.index() - partition.range().first.index()].name;
    }
    return failure;
}

StepRun::StepRun(std::shared_ptr<Pipeline> pipeline, const Tensors& input, bool trains)
    : impl_(std::make_unique<Impl>(std::move(pipeline), input, trains)) {}
StepRun::~StepRun() = default;
Tensors StepRun::forward() {
    return impl_->forward();
}
Tensors StepRun::backward(const Tensors& output_gradients) {
    return impl_->backward(output_gradients);
}
at::Tensor StepRun::step(const Tensors& target, const GPipe::LossFunction& loss) {
    return impl_->step(target, loss);
}
}  // namespace pipescope
