#include "cli/cluster_plan_command.h"

#include "cli/progress_bar.h"
#include "cli/stop_signals.h"

namespace pipescope {
ClusterPlan cluster_plan_with_bar(const ModelOrProfile& what, const ClusterPlanQuestion& question,
                                  const AskedPipeline& pipeline, const std::string& rank_by) {
    const StopSignals signals("the search for layouts ends");
    ProgressBar bar("planning");
    return cluster_plan_of(what, question, pipeline, rank_by, [&bar](double done) {
        bar.show(done);
        return stop_signal() == 0;
    });
}
}  // namespace pipescope
