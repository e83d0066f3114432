#pragma once

#include "answers/option_table.h"
#include "schedule/schedule_table.h"
#include "schedule/schedules.h"
#include "schedule/task_graph.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>

namespace pipescope {
// The question of schedule: the order of the tasks, without costs. Lifetime and threading: as BalanceQuestion.

struct ScheduleQuestion {
    std::string schedule;  ///< a name or a file
    std::optional<int> lanes;
    std::optional<int> micro_batches;
    std::optional<int> partitions;
};
/// Adds -n, -m and --partitions.
void add_schedule_shape_options(OptionTable& table, ScheduleQuestion& question);
TaskGraph schedule_answer(const ScheduleQuestion& question);
/// The answer as CSV. A file keeps its cells. In a named schedule's table, tasks that it pairs share a cell, so reading
/// the table gives the same schedule back.
std::string schedule_csv(const ScheduleQuestion& question, const TaskGraph& answer);
/// The table of a schedule that has a name, as CSV.
std::string schedule_csv(const Schedule& schedule, PipelineShape shape);
nlohmann::ordered_json to_json(const TaskGraph& graph, const ScheduleTable& table);
/// The share of the lanes' slots without a task.
double idle_share(const ScheduleTable& table);
}  // namespace pipescope
