// 1F1B and the schedules that grew from it: interleaved, zero-bubble H1 and 2p, and interleaved zero-bubble. A lane
// warms up with some forwards, then alternates one forward and one backward, then runs the remaining backwards. The
// schedules differ in the number of warm-up forwards, in the partitions that a lane takes in turn, and in how late the
// gradients of the weights follow.
//
// 1F1B, n = 3, m = 4, without checkpointing (digits are micro-batches, ' marks backward):
//
//     lane 0   0  1  2  .  .  0' 3  1' .  2' .  3'
//     lane 1   .  0  1  .  0' 2  1' 3  2' .  3' .
//     lane 2   .  .  0  0' 1  1' 2  2' 3  3' .  .
//
// Zero-bubble H1, all tasks of one length (w is the backward of the weights): B starts as soon as possible, and W fills
// the gaps that 1F1B leaves at the end. Lane j delays the W of its first j micro-batches.
//
//     lane 0   0  1  2  .  .  0' 0w 3  1' 1w 2' 2w 3' 3w
//     lane 1   .  0  1  .  0' 2  1' 0w 3  2' 1w 3' 2w 3w
//     lane 2   .  .  0  0' 1  1' 2  2' 0w 3  3' 1w 2w 3w
//
// Zero-bubble 2p (H2), m = 6: twice the warm-up and twice the delay leave no gap. Each lane's span is a parallelogram.
//
//     lane 0   0  1  2  3  4  0' 0w 5  1' 1w 2' 2w 3' 3w 4' 4w 5' 5w
//     lane 1   .  0  1  2  0' 3  1' 4  2' 0w 5  3' 1w 4' 2w 5' 3w 4w 5w
//     lane 2   .  .  0  0' 1  1' 2  2' 3  3' 4  4' 0w 5  5' 1w 2w 3w 4w 5w
//
// Interleaved, two lanes with two partitions each: lane 0 takes 0:0 0:1 2:0 2:1 .., partition:micro-batch. Of three
// micro-batches on two lanes all go through a partition before the next: 0:0 0:1 0:2 2:0 .. Interleaved
// zero-bubble needs half of its warm-up per lane, and delays the W of lane j by j micro-batches, as H1 does.
//
// Source: 1F1B, PipeDream-flush (arXiv 2006.09503), section 2.2; interleaved, Megatron-LM (arXiv 2104.04473), section
// 2.2; zero bubble, arXiv 2401.10241, sections 3.1 and 3.2; PipeDream, arXiv 1806.03377, section 3.2; interleaved
// zero-bubble, ScheduleInterleavedZeroBubble of torch.distributed.pipelining (PyTorch 2.11).

#include "schedule/lane_plan.h"
#include "schedule/schedule_programs.h"
#include "schedule/schedules.h"

#include <algorithm>
#include <optional>

namespace pipescope {
namespace {
struct Alternation {
    std::vector<Cell> forwards;
    std::vector<Cell> backwards;
    std::size_t warm_up = 0;
    /// How many backwards later that of the weights runs. Empty: it is part of the backward.
    std::optional<std::size_t> weight_delay = {};
};

LaneProgram alternate(const PipelineShape& shape, const Alternation& order) {
    LanePlan plan(shape);
    const std::size_t count = order.forwards.size();
    const std::size_t warm_up = std::min(order.warm_up, count);
    const std::size_t delay = order.weight_delay.value_or(0);
    for (std::size_t k = 0; k < count + warm_up; ++k) {
        if (k < count) {
            plan.forward(order.forwards[k]);
        }
        if (k >= warm_up) {
            plan.backward(order.backwards[k - warm_up]);
        }
        if (order.weight_delay && k >= warm_up + delay) {
            plan.backward_weight(order.backwards[k - warm_up - delay]);
        }
    }
    for (std::size_t k = count - std::min(delay, count); order.weight_delay && k < count; ++k) {
        plan.backward_weight(order.backwards[k]);
    }
    return plan.take();
}

/// One partition per lane, first micro-batch first. `factor`: warm-up forwards for each lane behind this one, and how
/// many micro-batches the weights are late for each lane before it.
LanePrograms one_partition_a_lane(const PipelineShape& shape, int factor, bool splits) {
    const int n = shape.num_partitions;
    LanePrograms programs(static_cast<std::size_t>(n));
    for (int j = 0; j < n; ++j) {
        Alternation order;
        for (int i = 0; i < shape.num_micro_batches; ++i) {
            order.forwards.push_back({MicroBatchId{i}, PartitionId{j}});
        }
        order.backwards = order.forwards;
        order.warm_up = static_cast<std::size_t>(factor * (n - 1 - j));
        if (splits) {
            order.weight_delay = static_cast<std::size_t>(factor * j);
        }
        programs[shape.lane_of(PartitionId{j}).index()] = alternate(shape, order);
    }
    return programs;
}

/// Groups of micro-batches go through the lane's partitions in turn; backward through them in reverse. A group has one
/// micro-batch for each lane, or more if the number of lanes does not divide theirs, or fewer if there are fewer.
LanePrograms partitions_in_turn(const PipelineShape& shape, int factor, bool splits) {
    const int lanes = shape.num_lanes();
    const int rounds = shape.num_partitions / lanes;  // per lane
    const int group = static_cast<int>(shape.num_micro_batches / interleaved_groups(lanes, shape.num_micro_batches));
    LanePrograms programs;
    for (int lane = 0; lane < lanes; ++lane) {
        Alternation order;
        for (int first = 0; first < shape.num_micro_batches; first += group) {
            for (int round = 0; round < rounds; ++round) {
                for (int i = first; i < first + group; ++i) {
                    order.forwards.push_back({MicroBatchId{i}, PartitionId{round * lanes + lane}});
                    order.backwards.push_back({MicroBatchId{i}, PartitionId{(rounds - 1 - round) * lanes + lane}});
                }
            }
        }
        order.warm_up = static_cast<std::size_t>((lanes - lane - 1) * factor + (rounds - 1) * group);
        if (splits) {
            order.weight_delay = static_cast<std::size_t>(lane);
        }
        programs.push_back(alternate(shape, order));
    }
    return programs;
}
}  // namespace

LanePrograms one_f_one_b_programs(const PipelineShape& shape) {
    return one_partition_a_lane(shape, 1, false);
}

LanePrograms zero_bubble_h1_programs(const PipelineShape& shape) {
    return one_partition_a_lane(shape, 1, true);
}

LanePrograms zero_bubble_2p_programs(const PipelineShape& shape) {
    return one_partition_a_lane(shape, 2, true);
}

LanePrograms interleaved_programs(const PipelineShape& shape) {
    return partitions_in_turn(shape, 2, false);
}

LanePrograms interleaved_zero_bubble_programs(const PipelineShape& shape) {
    return partitions_in_turn(shape, 1, true);
}
}  // namespace pipescope
