#include "simulator/clock/pipeline_graph.h"

#include "schedule/schedules.h"

#include <algorithm>

namespace pipescope {
TaskGraph pipeline_graph(const PipelineOptions& options, const TaskCosts& costs) {
    const int steps = options.update == Update::staggered ? costs.mini_batches() : 1;
    TaskGraph graph =
        make_schedule(options.schedule, {.num_partitions = static_cast<int>(options.balance.num_partitions()),
                                         .num_micro_batches = static_cast<int>(costs.micro_batches().size()) / steps,
                                         .checkpoint = options.checkpoint,
                                         .placement = options.placement,
                                         .skips = costs.routes(),
                                         .shared = costs.shared(),
                                         .backward_order = options.backward_order,
                                         .recompute_start = options.recompute_start,
                                         .replicas = std::max(num_weight_copies(options), num_expert_copies(options)),
                                         .joins_pairs = options.pair_overlap.has_value()});
    if (steps > 1) {
        return consecutive_steps(graph, steps);
    }
    return graph;
}
}  // namespace pipescope
