#pragma once

#include "answers/layout_answer.h"
#include "answers/option_table.h"
#include "cluster/cluster_plan.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
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
/// The table of `most` rows, with what is said of the best.
std::string cluster_plan_text(const ClusterPlan& plan, std::size_t most);
}  // namespace pipescope
