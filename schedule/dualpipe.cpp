// DualPipe and DualPipeV. In the middle of the step each lane pairs a forward of one of its two partitions with a
// backward of the other, so that an engine with two streams may overlap the copies of one with the work of the other.
// Only the ramps split the backward.
//
// DualPipe sends the micro-batches through the lanes from both ends. Lane r of p holds partitions r and p - 1 - r. The
// first half of the micro-batches runs partition r there, the second half partition p - 1 - r. Each partition has two
// copies, on two lanes, which sum their gradients at the end. Both halves of the lanes run the same order.
//
// Four lanes, eight micro-batches (' is a whole backward, i and w its halves; what stands together in brackets may
// overlap). Lanes 3 and 2 run the same as lanes 0 and 1, with micro-batches 4 to 7 and 0 to 3 exchanged:
//
//     lane 0   0 1 2 4 4i 4w 5 (3 5') (6 0') 6' (7 1') 7' 2i 2w 3i 3w
//     lane 1   0 4 1 5 2 4' (6 0') (3 5') (7 1') 6' 2' 7i 3i 7w 3w
//
// DualPipeV is DualPipe cut in half: each lane takes the place of two, with one copy of each partition, placed in a V.
// Two lanes, five micro-batches (a is the partition on the way down, b that on the way up):
//
//     lane 0   a0 a1 a2 b0 b0i b0w b1 (a3 b1') (b2 a0') (a4 b2') (b3 a1') b3' (b4 a2') b4' a3i a3w a4i a4w
//     lane 1   a0 b0 a1 b1 a2 b0' (b2 a0') (a3 b1') (b3 a1') (a4 b2') (b4 a2') b3' a3' b4i a4i b4w a4w
//
// The pairs run one after the other, forward first, unless the shape joins them.
//
// Source: DeepSeek-V3 (arXiv 2412.19437), section 3.2.1, and its repository DualPipe; the order of DualPipeV is also
// that of ScheduleDualPipeV of torch.distributed.pipelining (PyTorch 2.11).

#include "schedule/lane_plan.h"
#include "schedule/placement.h"
#include "schedule/schedule_programs.h"

#include <algorithm>
#include <cstddef>
#include <deque>

namespace pipescope {
namespace {
/// A lane's partition, and the micro-batches that run there.
struct Half {
    int partition = 0;
    int first = 0;  ///< micro-batch
    int forwards = 0;
    int backwards = 0;
};

/// The order of one lane of a V. Whole backwards are both halves, one after the other.
class DualPipeLane {
public:
    /// Lane `lane` of `lanes`, where micro-batches run first through `down`, and then through `up`. `micro_batches`: of
    /// each.
    DualPipeLane(const PipelineShape& shape, int micro_batches, int lanes, int lane, Half down, Half up)
        : plan_(shape), micro_batches_(micro_batches), lanes_(lanes), lane_(lane), down_(down), up_(up) {
        const int behind = lanes_ - lane_ - 1;
        for (int k = 0; k < 2 * behind; ++k) {
            forward(down_);
        }
        for (int k = 0; k <= lane_; ++k) {
            forward(down_);
            forward(up_);
        }
        for (int k = 0; k < behind; ++k) {
            backward_of_inputs(up_);
            next_weight();
            forward(up_);
        }
        for (int k = 0; k < micro_batches_ - 2 * lanes_ + lane_ + 1; ++k) {
            if (k == 0 && behind == 0) {  // apart, so that the lane passes its first gradient on sooner
                forward(down_);
                backward(up_);
            } else {
                pair(down_, up_);
            }
            pair(up_, down_);
        }
        for (int k = 0; k < behind; ++k) {
            backward(up_);
            pair(up_, down_);
        }
        run_out();
    }

    LaneProgram take() { return plan_.take(); }
    LaneJoints take_joints() { return plan_.take_joints(); }

private:
    /// The first half of the remaining backwards is whole, so that gradients come at the pace of the lanes before.
    void run_out() {
        const int both = lane_ + 1;
        int whole = 2 * (both / 2) + (lane_ % 2 == 0 ? 1 : 0);
        const auto next = [&](Half& half) { whole-- > 0 ? backward(half) : backward_of_inputs(half); };
        for (int k = 0; k < both; ++k) {
            next(up_);
            next(down_);
        }
        for (int k = 0; k < lanes_ - lane_ - 1; ++k) {
            next_weight();
            backward_of_inputs(down_);
        }
        while (!weights_.empty()) {
            next_weight();
        }
    }

    static Cell cell(const Half& half, int number) {
        return {MicroBatchId{half.first + number}, PartitionId{half.partition}};
    }
    void forward(Half& half) { plan_.forward(cell(half, half.forwards++)); }
    void both_halves(Half& half) {
        const Cell at = cell(half, half.backwards++);
        plan_.backward(at);
        plan_.backward_weight(at);
    }
    void backward(Half& half) {
        const std::size_t first = plan_.size();
        both_halves(half);
        plan_.join_from(first);
    }
    void pair(Half& of_forward, Half& of_backward) {
        const std::size_t first = plan_.size();
        forward(of_forward);
        both_halves(of_backward);
        plan_.join_from(first);
    }
    void backward_of_inputs(Half& half) {
        weights_.push_back(cell(half, half.backwards++));
        plan_.backward(weights_.back());
    }
    void next_weight() {
        if (!weights_.empty()) {
            plan_.backward_weight(weights_.front());
            weights_.pop_front();
        }
    }

    LanePlan plan_;
    int micro_batches_;
    int lanes_;
    int lane_;
    Half down_;
    Half up_;
    std::deque<Cell> weights_;  // that wait
};

DualPipeLane lane_of_v(const PipelineShape& shape, int lane) {
    const int lanes = shape.num_lanes();
    return {shape, shape.num_micro_batches, lanes, lane, {.partition = lane}, {.partition = 2 * lanes - 1 - lane}};
}

/// The lanes of each end are those of a V. Micro-batches from the nearer end come first.
DualPipeLane lane_from_both_ends(const PipelineShape& shape, int lane) {
    const int lanes = shape.num_lanes();
    const int half = shape.num_micro_batches / 2;
    const Half ahead{.partition = lane};
    const Half reversed{.partition = mirrored(lane, lanes), .first = half};
    const bool is_near_start = lane < lanes / 2;
    return {shape,
            half,
            lanes / 2,
            std::min(lane, mirrored(lane, lanes)),
            is_near_start ? ahead : reversed,
            is_near_start ? reversed : ahead};
}

/// Takes one part of each lane's order: its program, or its joints.
template <class Part>
std::vector<Part> of_lanes(const PipelineShape& shape, DualPipeLane (*order_of)(const PipelineShape&, int),
                           Part (DualPipeLane::*take)()) {
    std::vector<Part> parts;
    for (int lane = 0; lane < shape.num_lanes(); ++lane) {
        DualPipeLane order = order_of(shape, lane);
        parts.push_back((order.*take)());
    }
    return parts;
}
}  // namespace

LanePrograms dualpipe_programs(const PipelineShape& shape) {
    return of_lanes(shape, lane_from_both_ends, &DualPipeLane::take);
}
LanePrograms dualpipe_v_programs(const PipelineShape& shape) {
    return of_lanes(shape, lane_of_v, &DualPipeLane::take);
}
std::vector<LaneJoints> dualpipe_joints(const PipelineShape& shape) {
    return of_lanes(shape, lane_from_both_ends, &DualPipeLane::take_joints);
}
std::vector<LaneJoints> dualpipe_v_joints(const PipelineShape& shape) {
    return of_lanes(shape, lane_of_v, &DualPipeLane::take_joints);
}
}  // namespace pipescope
