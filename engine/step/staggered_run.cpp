#include "engine/step/staggered_run.h"

#include "engine/gradients/gradient_needs.h"
#include "engine/gradients/parameter_hooks.h"
#include "engine/lanes/process_end.h"
#include "engine/shared_memory.h"

#include <ATen/core/grad_mode.h>

#include <optional>
#include <string>
#include <utility>

namespace pipescope {
namespace {
void check_functions(const StaggeredTraining& training) {
    const auto check = [](bool is_given, const std::string& name, const std::string& purpose) {
        if (!is_given) {
            throw UsageError("train_staggered is given no " + name + " function; it " + purpose + "; pass one");
        }
    };
    check(static_cast<bool>(training.next), "next", "asks it for the mini-batches");
    check(static_cast<bool>(training.loss), "loss", "goes backward from a loss");
    check(static_cast<bool>(training.update), "update", "updates each lane's parameters by it");
}

void check_lanes(const Pipeline& pipeline) {
    const std::string remedy = "; use step(), which updates after all lanes are done";
    const GPipeOptions& options = pipeline.options();
    if (options.driver == Driver::autograd) {
        throw UsageError(
            "train_staggered is called with driver autograd, whose graph joins all lanes of a step; use driver "
            "scheduled");
    }
    if (pipeline.channels() != nullptr) {
        throw UsageError(
            "train_staggered is called in several processes, which agree on the start and end of each step" + remedy);
    }
    for (const std::string& device : options.devices) {
        if (device != "cpu") {
            throw UsageError("train_staggered is called with a lane on " + device +
                             "; the caller's streams wait for such lanes after each step" + remedy);
        }
    }
    if (!pipeline.shared_routes().empty()) {
        throw UsageError(
            "train_staggered is called where lanes share parameters; each lane updates its own at another "
            "time" +
            remedy);
    }
    if (!pipeline.has_trainable_parameters()) {
        throw UsageError(
            "train_staggered is called where no parameter requires a gradient; it updates parameters; let one require "
            "it, or use forward()");
    }
}
}  // namespace

StaggeredRun::StaggeredRun(std::shared_ptr<Pipeline> pipeline, const StaggeredTraining& training)
    : pipeline_(std::move(pipeline)), training_(training) {
    check_functions(training);
    if (!at::GradMode::is_enabled()) {
        throw UsageError("train_staggered is called under no_grad; it computes gradients; turn them on");
    }
    check_lanes(*pipeline_);
    pipeline_->shared().begin();
    refuse_shared_weights(*pipeline_);
    refuse_shared_gradients(*pipeline_);
}

void StaggeredRun::run() {
    try {
        run_steps();
    } catch (...) {
        for (const auto& run : {running_.get(), ahead_.get()}) {
            if (run != nullptr) {
                run->renew_torn_lanes();
            }
        }
        throw;
    }
}

void StaggeredRun::run_steps() {
    {
        Lanes::Jobs jobs(pipeline_->lanes());  // ends after the lanes, whatever throws
        running_ = begin(jobs, nullptr);
        while (running_ != nullptr) {
            ahead_ = running_->stopped() ? nullptr : begin(jobs, running_.get());
            jobs.wait_for_oldest();
            if (running_->stopped()) {
                break;
            }
            last_ = std::exchange(running_, std::move(ahead_));
            last_->end(StepHalves::both);
            const at::Tensor loss = last_->loss_for_caller();
            if (training_.done) {
                training_.done(loss);
            }
        }
    }
    if (running_ != nullptr) {
        running_->end(StepHalves::both);  // throws
    }
}

/// Posts the next step to the lanes; null if there is none.
std::unique_ptr<StepRun> StaggeredRun::begin(Lanes::Jobs& jobs, StepRun* before) {
    std::optional<MiniBatch> batch = training_.next();
    if (!batch) {
        return nullptr;
    }
    if (any_requires_grad(batch->input)) {
        throw UsageError(
            "train_staggered is given an input that requires a gradient; the input's own graph would belong to earlier "
            "parameters; detach it, or use step()");
    }
    const AtWork at_work;
    auto run = std::make_unique<StepRun>(pipeline_, batch->input, RunFor::training);
    const LaneId lane_of_loss = pipeline_->lane_of(pipeline_->partitions().back().id());
    run->set_loss(batch->target, training_.loss,
                  pipeline_->trained_parameters([=](LaneId lane) { return lane != lane_of_loss; }));
    jobs.post(
        [this, run = run.get(), before](LaneId lane) { run->on_lane(lane, [&] { run_lane(lane, *run, before); }); });
    return run;
}

/// A lane's part of a step: its tasks, then its update. `before`: the previous step, or null.
void StaggeredRun::run_lane(LaneId lane, StepRun& step, StepRun* before) {
    if (before != nullptr) {
        step.follow(*before, lane);
    }
    const std::vector<at::Tensor> parameters =
        pipeline_->trained_parameters([lane](LaneId each) { return each == lane; });
    SummedForHooks summed(parameters);
    if (step.run_tasks(lane, StepHalves::both) && !step.stopped()) {
        step.run_update(lane, [&] {
            add_to_gradients(parameters, summed.take());
            training_.update(lane);
        });
    }
}
}  // namespace pipescope
