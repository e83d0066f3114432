#pragma once

#include "answers/asked_pipeline.h"
#include "answers/option_table.h"
#include "profiler/profile/profile.h"
#include "simulator/plan/schedule_comparison.h"
#include "simulator/simulation.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>

namespace pipescope {
// The question of simulate: how long a pipeline's step takes, and its memory. Lifetime and threading: as
// BalanceQuestion.

struct SimulateQuestion {
    std::string profile;
    AskedPipeline pipeline;
    bool all_schedules = false;
};
/// One simulation, or several with --schedule all.
struct SimulateAnswer {
    EstimatedPipeline pipeline;
    std::optional<Simulation> simulation;
    std::optional<ScheduleComparison> comparison;
};
void add_simulate_options(OptionTable& table, SimulateQuestion& question);
SimulateAnswer simulate_answer(const SimulateQuestion& question, const CheckedProfile& profile);
nlohmann::ordered_json to_json(const SimulateAnswer& answer);
std::string to_text(const SimulateAnswer& answer);
/// True if the simulation, or any of the compared ones, keeps the memory limit.
bool any_fits(const SimulateAnswer& answer);
/// The options, checked against each other. Throws UsageError, before the profile is known.
PipelineOptions checked_options(const SimulateQuestion& question);
/// The simulated order as a schedule's CSV. Throws UsageError for gpipe, which such a file cannot express.
std::string order_csv(const Simulation& simulation);
}  // namespace pipescope
