#include "engine/step_run.h"

#include "engine/first_failure.h"
#include "engine/gradients/parameter_hooks.h"
#include "engine/lanes/process_end.h"
#include "engine/lanes/task_gate.h"
#include "engine/lanes/task_span.h"
#include "engine/mini_batch.h"
#include "engine/pipeline.h"
#include "engine/step_loss.h"
#include "engine/step_streams.h"
#include "engine/step_tasks.h"
#include "schedule/micro_batches.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>

#include <exception>
#include <optional>
#include <utility>

namespace pipescope {
class StepRun::Impl {
public:
    Impl(std::shared_ptr<Pipeline> pipeline, const Tensors& input, std::vector<std::int64_t> sizes, RunFor purpose);

    Tensors forward();
    Tensors backward(const Tensors& output_gradients);
    at::Tensor step(const Tensors& target, const GPipe::LossFunction& loss);
    Tensors take_input_gradients();
    void guard_input(const Tensors& input) { tasks_.tensors().input_versions().guard(input); }

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
    TaskKey key_of(TaskIndex task) const {
        TaskKey key = graph_->tasks()[task].key;
        key.step = number_.step;
        return key;
    }

    void run(Part part);
    void join_caller();
    void run_lane(LaneId lane, Part part);
    void run_task(TaskIndex task, LayerId& running);
    void run_copy(TaskIndex task);

    std::shared_ptr<Pipeline> pipeline_;
    std::shared_ptr<const TaskGraph> graph_;
    const StepNumber number_;
    const at::ThreadLocalState caller_;  // grad mode, autocast, inference mode, saved-tensor hooks
    StepTasks tasks_;
    std::optional<StepStreams> streams_;  // set if a lane is on an accelerator
    TaskGate gate_;
    Tensors target_;                // of step(), on the last lane's device
    Tensors output_;                // of forward(), gathered
    std::optional<StepLoss> loss_;  // during step()
    FirstFailure failure_;
    std::vector<char> torn_;  // by lane, each writes its own: its thread can no longer be used
};

StepRun::Impl::Impl(std::shared_ptr<Pipeline> pipeline, const Tensors& input, std::vector<std::int64_t> sizes,
                    RunFor purpose)
    : pipeline_(std::move(pipeline)),
      graph_(pipeline_->graph(static_cast<int>(sizes.size()), purpose == RunFor::training)),
      number_(pipeline_->take_number(purpose == RunFor::training)),
      tasks_(*pipeline_, {purpose != RunFor::values, number_.random_step}, input, std::move(sizes)),
      gate_(*graph_, pipeline_->core_scheduler()),
      torn_(static_cast<std::size_t>(pipeline_->lanes().count()), 0) {
    if (!pipeline_->devices().on_host()) {
        streams_.emplace(pipeline_->devices(), *graph_, tasks_.tensors(), purpose != RunFor::values);
    }
}

Tensors StepRun::Impl::forward() {
    run(Part::forward);
    record_callers_stream(output_);
    return std::exchange(output_, {});
}

Tensors StepRun::Impl::backward(const Tensors& output_gradients) {
    tasks_.tensors().set_output_gradients(output_gradients);
    const int last = graph_->shape().num_partitions - 1;
    gate_.finish(graph_->find({0, TaskKind::loss, last, -1, -1}).value());
    run(Part::backward);
    return take_input_gradients();
}

Tensors StepRun::Impl::take_input_gradients() {
    Tensors gradients = tasks_.tensors().gather_input_gradients();
    record_callers_stream(gradients);
    return gradients;
}

at::Tensor StepRun::Impl::step(const Tensors& target, const GPipe::LossFunction& loss) {
    const LaneId last = pipeline_->lane_of(PartitionId{graph_->shape().num_partitions - 1});
    for (const at::Tensor& tensor : target) {
        target_.push_back(tensor.defined() ? tensor.to(pipeline_->devices().of(last).device()) : tensor);
    }
    loss_.emplace(target_, loss, graph_->shape().loss, pipeline_->options().reduction, tasks_.tensors().sizes());
    const std::vector<at::Tensor> parameters = pipeline_->trained_parameters();
    SummedForHooks summed(parameters);
    run(Part::all);
    add_to_gradients(parameters, summed.take());
    record_callers_stream({loss_->value()});
    return loss_->value();
}

void StepRun::Impl::run(Part part) {
    if (streams_) {
        pipeline_->devices().begin(tasks_.tensors().input_part(0));
    }
    InputVersions& versions = tasks_.tensors().input_versions();
    if (part == Part::backward) {
        versions.update_parts();
    }
    pipeline_->lanes().run([this, part](LaneId lane) {
        run_lane(lane, part);
        gate_.leave(lane);
    });
    if (part != Part::backward) {
        versions.update_input();
    }
    if (streams_) {
        join_caller();
    }
    if (gate_.stopped()) {
        tasks_.tensors().clear();
        for (std::size_t lane = 0; lane < torn_.size(); ++lane) {
            if (torn_[lane] != 0) {
                pipeline_->renew_lane(LaneId{lane});
            }
        }
        std::exception_ptr exception;
        if (auto failure = failure_.take(exception)) {
            pipeline_->set_last_failure(std::move(*failure));
            std::rethrow_exception(exception);
        }
    }
}

void StepRun::Impl::join_caller() {
    if (gate_.stopped()) {
        pipeline_->devices().abandon();
    } else {
        pipeline_->devices().end();
        streams_->wait_for_input();
    }
}

void StepRun::Impl::run_lane(LaneId lane, Part part) {
    const at::ThreadLocalStateGuard as_caller(caller_);
    const OnLaneDevice on_device(pipeline_->devices().of(lane));
    // The cache of cast weights is process-wide and cleared when the caller leaves autocast. A cast made under no_grad
    // would lose the weight's gradient, and one made by a late recompute would outlive the next optimizer step.
    at::autocast::set_autocast_cache_enabled(false);
    for (const TaskIndex task : graph_->lane_order(lane)) {
        const TaskKind kind = graph_->tasks()[task].key.kind;
        if (!belongs_to(part, kind)) {
            continue;
        }
        if (!gate_.wait(task)) {
            return;
        }
        const AtWork at_work;
        TaskIndex current = task;
        LayerId running{-1};
        try {
            if (kind == TaskKind::loss && part == Part::forward) {
                output_ = tasks_.tensors().gather_outputs();  // the caller computes the loss
                return;
            }
            if (streams_) {
                streams_->before(task);
            }
            run_task(task, running);
            if (streams_) {
                streams_->after(task);
            }
            gate_.finish(task);
            for (const TaskIndex dependent : graph_->dependents(task)) {
                if (is_copy(graph_->tasks()[dependent].key.kind)) {
                    current = dependent;
                    run_copy(dependent);
                }
            }
        } catch (...) {  // a layer's exception reaches the caller unchanged
            // Backward may have run torch's engine in this thread.
            torn_[lane.index()] = kind == TaskKind::backward && !is_standard(std::current_exception());
            failure_.add(current, std::current_exception(),
                         pipeline_->failure_at(key_of(current), graph_->tasks()[current].lane, running));
            gate_.stop();
            return;
        }
    }
}

void StepRun::Impl::run_task(TaskIndex task, LayerId& running) {
    const TaskKey key = key_of(task);
    const bool checkpointed_forward = key.kind == TaskKind::forward && tasks_.is_checkpointed(key.micro_batch);
    const TaskSpan span(key, graph_->tasks()[task].lane, checkpointed_forward, pipeline_->observer());
    if (key.kind == TaskKind::loss) {
        tasks_.run_loss(key, *loss_);
    } else {
        tasks_.run(key, running);
    }
}

/// Runs on the sending lane's worker, right after the task that produced the tensors.
void StepRun::Impl::run_copy(TaskIndex task) {
    {
        const TaskSpan span(key_of(task), graph_->tasks()[task].lane, false, pipeline_->observer());
        if (streams_) {
            streams_->run_copy(task);
        }
        tasks_.run_copy(graph_->tasks()[task]);
    }
    gate_.finish(task);
}

StepRun::StepRun(const std::shared_ptr<Pipeline>& pipeline, const Tensors& input, RunFor purpose) {
    std::vector<std::int64_t> sizes = micro_batch_sizes(batch_size(input), pipeline->options().chunks);
    impl_ = std::make_unique<Impl>(pipeline, input, std::move(sizes), purpose);
}
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
Tensors StepRun::take_input_gradients() {
    return impl_->take_input_gradients();
}
void StepRun::guard_input(const Tensors& input) const {
    impl_->guard_input(input);
}
}  // namespace pipescope
