#pragma once

#include "base/ids.h"
#include "schedule/memory_category.h"
#include "schedule/task_key.h"
#include "schedule/update.h"

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace pipescope {
using Nanoseconds = std::chrono::nanoseconds;

enum class Source { measured, simulated };
std::string_view to_string(Source source);

/// One task on a lane, from start to end. A copy is on the sending lane.
struct Slice {
    TaskKey key;
    LaneId lane;
    Nanoseconds start{0};  ///< since the start of the recording, or of the simulated step
    Nanoseconds end{0};
    Bytes bytes = 0;  ///< moved by a copy; 0 if unknown or not a copy

    Nanoseconds duration() const { return end - start; }
    friend bool operator==(const Slice&, const Slice&) = default;
};

struct LaneInfo {
    std::string name;    ///< "lane 0"
    std::string device;  ///< "cpu", "cuda:0"

    friend bool operator==(const LaneInfo&, const LaneInfo&) = default;
};

/// A run of one or many steps over time. Slices are sorted by start, then lane.
struct Timeline {
    Source source = Source::measured;
    std::vector<LaneInfo> lanes;
    std::vector<Slice> slices;

    friend bool operator==(const Timeline&, const Timeline&) = default;
};

void sort_slices(Timeline& timeline);
/// Step numbers that occur, ascending.
std::vector<std::int32_t> steps_of(const Timeline& timeline);
Timeline step_of(const Timeline& timeline, std::int32_t step);

struct LaneStatistics {
    Nanoseconds busy{0};         ///< union of the forward, recompute and backward slices
    double bubble_fraction = 0;  ///< 1 - busy / step time

    friend bool operator==(const LaneStatistics&, const LaneStatistics&) = default;
};

/// Bubble and step time of one step, measured or simulated.
struct StepStatistics {
    Nanoseconds start{0};        ///< start of the first forward
    Nanoseconds end{0};          ///< end of the last backward; with replicas, of the last all_reduce
    double bubble_fraction = 0;  ///< mean over lanes
    std::vector<LaneStatistics> lanes;

    /// Makespan. Includes the loss, excludes the optimizer.
    Nanoseconds step_time() const { return end - start; }
    friend bool operator==(const StepStatistics&, const StepStatistics&) = default;
};

/// Statistics of one step. All zero if the timeline has no compute slice of that step.
/// Cost: O(slices log slices).
StepStatistics step_statistics(const Timeline& timeline, std::int32_t step);
/// Statistics of all slices, as if they were of one step: the window of a schedule that never drains holds parts of
/// several steps. Cost: O(slices log slices).
StepStatistics one_step_statistics(const Timeline& timeline);
/// Statistics of all steps of a run, by number; steps without a compute slice are left out. With staggered updates
/// steps overlap, and a step includes its updates: it lasts from the end of the step before it, or from its own first
/// forward if that is later, to the end of its last task. So steps never overlap here, and step_time() is the period of
/// consecutive steps. The compute slices of all steps within that time count as busy.
/// Cost: O(slices log slices).
std::map<std::int32_t, StepStatistics> statistics_by_step(const Timeline& timeline, Update update);

struct MemorySample {
    LaneId lane;
    Nanoseconds time{0};
    Bytes allocated = 0;     ///< held by tensors at this instant
    Bytes peak = 0;          ///< highest value since the previous sample; at least `allocated`
    Bytes reserved = 0;      ///< held by the caching allocator; 0 on the CPU
    std::int64_t task = -1;  ///< packed TaskKey of the task that just ended, or -1
    /// Composition of `allocated`. If all categories are known, they sum to it. For the composition of a peak, take a
    /// sample at the instant of the peak, when `allocated` equals `peak`.
    MemoryBreakdown composition = {};

    friend bool operator==(const MemorySample&, const MemorySample&) = default;
};
}  // namespace pipescope
