#pragma once

#include "base/ids.h"
#include "profiler/profile/profile.h"
#include "simulator/model_flops.h"
#include "simulator/pipeline_options.h"
#include "simulator/plan/advice.h"
#include "simulator/simulation.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// The step of a layout on a cluster. A trace holds one part of it: the pipeline of one replica, or of one of its
/// tensor-parallel ranks. Its layers' times and memory include recompute and optimizer.
struct StepOnCluster {
    std::string layout;             ///< "p4 d4 t2 v1 b1"
    Nanoseconds pipeline{0};        ///< the traced part
    Nanoseconds whole{0};           ///< the step, with what follows the pipeline
    std::int64_t batch = 0;         ///< samples of the step
    double model_flops = 0;         ///< of the step, on all devices; 0: not known
    std::int64_t lane_devices = 1;  ///< of one lane of one replica
    std::string checkpoint;         ///< that memory was counted for: "always" with recompute full
    std::string optimizer;          ///< likewise, "adam"

    /// The sum of tied weights' gradients, the gathering of parameters, and the optimizer.
    Nanoseconds after_pipeline() const { return whole - pipeline; }
    friend bool operator==(const StepOnCluster&, const StepOnCluster&) = default;
};

/// "the pipeline of one tensor-parallel rank of one replica, 12.3 ms of the step of 14.0 ms"
std::string part_text(const StepOnCluster& step);

/// True if the layers' times contain what a recompute repeats, although the traced options do not name one.
bool layers_recompute(const StepOnCluster& step, const PipelineOptions& recorded);

/// The operations of a step of that many samples on all devices, from those of one rank's pipeline.
ModelFlops of_whole_step(ModelFlops flops, const StepOnCluster& step, std::int64_t batch);

// What if this pipeline were another one? The work after it is the same for other micro-batches, batches and orders of
// the tasks. For other cuts, links and optimizers the trace lacks what is needed to compute it: it stays as it was, and
// a text says so.

/// Makes a simulation of such a pipeline, or of a changed one, that of a whole step.
void add_rest_of_step(Simulation& simulation, const StepOnCluster& step);
/// Likewise for a pipeline and its changes, which it ranks again. A change on which the work after the pipeline depends
/// gets a note. `recorded`: the options of the traced pipeline.
void add_rest_of_step(Advice& advice, const StepOnCluster& step, const PipelineOptions& recorded);

/// Removes the moves that the trace of a layout says nothing about: of checkpoint modes, if the layers contain what
/// they recompute, and of other micro-batch sizes, if the profile has one size only.
void leave_out_unknown(Advice& advice, const StepOnCluster& step, const PipelineOptions& recorded,
                       const Profile& profile);

/// The options on which the work after the pipeline depends, as far as they differ: "other cuts", "other links".
std::vector<std::string> changes_after_pipeline(const PipelineOptions& recorded, const PipelineOptions& changed);
/// "what follows the pipeline is kept at 1.7 ms, which other cuts and other links would change"; empty without changes.
std::string kept_text(const StepOnCluster& step, const std::vector<std::string>& changes);
}  // namespace pipescope
