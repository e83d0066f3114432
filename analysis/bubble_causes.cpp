#include "analysis/bubble_causes.h"

#include <algorithm>
#include <limits>
#include <span>

namespace pipescope {
namespace {
/// The dependency that ended last; kNoTask if the task waits for nothing but its lane.
StepTaskIndex latest_dependency(const StepGraph& tasks, const TaskKey& key, LaneId lane) {
    StepTaskIndex latest = kNoTask;
    for (const StepTaskIndex each : tasks.dependencies(key)) {
        if (tasks.task(each).lane == lane && !is_copy(tasks.task(each).key.kind)) {
            continue;  // its own lane's work is no cause of idle time
        }
        if (latest == kNoTask || tasks.task(each).end > tasks.task(latest).end) {
            latest = each;
        }
    }
    return latest;
}

/// The compute task behind a dependency: the dependency itself, or the producer of a copy's data.
StepTaskIndex producer_of(const StepGraph& tasks, StepTaskIndex dependency) {
    if (!is_copy(tasks.task(dependency).key.kind)) {
        return dependency;
    }
    const std::vector<StepTaskIndex> from = tasks.dependencies(dependency);
    return from.empty() ? kNoTask : from.front();
}

bool forwards(TaskKind kind) {
    return kind == TaskKind::forward || kind == TaskKind::copy_forward || kind == TaskKind::skip_forward;
}

/// True if the producing lane worked on one phase without a break while this lane had finished it. The producing lane
/// is then slower, and not merely earlier in the pipeline.
bool made_by_slower_lane(const StepGraph& tasks, StepTaskIndex before, StepTaskIndex producer) {
    if (before == kNoTask) {
        return false;  // the pipeline is filling
    }
    const StepTask& made = tasks.task(producer);
    if (forwards(made.key.kind) != forwards(tasks.task(before).key.kind)) {
        return false;
    }
    // Walks back over the task and its recompute, which may have started only when the gradient arrived.
    std::int64_t pause = 0;
    StepTaskIndex at = producer;
    for (bool more = true; more;) {
        const StepTaskIndex earlier = tasks.previous(at);
        if (earlier == kNoTask) {
            return false;
        }
        pause += tasks.task(at).start - tasks.task(earlier).end;
        const TaskKey& key = tasks.task(earlier).key;
        more = at == producer && key.kind == TaskKind::recompute && key.micro_batch == made.key.micro_batch &&
               key.partition == made.key.partition;
        at = earlier;
    }
    constexpr std::int64_t kShortPause = 20;  // ignores a break of up to a twentieth of the task
    return pause * kShortPause <= made.duration();
}

/// The reason why the lane waited until the producer ended.
BubbleCause cause_of_wait(const StepGraph& tasks, StepTaskIndex before, StepTaskIndex producer) {
    const TaskKind kind = tasks.task(producer).key.kind;
    if (kind == TaskKind::loss) {
        return BubbleCause::loss;
    }
    if (made_by_slower_lane(tasks, before, producer)) {
        return BubbleCause::slower_lane;
    }
    return forwards(kind) ? BubbleCause::previous_partition : BubbleCause::next_partition;
}

/// The next task responsible for the gap. Several may start at its end, if all but the last take no time.
StepTaskIndex waiting_task(const StepGraph& tasks, std::span<const StepTaskIndex> next) {
    StepTaskIndex waiting = next.front();
    const auto input_at = [&](StepTaskIndex index) {
        const StepTaskIndex dependency = latest_dependency(tasks, tasks.task(index).key, tasks.task(index).lane);
        return dependency == kNoTask ? std::numeric_limits<std::int64_t>::min() : tasks.task(dependency).end;
    };
    for (const StepTaskIndex index : next.subspan(1)) {
        if (tasks.task(index).start != tasks.task(next.front()).start) {
            break;
        }
        waiting = input_at(index) > input_at(waiting) ? index : waiting;
    }
    return waiting;
}

/// `waiting`: what runs after the gap; it need not be recorded.
void add_gap(const StepGraph& tasks, const BubblePiece& gap, const TaskKey& waiting, StepTaskIndex before,
             std::vector<BubblePiece>& pieces) {
    std::int64_t from = gap.start;
    const auto add = [&](std::int64_t until, BubbleCause cause, StepTaskIndex of) {
        until = std::min(until, gap.end);
        if (until > from) {
            pieces.push_back({gap.lane, from, until, cause, gap.next, of});
            from = until;
        }
    };
    const StepTaskIndex dependency = latest_dependency(tasks, waiting, gap.lane);
    if (dependency != kNoTask) {
        if (const StepTaskIndex producer = producer_of(tasks, dependency); producer != kNoTask) {
            add(tasks.task(producer).end, cause_of_wait(tasks, before, producer), producer);
        }
        if (is_copy(tasks.task(dependency).key.kind)) {
            add(tasks.task(dependency).end, BubbleCause::copy, dependency);
        }
    }
    add(gap.end, BubbleCause::contention, kNoTask);
}
}  // namespace

std::string_view to_string(BubbleCause cause) {
    switch (cause) {
        case BubbleCause::previous_partition: return "previous partition";
        case BubbleCause::next_partition: return "next partition";
        case BubbleCause::loss: return "loss";
        case BubbleCause::slower_lane: return "slower lane";
        case BubbleCause::copy: return "copy";
        case BubbleCause::contention: return "contention";
        case BubbleCause::finished: return "finished";
    }
    return "unknown";
}

std::vector<BubblePiece> bubble_pieces(const StepGraph& tasks) {
    std::vector<BubblePiece> pieces;
    const TimeRange step = tasks.range();
    for (std::size_t number = 0; number < tasks.num_lanes(); ++number) {
        const LaneId lane{static_cast<std::int64_t>(number)};
        std::int64_t free = step.start;  // end of the time covered so far
        StepTaskIndex before = kNoTask;
        const std::span<const StepTaskIndex> order = tasks.lane_order(lane);
        for (std::size_t k = 0; k < order.size(); ++k) {
            const StepTask& task = tasks.task(order[k]);
            const std::int64_t start = std::min(task.start, step.end);
            if (start > free) {
                const StepTaskIndex next = waiting_task(tasks, order.subspan(k));
                add_gap(tasks, {lane, free, start, {}, next, kNoTask}, tasks.task(next).key, before, pieces);
            }
            free = std::max(free, task.end);
            before = order[k];
        }
        if (free < step.end && tasks.never_drains() && !order.empty()) {
            TaskKey next = tasks.task(order.front()).key;  // runs again one period later, in the next step
            ++next.step;
            add_gap(tasks, {lane, free, step.end, {}, kNoTask, kNoTask}, next, before, pieces);
        } else if (free < step.end) {
            pieces.push_back({lane, free, step.end, BubbleCause::finished, kNoTask, kNoTask});
        }
    }
    return pieces;
}
}  // namespace pipescope
