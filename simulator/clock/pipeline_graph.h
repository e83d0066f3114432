#pragma once

#include "schedule/task_graph.h"
#include "simulator/clock/task_costs.h"
#include "simulator/pipeline_options.h"

namespace pipescope {
/// The task graph that the options describe, with the costs' micro-batches and skips. With staggered updates and costs
/// of several mini-batches, these are consecutive steps. Throws UsageError if the schedule rejects them.
TaskGraph pipeline_graph(const PipelineOptions& options, const TaskCosts& costs);
}  // namespace pipescope
