#pragma once

#include "analysis/bubble_causes.h"
#include "analysis/comparison.h"
#include "analysis/root_causes.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// A Bubble with times and tasks instead of indices.
struct ListedBubble {
    LaneId lane;
    Nanoseconds start{0};  ///< since the start of the step
    Nanoseconds length{0};
    double share = 0;  ///< of the step, as in BubbleSums
    BubbleCause cause = BubbleCause::contention;
    std::optional<TaskKey> culprit;
    std::optional<TaskKey> next;
};
ListedBubble listed(const Bubble& bubble, const StepGraph& tasks);

struct BubblesOfCause {
    Nanoseconds time{0};  ///< over all lanes, mean of the steps
    double share = 0;     ///< mean of the steps' shares, as in BubbleSums
};

/// The bubbles of the compared steps, or of the simulated step.
struct BubbleReport {
    std::array<BubblesOfCause, kNumBubbleCauses> causes;
    std::int32_t step = 0;                        ///< the step of median length; `largest` are its bubbles
    std::vector<ListedBubble> largest;            ///< the ten largest, largest first
    std::map<std::int32_t, double> idle_by_step;  ///< the share of each compared step, whose mean is total()
    std::optional<RootCauses> roots;  ///< set by compare_trace() and compare_two_runs(), if root_causes() finds some

    /// Equals Comparison::measured_bubble_mean, or the bubble fraction of the simulated step without noise.
    double total() const;
};

struct ComparedBubbles {
    BubbleReport measured;
    BubbleReport simulated;
};

/// The bubbles of a run's compared steps. `graph`: as for StepGraph. `sends`: as for bubbles_of(), if the run is a
/// simulation. `launches`: RecordedRun::launches. compare() must accept `measured`. Cost: O(tasks log tasks).
BubbleReport bubble_report(const Measured& measured, const std::shared_ptr<const TaskGraph>& graph = nullptr,
                           Sends sends = Sends::overlapped, const TaskLaunches& launches = {});

/// The tasks of each compared step, split into bubbles. `graph` and `simulated_graph`: as for StepGraph. `launches`:
/// RecordedRun::launches. compare() must accept the arguments. Cost: O(tasks log tasks).
ComparedBubbles compare_bubbles(const Measured& measured, const Simulation& simulation,
                                std::shared_ptr<const TaskGraph> graph = nullptr,
                                std::shared_ptr<const TaskGraph> simulated_graph = nullptr,
                                const TaskLaunches& launches = {});
}  // namespace pipescope
