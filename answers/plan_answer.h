#pragma once

#include "answers/asked_pipeline.h"
#include "answers/option_table.h"
#include "base/number_ranges.h"
#include "profiler/profile/profile.h"
#include "simulator/plan/planner.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
// The question of plan: which pipelines are fastest or cheapest. Lifetime and threading: as BalanceQuestion.

struct PlanQuestion {
    std::string profile;
    AskedPipeline pipeline;
    PlanRequest request;                                 ///< checkpoint modes, schedules and algorithm
    std::optional<std::vector<NumberRange>> partitions;  ///< default: 1..8, or the numbers in schedules' files
    std::vector<NumberRange> replicas = {{1, 1}};
    std::optional<std::vector<NumberRange>> chunks;  ///< default: 1..64, up to the number of samples
    std::optional<std::string> price;                ///< of a lane for an hour, or of each type; default 1
    std::string rank_by;                             ///< a PlanGoal; with --cluster a ClusterGoal; empty: the default
    std::int64_t most = 10;
};
struct PlanAnswer {
    Plan plan;
    CheckedProfile profile;  ///< in the requested dtype
    std::vector<Assumption> assumptions;
    std::string cost_unit;
    std::vector<std::string> price_notes;  ///< sentences about unused prices, and about types without a price
};
void add_plan_options(OptionTable& table, PlanQuestion& question);
/// `progress`: as PlanRequest::progress; if it returns false, the answer holds the candidates found so far.
PlanAnswer plan_answer(const PlanQuestion& question, const CheckedProfile& profile,
                       const std::function<bool(double)>& progress);
nlohmann::ordered_json to_json(const PlanAnswer& answer);
/// Throws UsageError for options that cannot work with any profile.
void check_plan(const PlanQuestion& question);
void check_most(const PlanQuestion& question);
std::string to_text(const PlanQuestion& question, const PlanAnswer& answer);
}  // namespace pipescope
