#pragma once

#include "answers/option_table.h"
#include "base/number_ranges.h"
#include "cli/layout_flags.h"
#include "cli/pipeline_flags.h"
#include "cli/simulated_pipeline.h"
#include "profiler/profile/profile.h"
#include "schedule/schedule_table.h"
#include "schedule/task_graph.h"
#include "simulator/plan/planner.h"
#include "simulator/plan/schedule_comparison.h"
#include "simulator/search/balance_search.h"
#include "simulator/simulation.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
// The commands balance, simulate, plan and schedule without their printing, for the commands and the Python package.
// Each has its flags, a function that adds their options to a command, and one that computes the answer and throws as
// the command does. `profile` in the flags is the name of the profile's file, for messages; it has no option here.
// Flags must outlive the parsing. Threading: no shared state.

struct BalanceFlags {
    std::string profile;
    PipelineFlags pipeline;
    std::optional<int> partitions;
    BalanceAlgorithm algorithm = BalanceAlgorithm::optimal;
};
struct BalanceAnswer {
    FoundBalance found;
    Simulation simulation;  ///< of the balance found, with noise
    EstimatedPipeline pipeline;
};
void add_balance_options(OptionTable& table, BalanceFlags& flags);
BalanceAnswer balance_answer(const BalanceFlags& flags, Profile profile);
nlohmann::ordered_json balance_answer_json(const BalanceAnswer& answer);

struct SimulateFlags {
    std::string profile;
    SimulatedPipelineFlags simulated;
    bool all_schedules = false;
};
/// One simulation, or several with --schedule all.
struct SimulateAnswer {
    EstimatedPipeline pipeline;
    std::optional<Simulation> simulation;
    std::optional<ScheduleComparison> comparison;
};
void add_simulate_options(OptionTable& table, SimulateFlags& flags);
SimulateAnswer simulate_answer(const SimulateFlags& flags, Profile profile);
nlohmann::ordered_json simulate_answer_json(const SimulateAnswer& answer);
struct SimulateOutputs {
    std::string trace;
    std::string schedule_output;
    bool force = false;
};
void add_simulate_outputs(OptionTable& table, SimulateOutputs& outputs);
/// Refuses outputs that do not fit the options, or exist.
void check_outputs(const SimulateFlags& flags, const SimulateOutputs& outputs);
/// The simulated order as a schedule's CSV. Throws UsageError for gpipe, which none can express.
std::string order_csv(const Simulation& simulation);
/// Writes the trace and the order that schedule auto found. Throws as order_csv() does.
void write_outputs(const SimulateOutputs& outputs, const SimulateAnswer& answer);
/// simulate with --cluster: the step of a layout, whose options add_layout_options() adds. Writes the trace. `profile`:
/// null if the flags name it, or a model.
LayoutAnswer simulate_layout_answer(const SimulateFlags& flags, const LayoutFlags& layout,
                                    const SimulateOutputs& outputs, const Profile* profile = nullptr);

struct PlanFlags {
    std::string profile;
    PipelineFlags pipeline;
    PlanRequest request;                                 ///< checkpoint modes, schedules and algorithm
    std::optional<std::vector<NumberRange>> partitions;  ///< default: 1..8, or those of schedules' files
    std::vector<NumberRange> replicas = {{1, 1}};
    std::optional<std::vector<NumberRange>> chunks;  ///< default: 1..64, as far as there are samples
    std::optional<std::string> price;                ///< of a lane for an hour, or of each type; default 1
    std::string rank_by;                             ///< a PlanGoal; with --cluster a ClusterGoal; empty: the default
    std::int64_t most = 10;
};
struct PlanAnswer {
    Plan plan;
    Profile profile;  ///< in the dtype asked for
    std::vector<Assumption> assumptions;
    std::string cost_unit;
    std::vector<std::string> price_notes;  ///< sentences about unused prices, and about types without one
};
void add_plan_options(OptionTable& table, PlanFlags& flags);
/// `progress` as PlanRequest::progress; what was found until it returned false is the answer.
PlanAnswer plan_answer(const PlanFlags& flags, const Profile& profile, const std::function<bool(double)>& progress);
nlohmann::ordered_json plan_answer_json(const PlanAnswer& answer);

struct ScheduleFlags {
    std::string schedule;  ///< a name or a file
    std::optional<int> lanes;
    std::optional<int> micro_batches;
    std::optional<int> partitions;
};
/// Adds -n, -m and --partitions.
void add_schedule_shape_options(OptionTable& table, ScheduleFlags& flags);
TaskGraph schedule_answer(const ScheduleFlags& flags);
nlohmann::ordered_json schedule_answer_json(const TaskGraph& graph, const ScheduleTable& table);
}  // namespace pipescope
