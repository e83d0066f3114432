#pragma once

#include "gui/document/scenario.h"
#include "schedule/schedules.h"

#include <cstddef>
#include <vector>

namespace pipescope {
/// The order of a simulation's tasks as a table; with schedule auto, the order found. Simulating a file of the table
/// with the other options as they are gives the same step, except for gpipe: a table has no loss of the whole
/// mini-batch. Throws UsageError for a schedule that never drains.
ScheduleTable tableOf(const Simulation& simulation);

/// Position of a task among the tasks of its lane in a table. Throws UsageError that says what to move instead for a
/// task that a table does not list: a copy, a sum of gradients, or a recompute or loss that follows another task.
struct PlaceInLane {
    LaneId lane;
    std::size_t index = 0;
    std::size_t count = 0;  ///< of the lane's tasks
};
PlaceInLane placeInLane(const ScheduleTable& table, const TaskKey& task);
/// The lane's tasks in their order.
std::vector<TaskKey> tasksOf(const ScheduleTable& table, LaneId lane);

/// The simulation's schedule with the task at `index` of its lane; others keep their order. It is called
/// "1f1b (edited)". Throws Error that gives the reason if a task would run before one that it needs, if lanes would
/// wait for each other forever, or as placeInLane() does.
Schedule withTaskAt(const Simulation& simulation, const TaskKey& task, std::size_t index);
}  // namespace pipescope
