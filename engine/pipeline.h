#pragma once

#include "engine/cores/core_scheduler.h"
#include "engine/device/pipeline_devices.h"
#include "engine/engine_options.h"
#include "engine/lanes/lanes.h"
#include "engine/model_layers.h"
#include "engine/partition.h"
#include "engine/processes/lane_channels.h"
#include "engine/shared_parameters.h"
#include "engine/skips/skip_layout.h"
#include "schedule/task_graph.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace pipescope {
enum class RunFor {
    values,     ///< keeps nothing for backward
    gradients,  ///< in eval mode: backward may follow; no training step, so it runs in GPipe's order and is not counted
    training,   ///< backward or step() may follow: runs in the order of the options' schedule and is counted
};

/// Numbers a forward of a model.
struct StepNumber {
    std::int32_t step;         ///< in TaskKeys; -1 if it does not count as a step
    std::int64_t random_step;  ///< in RandomPlace
};

/// Tells which layers this process runs, if the options name several processes. Throws as Pipeline's constructor does.
IsLayerHere layers_here(const GPipeOptions& options, std::size_t num_layers);

/// State shared by all runs of a model: its partitions, lanes and schedules. Kept alive by the model and by every
/// output whose backward may still follow.
class Pipeline {
public:
    /// Throws BalanceError, UsageError or EngineError if layers and options do not fit.
    Pipeline(std::vector<ModelLayer> layers, GPipeOptions options);

    const GPipeOptions& options() const noexcept { return options_; }
    const Balance& balance() const noexcept { return balance_; }
    std::vector<Partition>& partitions() noexcept { return partitions_; }
    Partition& partition(PartitionId id) { return partitions_[id.index()]; }
    const std::vector<Partition>& partitions() const noexcept { return partitions_; }
    const SkipLayout& skips() const noexcept { return skips_; }
    SharedParameters& shared() noexcept { return shared_; }
    const std::vector<SharedRoute>& shared_routes() const noexcept { return shape_.shared; }
    LaneId lane_of(PartitionId partition) const { return shape_.lane_of(partition); }
    int num_lanes() const { return shape_.num_lanes(); }
    /// Null if all lanes are in this process.
    LaneChannels* channels() const noexcept { return channels_.get(); }
    bool is_here(LaneId lane) const { return !channels_ || channels_->is_here(lane); }
    /// Number of the pipeline that this process is part of; 0 without replicas.
    int replica() const { return channels_ ? channels_->ranks().replica : 0; }
    /// True if partition 0, or the last one, is in this process.
    bool is_first_here() const { return is_here(lane_of(partitions_.front().id())); }
    bool is_last_here() const { return is_here(lane_of(partitions_.back().id())); }
    Lanes& lanes() noexcept { return *lanes_; }
    /// Gives the lane a new thread, while no lane runs.
    void renew_lane(LaneId lane);
    PipelineDevices& devices() noexcept { return *devices_; }
    /// Null if each lane on the host has its own core. Used by the scheduled driver only.
    CoreScheduler* core_scheduler() noexcept { return core_scheduler_.get(); }
    TaskObserver* observer() const noexcept { return options_.observer; }
    /// Replicas add their gradients and losses, which are parts of a sum; otherwise they take the mean by samples.
    bool adds_over_replicas() const { return options_.reduction == Reduction::sum || options_.weight != nullptr; }
    /// Warns once, on standard error, that a step's loss is nan because of some micro-batches only.
    void warn_of_nan(MicroBatchId micro_batch);
    /// How runs that begin now cut their mini-batch.
    std::shared_ptr<const MiniBatchSplit> split() const noexcept { return split_; }
    void set_split(MiniBatchSplit split) { split_ = std::make_shared<const MiniBatchSplit>(std::move(split)); }

    bool is_training() const noexcept { return training_; }
    void train(bool on);
    /// The mode that the layers are already in. Leaves them alone: some may be frozen in eval().
    void take_mode(bool training) noexcept { training_ = training; }
    /// See GPipe::list_tensors().
    void list_tensors();
    bool has_trainable_parameters() const;
    /// Parameters that currently require a gradient, each once, in layer order.
    std::vector<at::Tensor> trained_parameters() const;
    /// Those of the partitions on lanes for which `is_wanted` is true.
    std::vector<at::Tensor> trained_parameters(const std::function<bool(LaneId)>& is_wanted) const;

    /// The schedule for m micro-batches, built once. A run that is no training step always uses GPipe's order. Throws
    /// UsageError if the schedule does not support that many.
    std::shared_ptr<const TaskGraph> graph(int num_micro_batches, RunFor purpose);

    std::int32_t next_step() const noexcept { return next_step_; }
    void set_next_step(std::int32_t step) noexcept { next_step_ = step; }
    /// Counts a forward. The random numbers of a forward that is no training step must differ from the previous one's
    /// and must not shift those of training steps.
    StepNumber take_number(RunFor purpose) noexcept;

    /// From any thread, since autograd's threads recompute too.
    std::optional<Failure> last_failure() const {
        const std::lock_guard lock(failure_mutex_);
        return last_failure_;
    }
    void set_last_failure(Failure failure) {
        const std::lock_guard lock(failure_mutex_);
        last_failure_ = std::move(failure);
    }
    /// Describes a task that failed in this thread. If it is the current task, also says in which layer.
    Failure failure_at(const TaskKey& key, LaneId lane) const;

private:
    void connect(std::size_t num_layers);
    void place(std::vector<ModelLayer> layers);
    void list_shared();
    LaneId lane_of_gradients(PartitionId partition) const;

    GPipeOptions options_;
    std::shared_ptr<const MiniBatchSplit> split_;
    Balance balance_;
    SkipLayout skips_;
    SharedParameters shared_;
    PipelineShape shape_;  // of the schedules, except for the number of micro-batches
    std::unique_ptr<LaneChannels> channels_;
    std::unique_ptr<PipelineDevices> devices_;
    std::unique_ptr<CoreScheduler> core_scheduler_;
    std::vector<Partition> partitions_;
    /// By number of micro-batches, purpose, and which routes of shared parameters train.
    std::map<std::tuple<int, RunFor, std::vector<bool>>, std::shared_ptr<const TaskGraph>> graphs_;
    bool training_ = true;
    std::int32_t next_step_ = 0;
    std::int64_t next_inference_ = 0;
    bool has_warned_of_nan_ = false;
    mutable std::mutex failure_mutex_;
    std::optional<Failure> last_failure_;  // guarded by failure_mutex_
    std::unique_ptr<Lanes> lanes_;         // last: its threads use all of the above
};
}  // namespace pipescope
