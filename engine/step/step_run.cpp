// One step, from top to bottom: what the caller's thread does, how a lane walks its tasks and how the first failure
// ends the walk, what each kind of task does, and which tensors it takes and leaves.
//
// Task (i, j) is micro-batch i on partition j. Tensors wait in the slot of the task that takes them:
//
//     slot (i, j)                                             slot (i, j+1)
//     inputs, skips ──▶ forward (i, j) ──▶ outputs ── copy ──▶ inputs ──▶ forward (i, j+1) ──▶ ... ──▶ loss
//                          │ graph, or inputs to recompute it from                                      │
//     slot (i, j-1)        ▼                                  slot (i, j)                                ▼
//     gradients ◀── copy ── backward (i, j) ◀───────────────── gradients ◀── backward (i, j+1) ◀── ... ◀─┘
//
// A skip goes straight to the slot of the task that pops it, past the partitions between; its gradient comes back so.
// If a copy's two ends are in different processes, the sending process has a slot of its own for the receiving task.
// The copy sends the tensors in it, and the receiving process puts them into its slot.

#include "engine/step/step_run.h"

#include "engine/engine_error.h"
#include "engine/gradients/gradient_needs.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/gradients/parameter_hooks.h"
#include "engine/lanes/process_end.h"
#include "engine/lanes/task_span.h"
#include "engine/mini_batch.h"
#include "engine/processes/lane_channels.h"
#include "engine/random.h"
#include "engine/shared_memory.h"
#include "engine/task_observer.h"
#include "schedule/micro_batches.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <string>
#include <utility>

namespace pipescope {
namespace {
/// Concatenates `front` and `back`.
Tensors joined(Tensors front, Tensors back) {
    if (front.empty()) {
        return back;
    }
    front.insert(front.end(), std::make_move_iterator(back.begin()), std::make_move_iterator(back.end()));
    return front;
}

/// Samples of the mini-batch, which only the process of partition 0 knows.
std::int64_t samples_of(Pipeline& pipeline, const Tensors& input, const std::vector<TensorSplit>& how, RunFor purpose) {
    LaneChannels* const channels = pipeline.channels();
    if (channels == nullptr) {
        return batch_size(input, how);
    }
    if (channels->is_first_here() && input.empty()) {
        throw EngineError(
            "the input holds no tensor in the process of partition 0, which is the one that reads it; "
            "pass it there; other processes may pass none");
    }
    return channels
        ->start({purpose == RunFor::values ? LaneChannels::Purpose::values : LaneChannels::Purpose::training,
                 channels->is_first_here() ? batch_size(input, how) : 0})
        .batch;
}

/// True if the exception being handled is a ProcessError.
bool is_process_error() {
    try {
        throw;
    } catch (const ProcessError&) {
        return true;
    } catch (...) {
        return false;
    }
}

void drop_front(Tensors& tensors, std::size_t count) {
    tensors.erase(tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(count));
}
}  // namespace

// ---- The caller's thread ----

StepRun::StepRun(std::shared_ptr<Pipeline> pipeline, const Tensors& input, RunFor purpose)
    : pipeline_(std::move(pipeline)),
      split_(pipeline_->split()),
      channels_(pipeline_->channels()),
      sizes_(micro_batch_sizes(samples_of(*pipeline_, input, split_->input, purpose), pipeline_->options().chunks)),
      graph_(pipeline_->graph(num_micro_batches(), purpose)),
      number_(pipeline_->take_number(purpose)),
      trains_(purpose != RunFor::values),
      splits_(splits_backward(pipeline_->options().schedule)),
      caller_(std::make_unique<at::ThreadLocalState>()),
      slots_(pipeline_->partitions().size() * sizes_.size()),
      output_reuse_(pipeline_->partitions().size()),
      gradient_reuse_(pipeline_->partitions().size()),
      kept_outputs_(pipeline_->partitions().size()),
      forwards_(pipeline_->partitions().size()),
      outputs_(sizes_.size()),
      input_gradients_(sizes_.size()),
      gate_(*graph_, pipeline_->core_scheduler()),
      torn_(static_cast<std::size_t>(pipeline_->num_lanes()), 0) {
    if (splits_ || channels_ != nullptr || !pipeline_->skips().routes().empty()) {
        extras_.resize(slots_.size());
        for (const Partition& partition : pipeline_->partitions()) {
            for (int i = 0; i < num_micro_batches(); ++i) {
                Extras& here = extras({MicroBatchId{i}, partition.id()});
                here.skips.resize(partition.skips().incoming.size());
                here.stashed.resize(partition.skips().incoming.size());
                here.shares_skips.resize(partition.skips().incoming.size());
                here.skip_gradients.resize(partition.skips().outgoing.size());
            }
        }
    }
    if (pipeline_->is_first_here()) {
        cut_input(input);
    }
    if (!pipeline_->devices().on_host()) {
        streams_.emplace(pipeline_->devices(), *graph_, trains_);
    }
}

StepRun::~StepRun() = default;

void StepRun::cut_input(const Tensors& input) {
    Tensors leaves;
    for (const at::Tensor& tensor : input) {
        leaves.push_back(tensor.detach());
    }
    std::vector<Tensors> parts = split(leaves, sizes_, split_->input);
    if (trains_) {
        refuse_made_gradients(input, split_->input);
    }
    for (Tensors& part : parts) {
        if (trains_) {
            refuse_made_gradients(part, split_->input);
        }
        for (std::size_t k = 0; k < part.size(); ++k) {
            part[k] = part[k].detach();  // otherwise a view made in no_grad mode could not become a leaf
            if (trains_ && input[k].requires_grad()) {
                part[k].set_requires_grad(true);
            }
        }
    }
    input_versions_ = InputVersions(input, parts, split_->input, trains_);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        slot({MicroBatchId{i}, PartitionId{0}}).inputs = std::move(parts[i]);
    }
    for (std::size_t k = 0; k < input.size(); ++k) {
        input_.push_back(trains_ && input[k].requires_grad() ? input[k] : at::Tensor());
    }
}

Tensors StepRun::forward() {
    run(Part::forward);
    if (is_checkpointed(MicroBatchId{0})) {
        parameter_versions_ = ParameterVersions(pipeline_->partitions());
    }
    record_callers_stream(gathered_output_);
    return std::exchange(gathered_output_, {});
}

Tensors StepRun::backward(const Tensors& output_gradients) {
    parameter_versions_.check(pipeline_->partitions());
    cut_output_gradients(output_gradients);
    gate_.finish(whole_loss().value());
    run(Part::backward);
    return take_input_gradients();
}

at::Tensor StepRun::step(const Tensors& target, const LossFunction& loss) {
    if (pipeline_->is_last_here()) {
        loss_.emplace(*pipeline_, input_, target, loss, graph_->shape().loss, sizes_);
    }
    const std::vector<at::Tensor> parameters = pipeline_->trained_parameters();
    // A mean over replicas keeps what .grad held before, since all hold the same; a sum does not.
    SummedForHooks summed(parameters, has_replicas() && pipeline_->adds_over_replicas());
    run(Part::all);
    add_to_gradients(parameters, summed.take());
    if (!loss_) {
        return received_loss_;
    }
    warn_of_nan();
    if (has_replicas()) {
        return total_loss_;
    }
    record_callers_stream({loss_->value()});
    return loss_->value();
}

void StepRun::begin_step(const Tensors& target, const LossFunction& loss) {
    loss_.emplace(*pipeline_, input_, target, loss, graph_->shape().loss, sizes_);
    const LaneId lane_of_loss = pipeline_->lane_of(last_partition());
    loss_->refuse(pipeline_->trained_parameters([=](LaneId lane) { return lane != lane_of_loss; }));
}

at::Tensor StepRun::end_step() {
    input_versions_.update_input();
    if (gate_.stopped()) {
        rethrow_first_failure();
    }
    warn_of_nan();
    return loss_->value();
}

void StepRun::warn_of_nan() {
    if (const std::optional<MicroBatchId> micro_batch = loss_->only_nan()) {
        pipeline_->warn_of_nan(*micro_batch);
    }
}

Tensors StepRun::take_input_gradients() {
    const at::NoGradGuard no_grad;
    Tensors gradients =
        gather_gradients(std::exchange(input_gradients_, {}), std::exchange(input_, {}), sizes_, split_->input);
    for (at::Tensor& gradient : gradients) {
        if (is_storage_shared(gradient)) {  // if a single micro-batch's gradient was passed through
            gradient = gradient.clone();
        }
    }
    record_callers_stream(gradients);
    return gradients;
}

void StepRun::run(Part part) {
    if (trains_ && part != Part::forward) {
        refuse_shared_gradients(*pipeline_);
    }
    if (streams_) {
        pipeline_->devices().begin(slot({MicroBatchId{0}, PartitionId{0}}).inputs);
    }
    if (part == Part::backward) {
        input_versions_.update_parts();
    }
    receive(part);
    pipeline_->lanes().run(
        [this, part](LaneId lane) {
            try {
                run_lane(lane, part);
            } catch (...) {  // between two tasks, such as the device's own error
                fail(graph_->lane_order(lane).front(), lane);
            }
            gate_.leave(lane);
        },
        pipeline_->options().while_waiting ? [this] { ask_caller(); } : std::function<void()>());
    if (channels_ != nullptr && part == Part::all && has_replicas() && loss_ && !gate_.stopped()) {
        share_loss();
    }
    if (channels_ != nullptr) {
        channels_->finish();
    }
    if (part != Part::backward) {
        input_versions_.update_input();
    }
    check_kept_outputs();
    if (gate_.stopped()) {
        rethrow_first_failure();
    }
    if (streams_) {
        pipeline_->devices().end();
        streams_->wait_for_input();
    }
}

void StepRun::check_kept_outputs() {
    for (std::size_t j = 0; j < kept_outputs_.size() && !gate_.stopped(); ++j) {
        const PartitionId partition{j};
        try {
            kept_outputs_[j].check(pipeline_->partition(partition));
        } catch (...) {
            fail(graph_->find({0, TaskKind::forward, partition.value(), 0, -1}).value(), pipeline_->lane_of(partition));
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
        if (channels_ != nullptr) {
            channels_->processes().fail_by_exception();
        }
        gate_.stop();
    }
}

/// Combines the losses of all replicas, which the other processes of this one wait for.
void StepRun::share_loss() {
    try {
        const OnLaneDevice on_device(pipeline_->devices().of(pipeline_->lane_of(last_partition())));
        const at::Tensor own = loss_->value().cpu();
        Tensors total = {own.to(at::kDouble)};  // a replica without a loss of its own may not know its type
        channels_->reduce(std::nullopt, total, total);
        total_loss_ = total[0].to(own.scalar_type());
        channels_->send_loss(total_loss_);
    } catch (const ProcessError&) {
        gate_.stop();  // run() says why, once no channel uses this run any more
    }
}

/// Makes what other processes send reach its slots and open its tasks.
void StepRun::receive(Part part) {
    if (channels_ == nullptr) {
        return;
    }
    // A gathered loss is sent once. With replicas, the sum over all replicas follows.
    const int num_losses = part != Part::all ? 0 : has_replicas() && whole_loss() ? 2 : 1;
    channels_->receive(*graph_, [part](TaskKind kind) { return moves_in(part, kind); }, num_losses,
                       {.copy = [this](const TaskKey& copy, const ReceivedMessage& message) { deliver(copy, message); },
                        .loss =
                            [this](at::Tensor loss) {
                                const bool is_first = !received_loss_.defined();
                                received_loss_ = std::move(loss);
                                if (const auto task = whole_loss(); task && is_first) {
                                    gate_.finish(*task);
                                }
                            },
                        .stop = [this] { gate_.stop(); }});
}

/// The task of the gathered output's loss, if the schedule has one.
std::optional<TaskIndex> StepRun::whole_loss() const {
    return graph_->find({0, TaskKind::loss, last_partition().value(), -1, -1});
}

void StepRun::rethrow_first_failure() {
    if (streams_) {
        pipeline_->devices().abandon();
    }
    slots_.clear();
    extras_.clear();
    outputs_.clear();
    input_gradients_.clear();
    input_.clear();
    renew_torn_lanes();
    if (interruption_) {
        std::rethrow_exception(std::exchange(interruption_, nullptr));
    }
    std::exception_ptr exception;
    if (const std::optional<Failure> failure = failure_.take(exception)) {
        pipeline_->set_last_failure(*failure);
        std::rethrow_exception(exception);
    }
    throw ProcessError(channels_->processes().failure().value());
}

void StepRun::renew_torn_lanes() {
    for (std::size_t lane = 0; lane < torn_.size(); ++lane) {
        if (std::exchange(torn_[lane], 0) != 0) {
            pipeline_->renew_lane(LaneId{lane});
        }
    }
}

// ---- A lane's thread ----

void StepRun::run_step(LaneId lane, StepRun* before, const std::function<void(LaneId)>& update) {
    try {
        run_and_update(lane, before, update);
    } catch (...) {  // between two tasks
        fail(graph_->lane_order(lane).front(), lane);
    }
    gate_.leave(lane);
}

void StepRun::run_and_update(LaneId lane, StepRun* before, const std::function<void(LaneId)>& update) {
    if (before != nullptr && before->stopped()) {
        gate_.stop();  // the other lanes would wait for this one
    }
    for (const Partition& partition : pipeline_->partitions()) {
        if (before != nullptr && pipeline_->lane_of(partition.id()) == lane) {
            for (const auto reuses : {&StepRun::output_reuse_, &StepRun::gradient_reuse_}) {
                OutputReuse& reuse = (this->*reuses)[partition.id().index()];
                reuse = std::move((before->*reuses)[partition.id().index()]);
                reuse.begin_step();
            }
        }
    }
    const std::vector<at::Tensor> parameters =
        pipeline_->trained_parameters([lane](LaneId each) { return each == lane; });
    SummedForHooks summed(parameters);
    if (run_lane(lane, Part::all) && !gate_.stopped()) {
        // All that took this lane's outputs have run, and no update has changed its parameters yet.
        for (const Partition& partition : pipeline_->partitions()) {
            if (pipeline_->lane_of(partition.id()) == lane) {
                kept_outputs_[partition.id().index()].check(partition);
            }
        }
        update_lane(lane, [&] {
            add_to_gradients(parameters, summed.take());
            update(lane);
        });
    }
}

/// Runs the lane's hooks and its optimizer, for which the other lanes need not have ended this step.
void StepRun::update_lane(LaneId lane, const std::function<void()>& update) {
    const AtWork at_work;
    const auto first = std::ranges::find_if(
        pipeline_->partitions(), [&](const Partition& each) { return pipeline_->lane_of(each.id()) == lane; });
    const TaskKey key{number_.step, TaskKind::optimizer, first->id().value(), -1, -1};
    try {
        const TaskSpan span(key, lane, false, pipeline_->observer());
        update();
    } catch (...) {
        failure_.add(graph_->tasks().size() + lane.index(), std::current_exception(), pipeline_->failure_at(key, lane));
        gate_.stop();
    }
}

bool StepRun::belongs_to(Part part, TaskKind kind) {
    switch (part) {
        case Part::forward: return kind == TaskKind::forward || kind == TaskKind::loss;
        case Part::backward: return kind == TaskKind::recompute || kind == TaskKind::backward;
        case Part::all: return true;
    }
    return false;
}

bool StepRun::moves_in(Part part, TaskKind copy) {
    const bool is_forward = copy == TaskKind::copy_forward || copy == TaskKind::skip_forward;
    return part == Part::all || is_forward == (part == Part::forward);
}

TaskKey StepRun::key_of(TaskIndex task) const {
    TaskKey key = graph_->tasks()[task].key;
    key.step = number_.step;
    return key;
}

/// Returns false if the run ended early.
bool StepRun::run_lane(LaneId lane, Part part) {
    const at::ThreadLocalStateGuard as_caller(*caller_);
    const OnLaneDevice on_device(pipeline_->devices().of(lane));
    // The cache of cast weights is process-wide and cleared when the caller leaves autocast. A cast made under no_grad
    // would lose the weight's gradient, and one made by a late recompute would outlive the next optimizer step.
    at::autocast::set_autocast_cache_enabled(false);
    const bool is_profiled = may_be_profiled();
    for (const TaskIndex task : graph_->lane_order(lane)) {
        if (belongs_to(part, graph_->tasks()[task].key.kind) && !(gate_.wait(task) && run_task(task, is_profiled))) {
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
            gathered_output_ = gather_outputs();  // the caller computes the loss; backward() finishes the task
            return true;
        }
        if (streams_ && key.kind == TaskKind::forward && key.partition == 0) {
            streams_->enter(cell_of(key).i, lane, slot(cell_of(key)).inputs);
        }
        if (streams_) {
            streams_->before(task);
        }
        if (channels_ != nullptr) {
            channels_->processes().note(key);
        }
        span.emplace(key, lane, key.kind == TaskKind::forward && is_checkpointed(cell_of(key).i), pipeline_->observer(),
                     splits_ && key.kind == TaskKind::backward && graph_->is_split(task), is_profiled);
        compute(task, key);
        span.reset();
        if (streams_) {
            streams_->after(task);
        }
        gate_.finish(task);
        for (const TaskIndex dependent : graph_->dependents(task)) {
            const Task& copy = graph_->tasks()[dependent];
            if (!is_copy(copy.key.kind)) {
                continue;
            }
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
        if (channels_ == nullptr || !(is_process_error() && channels_->processes().failure())) {
            const Failure failure = pipeline_->failure_at(key_of(task), lane);
            failure_.add(task, thrown, failure);
            if (channels_ != nullptr) {
                channels_->processes().fail_by_exception(", lane " + std::to_string(lane.value()) + ", " +
                                                         to_string(key_of(task)) + ", layer " + failure.layer_name);
            }
        }
    } catch (...) {  // there is no memory for words about it
        failure_.add(task, thrown, {key_of(task), lane, LayerId{}, {}});
    }
    gate_.stop();
}

// ---- Tasks ----

void StepRun::compute(TaskIndex task, const TaskKey& key) {
    switch (key.kind) {
        case TaskKind::forward: run_forward(cell_of(key)); break;
        case TaskKind::recompute: run_recompute(cell_of(key)); break;
        case TaskKind::loss: run_loss(key); break;
        case TaskKind::backward: run_backward(cell_of(key), splits_ && graph_->is_split(task)); break;
        case TaskKind::backward_weight: run_backward_weight(cell_of(key)); break;
        case TaskKind::all_reduce: run_all_reduce(PartitionId{key.partition}); break;
        default: throw EngineError(to_string(key) + " is a kind of task this engine does not run");
    }
}

/// True if the micro-batch keeps only its inputs in forward.
bool StepRun::is_checkpointed(MicroBatchId i) const {
    return trains_ && pipescope::is_checkpointed(pipeline_->options().checkpoint, i, num_micro_batches());
}

void StepRun::run_forward(Cell at) {
    Partition& partition = pipeline_->partition(at.j);
    int& forwards = forwards_[at.j.index()];
    if (forwards++ == 0) {
        partition.begin_mini_batch();
    }
    Tensors inputs = take_inputs(at);
    const SharedElsewhere shared = channels_ != nullptr ? shared_elsewhere(at, inputs) : SharedElsewhere();
    const bool keeps_graph = trains_ && !is_checkpointed(at.i);
    const at::AutoGradMode grad_mode(keeps_graph);
    // Without a graph, which outputs require a gradient is unknown, so every output that can may.
    const bool may_require_grad = trains_ && !keeps_graph && partition.goes_backward(inputs);
    if (keeps_graph) {
        inputs = slot(at).graph.open(inputs, inputs_from(at.j));
    } else if (trains_) {
        slot(at).kept = std::make_unique<Kept>();
        slot(at).kept->inputs = RecomputeInputs(inputs, pipeline_->is_training());
    }
    const Tensors watched = keeps_graph ? input_versions_.watched(at.j, inputs) : Tensors{};
    Kept* const kept = slot(at).kept.get();
    const Tensors outputs =
        partition.forward(std::move(inputs), place_of(at.i), marks_of(at), kept == nullptr ? nullptr : &kept->forward);
    if (!watched.empty()) {
        input_versions_.note_history(at.i, at.j, watched);
    }
    input_versions_.check(at.i);
    shared.check(partition);
    output_reuse_[at.j.index()].check(partition, at.i, outputs, TaskKind::forward);
    kept_outputs_[at.j.index()].note(partition, at.i, outputs);
    if (keeps_graph) {
        slot(at).graph.close(outputs);
    }
    leave_outputs(at, outputs, may_require_grad);
    if (channels_ != nullptr) {
        note_shared(at, outputs, shared);
    }
    if (forwards == num_micro_batches()) {
        partition.end_mini_batch();
    }
}

void StepRun::run_recompute(Cell at) {
    const at::AutoGradMode grad_mode(true);
    Partition& partition = pipeline_->partition(at.j);
    Slot& here = slot(at);
    LayerMarks* const marks = marks_of(at);
    if (marks != nullptr) {
        marks->clear();
    }
    Tensors inputs = here.graph.open(here.kept->inputs.take(partition, pipeline_->is_training()), inputs_from(at.j));
    here.graph.close(partition.recompute(std::move(inputs), place_of(at.i), here.kept->forward, marks));
}

/// Computes the loss of one micro-batch, or of the gathered output if the key names none.
void StepRun::run_loss(const TaskKey& key) {
    const bool is_whole = key.micro_batch < 0;
    const Cell at{MicroBatchId{key.micro_batch}, last_partition()};
    const Tensors outputs = is_whole ? gather_outputs() : std::exchange(outputs_[at.i.index()], {});
    Tensors gradients = loss_->run(is_whole ? std::nullopt : std::optional(at.i), outputs);
    input_versions_.update_parts();  // the loss may have changed the input, which may be its target
    if (channels_ != nullptr && (is_whole || (++num_losses_ == num_micro_batches() && !has_replicas()))) {
        channels_->send_loss(loss_->value().cpu());
    }
    if (is_whole) {
        cut_output_gradients(gradients);
    } else {
        slot(at).gradients = std::move(gradients);
    }
}

std::uint64_t StepRun::backward_seed_of(Cell at) const {
    return backward_seed(pipeline_->options().seed, number_.random_step, {among_all_replicas(at.i), at.j});
}

void StepRun::run_backward(Cell at, bool is_split) {
    // Gradients use the precision of their forward; autocast must not choose again.
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    const SeededRandom random(backward_seed_of(at));
    Slot& here = slot(at);
    if (is_split) {
        Partition& partition = pipeline_->partition(at.j);
        partition.split_notes().resize(partition.layers().size());
        const AsInForward as_in_forward(here.kept.get());
        Tensors gradients =
            here.graph.backward_inputs(take_output_gradients(at), extras(at).marks, partition.split_notes());
        extras(at).has_drawn = random.has_drawn();
        report_kept(at, gradients);
        leave_input_gradients(at, std::move(gradients));
    } else {
        const std::unique_ptr<const Kept> kept = std::move(here.kept);
        const AsInForward as_in_forward(kept.get());
        MicroBatchGraph graph = std::exchange(here.graph, {});
        leave_input_gradients(at, graph.backward(take_output_gradients(at)));
    }
}

/// Tells the observer which gradients wait for the second half. `passed_on` are no such, even if they wait too.
void StepRun::report_kept(Cell at, const Tensors& passed_on) {
    if (pipeline_->observer() == nullptr) {
        return;
    }
    for (const at::Tensor& gradient : slot(at).graph.weight_gradients()) {
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
    const SeededRandom random(extras(at).has_drawn ? second_half_seed(seed) : seed);
    const std::unique_ptr<const Kept> kept = std::move(slot(at).kept);
    const AsInForward as_in_forward(kept.get());
    MicroBatchGraph graph = std::exchange(slot(at).graph, {});
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
    channels_->reduce(lane, parameters, gradients);
    for (std::size_t k = 0; k < parameters.size(); ++k) {
        if (gradients[k].defined() && !parameters[k].grad().defined()) {
            parameters[k].mutable_grad() = gradients[k];
        }
    }
}

MicroBatchId StepRun::among_all_replicas(MicroBatchId i) const {
    return channels_ == nullptr ? i : MicroBatchId{channels_->ranks().replica * num_micro_batches() + i.value()};
}

/// True between lanes of one process on the host, which share memory, if there is no observer to tell the storage's new
/// owner.
bool StepRun::moves_nothing(const Task& copy) const {
    return !streams_ && pipeline_->observer() == nullptr && pipeline_->is_here(copy.receiver);
}

/// Precondition: not moves_nothing().
void StepRun::run_copy(TaskIndex copy) {
    const Task& task = graph_->tasks()[copy];
    if (!pipeline_->is_here(task.receiver)) {
        send(copy);
        return;
    }
    const std::span<at::Tensor> moved = moved_by(task.key);
    if (streams_) {
        streams_->run_copy(copy, moved);
    }
    for (const at::Tensor& tensor : moved) {
        if (pipeline_->observer() != nullptr && tensor.defined()) {
            pipeline_->observer()->moved(tensor, task.receiver);
        }
    }
}

/// Sends what the copy moves to another process.
void StepRun::send(TaskIndex copy) {
    const Task& task = graph_->tasks()[copy];
    Tensors sent;
    for (at::Tensor& tensor : moved_by(task.key)) {
        sent.push_back(std::exchange(tensor, {}));
    }
    std::vector<char> shares;
    if (task.key.kind == TaskKind::copy_forward) {
        shares = extras({MicroBatchId{task.key.micro_batch}, PartitionId{task.key.partition + 1}}).shares_inputs;
    } else if (task.key.kind == TaskKind::skip_forward) {
        shares = {shares_of_skip(task.key)};
    }
    std::optional<PackedMessage> message;
    const auto pack = [&](const LaneLink* to_host) {
        message.emplace(channels_->pack(key_of(copy), sent, shares, to_host));
    };
    StreamEvent on_host;
    if (streams_) {
        on_host = streams_->send(copy, sent, pack);
    } else {
        pack(nullptr);
    }
    channels_->send(task, std::move(*message), on_host, [this, copy, lane = task.lane] { fail(copy, lane); });
}

char& StepRun::shares_of_skip(const TaskKey& copy) {
    const auto skip = static_cast<std::size_t>(copy.skip);
    return extras({MicroBatchId{copy.micro_batch}, pipeline_->skips().routes()[skip].to})
        .shares_skips[pipeline_->skips().place_in(skip)];
}

/// Takes what a copy of another process has brought, and opens the task that waits for it.
void StepRun::deliver(const TaskKey& copy, const ReceivedMessage& message) {
    const std::optional<TaskIndex> task = graph_->find(copy);
    if (!task || pipeline_->is_here(graph_->tasks()[*task].lane)) {
        throw EngineError("another process sent " + to_string(copy) +
                          ", which is no copy to this one; all processes must build the same model");
    }
    std::optional<TaskRange> range(copy);
    const LaneId receiver = graph_->tasks()[*task].receiver;
    const auto unpack = [&message](const LaneLink* to_device) { return message.tensors(to_device); };
    try {
        Tensors tensors = streams_ ? streams_->receive(*task, unpack) : unpack(nullptr);
        for (const at::Tensor& tensor : tensors) {
            if (pipeline_->observer() != nullptr && tensor.defined()) {
                pipeline_->observer()->received(tensor, copy, receiver);
            }
        }
        put(copy, std::move(tensors), {message.numbers().begin(), message.numbers().end()});
    } catch (...) {
        fail(*task, receiver);
        return;
    }
    range.reset();  // before a task that waits for the copy can start
    gate_.finish(*task);
}

/// Puts what a copy has brought where its receiver looks for it.
void StepRun::put(const TaskKey& copy, Tensors tensors, const std::vector<char>& shares) {
    const Cell sender = cell_of(copy);
    switch (copy.kind) {
        case TaskKind::copy_forward:
            slot({sender.i, PartitionId{copy.partition + 1}}).inputs = std::move(tensors);
            extras({sender.i, PartitionId{copy.partition + 1}}).shares_inputs = shares;
            break;
        case TaskKind::copy_backward: slot(sender).gradients = std::move(tensors); break;
        default: {
            at::Tensor& place = moved_by(copy)[0];
            place = std::move(tensors.at(0));
            if (copy.kind == TaskKind::skip_forward) {
                shares_of_skip(copy) = shares.at(0);
                const auto skip = static_cast<std::size_t>(copy.skip);
                Extras& there = extras({sender.i, pipeline_->skips().routes()[skip].to});
                there.stashed[pipeline_->skips().place_in(skip)] = StashedVersion(place);
            }
        }
    }
}

// ---- Tensors that tasks take and leave ----

/// Incoming skips, then the previous partition's outputs. Throws EngineError if a skip was changed on its way.
Tensors StepRun::take_inputs(Cell at) {
    const auto& incoming = skips_of(at.j).incoming;
    Tensors inputs = std::exchange(slot(at).inputs, {});
    if (incoming.empty()) {
        return inputs;
    }
    Extras& here = extras(at);
    for (std::size_t k = 0; k < incoming.size(); ++k) {
        here.stashed[k].check(here.skips[k], pipeline_->skips().skips()[incoming[k]].name);
    }
    return joined(std::exchange(here.skips, {}), std::move(inputs));
}

/// `outputs` are the outgoing skips, then the last layer's outputs. Others get them as leaves.
void StepRun::leave_outputs(Cell at, const Tensors& outputs, bool may_require_grad) {
    Tensors leaves;
    leaves.reserve(outputs.size());
    for (const at::Tensor& output : outputs) {
        at::Tensor leaf = output.defined() ? output.detach() : output;
        if (leaf.defined() && trains_ && (output.requires_grad() || (may_require_grad && can_carry_gradient(output)))) {
            leaf.set_requires_grad(true);
        }
        leaves.push_back(std::move(leaf));
    }
    const auto& outgoing = skips_of(at.j).outgoing;
    for (std::size_t k = 0; k < outgoing.size(); ++k) {
        Extras& there = extras({at.i, pipeline_->skips().routes()[outgoing[k]].to});
        const std::size_t place = pipeline_->skips().place_in(outgoing[k]);
        there.stashed[place] = StashedVersion(leaves[k]);
        there.skips[place] = std::move(leaves[k]);
    }
    drop_front(leaves, outgoing.size());
    (at.j < last_partition() ? slot({at.i, PartitionId{at.j.value() + 1}}).inputs : outputs_[at.i.index()]) =
        std::move(leaves);
}

/// The inputs that the task which made them, perhaps in another process, has marked.
SharedElsewhere StepRun::shared_elsewhere(Cell at, const Tensors& inputs) {
    const Extras& here = extras(at);
    std::vector<char> shares = here.shares_skips;
    shares.insert(shares.end(), here.shares_inputs.begin(), here.shares_inputs.end());
    return {inputs, shares};
}

/// Marks an output for the task that takes it, if another output that travels apart from it has the same memory and one
/// of the two goes to another process, or if its memory is that of such an input.
void StepRun::note_shared(Cell at, const Tensors& outputs, const SharedElsewhere& inputs) {
    const auto& outgoing = skips_of(at.j).outgoing;
    const auto goes_to = [&](std::size_t k) {
        return k < outgoing.size() ? pipeline_->skips().routes()[outgoing[k]].to
                                   : PartitionId{std::min(at.j.value() + 1, last_partition().value())};
    };
    const auto leaves_process = [&](std::size_t k) { return !pipeline_->is_here(pipeline_->lane_of(goes_to(k))); };
    std::vector<char> of_inputs;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        bool shares = inputs.holds(outputs[k]) ||
                      (leaves_process(k) && pipeline_->partition(at.j).keeper_of(outputs[k]).defined());
        for (std::size_t other = 0; other < outputs.size() && !shares; ++other) {
            const bool apart = other != k && (k < outgoing.size() || other < outgoing.size());
            shares = apart && (leaves_process(k) || leaves_process(other)) && share_storage(outputs[k], outputs[other]);
        }
        if (k < outgoing.size()) {
            extras({at.i, goes_to(k)}).shares_skips[pipeline_->skips().place_in(outgoing[k])] = shares ? 1 : 0;
        } else {
            of_inputs.push_back(shares ? 1 : 0);
        }
    }
    if (at.j < last_partition()) {
        extras({at.i, PartitionId{at.j.value() + 1}}).shares_inputs = std::move(of_inputs);
    }
}

/// In the order of leave_outputs().
Tensors StepRun::take_output_gradients(Cell at) {
    Tensors gradients = std::exchange(slot(at).gradients, {});
    if (skips_of(at.j).outgoing.empty()) {
        return gradients;
    }
    return joined(std::exchange(extras(at).skip_gradients, {}), std::move(gradients));
}

/// In the order of take_inputs(); empty if there is none.
void StepRun::leave_input_gradients(Cell at, Tensors gradients) {
    const auto& incoming = skips_of(at.j).incoming;
    gradient_reuse_[at.j.index()].check(pipeline_->partition(at.j), at.i, gradients, TaskKind::backward);
    if (!gradients.empty()) {
        for (std::size_t k = 0; k < incoming.size(); ++k) {
            const PartitionId from = pipeline_->skips().routes()[incoming[k]].from;
            extras({at.i, from}).skip_gradients[pipeline_->skips().place_out(incoming[k])] = std::move(gradients[k]);
        }
        drop_front(gradients, incoming.size());
    }
    (at.j.value() > 0 ? slot({at.i, PartitionId{at.j.value() - 1}}).gradients : input_gradients_[at.i.index()]) =
        std::move(gradients);
}

/// The tensors that a copy task moves, in place; entries may be undefined.
std::span<at::Tensor> StepRun::moved_by(const TaskKey& copy) {
    const Cell sender = cell_of(copy);
    const auto skip = static_cast<std::size_t>(copy.skip);
    const SkipLayout& skips = pipeline_->skips();
    switch (copy.kind) {
        case TaskKind::copy_forward: return slot({sender.i, PartitionId{copy.partition + 1}}).inputs;
        case TaskKind::copy_backward: return slot(sender).gradients;
        case TaskKind::skip_forward:
            return std::span(extras({sender.i, skips.routes()[skip].to}).skips).subspan(skips.place_in(skip), 1);
        case TaskKind::skip_backward:
            return std::span(extras({sender.i, skips.routes()[skip].from}).skip_gradients)
                .subspan(skips.place_out(skip), 1);
        default: throw EngineError(to_string(copy) + " is no copy; only copies move tensors; ask for one");
    }
}

/// The last partition's outputs of all micro-batches, concatenated.
Tensors StepRun::gather_outputs() {
    const at::NoGradGuard no_grad;
    std::vector<bool> wants(outputs_.front().size(), false);
    output_sizes_.assign(wants.size(), {});
    for (const Tensors& outputs : outputs_) {
        for (std::size_t k = 0; k < outputs.size() && k < wants.size(); ++k) {
            wants[k] = wants[k] || outputs[k].requires_grad();
            const std::int64_t dimension = k < split_->output.size() ? split_->output[k] : 0;
            const bool has = -outputs[k].dim() <= dimension && dimension < outputs[k].dim();  // gather() refuses others
            output_sizes_[k].push_back(has ? outputs[k].size(dimension) : 0);
        }
    }
    Tensors whole = gather(std::exchange(outputs_, {}), split_->output);
    for (std::size_t k = 0; k < whole.size(); ++k) {
        whole[k] = whole[k].detach();
        whole[k].set_requires_grad(wants[k]);
    }
    return whole;
}

/// Cuts the gradients of the gathered output by the sizes that each output's parts had.
void StepRun::cut_output_gradients(const Tensors& gradients) {
    const at::NoGradGuard no_grad;
    if (num_micro_batches() == 1) {
        slot({MicroBatchId{0}, last_partition()}).gradients = gradients;
        return;
    }
    for (std::size_t k = 0; k < gradients.size(); ++k) {
        const std::vector<Tensors> parts =
            split({gradients[k]}, output_sizes_[k], {{.dimension = k < split_->output.size() ? split_->output[k] : 0}});
        for (std::size_t i = 0; i < parts.size(); ++i) {
            slot({MicroBatchId{i}, last_partition()}).gradients.push_back(parts[i].front());
        }
    }
}
}  // namespace pipescope
