#pragma once

#include "analysis/bubble_causes.h"
#include "analysis/load_run.h"
#include "analysis/step_graph.h"
#include "trace/store/trace_records.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pipescope {
/// Two figures of the same thing: in the step in question, and in the usual step. ns.
struct StepPair {
    std::int64_t step = 0;
    std::int64_t usual = 0;

    std::int64_t more() const { return step - usual; }
};

/// All tasks of one kind.
struct KindInStep {
    TaskKind kind = TaskKind::forward;
    std::int64_t tasks = 0;
    StepPair time;  ///< sum over all lanes
    StepPair path;  ///< sum of those on the critical path
};

struct LaneInStep {
    LaneId lane;
    StepPair busy;
    StepPair idle;
    double factor = 1;  ///< how many times as long its tasks took, median
};

struct TaskInStep {
    TaskKey task;
    LaneId lane;
    std::int64_t start = 0;  ///< since the start of the step
    StepPair time;
};

/// Why one step takes longer or shorter than another one: two steps of a run, of two runs, or of two ranks that run
/// the same tasks. The differences of `kinds` on the critical path and of `waits` sum to the difference of the steps.
struct SlowStep {
    std::int32_t step = 0;
    std::int32_t usual_step = 0;
    StepPair time;
    StepPair waits;                                 ///< between tasks of the critical path
    std::vector<KindInStep> kinds;                  ///< the largest difference on the critical path first, then in all
    std::vector<LaneInStep> lanes;                  ///< by lane
    std::array<StepPair, kNumBubbleCauses> causes;  ///< bubbles over all lanes
    std::optional<TaskInStep> first;                ///< the first task, by start, whose duration differs notably
    std::vector<TaskInStep> largest;                ///< the ten largest differences, the largest first
    double factor = 1;  ///< how many times as long a task took, median over forwards, backwards and recomputes
    /// The load of the machine in the step and in the usual one. Empty if it was not recorded for both.
    struct Loads {
        StepLoad step, usual;
    };
    std::optional<Loads> load;
    /// Between steps: what the training loop did outside the pipeline, such as data, the update or a save. Empty if
    /// it was not recorded.
    std::optional<StepPair> outside;

    /// Relative to the usual step: 0.5 is half as long again.
    double change() const;
};

/// Compares the steps of two graphs, task by task. `launches`: those of each run. Tasks that only one step has count in
/// the sums. Cost: O(tasks log tasks).
SlowStep compare_steps(const StepGraph& step, const StepGraph& usual, std::int32_t step_number,
                       std::int32_t usual_number, const TaskLaunches& launches = {},
                       const TaskLaunches& usual_launches = {});
/// Compares a step with the step of median length, the longer of the middle two, among the compared steps. `number` may
/// be any step with tasks, also of the warm-up. Throws UsageError if the run has no such step, and TraceFormatError if
/// it has no steps to compare.
SlowStep why_slow(const RunTasks& run, std::int32_t number);
/// Adds what the training loop's records say about the time outside the pipeline, and about the load of the machine.
void add_records(const RecordedRun& run, SlowStep& step);
/// The load that was measured over the step, or over a time that holds it. Empty if none was.
std::optional<StepLoad> load_of_step(const RecordedRun& run, std::int32_t step);

/// Why one lane of a step works longer or shorter than another one, such as two ranks of a run. A task that computes is
/// compared with the other lane's task of the same kind and micro-batch, on the partition that has the same place among
/// those of its lane. In the pairs, `step` is the lane and `usual` the other one.
struct LaneDifference {
    std::int32_t step = 0;
    LaneId lane;
    LaneId usual_lane;
    std::int64_t step_time = 0;
    StepPair busy;
    StepPair idle;                                  ///< sum of `causes`
    std::vector<KindInStep> kinds;                  ///< without `path`; the largest difference first
    std::array<StepPair, kNumBubbleCauses> causes;  ///< its bubbles
    std::optional<TaskInStep> first;                ///< as in SlowStep
    std::vector<TaskInStep> largest;
    double factor = 1;
};

/// Compares two lanes of a step. `bubbles`: of its lanes. Cost: O(tasks log tasks).
LaneDifference compare_lanes(const StepGraph& step, std::span<const Bubble> bubbles, std::int32_t number, LaneId lane,
                             LaneId usual);
/// The lane of median busy time, the longer of the middle two, among those with tasks. Empty without tasks.
std::optional<LaneId> median_lane(const StepGraph& step);

/// "Lane 5 works 33 % longer than lane 4. By kind of task, it is 20.1 points backwards, 10 points forwards of the step.
/// .."
std::string lane_difference_text(const LaneDifference& lane);

/// The verdict in sentences, with shares of the usual step instead of times: "Step 4 takes 167.9 % longer than the
/// median step 12. 120.1 points of that are backwards on the critical path .."
std::string slow_step_text(const SlowStep& step);
}  // namespace pipescope
