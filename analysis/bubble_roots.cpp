#include "analysis/bubble_roots.h"

#include "base/sample_statistics.h"
#include "simulator/clock/task_clock.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
using PlaceOfWork = std::tuple<TaskKind, std::int32_t, std::int32_t>;  // kind, partition, skip

PlaceOfWork place_of_work(const TaskKey& key) {
    return {key.kind, key.partition, key.skip};
}

std::uint64_t in_no_step(TaskKey key) {
    key.step = -1;
    return pack(key);
}

/// Median durations over the compared steps, by place of work.
std::map<PlaceOfWork, std::int64_t> typical_durations(const Measured& measured) {
    const std::set<std::int32_t> steps(measured.steps.begin(), measured.steps.end());
    std::map<PlaceOfWork, std::vector<std::int64_t>> all;
    for (const Slice& slice : measured.timeline.slices) {
        if (steps.contains(slice.key.step)) {
            all[place_of_work(slice.key)].push_back(slice.duration().count());
        }
    }
    std::map<PlaceOfWork, std::int64_t> typical;
    for (auto& [place, durations] : all) {
        typical[place] = median(durations);
    }
    return typical;
}

/// The durations of all tasks of a kind replaced by their mean over the places where they run.
std::map<PlaceOfWork, std::int64_t> evened(const std::map<PlaceOfWork, std::int64_t>& typical) {
    std::map<TaskKind, std::pair<std::int64_t, std::int64_t>> sums;
    for (const auto& [place, duration] : typical) {
        sums[std::get<0>(place)].first += duration;
        ++sums[std::get<0>(place)].second;
    }
    std::map<PlaceOfWork, std::int64_t> even;
    for (const auto& [place, duration] : typical) {
        even[place] = sums.at(std::get<0>(place)).first / sums.at(std::get<0>(place)).second;
    }
    return even;
}
}  // namespace

BubbleRoots::BubbleRoots(const Measured& measured, const TaskGraph& graph, std::optional<LaneId> slow_lane,
                         TaskLaunches launches)
    : slow_lane_(slow_lane), launches_(std::move(launches)) {
    const std::map<PlaceOfWork, std::int64_t> typical = typical_durations(measured);
    const std::map<PlaceOfWork, std::int64_t> even = evened(typical);
    const TaskClock clock(graph);
    const std::size_t count = graph.tasks().size();
    auto idle = std::make_shared<std::map<Place, Replays>>();
    for (std::size_t replay = 0; replay < std::tuple_size_v<Replays>; ++replay) {
        std::vector<std::int64_t> durations(count);
        for (std::size_t task = 0; task < count; ++task) {
            const TaskKey& key = graph.tasks()[task].key;
            const bool is_message = is_copy(key.kind);
            const auto& times = replay == 0 && !is_message ? even : typical;
            const auto found = times.find(place_of_work(key));
            if (found == times.end() && is_compute(key.kind)) {
                return;  // another program recorded no such task
            }
            const bool counts = found != times.end() && (!is_message || replay == 2);
            durations[task] = counts ? found->second : 0;
        }
        std::vector<std::int64_t> ends(count);
        clock.run(std::span<const std::int64_t>(durations), ends);
        std::int64_t end = 0;
        std::map<LaneId, std::int64_t> free;  // since when each lane is idle
        for (int lane = 0; lane < graph.num_lanes(); ++lane) {
            free[LaneId{lane}] = 0;
        }
        for (std::size_t task = 0; task < count; ++task) {  // lane orders are in topological order
            const Task& each = graph.tasks()[task];
            if (!is_of_step(each.key.kind)) {
                continue;
            }
            end = std::max(end, ends[task]);
            if (is_compute(each.key.kind)) {
                std::int64_t& since = free[each.lane];
                (*idle)[{each.lane, in_no_step(each.key)}][replay] = ends[task] - durations[task] - since;
                since = ends[task];
            }
        }
        for (const auto& [lane, since] : free) {
            (*idle)[{lane, kAtTheEnd}][replay] = end - since;
        }
    }
    idle_ = std::move(idle);
}

std::optional<RootCause> BubbleRoots::root_of(const Bubble& bubble, const StepGraph& tasks) const {
    if (idle_ == nullptr) {
        return std::nullopt;
    }
    if (bubble.cause == BubbleCause::launch) {
        return RootCause::launch;
    }
    if (bubble.cause == BubbleCause::collective) {
        const auto time_of = [&](LaneWorkKind kind) {
            return launches_.time_in(bubble.lane, kind, bubble.start, bubble.end);
        };
        const std::int64_t wait = time_of(LaneWorkKind::collective_wait);
        const std::int64_t slow = time_of(LaneWorkKind::collective_slow);
        const std::int64_t rest = bubble.length() - wait - slow;
        return wait >= std::max(slow, rest) ? RootCause::late_rank
               : slow >= rest               ? RootCause::network
                                            : RootCause::collective;
    }
    // The idle time in the recorded step, from the last compute task of the lane to the next one.
    const std::span<const StepTaskIndex> order = tasks.lane_order(bubble.lane);
    const auto computes = [&tasks](StepTaskIndex index) { return is_compute(tasks.task(index).key.kind); };
    const auto after =
        std::ranges::partition_point(order, [&](StepTaskIndex index) { return tasks.task(index).start < bubble.end; });
    const auto following = std::find_if(after, order.end(), computes);
    const auto before = std::find_if(std::reverse_iterator(after), order.rend(), computes);
    const std::int64_t start = before == order.rend() ? tasks.range().start : tasks.task(*before).end;
    const std::int64_t end = following == order.end() ? tasks.range().end : tasks.task(*following).start;
    const std::uint64_t next = following == order.end() ? kAtTheEnd : in_no_step(tasks.task(*following).key);
    const auto found = idle_->find({bubble.lane, next});
    if (found == idle_->end()) {
        return std::nullopt;
    }
    const Replays& replays = found->second;
    const std::int64_t recorded = end - start;
    const std::array<std::pair<RootCause, std::int64_t>, 4> parts{
        {{RootCause::ramp, std::min(replays[0], recorded)},
         {slow_lane_ ? RootCause::slow_lane : RootCause::imbalance, std::min(replays[1], recorded) - replays[0]},
         {RootCause::network, std::min(replays[2], recorded) - replays[1]},
         {RootCause::other, recorded - replays[2]}}};
    return std::ranges::max_element(parts, {}, &std::pair<RootCause, std::int64_t>::second)->first;
}

BubbleRoots bubble_roots(const Measured& measured, const RecordedRun& run, const std::optional<RootCauses>& roots) {
    if (measured.update == Update::staggered || measured.timeline.source == Source::simulated ||
        measured.steps.empty()) {
        return {};
    }
    const std::shared_ptr<const TaskGraph> graph = replayed_graph(run);
    return graph == nullptr ? BubbleRoots()
                            : BubbleRoots(measured, *graph, roots ? roots->slow_lane : std::nullopt, run.launches);
}

StepTaskIndex still_works(const Bubble& bubble, const StepGraph& tasks) {
    StepTaskIndex last = kNoTask;
    for (StepTaskIndex index = 0; bubble.cause == BubbleCause::finished && index < tasks.tasks().size(); ++index) {
        const StepTask& task = tasks.task(index);
        if (is_compute(task.key.kind) && task.lane != bubble.lane && task.end > bubble.start &&
            task.start < bubble.end && (last == kNoTask || task.end > tasks.task(last).end)) {
            last = index;
        }
    }
    return last;
}

std::span<const MoveKind> moves_against(RootCause root) {
    static constexpr std::array kRamp{MoveKind::micro_batches, MoveKind::schedule};
    static constexpr std::array kImbalance{MoveKind::balance, MoveKind::schedule};
    static constexpr std::array kNetwork{MoveKind::links, MoveKind::schedule};
    static constexpr std::array kLaunch{MoveKind::micro_batches};
    switch (root) {
        case RootCause::ramp: return kRamp;
        case RootCause::imbalance:
        case RootCause::slow_lane: return kImbalance;
        case RootCause::network: return kNetwork;
        case RootCause::launch: return kLaunch;
        case RootCause::other:
        case RootCause::late_rank:
        case RootCause::collective: return {};
    }
    return {};
}

std::optional<RootCause> root_against(MoveKind move) {
    switch (move) {
        case MoveKind::micro_batches:
        case MoveKind::schedule: return RootCause::ramp;
        case MoveKind::balance: return RootCause::imbalance;
        case MoveKind::links: return RootCause::network;
        case MoveKind::checkpoint:
        case MoveKind::lanes:
        case MoveKind::devices:
        case MoveKind::cores: return std::nullopt;
    }
    return std::nullopt;
}
}  // namespace pipescope
