#pragma once

#include "answers/cluster_plan_answer.h"

#include <string>

namespace pipescope {
/// Plans with a progress bar. Ctrl-C ends the search with the candidates found so far.
ClusterPlan cluster_plan_with_bar(const ModelOrProfile& what, const ClusterPlanQuestion& question,
                                  const AskedPipeline& pipeline, const std::string& rank_by);
}  // namespace pipescope
