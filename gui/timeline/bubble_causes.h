#pragma once

#include "gui/timeline/step_graph.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace pipescope {
/// Causes of idle time.
enum class BubbleCause {
    previous_partition,  ///< waited for the previous partition's output
    next_partition,      ///< waited for the next partition's gradient
    loss,                ///< the backward phase had not started
    slower_lane,         ///< as the first two, but the other lane was continuously busy: it is slower
    copy,                ///< waited for a copy of an existing result, or for its link
    contention,          ///< started late although its input was there: the host, device or network was busy
    finished,            ///< no more work in this step
};
inline constexpr int kNumBubbleCauses = 7;
std::string_view to_string(BubbleCause cause);

/// A part of a lane's idle time.
struct BubblePiece {
    LaneId lane;
    std::int64_t start = 0;
    std::int64_t end = 0;
    BubbleCause cause = BubbleCause::contention;
    StepTaskIndex next = kNoTask;      ///< the following task; kNoTask if there is none
    StepTaskIndex cause_of = kNoTask;  ///< the task or copy it waited for; kNoTask if there is none

    std::int64_t length() const { return end - start; }
};

/// All time of the step in which a lane ran no task, by lane and time. Pieces do not overlap. A gap before a task is
/// split at the ends of the last task and copy that delivered its input: the cause is first the producing task, then
/// the copy, then contention.
std::vector<BubblePiece> bubblePieces(const StepGraph& tasks);
}  // namespace pipescope
