#include "gui/document/schedule_edit.h"

#include "base/error.h"
#include "schedule/schedule_table.h"

#include <algorithm>
#include <string>
#include <utility>

namespace pipescope {
namespace {
using LaneCells = std::vector<ScheduleTable::Cell>;

std::string whyNotListed(const TaskKey& task) {
    switch (task.kind) {
        case TaskKind::recompute: return "it runs right before its backward; move the backward";
        case TaskKind::loss: return "it runs right after its forward; move the forward";
        case TaskKind::all_reduce:
        case TaskKind::shared_sum:
        case TaskKind::optimizer: return "it runs at the end of its lane; move other tasks";
        default: break;
    }
    return is_copy(task.kind) ? "it starts when the task before it ends; move that task"
                              : "the schedule has no such task";
}

/// The row with the action at `from` behind as many others as `to` says. A cell of two tasks that the move passes
/// becomes two cells.
LaneCells withMoved(const LaneCells& row, std::size_t from, std::size_t to) {
    const auto [low, high] = std::minmax(from, to);
    LaneCells changed;
    std::vector<std::size_t> passed;  // columns of the actions from low to high
    std::size_t index = 0;
    for (const ScheduleTable::Cell& cell : row) {
        const bool splits = cell.size() > 1 && index <= high && index + cell.size() > low;
        if (!splits) {
            changed.push_back(cell);
        }
        for (const ScheduleTable::Action& action : cell) {
            if (splits) {
                changed.push_back({action});
            }
            if (index >= low && index <= high) {
                passed.push_back(changed.size() - 1);
            }
            ++index;
        }
    }
    for (std::size_t k = 0; k + 1 < passed.size(); ++k) {
        const std::size_t at = from < to ? k : passed.size() - 2 - k;
        std::swap(changed[passed[at]], changed[passed[at + 1]]);
    }
    return changed;
}
}  // namespace

ScheduleTable tableOf(const Simulation& simulation) {
    const PipelineOptions& options = simulation.options;
    if (const Schedule::File* file = options.schedule.file()) {
        return file->table;
    }
    if (!is_synchronous(options.schedule)) {
        throw UsageError("schedule " + to_string(options.schedule) +
                         " never drains, so no table holds it; use another schedule, such as 1f1b");
    }
    return schedule_table(
        make_schedule(options.schedule, {.num_partitions = static_cast<int>(options.balance.num_partitions()),
                                         .num_micro_batches = static_cast<int>(simulation.micro_batches),
                                         .checkpoint = options.checkpoint,
                                         .placement = options.placement,
                                         .backward_order = options.backward_order,
                                         .recompute_start = options.recompute_start}));
}

std::vector<TaskKey> tasksOf(const ScheduleTable& table, LaneId lane) {
    std::vector<TaskKey> tasks;
    for (const ScheduleTable::Cell& cell : table.rows.at(lane.index())) {
        for (const ScheduleTable::Action& action : cell) {
            tasks.push_back(action.task);
        }
    }
    return tasks;
}

PlaceInLane placeInLane(const ScheduleTable& table, const TaskKey& task) {
    TaskKey wanted = task;
    wanted.step = 0;
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
        const LaneId lane{static_cast<std::int64_t>(row)};
        const std::vector<TaskKey> tasks = tasksOf(table, lane);
        const auto found = std::ranges::find(tasks, wanted);
        if (found != tasks.end() && wanted.kind != TaskKind::all_reduce) {
            return {lane, static_cast<std::size_t>(found - tasks.begin()), tasks.size()};
        }
    }
    throw UsageError(to_string(task) + " has no place of its own in the schedule: " + whyNotListed(task));
}

Schedule withTaskAt(const Simulation& simulation, const TaskKey& task, std::size_t index) {
    constexpr std::string_view kEdited = " (edited)";
    ScheduleTable table = tableOf(simulation);
    const PlaceInLane place = placeInLane(table, task);
    auto& row = table.rows[place.lane.index()];
    row = withMoved(row, place.index, std::min(index, place.count - 1));
    std::string name = to_string(simulation.options.schedule);
    name += name.ends_with(kEdited) ? "" : kEdited;
    return Schedule::from_csv(name, to_csv(table));
}
}  // namespace pipescope
