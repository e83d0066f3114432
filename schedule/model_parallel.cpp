// One micro-batch at a time goes all the way forward and back: what pipelining is compared with.
//
//     lane 0   0  .  .  .  .  0' 1  .  .  .  .  1'
//     lane 1   .  0  .  .  0' .  .  1  .  .  1' .
//     lane 2   .  .  0  0' .  .  .  .  1  1' .  .

#include "schedule/lane_plan.h"
#include "schedule/schedule_programs.h"

namespace pipescope {
LanePrograms model_parallel_programs(const PipelineShape& shape) {
    LanePlans plans(shape);
    for (int i = 0; i < shape.num_micro_batches; ++i) {
        for (int j = 0; j < shape.num_partitions; ++j) {
            plans.of(PartitionId{j}).forward({MicroBatchId{i}, PartitionId{j}});
        }
        for (int j = shape.num_partitions; j-- > 0;) {
            plans.of(PartitionId{j}).backward({MicroBatchId{i}, PartitionId{j}});
        }
    }
    return plans.take();
}
}  // namespace pipescope
