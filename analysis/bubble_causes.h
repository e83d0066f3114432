#pragma once

#include "analysis/step_graph.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace pipescope {
/// The reason why a lane was idle.
enum class BubbleCause {
    previous_partition,  ///< its next forward waited for the previous partition's output
    next_partition,      ///< its next backward waited for the next partition's gradient
    loss,                ///< the backward phase had not begun
    slower_lane,         ///< like the two above, but the other lane was busy without a break, so it is the slower one
    copy,                ///< the result existed, but its copy ran or waited for the link
    contention,          ///< the inputs were there, but it started late: the host, the device or the network was busy
    finished,            ///< it had no more work in this step
};
inline constexpr int kNumBubbleCauses = 7;
std::string_view to_string(BubbleCause cause);

/// A part of a lane's bubble.
struct BubblePiece {
    LaneId lane;
    std::int64_t start = 0;
    std::int64_t end = 0;
    BubbleCause cause = BubbleCause::contention;
    StepTaskIndex next = kNoTask;      ///< the lane's next task; kNoTask: none
    StepTaskIndex cause_of = kNoTask;  ///< the task or copy that it waited for; kNoTask: none

    std::int64_t length() const { return end - start; }
};

/// Every ns of the step in which a lane ran no task, sorted by lane and time; pieces never overlap. An all-reduce is a
/// task. A gap before a task is split by the task's latest dependency: the producer of its input is the cause until the
/// producer ends, then the copy that brings the input, then contention. In the window of a schedule that never drains,
/// no lane is done: its last gap is before its first task, which runs again a period later.
std::vector<BubblePiece> bubble_pieces(const StepGraph& tasks);
}  // namespace pipescope
