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
/// The step of a layout on a cluster. A trace holds a part of it: the pipeline of one replica, or of one of its
/// tensor-parallel ranks. The layers' times and memory include recompute and optimizer.
struct StepOnCluster {
    std::string layout;             ///< "p4 d4 t2 v1 b1"
    Nanoseconds pipeline{0};        ///< the traced part
    Nanoseconds whole{0};           ///< the step, with the work after the pipeline
    std::int64_t batch = 0;         ///< samples of the step
    double model_flops = 0;         ///< of the step, on all devices; 0: not known
    std::int64_t lane_devices = 1;  ///< devices per lane of one replica
    std::string checkpoint;         ///< for which memory was counted: "always" with recompute full
    std::string optimizer;          ///< for which memory was counted: "adam"

    /// The sum of tied weights' gradients, the gathering of parameters, and the optimizer.
    Nanoseconds after_pipeline() const { return whole - pipeline; }
    friend bool operator==(const StepOnCluster&, const StepOnCluster&) = default;
};

/// "the pipeline of one tensor-parallel rank of one replica, 12.3 ms of the step of 14.0 ms"
std::string part_text(const StepOnCluster& step);

/// True if the layers' times include recompute, although the traced options do not name it.
bool layers_recompute(const StepOnCluster& step, const PipelineOptions& recorded);

/// The operations of a step with that many samples on all devices, scaled from one rank's pipeline.
ModelFlops of_whole_step(ModelFlops flops, const StepOnCluster& step, std::int64_t batch);

// For what-if questions about this pipeline. The work after it stays the same for other micro-batches, batches and task
// orders. Other cuts, links and optimizers would change it, but the trace lacks what is needed to compute it. It then
// stays as it was, and a text says so.

/// Extends the simulation of such a pipeline, changed or not, to the whole step.
void add_rest_of_step(Simulation& simulation, const StepOnCluster& step);
/// Extends a pipeline's advice to the whole step and ranks the changes again. Adds a note to each change that would
/// affect the work after the pipeline. `recorded`: the options of the traced pipeline.
void add_rest_of_step(Advice& advice, const StepOnCluster& step, const PipelineOptions& recorded);

/// Removes moves that the trace of a layout cannot judge: checkpoint modes, if the layers include recompute, and other
/// micro-batch sizes, if the profile has only one size.
void leave_out_unknown(Advice& advice, const StepOnCluster& step, const PipelineOptions& recorded,
                       const Profile& profile);

/// The options that differ and affect the work after the pipeline: "other cuts", "other links".
std::vector<std::string> changes_after_pipeline(const PipelineOptions& recorded, const PipelineOptions& changed);
/// "what follows the pipeline is kept at 1.7 ms, which other cuts and other links would change"; empty without changes.
std::string kept_text(const StepOnCluster& step, const std::vector<std::string>& changes);
}  // namespace pipescope
