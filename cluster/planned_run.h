#pragma once

#include "cluster/cluster_plan.h"

namespace pipescope {
/// Gives a candidate its run: nodes, spares, saves, failures, waits for repairs, time and cost. `parts`: where its
/// pipeline lies. Precondition: the candidate has its step. With `priced`, costs are prices, otherwise device-hours.
void add_run(ClusterCandidate& candidate, const PipelineParts& parts, const ClusterPlanRequest& request, bool priced);
}  // namespace pipescope
