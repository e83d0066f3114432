#pragma once

#include "answers/layout_answer.h"
#include "answers/measured_answer.h"
#include "answers/option_table.h"
#include "answers/plan_answer.h"
#include "cluster/cluster_plan.h"

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace pipescope {
/// The options of a plan for a cluster, beside its pipelines' options.
struct ClusterPlanQuestion {
    std::string cluster;  ///< file; empty: a plan for lanes
    ClusterPlanRequest request;
    std::string measured;  ///< CSV of measured steps that the program is fitted to; empty: none
    double repair_ns = 24 * 3600e9;
    std::optional<double> checkpoint_ns;  ///< default: 60 s, or as storage_rate says
    std::optional<double> storage_rate;   ///< bytes a second at which a save is written
    double deadline_ns = 0;               ///< 0: none
    double restart_ns = 900e9;

    bool given() const { return !cluster.empty(); }
};

/// Adds --cluster and its options. The question must outlive the table.
void add_cluster_plan_options(OptionTable& table, ClusterPlanQuestion& question);
/// Fits the program to the measured steps, if there are any, and lets the plan use it. Throws as measured_answer().
std::optional<MeasuredAnswer> fit_measured(const ModelOrProfile& what, ClusterPlanQuestion& question,
                                           const AskedPipeline& pipeline);
/// Makes the plan that the options ask for; with measured steps, fits the program first. `progress`: as
/// ClusterPlanRequest::progress; if it returns false, the answer holds the candidates found so far.
ClusterPlan cluster_plan_of(const ModelOrProfile& what, ClusterPlanQuestion question, const AskedPipeline& pipeline,
                            const std::string& rank_by, const std::function<bool(double)>& progress);
/// Simulates a candidate of such a plan again, with its timeline: a layout on the types named in `device`.
LayoutStep simulated_candidate(const ModelOrProfile& what, const ClusterPlanQuestion& question,
                               const AskedPipeline& pipeline, const Layout& layout, const std::string& device);
nlohmann::ordered_json to_json(const ClusterPlan& plan);
/// The table with `most` rows, and notes about the best candidate.
std::string to_text(const ClusterPlan& plan, std::size_t most);

/// The question of plan in both forms: about lanes, or about a cluster if one is named.
struct AskedPlan {
    AskedPlan();
    AskedPlan(const AskedPlan&) = delete;  // the table refers to the other fields
    AskedPlan& operator=(const AskedPlan&) = delete;

    /// Call it after the options are taken. Throws UsageError for options of the other form, and for options without
    /// meaning for `what`.
    void check(const ModelOrProfile& what);

    PlanQuestion lanes;
    ClusterPlanQuestion cluster;
    OptionTable options;
};
/// Precondition: AskedPlan::check() was called, and a cluster is named.
ClusterPlan cluster_plan_of(const ModelOrProfile& what, const AskedPlan& asked,
                            const std::function<bool(double)>& progress);
}  // namespace pipescope
