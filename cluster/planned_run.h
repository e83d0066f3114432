#pragma once

#include "cluster/cluster_plan.h"

namespace pipescope {
/// Fills in a candidate's run: nodes, spares, saves, failures, waits for repairs, time and cost. `parts`: where its
/// pipeline runs. With `priced`, costs are prices, otherwise device-hours. Precondition: the candidate has its step.
void add_run(ClusterCandidate& candidate, const PipelineParts& parts, const ClusterPlanRequest& request, bool priced);
}  // namespace pipescope
