#pragma once

#include "analysis/step_graph.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace pipescope {
/// Why a lane did nothing.
enum class BubbleCause {
    previous_partition,  ///< its next forward waited for the output of the partition before
    next_partition,      ///< its next backward waited for the gradient of the partition after
    loss,                ///< the backward phase had not begun
    slower_lane,         ///< as the two above, but the other lane was busy without a break: it is the slower one
    copy,                ///< the result was made, and on its way: its copy ran, or waited for the link
    contention,          ///< all was there, and yet it began late: the host, the device or the network was busy
    finished,            ///< it had no more to do in this step
};
inline constexpr int kNumBubbleCauses = 7;
std::string_view to_string(BubbleCause cause);

/// A part of a lane's bubble.
struct BubblePiece {
    LaneId lane;
    std::int64_t start = 0;
    std::int64_t end = 0;
    BubbleCause cause = BubbleCause::contention;
    StepTaskIndex next = kNoTask;      ///< the task that came after; kNoTask: none
    StepTaskIndex cause_of = kNoTask;  ///< the task or copy that it waited for; kNoTask: nothing

    std::int64_t length() const { return end - start; }
};

/// Every ns of the step in which a lane ran none of its tasks (a sum over replicas is one), in the order of lanes and
/// time; pieces never overlap. A gap before a task is split at the ends of what the task waited for last: up to there
/// the task that made its input is the cause, then the copy that brought it, then contention. In the window of a
/// schedule that never drains no lane is finished: the last gap is before the lane's first task, which runs again a
/// period later.
std::vector<BubblePiece> bubble_pieces(const StepGraph& tasks);
}  // namespace pipescope
