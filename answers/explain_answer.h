#pragma once

#include "answers/cluster_plan_answer.h"
#include "answers/layout_answer.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <optional>
#include <string>

namespace pipescope {
/// The question of explain: what a step on a cluster consists of, and what limits it. Without a layout, it is about the
/// best layout of a plan. Its options set the fields.
struct ExplainQuestion {
    ExplainQuestion();
    ExplainQuestion(const ExplainQuestion&) = delete;  // the table refers to the other fields
    ExplainQuestion& operator=(const ExplainQuestion&) = delete;

    /// True if the options describe one layout.
    bool names_a_layout() const;
    /// Throws UsageError for options that do not fit each other or the model.
    void check();

    std::string model;  ///< "gpt:..", or the profile's file; not an option
    AskedPipeline pipeline;
    LayoutQuestion layout;
    std::string rank_by;
    double tokens = 0;
    OptionTable options;
};

struct ExplainAnswer {
    std::optional<LayoutAnswer> layout;             ///< for the requested layout, or the best one
    std::optional<std::string> infeasible_because;  ///< if there is none
    std::string options;                            ///< of simulate, to get this layout
    bool is_best_of_plan = false;
};
/// Makes a plan for the model or profile, and shows its progress.
using PlanMaker = std::function<ClusterPlan(const ModelOrProfile& what, const ClusterPlanQuestion& question)>;
/// Precondition: check() passes.
ExplainAnswer explain_answer(const ExplainQuestion& question, const PlanMaker& plan);
nlohmann::ordered_json to_json(const ExplainAnswer& answer);
std::string to_text(const ExplainAnswer& answer);
}  // namespace pipescope
