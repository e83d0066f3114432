#pragma once

#include "analysis/step_graph.h"
#include "hardware/hardware.h"
#include "trace/store/lane_work.h"
#include "trace/store/trace_records.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace pipescope {
/// The reason why a lane computed nothing.
enum class BubbleCause {
    previous_partition,  ///< its next forward waited for the previous partition's output
    next_partition,      ///< its next backward waited for the next partition's gradient
    loss,                ///< the backward phase had not begun
    slower_lane,     ///< as previous_partition or next_partition, but the other lane was always busy, so it is slower
    copy,            ///< the result existed, but its copy ran or waited for the link; or a message held the lane
    contention,      ///< the inputs were there, but it started late: the host, the device or the network was busy
    finished,        ///< it had no more work in this step
    computes_loss,   ///< it computed a loss, which a bubble fraction does not count as busy
    sums_gradients,  ///< it ran a sum over replicas, which does not count as busy either
    updates_parameters,  ///< it ran a staggered update, which does not count as busy either
    launch,              ///< its device was free and the inputs were there, but the host launched the task too late
    collective,          ///< a collective on its device, or on the device that made its input, was not overlapped
    loading,             ///< its data was copied to the device, or the host waited for its data loader
};
inline constexpr int kNumBubbleCauses = 13;
/// The key in JSON and SQL: previous_partition.
std::string_view to_string(BubbleCause cause);
/// For people: "waits for the previous partition".
std::string_view describe(BubbleCause cause);
/// True if the lane ran a task, which timelines show.
constexpr bool is_work(BubbleCause cause) {
    return cause == BubbleCause::computes_loss || cause == BubbleCause::sums_gradients ||
           cause == BubbleCause::updates_parameters;
}

/// A part of a lane's bubble: time of the step that a bubble fraction does not count as busy, with one cause.
struct Bubble {
    LaneId lane;
    std::int64_t start = 0;
    std::int64_t end = 0;
    BubbleCause cause = BubbleCause::contention;
    StepTaskIndex next = kNoTask;     ///< the lane's next task; kNoTask: none
    StepTaskIndex culprit = kNoTask;  ///< the task or copy that it waited for, or the work that it did; kNoTask: none

    std::int64_t length() const { return end - start; }
    friend bool operator==(const Bubble&, const Bubble&) = default;
};

/// Time in which a lane handled a message and could not compute.
struct MessageRange {
    std::int64_t start = 0;
    std::int64_t end = 0;
    StepTaskIndex copy = kNoTask;
};
/// When messages held each lane, by lane, ascending. A lane's ranges may touch but not overlap. None if sends are
/// overlapped.
std::vector<std::vector<MessageRange>> held_by_messages(const StepGraph& tasks, Sends sends);

/// When the host launched the tasks of a run on devices, and what the devices did beside the tasks. Empty for other
/// runs. A value; copies share the tasks.
class TaskLaunches {
public:
    TaskLaunches() = default;
    /// `work`: joined_work().
    explicit TaskLaunches(std::span<const TaskOnDevice> tasks, std::vector<LaneWork> work = {});

    /// Null if unknown.
    const TaskOnDevice* find(const TaskKey& task) const;
    /// When the device could have started the task, since the host had launched it, in ns. Empty if unknown.
    std::optional<std::int64_t> could_start(const TaskKey& task) const;
    /// By start, without overlaps.
    std::span<const LaneWork> work_of(LaneId lane, LaneWorkKind kind) const;
    /// The time within the range in which the lane's device did such work.
    std::int64_t time_in(LaneId lane, LaneWorkKind kind, std::int64_t start, std::int64_t end) const;
    bool has_work() const { return work_ != nullptr && !work_->empty(); }

private:
    std::shared_ptr<const std::map<TaskKey, TaskOnDevice>> tasks_;  // null: none
    std::shared_ptr<const std::vector<LaneWork>> work_;             // null: none
};

/// The bubbles of all lanes, sorted by lane and time. They never overlap, and together are exactly what a bubble
/// fraction counts: every ns of the step in which a lane ran no forward, recompute or backward. Bubbles that touch
/// differ in cause or culprit.
///
/// The latest dependency of the task after a gap splits the gap. The producer of its input is the cause until the
/// producer ends, then the copy that brings the input, then a message that holds the lane, then contention.
/// With `launches`, the launch is the cause while a copy or the task could run but was not launched. What the lane's
/// device did meanwhile is the cause instead of the launch, of contention and of having no more work: a collective, an
/// update of parameters, loading of data. A collective that follows the producer delays the copy.
///
/// In the window of a schedule that never drains, no lane is done: its last gap is before its first task, which runs
/// again a period later. The last step with staggered updates is treated the same, until that task's input would be
/// there.
std::vector<Bubble> bubbles_of(const StepGraph& tasks, Sends sends = Sends::overlapped,
                               const TaskLaunches& launches = {});

/// Bubbles by cause, in ns and as share of the step: ns / (step time x lanes). The shares of all bubbles sum to the
/// step's bubble fraction. For one lane, replace lanes by 1; its shares sum to the lane's bubble fraction.
struct BubbleSums {
    std::array<std::int64_t, kNumBubbleCauses> ns{};
    std::int64_t whole = 0;  ///< ns: step time x lanes

    std::int64_t of(BubbleCause cause) const { return ns[static_cast<std::size_t>(cause)]; }
    double share(std::int64_t part) const {
        return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
    }
    double share(BubbleCause cause) const { return share(of(cause)); }
    /// The bubble fraction.
    double total() const;
};
/// `bubbles`: bubbles_of(tasks). With `lane`, only that lane's bubbles.
BubbleSums sum_bubbles(const StepGraph& tasks, std::span<const Bubble> bubbles,
                       std::optional<LaneId> lane = std::nullopt);

/// The bubble of another step or timeline that corresponds best: the same lane waits for the same task to run, if
/// possible with the same cause and culprit. Null if that lane has no bubble before that task.
const Bubble* counterpart_of(const Bubble& bubble, const StepGraph& tasks, std::span<const Bubble> others,
                             const StepGraph& other_tasks);
}  // namespace pipescope
