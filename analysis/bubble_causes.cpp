#include "analysis/bubble_causes.h"

#include "trace/store/launch_attribution.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>

namespace pipescope {
namespace {
/// The dependency that ended last; kNoTask if the task waits only for its lane.
StepTaskIndex latest_dependency(const StepGraph& tasks, const TaskKey& key, LaneId lane) {
    StepTaskIndex latest = kNoTask;
    for (const StepTaskIndex each : tasks.dependencies(key)) {
        if (tasks.task(each).lane == lane && !is_copy(tasks.task(each).key.kind)) {
            continue;  // waiting for its own lane's work is not idle time
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
    return kind == TaskKind::forward || is_forward_copy(kind);
}

/// True if the producing lane worked on one phase without a break while this lane had finished that phase. Then the
/// producing lane is slower, and not just earlier in the pipeline.
bool made_by_slower_lane(const StepGraph& tasks, StepTaskIndex before, StepTaskIndex producer) {
    if (before == kNoTask) {
        return false;  // the pipeline is filling
    }
    const StepTask& made = tasks.task(producer);
    if (forwards(made.key.kind) != forwards(tasks.task(before).key.kind)) {
        return false;
    }
    // Walks back over the task and its recompute. The recompute may have started only when the gradient arrived.
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

/// The next task responsible for the gap. Several may start at its end if all but the last take no time.
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

/// The collective that follows a task on its device before the copy of its output starts, such as the last sum of a
/// tensor-parallel group; null if there is none.
const LaneWork* collective_between(const TaskLaunches& launches, const StepTask& task, const StepTask& copy) {
    const std::span<const LaneWork> work = launches.work_of(task.lane, LaneWorkKind::collective);
    const auto next =
        std::ranges::upper_bound(work, task.end, {}, [](const LaneWork& each) { return each.end.count(); });
    return next != work.end() && next->end.count() <= copy.start ? &*next : nullptr;
}

/// `waiting`: the task after the gap, which may not be recorded. Its dependencies end `later` ns later than recorded.
void add_gap(const StepGraph& tasks, const TaskLaunches& launches, const Bubble& gap, const TaskKey& waiting,
             StepTaskIndex before, std::vector<Bubble>& bubbles, std::int64_t later = 0) {
    std::int64_t from = gap.start;
    const auto add = [&](std::int64_t until, BubbleCause cause, StepTaskIndex of) {
        until = std::min(until, gap.end);
        if (until > from) {
            bubbles.push_back({gap.lane, from, until, cause, gap.next, of});
            from = until;
        }
    };
    const StepTaskIndex dependency = latest_dependency(tasks, waiting, gap.lane);
    if (dependency != kNoTask) {
        if (const StepTaskIndex producer = producer_of(tasks, dependency); producer != kNoTask) {
            add(tasks.task(producer).end + later, cause_of_wait(tasks, before, producer), producer);
            if (is_copy(tasks.task(dependency).key.kind)) {
                if (const LaneWork* const work =
                        collective_between(launches, tasks.task(producer), tasks.task(dependency))) {
                    constexpr std::int64_t kPause = 10'000;  // ns between two kernels that were launched in time
                    const bool is_late = work->start.count() > tasks.task(producer).end + kPause;
                    add(is_late ? work->start.count() + later : from, BubbleCause::launch, producer);
                    add(work->end.count() + later, BubbleCause::collective, producer);
                }
            }
        }
        if (is_copy(tasks.task(dependency).key.kind)) {
            const StepTask& copy = tasks.task(dependency);
            if (const auto launched = launches.could_start(copy.key)) {
                add(std::min(*launched, copy.start) + later, BubbleCause::launch, dependency);
            }
            add(copy.end + later, BubbleCause::copy, dependency);
        }
    }
    if (const auto launched = launches.could_start(waiting); launched && later == 0) {
        add(*launched, BubbleCause::launch, gap.next);
    }
    add(gap.end, BubbleCause::contention, kNoTask);
}

/// For the last of the steps with staggered updates. As in every other step, the lane waits until the input of the next
/// step's first task would be there. After that it has no more work.
void add_end_of_last_step(const StepGraph& tasks, const TaskLaunches& launches, const Bubble& end, StepTaskIndex before,
                          std::vector<Bubble>& bubbles) {
    const std::span<const StepTaskIndex> order = tasks.lane_order(end.lane);
    const auto first =
        std::ranges::find_if(order, [&](StepTaskIndex index) { return tasks.is_own(tasks.task(index)); });
    const StepTaskIndex input =
        first == order.end() ? kNoTask : latest_dependency(tasks, tasks.task(*first).key, end.lane);
    const std::int64_t period = tasks.range().length();
    const std::int64_t arrival = input == kNoTask ? end.start : std::min(tasks.task(input).end + period, end.end);
    if (arrival > end.start) {
        add_gap(tasks, launches, {end.lane, end.start, arrival, {}, kNoTask, kNoTask}, tasks.task(*first).key, before,
                bubbles, period);
    }
    if (end.end > std::max(arrival, end.start)) {
        bubbles.push_back({end.lane, std::max(arrival, end.start), end.end, BubbleCause::finished, kNoTask, kNoTask});
    }
}

/// Time in which the lane idled, split by cause.
void add_gaps(const StepGraph& tasks, const TaskLaunches& launches, LaneId lane, std::vector<Bubble>& bubbles) {
    const TimeRange step = tasks.range();
    std::int64_t free = step.start;  // end of the time covered so far
    StepTaskIndex before = kNoTask;
    const std::span<const StepTaskIndex> order = tasks.lane_order(lane);
    for (std::size_t k = 0; k < order.size(); ++k) {
        const StepTask& task = tasks.task(order[k]);
        const std::int64_t start = std::min(task.start, step.end);
        if (start > free) {
            const StepTaskIndex next = waiting_task(tasks, order.subspan(k));
            add_gap(tasks, launches, {lane, free, start, {}, next, kNoTask}, tasks.task(next).key, before, bubbles);
        }
        free = std::max(free, task.end);
        before = order[k];
    }
    const Bubble rest{lane, free, step.end, BubbleCause::finished, kNoTask, kNoTask};
    if (free < step.end && tasks.never_drains() && !order.empty()) {
        const TaskKey first = tasks.task(order.front()).key;  // runs again one period later, in the next step
        TaskKey next = first;
        ++next.step;
        if (latest_dependency(tasks, next, lane) != kNoTask) {
            add_gap(tasks, launches, rest, next, before, bubbles);
        } else {  // its dependencies also run again one period later
            add_gap(tasks, launches, rest, first, before, bubbles, step.length());
        }
    } else if (free < step.end && tasks.has_updates()) {
        add_end_of_last_step(tasks, launches, rest, before, bubbles);
    } else if (free < step.end) {
        bubbles.push_back(rest);
    }
}

/// Time in which the lane ran only tasks that a bubble fraction does not count as busy.
void add_other_work(const StepGraph& tasks, LaneId lane, std::vector<Bubble>& bubbles) {
    const std::span<const StepTaskIndex> order = tasks.lane_order(lane);
    std::vector<TimeRange> computed;  // without overlaps, by time
    for (const StepTaskIndex index : order) {
        const StepTask& task = tasks.task(index);
        if (!is_compute(task.key.kind)) {
            continue;
        }
        if (!computed.empty() && task.start <= computed.back().end) {
            computed.back().end = std::max(computed.back().end, task.end);
        } else {
            computed.push_back({task.start, task.end});
        }
    }
    std::int64_t done = tasks.range().start;  // end of the other work so far
    for (std::size_t k = 0; k < order.size(); ++k) {
        const StepTask& task = tasks.task(order[k]);
        if (is_compute(task.key.kind)) {
            continue;
        }
        const BubbleCause cause = task.key.kind == TaskKind::loss        ? BubbleCause::computes_loss
                                  : task.key.kind == TaskKind::optimizer ? BubbleCause::updates_parameters
                                                                         : BubbleCause::sums_gradients;
        const StepTaskIndex next = k + 1 < order.size() ? order[k + 1] : kNoTask;
        const std::int64_t end = std::min(task.end, tasks.range().end);
        std::int64_t from = std::max(done, task.start);
        auto busy = std::upper_bound(computed.begin(), computed.end(), from,
                                     [](std::int64_t time, const TimeRange& each) { return time < each.end; });
        while (from < end) {
            const bool more = busy != computed.end();
            const std::int64_t until = more ? std::min(end, busy->start) : end;
            if (until > from) {
                bubbles.push_back({lane, from, until, cause, next, order[k]});
            }
            from = more ? (busy++)->end : end;
        }
        done = std::max(done, end);
    }
}

/// Moves contention to a message for as long as the message held the lane.
std::vector<Bubble> with_messages(const std::vector<Bubble>& bubbles,
                                  const std::vector<std::vector<MessageRange>>& held) {
    std::vector<Bubble> parts;
    for (Bubble rest : bubbles) {
        if (rest.cause == BubbleCause::contention) {
            const std::vector<MessageRange>& messages = held[rest.lane.index()];
            auto each = std::ranges::upper_bound(messages, rest.start, {}, &MessageRange::end);
            for (; each != messages.end() && each->start < rest.end; ++each) {
                Bubble before = rest;
                before.end = std::max(rest.start, each->start);
                Bubble message = rest;
                message.start = before.end;
                message.end = std::min(rest.end, each->end);
                message.cause = BubbleCause::copy;
                message.culprit = each->copy;
                for (const Bubble& part : {before, message}) {
                    if (part.length() > 0) {
                        parts.push_back(part);
                    }
                }
                rest.start = message.end;
            }
        }
        if (rest.length() > 0) {
            parts.push_back(rest);
        }
    }
    return parts;
}

/// Gives the parts of some bubbles to what the lane's device or host did meanwhile.
std::vector<Bubble> with_lane_work(std::vector<Bubble> bubbles, const TaskLaunches& launches) {
    const auto give = [&](LaneWorkKind kind, BubbleCause cause, bool also_when_done) {
        std::vector<Bubble> parts;
        for (Bubble rest : bubbles) {
            const bool gives = rest.cause == BubbleCause::launch || rest.cause == BubbleCause::contention ||
                               (also_when_done && rest.cause == BubbleCause::finished);
            const std::span<const LaneWork> work =
                gives ? launches.work_of(rest.lane, kind) : std::span<const LaneWork>();
            auto each = std::ranges::upper_bound(work, rest.start, {}, [](const LaneWork& w) { return w.end.count(); });
            for (; each != work.end() && each->start.count() < rest.end; ++each) {
                Bubble before = rest;
                before.end = std::max(rest.start, each->start.count());
                Bubble part = rest;
                part.start = before.end;
                part.end = std::min(rest.end, each->end.count());
                part.cause = cause;
                part.culprit = kNoTask;
                if (before.length() > 0) {
                    parts.push_back(before);
                }
                parts.push_back(part);
                rest.start = part.end;
            }
            if (rest.length() > 0) {
                parts.push_back(rest);
            }
        }
        bubbles = std::move(parts);
    };
    if (launches.has_work()) {
        give(LaneWorkKind::collective, BubbleCause::collective, true);
        give(LaneWorkKind::optimizer, BubbleCause::updates_parameters, true);
        give(LaneWorkKind::loading, BubbleCause::loading, true);
        give(LaneWorkKind::data, BubbleCause::loading, false);
    }
    return bubbles;
}

/// Joins neighbouring pieces of one gap: a task of zero length may have cut it in two.
std::vector<Bubble> joined(const std::vector<Bubble>& pieces) {
    std::vector<Bubble> bubbles;
    for (const Bubble& piece : pieces) {
        Bubble* last = bubbles.empty() ? nullptr : &bubbles.back();
        if (last != nullptr && last->lane == piece.lane && last->end == piece.start && last->cause == piece.cause &&
            last->culprit == piece.culprit) {
            last->end = piece.end;
            last->next = piece.next;
        } else {
            bubbles.push_back(piece);
        }
    }
    return bubbles;
}

/// The task without its step, so that steps can be compared.
std::optional<TaskKey> stepless(const StepGraph& tasks, StepTaskIndex index) {
    if (index == kNoTask) {
        return std::nullopt;
    }
    TaskKey key = tasks.task(index).key;
    key.step = -1;
    return key;
}
}  // namespace

std::string_view to_string(BubbleCause cause) {
    switch (cause) {
        case BubbleCause::previous_partition: return "previous_partition";
        case BubbleCause::next_partition: return "next_partition";
        case BubbleCause::loss: return "loss";
        case BubbleCause::slower_lane: return "slower_lane";
        case BubbleCause::copy: return "copy";
        case BubbleCause::contention: return "contention";
        case BubbleCause::finished: return "finished";
        case BubbleCause::computes_loss: return "computes_loss";
        case BubbleCause::sums_gradients: return "sums_gradients";
        case BubbleCause::updates_parameters: return "updates_parameters";
        case BubbleCause::launch: return "launch";
        case BubbleCause::collective: return "collective";
        case BubbleCause::loading: return "loading";
    }
    return "unknown";
}

std::string_view describe(BubbleCause cause) {
    switch (cause) {
        case BubbleCause::previous_partition: return "waits for the previous partition";
        case BubbleCause::next_partition: return "waits for the next partition";
        case BubbleCause::loss: return "waits for the loss";
        case BubbleCause::slower_lane: return "waits for a slower lane";
        case BubbleCause::copy: return "waits for a copy";
        case BubbleCause::contention: return "started late (contention)";
        case BubbleCause::finished: return "lane done";
        case BubbleCause::computes_loss: return "computes the loss";
        case BubbleCause::sums_gradients: return "sums gradients over replicas";
        case BubbleCause::updates_parameters: return "updates its parameters";
        case BubbleCause::launch: return "waits for the host's launch";
        case BubbleCause::collective: return "waits for a collective";
        case BubbleCause::loading: return "waits for data";
    }
    return "unknown";
}

std::vector<std::vector<MessageRange>> held_by_messages(const StepGraph& tasks, Sends sends) {
    std::vector<std::vector<MessageRange>> held(tasks.num_lanes());
    if (sends == Sends::overlapped) {
        return held;
    }
    struct Received {
        std::int64_t ns = 0;
        StepTaskIndex copy = kNoTask;
    };
    std::map<StepTaskIndex, Received> received;  // by the task that handles the messages first
    for (StepTaskIndex index = 0; index < tasks.tasks().size(); ++index) {
        const StepTask& copy = tasks.task(index);
        if (!is_copy(copy.key.kind) || copy.duration() == 0) {
            continue;
        }
        held[copy.lane.index()].push_back({copy.start, copy.end, index});
        const std::optional<LaneId> receiver = tasks.receiver(index);
        for (const StepTaskIndex next : tasks.dependents(index)) {
            if (sends == Sends::serial && receiver && tasks.task(next).lane == *receiver &&
                is_compute(tasks.task(next).key.kind)) {
                received[next].ns += copy.duration();
                received[next].copy = index;
                break;
            }
        }
    }
    for (const auto& [task, message] : received) {
        const std::int64_t start = tasks.task(task).start;
        held[tasks.task(task).lane.index()].push_back({start - message.ns, start, message.copy});
    }
    for (std::vector<MessageRange>& each : held) {
        std::ranges::sort(each, {}, &MessageRange::start);
    }
    return held;
}

TaskLaunches::TaskLaunches(std::span<const TaskOnDevice> tasks, std::vector<LaneWork> work) {
    std::map<TaskKey, TaskOnDevice> by_key;
    for (const TaskOnDevice& task : tasks) {
        by_key.emplace(task.task, task);
    }
    tasks_ = std::make_shared<const std::map<TaskKey, TaskOnDevice>>(std::move(by_key));
    work_ = std::make_shared<const std::vector<LaneWork>>(std::move(work));
}

std::span<const LaneWork> TaskLaunches::work_of(LaneId lane, LaneWorkKind kind) const {
    if (work_ == nullptr) {
        return {};
    }
    const std::pair asked(lane, kind);
    const auto place = [](const LaneWork& each) { return std::pair(each.lane, each.kind); };
    return {std::ranges::lower_bound(*work_, asked, {}, place), std::ranges::upper_bound(*work_, asked, {}, place)};
}

std::int64_t TaskLaunches::time_in(LaneId lane, LaneWorkKind kind, std::int64_t start, std::int64_t end) const {
    const std::span<const LaneWork> work = work_of(lane, kind);
    std::int64_t time = 0;
    auto each = std::ranges::upper_bound(work, start, {}, [](const LaneWork& w) { return w.end.count(); });
    for (; start < end && each != work.end() && each->start.count() < end; ++each) {
        time += std::min(end, each->end.count()) - std::max(start, each->start.count());
    }
    return time;
}

const TaskOnDevice* TaskLaunches::find(const TaskKey& task) const {
    if (tasks_ == nullptr) {
        return nullptr;
    }
    const auto found = tasks_->find(task);
    return found == tasks_->end() ? nullptr : &found->second;
}

std::optional<std::int64_t> TaskLaunches::could_start(const TaskKey& key) const {
    const TaskOnDevice* task = find(key);
    return task == nullptr ? std::nullopt
                           : std::optional(pipescope::could_start(task->launch.count(), task->start.count()));
}

std::vector<Bubble> bubbles_of(const StepGraph& tasks, Sends sends, const TaskLaunches& launches) {
    std::vector<Bubble> pieces;
    for (std::size_t number = 0; number < tasks.num_lanes(); ++number) {
        const LaneId lane{static_cast<std::int64_t>(number)};
        const auto first = static_cast<std::ptrdiff_t>(pieces.size());
        add_gaps(tasks, launches, lane, pieces);
        add_other_work(tasks, lane, pieces);
        std::sort(pieces.begin() + first, pieces.end(),
                  [](const Bubble& a, const Bubble& b) { return a.start < b.start; });
    }
    pieces = with_lane_work(std::move(pieces), launches);
    return joined(sends == Sends::overlapped ? pieces : with_messages(pieces, held_by_messages(tasks, sends)));
}

double BubbleSums::total() const {
    std::int64_t sum = 0;
    for (const std::int64_t each : ns) {
        sum += each;
    }
    return share(sum);
}

BubbleSums sum_bubbles(const StepGraph& tasks, std::span<const Bubble> bubbles, std::optional<LaneId> lane) {
    BubbleSums sums;
    sums.whole = tasks.range().length() * (lane ? 1 : static_cast<std::int64_t>(tasks.num_lanes()));
    for (const Bubble& each : bubbles) {
        if (!lane || each.lane == *lane) {
            sums.ns[static_cast<std::size_t>(each.cause)] += each.length();
        }
    }
    return sums;
}

const Bubble* counterpart_of(const Bubble& bubble, const StepGraph& tasks, std::span<const Bubble> others,
                             const StepGraph& other_tasks) {
    const std::optional<TaskKey> next = stepless(tasks, bubble.next);
    const std::optional<TaskKey> culprit = stepless(tasks, bubble.culprit);
    const auto begin = std::lower_bound(others.begin(), others.end(), bubble.lane,
                                        [](const Bubble& each, LaneId lane) { return each.lane < lane; });
    const Bubble* best = nullptr;
    int most = -1;
    for (auto each = begin; each != others.end() && each->lane == bubble.lane; ++each) {
        if (stepless(other_tasks, each->next) != next) {
            continue;
        }
        const int alike =
            (each->cause == bubble.cause ? 2 : 0) + (stepless(other_tasks, each->culprit) == culprit ? 1 : 0);
        if (alike > most || (alike == most && each->length() > best->length())) {
            best = &*each;
            most = alike;
        }
    }
    return best;
}
}  // namespace pipescope
