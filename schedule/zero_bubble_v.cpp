// Zero-bubble V: two partitions per lane, placed in a V, so that lane 0 has the first and the last one. Each lane warms
// up with as many forwards as let every gradient arrive in time, and then runs, for both of its partitions in turn, a
// forward, the gradients of its inputs and of its weights. At the end, weights fill the gaps.
//
// Two lanes, four micro-batches, all tasks of one length (a is the partition on the way down, b that on the way up; '
// is the backward of the inputs, w that of the weights):
//
//     lane 0   a0 a1 a2 b0 b0' b0w b1  b1' b1w a3 a0' a0w b2  b2' b2w a1' a1w b3  b3' b3w a2' a2w a3' a3w
//     lane 1   .  a0 b0 a1 b1  b0' b0w a2  a0' a0w b2 b1' b1w a3  a1' a1w b3  b2' b2w a2' b3' a3' a2w b3w a3w
//
// A lane holds at most 2p activations of half a lane's layers: as much as 1F1B.
//
// Source: zero bubble, arXiv 2401.10241, section 6; the order is that of ScheduleZBVZeroBubble of
// torch.distributed.pipelining (PyTorch 2.11).

#include "schedule/lane_plan.h"
#include "schedule/schedule_programs.h"

#include <algorithm>

namespace pipescope {
namespace {
/// One partition of the lane. Counts the micro-batches of each kind of task.
class HalfLane {
public:
    HalfLane(LanePlan& plan, int partition, int micro_batches)
        : plan_(plan), partition_(partition), micro_batches_(micro_batches) {}

    void forward() { run(forwards_, &LanePlan::forward); }
    void backward() { run(backwards_, &LanePlan::backward); }
    void weight() { run(weights_, &LanePlan::backward_weight); }
    void both() {
        backward();
        weight();
    }

    int forwards() const { return forwards_; }
    int backwards() const { return backwards_; }
    int weights() const { return weights_; }

private:
    /// Leaves out micro-batches that only a longer step has.
    void run(int& count, void (LanePlan::*add)(Cell)) {
        if (count < micro_batches_) {
            (plan_.*add)({MicroBatchId{count}, PartitionId{partition_}});
        }
        ++count;
    }

    LanePlan& plan_;
    int partition_;
    int micro_batches_;
    int forwards_ = 0;
    int backwards_ = 0;
    int weights_ = 0;
};

LaneProgram lane_program(const PipelineShape& shape, int lanes, int lane) {
    LanePlan plan(shape);
    HalfLane down(plan, lane, shape.num_micro_batches);
    HalfLane up(plan, 2 * lanes - 1 - lane, shape.num_micro_batches);
    const int enough = std::max(2 * lanes - 1, shape.num_micro_batches);  // to fill all lanes
    for (int k = 0; k < 2 * (lanes - lane) - 1; ++k) {
        down.forward();
    }
    for (int k = 0; k < lane; ++k) {
        up.forward();
        down.forward();
    }
    for (int k = 0; k < lanes - lane; ++k) {
        up.forward();
        up.both();
    }
    while (up.forwards() < down.forwards() || down.forwards() < enough) {
        if (down.forwards() < enough) {
            down.forward();
        }
        down.both();
        up.forward();
        up.both();
    }
    for (int k = 0; k < lane; ++k) {
        down.backward();
        up.backward();
    }
    for (int k = 0; k < lanes - lane; ++k) {
        down.both();
    }
    while (up.weights() < up.backwards()) {
        up.weight();
    }
    while (down.weights() < down.backwards()) {
        down.weight();
    }
    return plan.take();
}
}  // namespace

LanePrograms zero_bubble_v_programs(const PipelineShape& shape) {
    LanePrograms programs;
    for (int lane = 0; lane < shape.num_lanes(); ++lane) {
        programs.push_back(lane_program(shape, shape.num_lanes(), lane));
    }
    return programs;
}
}  // namespace pipescope
