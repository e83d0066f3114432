#pragma once

#include "balance/profile.h"
#include "engine/driver.h"
#include "engine/layer.h"
#include "simulator/simulation.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
struct TrainingOptions {
    PipelineOptions pipeline;  ///< what is run: balance, chunks, batch, checkpoint, devices, optimizer
    std::int64_t steps = 10;
    std::int64_t warmup = 2;  ///< the first steps, which the figures leave out; fewer than steps
    double learning_rate = 0.05;
    std::uint64_t seed = 0;
    /// An emulated model holds memory nobody may touch and learns nothing: gradients are left alone.
    bool update_parameters = true;
    Driver driver = Driver::scheduled;
    AutogradParts autograd;          ///< what Driver::autograd is made of
    std::filesystem::path trace;     ///< empty: recorded all the same, into a temporary file
    bool force = false;              ///< replace an existing trace
    std::optional<Profile> profile;  ///< kept in the trace
    /// Where the trace cannot be made, as in a read-only folder, or not be written to its end, as to a full disk:
    /// return what was trained, and say so in trace_failure, instead of throwing.
    bool survive_trace_failure = false;
    std::function<void(double done)> progress;
};

struct TrainedStep {
    double loss = 0;
    Nanoseconds step_time{0};       ///< first forward to last backward
    Nanoseconds wall_step_time{0};  ///< the loop's whole step
    bool warmup = false;
};

struct TrainedLane {
    Bytes peak_bytes = 0;  ///< highest after the warm-up
    MemoryBreakdown peak;  ///< what it consisted of; not known if it fell between two tasks
    /// Median over the steps after the warm-up; nothing where that is not known: ranges were lost, or no trace was
    /// read.
    std::optional<Nanoseconds> busy;
};

/// Read back from the recording: the figures are those a comparison or the viewer shows. Where ranges were lost, step
/// times are the loop's own.
struct TrainingResult {
    std::vector<TrainedStep> steps;
    /// Median over the steps after the warm-up; nothing if the recorder lost ranges, since it would be wrong.
    std::optional<double> bubble_fraction;
    std::vector<TrainedLane> lanes;
    bool interrupted = false;         ///< asked to stop (stop_signals.h), so that steps may be missing
    std::optional<MachineLoad> load;  ///< while it trained; nothing of an emulated model, which takes no core
    std::filesystem::path trace;      ///< where it was kept; empty: nowhere
    std::string loss;                 ///< a sentence about ranges that were lost or not heard; empty: none
    /// Empty: the trace is whole. Else a clause that says why not; where the recording broke off, the steps are the
    /// loop's own, and the lanes are unknown.
    std::string trace_failure;
};

/// Step times of the steps after the warm-up.
std::vector<Nanoseconds> measured_step_times(const TrainingResult& result);

/// Throws UsageError unless the options fit the model: the balance covers its layers, there is one device for each
/// lane and it exists, the schedule does for the lanes and micro-batches, the optimizer has a known name, and 0 <=
/// warmup < steps.
void check_training(const ModelSpec& model, const TrainingOptions& options);

/// Trains the model on its made-up data through the pipeline, with every task and every lane's memory recorded. Checks
/// the options first. Once the command is asked to stop (stop_signals.h), the step that runs is the last. A layer's
/// exception passes unchanged; the trace then holds what came before.
/// Precondition: the tracking allocator is installed.
TrainingResult train_recorded(const ModelSpec& model, const TrainingOptions& options);
}  // namespace pipescope
