#pragma once

#include "cli/layout_flags.h"
#include "cli/pipeline_flags.h"
#include "cli/program.h"
#include "cluster/cluster_plan.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>

namespace pipescope {
/// The options of a plan for a cluster, as on the command line.
struct ClusterPlanFlags {
    std::string cluster;  ///< file; empty: a plan for lanes
    ClusterPlanRequest request;
    double repair_ns = 24 * 3600e9;
    double checkpoint_ns = 60e9;
    double restart_ns = 900e9;

    bool given() const { return !cluster.empty(); }
};

/// Adds --cluster and its options. `flags` must outlive the parsing.
void add_cluster_plan_options(OptionTable& table, ClusterPlanFlags& flags);
/// Plans as the options ask for. `progress` as ClusterPlanRequest::progress; what was found until it returned false is
/// the answer.
ClusterPlan cluster_plan_of(const ModelOrProfile& what, ClusterPlanFlags flags, const PipelineFlags& pipeline,
                            const std::string& rank_by, const std::function<bool(double)>& progress);
nlohmann::ordered_json cluster_plan_json(const ClusterPlan& plan);
/// Plans for MODEL ("gpt:..") or the profile in that file, with a progress bar. Ctrl-C ends it with what was found.
ClusterPlan cluster_plan_with_bar(const std::string& model_or_profile, const ClusterPlanFlags& flags,
                                  const PipelineFlags& pipeline, const std::string& rank_by);
/// Likewise, and prints the table of `most` rows or JSON.
ExitCode plan_on_cluster(const std::string& model_or_profile, const ClusterPlanFlags& flags,
                         const PipelineFlags& pipeline, const std::string& rank_by, std::size_t most, bool json);
}  // namespace pipescope
