#pragma once

#include "engine/engine_options.h"
#include "engine/pipeline.h"
#include "engine/step/step_run.h"

#include <memory>

namespace pipescope {
/// Steps that overlap on the lanes, each lane updating its own parameters.
///
/// Idea: the lanes' workers queue jobs, so on each lane the next step's job waits only for that lane's current one. Two
/// steps in flight suffice: no lane can end a step before all lanes have ended the previous one, since every backward
/// needs the last partition's.
/// Threading: run() blocks; one call at a time.
class StaggeredRun {
public:
    /// Throws UsageError if the updates of lanes depend on each other (GPipe::train_staggered). Borrows `training`.
    StaggeredRun(std::shared_ptr<Pipeline> pipeline, const StaggeredTraining& training);

    /// Errors: see GPipe::train_staggered().
    void run();

private:
    void run_steps();
    std::unique_ptr<StepRun> begin(Lanes::Jobs& jobs, StepRun* before);
    void run_lane(LaneId lane, StepRun& step, StepRun* before);

    const std::shared_ptr<Pipeline> pipeline_;
    const StaggeredTraining& training_;
    std::unique_ptr<StepRun> last_;     // done; the lanes' jobs of running_ may look at it
    std::unique_ptr<StepRun> running_;  // null once all steps are done
    std::unique_ptr<StepRun> ahead_;    // of some lanes; null if there is none
};
}  // namespace pipescope
