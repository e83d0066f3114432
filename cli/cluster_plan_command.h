#pragma once

#include "answers/cluster_plan_answer.h"
#include "cli/program.h"

#include <cstddef>
#include <string>

namespace pipescope {
/// Plans for MODEL ("gpt:..") or the profile in that file, with a progress bar. Ctrl-C ends it with what was found.
ClusterPlan cluster_plan_with_bar(const std::string& model_or_profile, const ClusterPlanFlags& flags,
                                  const PipelineFlags& pipeline, const std::string& rank_by);
/// Likewise, and prints the table of `most` rows or JSON.
ExitCode plan_on_cluster(const std::string& model_or_profile, const ClusterPlanFlags& flags,
                         const PipelineFlags& pipeline, const std::string& rank_by, std::size_t most, bool json);
}  // namespace pipescope
