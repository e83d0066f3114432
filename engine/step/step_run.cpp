// One step, from top to bottom: what the caller's thread does, how a lane walks its tasks and how the first failure
// ends the walk, and what each kind of task does. StepTensors says where tensors wait between tasks.

#include "engine/step/step_run.h"

#include "engine/engine_error.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/gradients/parameter_hooks.h"
#include "engine/lanes/process_end.h"
#include "engine/lanes/task_span.h"
#include "engine/random.h"
#include "engine/shared_memory.h"
#include "engine/task_observer.h"
#include "schedule/micro_batches.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>

#include <algorithm>
#include <string>
#include <utility>

namespace pipescope {
// ---- The caller's thread ----

StepRun::StepRun(std::shared_ptr<Pipeline> pipeline, const Tensors& input, RunFor purpose)
    : pipeline_(std::move(pipeline)),
      trains_(purpose != RunFor::values),
      tensors_(*pipeline_, micro_batch_sizes(samples_of_step(*pipeline_, input, purpose), pipeline_->options().chunks),
               trains_),
      graph_(pipeline_->graph(num_micro_batches(), purpose)),
      number_(pipeline_->take_number(purpose)),
      caller_(std::make_unique<at::ThreadLocalState>()),
      in_flight_(pipeline_->partitions().size(), tensors_.sizes().size()),
      known_(pipeline_->partitions().size()),
      gate_(*graph_, pipeline_->core_scheduler()),
      torn_(static_cast<std::size_t>(pipeline_->num_lanes()), 0),
      devices_(step_devices(pipeline_->devices(), *graph_, trains_)),
      messages_(step_messages({*pipeline_, *graph_, number_.step, tensors_, *devices_, gate_,
                               [this](TaskIndex task, LaneId lane) { fail(task, lane); }})) {
    if (splits_backward(pipeline_->options().schedule)) {
        split_backwards_ = {pipeline_->partitions().size(), tensors_.sizes().size()};
    }
    if (pipeline_->is_first_here()) {
        input_versions_ = tensors_.cut_input(input);
    }
}

StepRun::~StepRun() = default;

Tensors StepRun::forward() {
    run(StepHalves::forward);
    if (is_checkpointed(MicroBatchId{0})) {
        parameter_versions_ = ParameterVersions(pipeline_->partitions());
    }
    record_callers_stream(gathered_output_);
    return std::exchange(gathered_output_, {});
}

Tensors StepRun::backward(const Tensors& output_gradients) {
    parameter_versions_.check(pipeline_->partitions());
    tensors_.cut_output_gradients(output_gradients);
    gate_.finish(whole_loss(*graph_).value());
    run(StepHalves::backward);
    return take_input_gradients();
}

at::Tensor StepRun::step(const Tensors& target, const LossFunction& loss) {
    set_loss(target, loss);
    const std::vector<at::Tensor> parameters = pipeline_->trained_parameters();
    // A mean over replicas keeps what .grad held before, since all hold the same; a sum does not.
    SummedForHooks summed(parameters, graph_->shape().replicas > 1 && pipeline_->adds_over_replicas());
    run(StepHalves::both);
    add_to_gradients(parameters, summed.take());
    return loss_for_caller();
}

void StepRun::set_loss(const Tensors& target, const LossFunction& loss, std::vector<at::Tensor> refused) {
    if (pipeline_->is_last_here()) {
        loss_.emplace(*pipeline_, tensors_.input(), target, loss, graph_->shape().loss, tensors_.sizes());
        loss_->refuse(std::move(refused));
    }
}

at::Tensor StepRun::loss_for_caller() {
    if (const auto micro_batch = loss_ ? loss_->only_nan() : std::nullopt) {
        pipeline_->warn_of_nan(*micro_batch);
    }
    at::Tensor value = messages_->loss_for_caller(loss_ ? loss_->value() : at::Tensor());
    record_callers_stream({value});
    return value;
}

Tensors StepRun::take_input_gradients() {
    Tensors gradients = tensors_.take_input_gradients();
    record_callers_stream(gradients);
    return gradients;
}

void StepRun::run(StepHalves halves) {
    if (halves != StepHalves::backward) {
        pipeline_->shared().begin();
    }
    if (trains_ && halves != StepHalves::forward) {
        pipeline_->shared().drop_gradients();
        refuse_shared_gradients(*pipeline_);
    }
    devices_->begin(tensors_.inputs({MicroBatchId{0}, PartitionId{0}}));
    if (halves == StepHalves::backward) {
        input_versions_.update_parts();
    }
    messages_->begin(halves);
    pipeline_->lanes().run([&](LaneId lane) { on_lane(lane, [&] { run_tasks(lane, halves); }); },
                           pipeline_->options().while_waiting ? [this] { ask_caller(); } : std::function<void()>());
    end(halves);
}

void StepRun::end(StepHalves halves) {
    messages_->end(loss_ ? loss_->value() : at::Tensor());
    if (halves != StepHalves::backward) {
        input_versions_.update_input();
    }
    check_kept_outputs();
    if (gate_.stopped()) {
        rethrow_first_failure();
    }
    devices_->end();
}

void StepRun::check_kept_outputs() {
    for (Partition& partition : pipeline_->partitions()) {
        if (gate_.stopped()) {
            return;
        }
        try {
            known(partition.id()).kept_outputs.check(partition);
        } catch (...) {
            fail(graph_->find({0, TaskKind::forward, partition.id().value(), 0, -1}).value(),
                 pipeline_->lane_of(partition.id()));
        }
    }
}

/// Ends the run early if the caller's while_waiting throws.
void StepRun::ask_caller() {
    if (interruption_) {
        return;
    }
    try {
        pipeline_->options().while_waiting();
    } catch (...) {
        interruption_ = std::current_exception();
        messages_->fail("");
        gate_.stop();
    }
}

void StepRun::rethrow_first_failure() {
    devices_->abandon();
    tensors_.clear();
    in_flight_.clear();
    renew_torn_lanes();
    if (interruption_) {
        std::rethrow_exception(std::exchange(interruption_, nullptr));
    }
    std::exception_ptr exception;
    if (const std::optional<Failure> failure = failure_.take(exception)) {
        pipeline_->set_last_failure(*failure);
        std::rethrow_exception(exception);
    }
    throw ProcessError(messages_->cause());
}

void StepRun::renew_torn_lanes() {
    for (std::size_t lane = 0; lane < torn_.size(); ++lane) {
        if (std::exchange(torn_[lane], 0) != 0) {
            pipeline_->renew_lane(LaneId{lane});
        }
    }
}

// ---- A lane's thread ----

bool StepRun::run_tasks(LaneId lane, StepHalves halves) {
    const at::ThreadLocalStateGuard as_caller(*caller_);
    const OnLaneDevice on_device(pipeline_->devices().of(lane));
    // The cache of cast weights is process-wide and cleared when the caller leaves autocast. A cast made under no_grad
    // would lose the weight's gradient, and one made by a late recompute would outlive the next optimizer step.
    at::autocast::set_autocast_cache_enabled(false);
    const bool is_profiled = may_be_profiled();
    for (const TaskIndex task : graph_->lane_order(lane)) {
        const TaskKind kind = graph_->tasks()[task].key.kind;
        const bool is_forward = kind == TaskKind::forward || kind == TaskKind::loss;
        const bool is_wanted = halves == StepHalves::both || is_forward == (halves == StepHalves::forward);
        if (is_wanted && !(gate_.wait(task) && run_task(task, is_profiled))) {
            return false;
        }
    }
    return true;
}

/// Runs a task, then the copies of its results. Returns false if one of them threw; then the run is over.
bool StepRun::run_task(TaskIndex task, bool is_profiled) {
    const AtWork at_work(AtWork::Thread::lane);
    const TaskKey key = key_of(task);
    const LaneId lane = graph_->tasks()[task].lane;
    TaskIndex current = task;
    std::optional<TaskSpan> span;  // still open where a task threw, so that current_task() tells the layer
    try {
        if (key.kind == TaskKind::loss && !loss_) {
            gathered_output_ = tensors_.gather_outputs();  // the caller computes the loss; backward() finishes the task
            return true;
        }
        if (key.kind == TaskKind::forward && key.partition == 0) {
            devices_->enter(cell_of(key).i, lane, tensors_.inputs(cell_of(key)));
        }
        devices_->before(task);
        messages_->note(key);
        span.emplace(key, lane, key.kind == TaskKind::forward && is_checkpointed(cell_of(key).i), pipeline_->observer(),
                     key.kind == TaskKind::backward && is_split(task), is_profiled);
        compute(task, key);
        span.reset();
        devices_->after(task);
        gate_.finish(task);
        for (const TaskIndex dependent : graph_->dependents(task)) {
            const Task& copy = graph_->tasks()[dependent];
            if (!is_copy(copy.key.kind)) {
                continue;
            }
            tensors_.leave_shared(copy.key);
            if (moves_nothing(copy)) {
                const TaskRange range(key_of(dependent));
            } else {
                current = dependent;
                span.emplace(key_of(dependent), copy.lane, false, pipeline_->observer(), false, is_profiled);
                run_copy(dependent);
                span.reset();
            }
            gate_.finish(dependent);
        }
        return true;
    } catch (...) {  // a layer's exception reaches the caller unchanged
        // Backward may have run torch's engine in this thread.
        const bool is_backward = key.kind == TaskKind::backward || key.kind == TaskKind::backward_weight;
        torn_[lane.index()] = is_backward && !is_standard(std::current_exception());
        fail(current, lane);
        return false;
    }
}

/// Ends the run with the exception that is being handled, which the task has thrown on a lane. If it only says that the
/// group of processes has ended, another exception is why, perhaps a later task's of this process.
void StepRun::fail(TaskIndex task, LaneId lane) {
    const std::exception_ptr thrown = std::current_exception();
    try {
        if (pipeline_->options().on_exception) {
            pipeline_->options().on_exception();
        }
        if (!messages_->has_told()) {
            const Failure failure = pipeline_->failure_at(key_of(task), lane);
            failure_.add(task, thrown, failure);
            messages_->fail(", lane " + std::to_string(lane.value()) + ", " + to_string(key_of(task)) + ", layer " +
                            failure.layer_name);
        }
    } catch (...) {  // there is no memory for words about it
        failure_.add(task, thrown, {key_of(task), lane, LayerId{}, {}});
    }
    gate_.stop();
}

void StepRun::follow(StepRun& before, LaneId lane) {
    if (before.stopped()) {
        gate_.stop();  // the other lanes would wait for this one
    }
    for (const Partition& partition : pipeline_->partitions()) {
        if (pipeline_->lane_of(partition.id()) == lane) {
            Known& here = known(partition.id());
            here.outputs = std::move(before.known(partition.id()).outputs);
            here.gradients = std::move(before.known(partition.id()).gradients);
            here.outputs.begin_step();
            here.gradients.begin_step();
        }
    }
}

void StepRun::run_update(LaneId lane, const std::function<void()>& update) {
    const auto is_here = [&](const Partition& each) { return pipeline_->lane_of(each.id()) == lane; };
    // All that took this lane's outputs have run, and no update has changed its parameters yet.
    for (const Partition& partition : pipeline_->partitions()) {
        if (is_here(partition)) {
            known(partition.id()).kept_outputs.check(partition);
        }
    }
    const AtWork at_work;
    const auto first = std::ranges::find_if(pipeline_->partitions(), is_here);
    const TaskKey key{number_.step, TaskKind::optimizer, first->id().value(), -1, -1};
    try {
        const TaskSpan span(key, lane, false, pipeline_->observer());
        update();
    } catch (...) {
        failure_.add(graph_->tasks().size() + lane.index(), std::current_exception(), pipeline_->failure_at(key, lane));
        gate_.stop();
    }
}

TaskKey StepRun::key_of(TaskIndex task) const {
    TaskKey key = graph_->tasks()[task].key;
    key.step = number_.step;
    return key;
}

// ---- Tasks ----

void StepRun::compute(TaskIndex task, const TaskKey& key) {
    switch (key.kind) {
        case TaskKind::forward: run_forward(cell_of(key)); break;
        case TaskKind::recompute: run_recompute(cell_of(key)); break;
        case TaskKind::loss: run_loss(key); break;
        case TaskKind::backward: run_backward(cell_of(key), is_split(task)); break;
        case TaskKind::backward_weight: run_backward_weight(cell_of(key)); break;
        case TaskKind::all_reduce: run_all_reduce(PartitionId{key.partition}); break;
        case TaskKind::shared_sum: tensors_.add_shared_gradients(static_cast<std::size_t>(key.skip)); break;
        default: throw EngineError(to_string(key) + " is a kind of task this engine does not run");
    }
}

/// True if the micro-batch keeps only its inputs in forward.
bool StepRun::is_checkpointed(MicroBatchId i) const {
    return trains_ && pipescope::is_checkpointed(pipeline_->options().checkpoint, i, num_micro_batches());
}

void StepRun::run_forward(Cell at) {
    Partition& partition = pipeline_->partition(at.j);
    Known& so_far = known(at.j);
    if (so_far.forwards++ == 0) {
        devices_->release(pipeline_->lane_of(at.j), tensors_.take_shared_weights(at.j));
        partition.begin_mini_batch();
    }
    Tensors inputs = tensors_.take_inputs(at);
    const SharedElsewhere shared = messages_->shared_inputs(at, inputs);
    const bool keeps_graph = trains_ && !is_checkpointed(at.i);
    const at::AutoGradMode grad_mode(keeps_graph);
    // Without a graph, which outputs require a gradient is unknown, so every output that can may.
    const bool may_require_grad = trains_ && !keeps_graph && partition.goes_backward(inputs);
    InFlight& here = in_flight_[at];
    if (keeps_graph) {
        inputs = here.graph.open(inputs, inputs_from(at.j));
    } else if (trains_) {
        here.kept = std::make_unique<Kept>();
        here.kept->inputs = RecomputeInputs(inputs, pipeline_->is_training());
    }
    const Tensors watched = keeps_graph ? input_versions_.watched(at.j, inputs) : Tensors{};
    const Tensors outputs = partition.forward(std::move(inputs), place_of_random(at.i), marks_of(at),
                                              here.kept ? &here.kept->forward : nullptr);
    if (!watched.empty()) {
        input_versions_.note_history(at.i, at.j, watched);
    }
    input_versions_.check(at.i);
    shared.check(partition);
    so_far.outputs.check(partition, at.i, outputs, TaskKind::forward);
    so_far.kept_outputs.note(partition, at.i, outputs);
    if (keeps_graph) {
        here.graph.close(outputs);
    }
    tensors_.leave_outputs(at, outputs, may_require_grad);
    messages_->mark_shared(at, outputs, shared);
    if (so_far.forwards == num_micro_batches()) {
        partition.end_mini_batch();
    }
}

void StepRun::run_recompute(Cell at) {
    const at::AutoGradMode grad_mode(true);
    Partition& partition = pipeline_->partition(at.j);
    InFlight& here = in_flight_[at];
    LayerMarks* const marks = marks_of(at);
    if (marks != nullptr) {
        marks->clear();
    }
    Tensors inputs = here.graph.open(here.kept->inputs.take(partition, pipeline_->is_training()), inputs_from(at.j));
    here.graph.close(partition.recompute(std::move(inputs), place_of_random(at.i), here.kept->forward, marks));
}

/// Computes the loss of one micro-batch, or of the gathered output if the key names none.
void StepRun::run_loss(const TaskKey& key) {
    const bool is_whole = key.micro_batch < 0;
    const MicroBatchId i{key.micro_batch};
    const Tensors outputs = is_whole ? tensors_.gather_outputs() : tensors_.take_outputs(i);
    Tensors gradients = loss_->run(is_whole ? std::nullopt : std::optional(i), outputs);
    input_versions_.update_parts();  // the loss may have changed the input, which may be its target
    messages_->loss_computed(loss_->value(), is_whole);
    if (is_whole) {
        tensors_.cut_output_gradients(gradients);
    } else {
        tensors_.leave_output_gradients(i, std::move(gradients));
    }
}

/// A micro-batch's number among those of all replicas, which draw the random numbers of one pipeline.
MicroBatchId StepRun::among_all_replicas(MicroBatchId i) const {
    return MicroBatchId{pipeline_->replica() * num_micro_batches() + i.value()};
}

std::uint64_t StepRun::backward_seed_of(Cell at) const {
    return backward_seed(pipeline_->options().seed, number_.random_step, {among_all_replicas(at.i), at.j});
}

void StepRun::run_backward(Cell at, bool is_split) {
    // Gradients use the precision of their forward; autocast must not choose again.
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    const SeededRandom random(backward_seed_of(at));
    InFlight& here = in_flight_[at];
    if (is_split) {
        Partition& partition = pipeline_->partition(at.j);
        partition.split_notes().resize(partition.layers().size());
        const AsInForward as_in_forward(here.kept.get());
        Tensors gradients = here.graph.backward_inputs(tensors_.take_output_gradients(at), split_backwards_[at].marks,
                                                       partition.split_notes());
        split_backwards_[at].has_drawn = random.has_drawn();
        report_kept(at, gradients);
        pass_back(at, std::move(gradients));
    } else {
        const std::unique_ptr<const Kept> kept = std::move(here.kept);
        const AsInForward as_in_forward(kept.get());
        MicroBatchGraph graph = std::exchange(here.graph, {});
        pass_back(at, graph.backward(tensors_.take_output_gradients(at)));
    }
}

void StepRun::pass_back(Cell at, Tensors gradients) {
    known(at.j).gradients.check(pipeline_->partition(at.j), at.i, gradients, TaskKind::backward);
    tensors_.leave_input_gradients(at, std::move(gradients));
}

/// Tells the observer which gradients wait for the second half. `passed_on` are no such, even if they wait too.
void StepRun::report_kept(Cell at, const Tensors& passed_on) {
    if (pipeline_->observer() == nullptr) {
        return;
    }
    for (const at::Tensor& gradient : in_flight_[at].graph.weight_gradients()) {
        const bool leaves = std::any_of(passed_on.begin(), passed_on.end(),
                                        [&](const at::Tensor& each) { return share_storage(each, gradient); });
        if (!leaves) {
            pipeline_->observer()->kept(gradient, pipeline_->lane_of(at.j));
        }
    }
}

/// Computes the gradients of weights that the backward has left.
void StepRun::run_backward_weight(Cell at) {
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    const std::uint64_t seed = backward_seed_of(at);
    const SeededRandom random(split_backwards_[at].has_drawn ? second_half_seed(seed) : seed);
    const std::unique_ptr<const Kept> kept = std::move(in_flight_[at].kept);
    const AsInForward as_in_forward(kept.get());
    MicroBatchGraph graph = std::exchange(in_flight_[at].graph, {});
    graph.backward_weights();
}

/// Combines the partition's gradients of all replicas. The lane has computed all it had to, and gives its core away
/// while it waits.
void StepRun::run_all_reduce(PartitionId partition) {
    const LaneId lane = pipeline_->lane_of(partition);
    gate_.leave(lane);
    const std::vector<at::Tensor> parameters = pipeline_->partition(partition).trained_parameters();
    Tensors gradients;
    for (const at::Tensor& parameter : parameters) {
        gradients.push_back(parameter.grad());
    }
    messages_->reduce(lane, parameters, gradients);
    for (std::size_t k = 0; k < parameters.size(); ++k) {
        if (gradients[k].defined() && !parameters[k].grad().defined()) {
            parameters[k].mutable_grad() = gradients[k];
        }
    }
}

/// True between lanes of one process on the host, which share memory, if there is no observer to tell the storage's new
/// owner.
bool StepRun::moves_nothing(const Task& copy) const {
    return pipeline_->devices().on_host() && pipeline_->observer() == nullptr && pipeline_->is_here(copy.receiver);
}

/// Precondition: not moves_nothing().
void StepRun::run_copy(TaskIndex copy) {
    const Task& task = graph_->tasks()[copy];
    if (!pipeline_->is_here(task.receiver)) {
        messages_->send(copy);
        return;
    }
    const std::span<at::Tensor> moved = tensors_.moved_by(task.key);
    devices_->run_copy(copy, moved);
    for (const at::Tensor& tensor : moved) {
        if (pipeline_->observer() != nullptr && tensor.defined()) {
            pipeline_->observer()->moved(tensor, task.receiver);
        }
    }
}
}  // namespace pipescope
