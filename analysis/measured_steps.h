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
/// The measured steps that are compared with the simulated one.
struct MeasuredSteps {
    std::vector<StepRecord> steps;       ///< by time; without times if the training loop recorded none
    std::size_t comparable = 0;          ///< more than `steps` if only some were taken
    std::vector<std::int32_t> left_out;  ///< by leave_out_broken(): without a phase
    std::vector<std::int32_t> faulty;    ///< by leave_out_broken(): with a StepFault
    std::vector<std::int32_t>
        of_other_size;  ///< by steps_to_compare(): of more or fewer samples than the simulated step
    std::vector<std::int32_t> of_other_count;     ///< by keep_one_size(): whole, of more or fewer micro-batches
    std::vector<std::int32_t> of_other_messages;  ///< likewise: of as many micro-batches, and messages of other sizes
    std::int64_t micro_batches = 0;               ///< of the steps that are left then; 0: it left out none
    bool of_majority = true;                      ///< most of the whole steps have this size
    bool cut_off = false;                         ///< one of them may be incomplete
    std::string why_none;                         ///< as RecordedRun::why_not_simulated; empty if there is a step

    std::vector<std::int32_t> numbers() const;
    /// Wall times of the steps. Steps without a record of the training loop have none.
    std::vector<Nanoseconds> wall_times() const;
};

/// The steps with compute tasks that take time, in order of time.
std::vector<std::int32_t> steps_in_time(const Timeline& timeline);

/// Why the tasks of a step are not those that ran.
enum class StepFault {
    missing,   ///< a lane lacks tasks that it has in other steps
    repeated,  ///< a lane ran one task twice at the same time
};
std::string_view describe(StepFault fault);

/// The size of a step's mini-batch, as its tasks and messages show it. Equal mini-batches have equal sizes.
struct StepSize {
    std::int64_t micro_batches = 0;
    /// Sum over all messages that steps with equal messages have. 0 where messages do not tell steps apart, as in runs
    /// that record their samples.
    Bytes message_bytes = 0;

    friend auto operator<=>(const StepSize&, const StepSize&) = default;
};

/// Which steps of a run are whole, by its tasks.
struct RunCheck {
    std::map<std::int32_t, StepFault> faults;  ///< by step
    std::map<std::int32_t, StepSize> sizes;    ///< of the steps without a fault
    std::string first_lack;                    ///< "step 0 has 5 of 6 backwards of partition 1"; may be empty
    std::vector<std::int32_t> idle_lanes;      ///< lanes of the run's pipeline without a task in any step
};

/// Selects the steps that the training loop recorded, without warm-up and without those of another mini-batch than the
/// configuration's. If it recorded none, selects the `recorded`
/// ones, which have tasks, in order of time; the last one is left out if the recording was cut off and there are
/// others. Then applies keep_one_size(), and selects at most `most` steps, evenly spaced.
MeasuredSteps steps_to_compare(const RecordedRun& run, const RunCheck& check, std::span<const std::int32_t> recorded,
                               std::size_t most = std::numeric_limits<std::size_t>::max());
/// Leaves out whole steps of another size than the others: they take another time. Keeps the number of micro-batches of
/// the run's recorded pipeline if a step has it, otherwise the size of most steps; of two that are equally frequent the
/// larger one.
void keep_one_size(const RecordedRun& run, const RunCheck& check, MeasuredSteps& measured);

/// Counts the compute tasks of each partition by kind, to find steps whose tasks were not all recorded. A lane that
/// lacks tasks would count as idle. A partition runs its forward and its backward once for each micro-batch of the
/// step. Recomputes and second halves of backwards are as many as in the run's pipeline; if only another program knows
/// that, as many as in any step of equally many micro-batches. Finds nothing in a run that lost records, since its
/// bubbles are withheld anyway, nor in a schedule that never drains.
class StepCheck {
public:
    /// Keeps a reference to `run`.
    explicit StepCheck(const RecordedRun& run) : run_(run) {}

    void add(const TaskKey& key, LaneId lane);
    /// Adds a message, by which steps of another program are told apart: it does not say how many samples they have.
    void add_message(const TaskKey& copy, Bytes bytes);
    /// The lane has a task of this step that overlaps one of the same key.
    void add_repeated(std::int32_t step) { repeated_.insert(step); }
    RunCheck result() const;

private:
    static constexpr std::size_t kNumKinds = 4;          // is_compute(): their numbers are 0 to 3
    using Counts = std::array<std::int64_t, kNumKinds>;  // by kind
    using ByPartition = std::vector<Counts>;
    /// The fewest tasks of a whole step, by partition and kind.
    struct Wanted;

    static std::int64_t micro_batches_of(const ByPartition& found);
    void tell_messages_apart(RunCheck& check) const;
    void find_faults(RunCheck& check) const;
    std::vector<std::int32_t> idle_lanes() const;
    Wanted wanted() const;

    const RecordedRun& run_;
    std::map<std::int32_t, ByPartition> steps_;
    using MessageName = std::tuple<TaskKind, std::int32_t, std::int32_t>;  // kind, partition, micro-batch
    std::map<std::int32_t, std::map<MessageName, Bytes>> messages_;        // by step, those of known size
    std::set<std::int32_t> repeated_;
    std::vector<bool> lanes_;  // true: it has a task
    std::int32_t last_step_ = 0;
    ByPartition* last_ = nullptr;  // of last_step_: neighbours are usually of one step
};
/// Checks all steps of a run. Finds nothing in a simulation.
RunCheck check_run(const RecordedRun& run, const Timeline& timeline);

/// Leaves out steps without forwards or without backwards, as after a loss of ranges, steps of no length by their tasks
/// or by the training loop's record, and those with a fault. Their times or bubbles are unknown. `timeline` needs to
/// hold the slices of these steps only.
void leave_out_broken(const RunCheck& check, const Timeline& timeline, MeasuredSteps& measured);
/// The steps of the run that count: all of the above; of a simulation, its step. `timeline` holds all tasks. `check`:
/// check_run().
MeasuredSteps whole_steps(const RecordedRun& run, const Timeline& timeline, const RunCheck& check);
MeasuredSteps whole_steps(const RecordedRun& run, const Timeline& timeline);
/// Sentences that name the steps that MeasuredSteps leaves out.
std::vector<std::string> left_out_warnings(const MeasuredSteps& measured);
/// A refusal if the run has RunCheck::idle_lanes; otherwise empty.
std::vector<TraceWarning> idle_lane_warnings(const RecordedRun& run, const RunCheck& check);
/// TraceWarning::brief of the above.
inline constexpr std::string_view kLaneWithoutTasks = "a lane has no task in this file";
/// The refusal for MeasuredSteps::cut_off, and its TraceWarning::brief.
TraceWarning only_step_cut_off();
inline constexpr std::string_view kStepCutOff = "the recording was cut off here";
}  // namespace pipescope
