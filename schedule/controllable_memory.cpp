// V-Half and V-Min: two partitions per lane, placed in a V, with half and a third of the activations of 1F1B.
//
// Problem: the memory of a lane is the time that its micro-batches live, over the time between two of them. Idea: fix
// the times of one micro-batch, the building block, in which tasks take one slot each, so that both partitions of a
// lane together live equally long on every lane; repeat it every six slots, which is the work of a lane per
// micro-batch. The closer together the forwards and backwards of the block, the less memory, and the more idle time in
// the ramps.
//
// The block of V-Min for four lanes (a is the partition on the way down, b that on the way up, ' the backward of its
// inputs; the weights, w, take free slots behind):
//
//     lane 0   a  .  .  .  .  .  .  b  b' .  .  .  .  .  .  a'
//     lane 1   .  a  .  .  .  .  b  .  .  b' .  .  .  .  a' .
//     lane 2   .  .  a  .  .  b  .  .  .  .  b' .  .  a' .  .
//     lane 3   .  .  .  a  b  .  .  .  .  .  .  b' a' .  .  .
//
// Squeeze: then each task, in order of its time, moves to its lane's first free slot behind what it waits for, unless
// the lane would hold more activations than in the steady state. Only the order within a lane remains of the slots.
//
// Invariant: the unsqueezed schedule is valid, so every task has a place. Cost: O(p m) moves, each of which walks the
// slots whose memory changes.
//
// Source: Pipeline Parallelism with Controllable Memory (arXiv 2405.15362), sections 3 and 4, appendix A; the offsets
// are those of the authors' repository, sail-sg/zero-bubble-pipeline-parallelism.

#include "schedule/lane_plan.h"
#include "schedule/schedule_programs.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
constexpr int kPeriod = 6;  // slots per micro-batch: forward and both halves of the backward, of two partitions

/// The tasks of the block, in the order in which a micro-batch runs through them. Weights are not part of it.
enum BlockTask { forward_down, forward_up, backward_up, backward_down };
constexpr int kBlockTasks = 4;
constexpr bool is_forward(int task) {
    return task < backward_up;
}
/// True if the task of lane k waits for that of lane k - 1; otherwise for that of lane k + 1.
constexpr bool goes_down(int task) {
    return task == forward_down || task == backward_up;
}

/// First slots of the block's tasks on each lane.
using Block = std::vector<std::array<int, kBlockTasks>>;

Block v_min_block(int p) {
    const int gap = p % 3 == 0 ? 2 : 0;  // where tasks would fall on the same slot
    Block block;
    for (int k = 0; k < p; ++k) {
        block.push_back({k, 2 * p - 1 - k, 2 * p + gap + k, 4 * p + gap - 1 - k});
    }
    return block;
}

Block v_half_block(int p) {
    const int gap = p % 2 == 0 ? 3 : 0;
    Block block;
    for (int k = 0; k < p; ++k) {
        block.push_back({2 * k, 3 * p - 2 - k, 3 * p - 1 + gap + 2 * k, 6 * p - 2 + gap - k});
    }
    return block;
}

/// One lane's slots. Weights take the first free slots behind their backward.
class SlotLane {
public:
    SlotLane(const std::array<int, kBlockTasks>& first, int micro_batches)
        : at_(static_cast<std::size_t>(first[backward_down] + kPeriod * micro_batches), kFree) {
        for (std::size_t task = 0; task < kBlockTasks; ++task) {
            for (int i = 0; i < micro_batches; ++i) {
                slots_[task].push_back(first[task] + kPeriod * i);
                at_[static_cast<std::size_t>(slots_[task].back())] = static_cast<std::int8_t>(task);
            }
        }
        State state;
        for (const std::int8_t task : at_) {
            before_.push_back(state);
            state.pass(task);
            most_live_ = std::max(most_live_, state.live);
        }
    }

    int slot(int task, int i) const { return slots_[static_cast<std::size_t>(task)][static_cast<std::size_t>(i)]; }
    /// The most activations held at once in the slots of the block, each from its forward to its weights.
    int most_live() const { return most_live_; }

    /// Moves a task to the first free slot from `earliest` on where the lane holds at most `limit` activations.
    void move_up(int task, int i, int earliest, int limit) {
        int& slot = slots_[static_cast<std::size_t>(task)][static_cast<std::size_t>(i)];
        for (int to = earliest; to < slot; ++to) {
            auto& from = at_[static_cast<std::size_t>(slot)];
            auto& free = at_[static_cast<std::size_t>(to)];
            if (free == kFree) {
                std::swap(from, free);
                if (keeps(limit, static_cast<std::size_t>(to), static_cast<std::size_t>(slot))) {
                    slot = to;
                    return;
                }
                std::swap(from, free);
            }
        }
    }

    /// Calls each(task) in order, and weight() in the free slots behind backwards.
    template <class Each, class Weight>
    void run(Each each, Weight weight) const {
        int waiting = 0;
        for (const std::int8_t task : at_) {
            if (task != kFree) {
                each(task);
                waiting += is_forward(task) ? 0 : 1;
            } else if (waiting > 0) {
                --waiting;
                weight();
            }
        }
        for (; waiting > 0; --waiting) {
            weight();
        }
    }

private:
    static constexpr std::int8_t kFree = -1;

    struct State {
        int live = 0;
        int waiting = 0;  // weights

        void pass(std::int8_t task) {
            if (task == kFree) {
                const int ends = waiting > 0 ? 1 : 0;
                live -= ends;
                waiting -= ends;
            } else {
                ++(is_forward(task) ? live : waiting);
            }
        }
        friend bool operator==(const State&, const State&) = default;
    };

    /// True if the lane keeps the limit with what changed in the slots `first` to `last`. Then updates the states.
    bool keeps(int limit, std::size_t first, std::size_t last) {
        changed_.clear();
        State state = before_[first];
        for (std::size_t slot = first; slot < at_.size() && (slot <= last || state != before_[slot]); ++slot) {
            changed_.push_back(state);
            state.pass(at_[slot]);
            if (state.live > limit) {
                return false;
            }
        }
        std::copy(changed_.begin(), changed_.end(), before_.begin() + static_cast<std::ptrdiff_t>(first));
        return true;
    }

    std::array<std::vector<int>, kBlockTasks> slots_;  // by micro-batch
    std::vector<std::int8_t> at_;                      // the task in each slot
    std::vector<State> before_;                        // each slot
    std::vector<State> changed_;                       // of the slots that a move changes
    int most_live_ = 0;
};

struct SlotTask {
    int slot;
    std::size_t lane;
    int task;
    int i;
};

void squeeze(std::vector<SlotLane>& lanes, int micro_batches) {
    int limit = 0;
    std::vector<SlotTask> all;
    for (std::size_t k = 0; k < lanes.size(); ++k) {
        limit = std::max(limit, lanes[k].most_live());
        for (int task = 0; task < kBlockTasks; ++task) {
            for (int i = 0; i < micro_batches; ++i) {
                all.push_back({lanes[k].slot(task, i), k, task, i});
            }
        }
    }
    std::sort(all.begin(), all.end(),
              [](const SlotTask& a, const SlotTask& b) { return std::tie(a.slot, a.lane) < std::tie(b.slot, b.lane); });
    for (const SlotTask& each : all) {
        int earliest = 0;
        const auto after = [&](std::size_t lane, int task, int i) {
            earliest = std::max(earliest, lanes[lane].slot(task, i) + 1);
        };
        if (goes_down(each.task) && each.lane > 0) {
            after(each.lane - 1, each.task, each.i);
        }
        if (!goes_down(each.task) && each.lane + 1 < lanes.size()) {
            after(each.lane + 1, each.task, each.i);
        }
        if (each.task > 0) {
            after(each.lane, each.task - 1, each.i);
        }
        if (each.i > 0) {
            after(each.lane, each.task, each.i - 1);
        }
        lanes[each.lane].move_up(each.task, each.i, earliest, limit);
    }
}

/// Turns slots into a program. Weights follow in the order of their backwards.
LaneProgram program_of(const SlotLane& slots, const PipelineShape& shape, int lane) {
    LanePlan plan(shape);
    const PartitionId down{lane};
    const PartitionId up{2 * shape.num_lanes() - 1 - lane};
    std::array<int, kBlockTasks> counts{};
    std::vector<Cell> backwards;
    std::size_t weights = 0;
    slots.run(
        [&](int task) {
            const bool is_down = task == forward_down || task == backward_down;
            const Cell at{MicroBatchId{counts[static_cast<std::size_t>(task)]++}, is_down ? down : up};
            if (is_forward(task)) {
                plan.forward(at);
            } else {
                plan.backward(at);
                backwards.push_back(at);
            }
        },
        [&] { plan.backward_weight(backwards[weights++]); });
    return plan.take();
}

LanePrograms squeezed_programs(const PipelineShape& shape, const Block& block) {
    std::vector<SlotLane> lanes;
    for (const auto& first : block) {
        lanes.emplace_back(first, shape.num_micro_batches);
    }
    squeeze(lanes, shape.num_micro_batches);
    LanePrograms programs;
    for (std::size_t k = 0; k < lanes.size(); ++k) {
        programs.push_back(program_of(lanes[k], shape, static_cast<int>(k)));
    }
    return programs;
}
}  // namespace

LanePrograms v_half_programs(const PipelineShape& shape) {
    return squeezed_programs(shape, v_half_block(shape.num_lanes()));
}

LanePrograms v_min_programs(const PipelineShape& shape) {
    return squeezed_programs(shape, v_min_block(shape.num_lanes()));
}
}  // namespace pipescope
