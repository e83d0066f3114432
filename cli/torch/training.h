#pragma once

#include "cli/torch/lane_optimizers.h"
#include "engine/driver.h"
#include "engine/gpipe.h"
#include "engine/layer.h"
#include "engine/processes/processes.h"
#include "profiler/profile/profile.h"
#include "simulator/simulation.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
class TrainingSaves;

struct TrainingOptions {
    PipelineOptions pipeline;             ///< balance, chunks, batch, checkpoint, devices, optimizer
    std::int64_t steps = 10;              ///< including the steps of the run that this one continues
    std::int64_t warmup = 2;              ///< number of first steps to leave out of the figures; less than `steps`
    std::optional<double> learning_rate;  ///< empty: default_learning_rate()
    /// If set, makes the optimizers instead of pipeline.optimizer, which then only says how large their state is.
    MakeOptimizer make_optimizer = {};
    std::uint64_t seed = 0;
    /// False for an emulated model, which learns nothing and whose memory must not be touched. Then ignores gradients,
    /// and only holds the bytes of the optimizer's state.
    bool update_parameters = true;
    /// The processes that train together; null: only this one. Each records its lanes into its own trace.
    std::shared_ptr<Processes> processes = nullptr;
    std::string device_messages = "host";  ///< GPipeOptions::device_messages
    Driver driver = Driver::scheduled;
    AutogradParts autograd;                                    ///< parts of Driver::autograd
    MiniBatchSplit split = {};                                 ///< how the model's batches are cut
    std::function<double(const Tensors& target)> weight = {};  ///< GPipeOptions::weight
    std::function<void()> on_exception = {};                   ///< GPipeOptions::on_exception
    std::vector<std::vector<std::string>> shared = {};         ///< GPipeOptions::shared
    std::filesystem::path trace;                               ///< empty: records into a temporary file
    bool force = false;                                        ///< replace an existing trace
    std::optional<Profile> profile;                            ///< stored in the trace
    /// Called after the last step, if not empty: the trace gets this profile instead of `profile`.
    std::function<std::optional<Profile>()> profile_afterwards;
    /// If the trace cannot be created (read-only folder) or completed (full disk), returns the training's result with a
    /// trace_failure instead of throwing.
    bool survive_trace_failure = false;
    TrainingSaves* saves = nullptr;  ///< not owned; null: nothing is saved, and the training starts from the beginning
    std::function<void()> before_step;  ///< called before each step, outside the measured times; may be empty
    std::function<void(double done)> progress;
};

struct TrainedStep {
    std::int64_t step = 0;  ///< its number; a resumed run does not begin at 0
    double loss = 0;
    // Times over all lanes, including other processes, since rank 0 began to record. Steps with staggered updates
    // overlap, as in statistics_by_step().
    Nanoseconds start{0};           ///< start of the first forward
    Nanoseconds end{0};             ///< end of the last backward, or with replicas of the last all_reduce
    Nanoseconds wall_step_time{0};  ///< whole step of the training loop
    bool warmup = false;

    Nanoseconds step_time() const { return end - start; }
};

struct TrainedLane {
    Bytes peak_bytes = 0;  ///< after the warm-up, by measured_peaks()
    MemoryBreakdown peak;  ///< composition of the peak; unknown if it fell between two tasks
    /// Busy time in each step after the warm-up. Empty if ranges were lost or no trace was read.
    std::vector<Nanoseconds> busy;

    /// Median over the steps.
    std::optional<Nanoseconds> median_busy() const;
};

/// The result, read back from the recording, so that its figures equal a comparison's or the viewer's. If ranges
/// were lost, step times come from the loop.
struct TrainingResult {
    std::vector<TrainedStep> steps;
    /// Median over the steps after the warm-up. Empty if the recorder lost ranges, since the fraction would be wrong.
    std::optional<double> bubble_fraction;
    std::vector<TrainedLane> lanes;
    bool interrupted = false;         ///< a stop was requested (stop_signals.h), so steps may be missing
    std::optional<MachineLoad> load;  ///< during training; empty for an emulated model, which needs no core
    std::filesystem::path trace;      ///< path of the kept trace; empty: none
    /// For schedules that split the backward: layers whose weight gradients are not, or not all, computed separately.
    /// Empty for other schedules.
    std::optional<std::vector<UnsplitLayer>> unsplit_layers = {};
    std::string loss;  ///< a sentence about lost or unreceived ranges; empty: none
    /// Why the trace is incomplete, as a clause; empty if it is complete. If the recording broke off, the steps come
    /// from the loop, and the lanes are unknown.
    std::string trace_failure;
};

/// Step times after the warm-up.
std::vector<Nanoseconds> measured_step_times(const TrainingResult& result);
/// Median of the bubble fractions of the steps after the warm-up, as `compare` computes it. Empty without such a step,
/// or if a lane's busy times are unknown.
std::optional<double> median_bubble_fraction(const TrainingResult& result);

/// Throws UsageError unless the options fit the model: the balance covers its layers, each lane of this process has an
/// existing device, the schedule supports the lanes and micro-batches, the optimizer is known, and 0 <= warmup < steps.
void check_training(const ModelSpec& model, const TrainingOptions& options);

/// Trains the model with the pipeline on its made-up data, and records every task and every lane's memory. Checks the
/// options first. If a stop is requested (stop_signals.h), finishes the current step. A layer's exception passes
/// unchanged; the trace then contains everything before it. Precondition: the tracking allocator is installed.
TrainingResult train_recorded(const ModelSpec& model, const TrainingOptions& options);
}  // namespace pipescope
