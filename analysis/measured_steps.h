#pragma once

#include "analysis/recorded_run.h"
#include "schedule/timeline.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace pipescope {
/// The measured steps to compare with the simulated step.
struct MeasuredSteps {
    std::vector<StepRecord> steps;       ///< by time; without times if the training loop recorded none
    std::size_t comparable = 0;          ///< more than `steps` holds if only some were taken
    std::vector<std::int32_t> left_out;  ///< by leave_out_broken(): without a phase
    std::vector<std::int32_t> faulty;    ///< by leave_out_broken(): with a StepFault
    std::vector<std::int32_t>
        of_other_size;  ///< by steps_to_compare(): steps with more or fewer samples than the simulated step
    std::vector<std::int32_t> of_other_count;     ///< by keep_one_size(): whole steps with more or fewer micro-batches
    std::vector<std::int32_t> of_other_messages;  ///< by keep_one_size(): whole, with messages of other sizes
    std::int64_t micro_batches = 0;               ///< in each remaining step; 0: it left out none
    bool of_majority = true;                      ///< true if most of the whole steps have this size
    bool cut_off = false;                         ///< true if one of `steps` may be incomplete
    std::string why_none;                         ///< as RecordedRun::why_not_simulated; empty if there is a step

    std::vector<std::int32_t> numbers() const;
    /// Wall times of the steps. Steps without a record of the training loop have none.
    std::vector<Nanoseconds> wall_times() const;
};

/// The steps with compute tasks that take time, in order of time.
std::vector<std::int32_t> steps_in_time(const Timeline& timeline);

/// Why the recorded tasks of a step cannot be the tasks that ran.
enum class StepFault {
    missing,   ///< a lane lacks tasks that it has in other steps
    repeated,  ///< a lane ran one task twice at the same time
};
std::string_view describe(StepFault fault);

/// The size of a step's mini-batch, as its tasks and messages show it. Equal mini-batches have equal sizes.
struct StepSize {
    std::int64_t micro_batches = 0;
    /// Sum over all messages that steps with equal messages have. 0 if messages do not distinguish steps, as in runs
    /// that record their samples.
    Bytes message_bytes = 0;

    friend auto operator<=>(const StepSize&, const StepSize&) = default;
};

/// Which steps of a run are whole, judged by its tasks.
struct RunCheck {
    std::map<std::int32_t, StepFault> faults;  ///< by step
    std::map<std::int32_t, StepSize> sizes;    ///< of the steps without a fault
    std::string first_lack;                    ///< "step 0 has 5 of 6 backwards of partition 1"; may be empty
    std::vector<std::int32_t> idle_lanes;      ///< lanes of the run's pipeline without a task in any step
};

/// Selects the steps that the training loop recorded, without warm-up and without steps whose mini-batch differs from
/// the configuration's. If the loop recorded none, selects the `recorded` steps, which have tasks, in order of time; if
/// the recording was cut off, without the last one unless it is the only one. Then applies keep_one_size(), and selects
/// at most `most` steps, evenly spaced.
MeasuredSteps steps_to_compare(const RecordedRun& run, const RunCheck& check, std::span<const std::int32_t> recorded,
                               std::size_t most = std::numeric_limits<std::size_t>::max());
/// Keeps the whole steps of one size, since other sizes take other times. Takes the number of micro-batches in the
/// run's recorded pipeline if a step has it, otherwise the most frequent size, or the larger of two equally frequent
/// sizes.
void keep_one_size(const RecordedRun& run, const RunCheck& check, MeasuredSteps& measured);

/// Finds steps whose tasks were not all recorded, since a lane that lacks tasks would count as idle. Counts the compute
/// tasks of each partition by kind.
///
/// Rule: a partition runs its forward and its backward once for each micro-batch of the step. It needs as many
/// recomputes and second halves of backwards as in the run's pipeline. If only another program knows the pipeline, it
/// needs as many as in any step with equally many micro-batches.
///
/// Finds nothing in a run that lost records, since its bubbles are withheld anyway, nor in a schedule that never
/// drains.
class StepCheck {
public:
    /// Keeps a reference to `run`.
    explicit StepCheck(const RecordedRun& run) : run_(run) {}

    void add(const TaskKey& key, LaneId lane);
    /// Adds a message. Messages distinguish the steps of another program, which does not record their samples.
    void add_message(const TaskKey& copy, Bytes bytes);
    /// Notes that the lane has a task of this step that overlaps another one with the same key.
    void add_repeated(std::int32_t step) { repeated_.insert(step); }
    RunCheck result() const;

private:
    static constexpr std::size_t kNumKinds = 4;          // is_compute(): their numbers are 0 to 3
    using Counts = std::array<std::int64_t, kNumKinds>;  // by kind
    using ByPartition = std::vector<Counts>;
    /// The fewest tasks that a whole step needs, by partition and kind.
    struct Wanted;

    static std::int64_t micro_batches_of(const ByPartition& found);
    void tell_messages_apart(RunCheck& check) const;
    void find_faults(RunCheck& check) const;
    std::vector<std::int32_t> idle_lanes() const;
    Wanted wanted() const;

    const RecordedRun& run_;
    std::map<std::int32_t, ByPartition> steps_;
    using MessageName = std::tuple<TaskKind, std::int32_t, std::int32_t>;  // kind, partition, micro-batch
    std::map<std::int32_t, std::map<MessageName, Bytes>> messages_;        // by step, messages of known size
    std::set<std::int32_t> repeated_;
    std::vector<bool> lanes_;  // true: it has a task
    std::int32_t last_step_ = 0;
    ByPartition* last_ = nullptr;  // of last_step_: consecutive tasks are usually of one step
};
/// Checks all steps of a run. Finds nothing in a simulation.
RunCheck check_run(const RecordedRun& run, const Timeline& timeline);

/// Leaves out steps whose times or bubbles are unknown: without forwards or without backwards, as after a loss of
/// ranges; without length, by their tasks or by the training loop's record; and with a fault. `timeline` needs to hold
/// only the slices of these steps.
void leave_out_broken(const RunCheck& check, const Timeline& timeline, MeasuredSteps& measured);
/// The steps of the run that count, after all of the rules here; for a simulation, its step. `timeline` holds all
/// tasks. `check`: check_run().
MeasuredSteps whole_steps(const RecordedRun& run, const Timeline& timeline, const RunCheck& check);
MeasuredSteps whole_steps(const RecordedRun& run, const Timeline& timeline);
/// Sentences that name the steps that MeasuredSteps leaves out.
std::vector<std::string> left_out_warnings(const MeasuredSteps& measured);
/// A refusal if RunCheck::idle_lanes is not empty; otherwise empty.
std::vector<TraceWarning> idle_lane_warnings(const RecordedRun& run, const RunCheck& check);
/// TraceWarning::brief of idle_lane_warnings().
inline constexpr std::string_view kLaneWithoutTasks = "a lane has no task in this file";
/// The refusal for MeasuredSteps::cut_off, and its TraceWarning::brief.
TraceWarning only_step_cut_off();
inline constexpr std::string_view kStepCutOff = "the recording was cut off here";
}  // namespace pipescope
