// DualPipeV: DualPipe cut in half. Two partitions per lane, placed in a V. In the middle of the step each lane pairs a
// forward of one of its partitions with a backward of the other, so that an engine with two streams may overlap the
// copies of one with the work of the other. Only the ramps split the backward.
//
// Two lanes, five micro-batches (a is the partition on the way down, b that on the way up; ' is a whole backward, i and
// w its halves; what stands together in brackets may overlap):
//
//     lane 0   a0 a1 a2 b0 b0i b0w b1 (a3 b1') (b2 a0') (a4 b2') (b3 a1') b3' (b4 a2') b4' a3i a3w a4i a4w
//     lane 1   a0 b0 a1 b1 a2 b0' (b2 a0') (a3 b1') (b3 a1') (a4 b2') (b4 a2') b3' a3' b4i a4i b4w a4w
//
// The pairs run one after the other, forward first.
//
// Source: DeepSeek-V3 (arXiv 2412.19437), section 3.2.1, and its repository DualPipe; the order is that of
// ScheduleDualPipeV of torch.distributed.pipelining (PyTorch 2.11).

#include "schedule/lane_plan.h"
#include "schedule/schedule_programs.h"

#include <deque>

namespace pipescope {
namespace {
/// The order of one lane. Whole backwards are both halves, one after the other.
class DualPipeLane {
public:
    DualPipeLane(const PipelineShape& shape, int lanes, int lane)
        : plan_(shape), micro_batches_(shape.num_micro_batches), lanes_(lanes), lane_(lane) {
        down_.partition = lane;
        up_.partition = 2 * lanes - 1 - lane;
    }

    LaneProgram program() {
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
            forward(down_);
            backward(up_);
            forward(up_);
            backward(down_);
        }
        for (int k = 0; k < behind; ++k) {
            backward(up_);
            forward(up_);
            backward(down_);
        }
        run_out();
        return plan_.take();
    }

private:
    struct Half {
        int partition = 0;
        int forwards = 0;
        int backwards = 0;
    };

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

    void forward(Half& half) { plan_.forward({MicroBatchId{half.forwards++}, PartitionId{half.partition}}); }
    void backward(Half& half) {
        const Cell at{MicroBatchId{half.backwards++}, PartitionId{half.partition}};
        plan_.backward(at);
        plan_.backward_weight(at);
    }
    void backward_of_inputs(Half& half) {
        weights_.push_back({MicroBatchId{half.backwards++}, PartitionId{half.partition}});
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
}  // namespace

LanePrograms dualpipe_v_programs(const PipelineShape& shape) {
    LanePrograms programs;
    for (int lane = 0; lane < shape.num_lanes(); ++lane) {
        programs.push_back(DualPipeLane(shape, shape.num_lanes(), lane).program());
    }
    return programs;
}
}  // namespace pipescope
