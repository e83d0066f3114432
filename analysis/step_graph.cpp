#include "analysis/step_graph.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace pipescope {
namespace {
TaskKey with(const TaskKey& key, TaskKind kind, std::int32_t partition, std::int32_t skip = -1) {
    return {key.step, kind, partition, key.micro_batch, skip};
}

/// Position of a task in the data flow of its micro-batch. Each task it depends on has a smaller position.
std::int32_t place_in_flow(const TaskKey& key, std::int32_t last) {
    const std::int32_t loss = 2 * last + 2;
    const std::int32_t backward = loss + 3 + 4 * (last - key.partition);
    switch (key.kind) {
        case TaskKind::forward: return 2 * key.partition;
        case TaskKind::copy_forward:
        case TaskKind::skip_forward: return 2 * key.partition + 1;
        case TaskKind::loss: return loss;
        case TaskKind::copy_backward:
        case TaskKind::skip_backward: return backward - 2;
        case TaskKind::recompute: return backward - 1;
        case TaskKind::backward: return backward;
        case TaskKind::backward_weight: return backward + 1;
        case TaskKind::shared_forward: return 2 * key.partition + 1;
        case TaskKind::shared_backward: return std::numeric_limits<std::int32_t>::max() - 2;
        case TaskKind::shared_sum: return std::numeric_limits<std::int32_t>::max() - 1;
        case TaskKind::optimizer:
        case TaskKind::all_reduce: break;
    }
    return std::numeric_limits<std::int32_t>::max();
}

bool has(const std::vector<StepTaskIndex>& tasks, StepTaskIndex task) {
    return std::find(tasks.begin(), tasks.end(), task) != tasks.end();
}

constexpr std::ptrdiff_t kMostSeen = 256;  // a damaged trace must not cost quadratic time

bool waits_for_many(const TaskGraph& graph, TaskIndex task) {
    return std::ssize(graph.dependencies(task)) > kMostSeen;
}
}  // namespace

StepGraph::StepGraph(std::vector<StepTask> tasks, std::size_t lanes, TimeRange range,
                     std::shared_ptr<const TaskGraph> graph, std::optional<std::int32_t> own_step)
    : range_(range), own_step_(own_step), graph_(std::move(graph)), tasks_(std::move(tasks)), lanes_(lanes) {
    order();
    if (!graph_) {
        find_popping_partitions();
        find_recompute_start();
    } else {
        find_barriers();
    }
    find_previous();
    link();
}

void StepGraph::order() {
    for (const StepTask& task : tasks_) {
        if (!is_copy(task.key.kind)) {
            last_partition_ = std::max(last_partition_, task.key.partition);
        }
    }
    // A task starts after the tasks it waits for have ended, so start and end almost determine the order. Tasks of zero
    // length at one instant are ordered by data flow.
    const auto rank = [this](const StepTask& task) {
        return std::tuple(place_in_flow(task.key, last_partition_), task.lane, pack(task.key));
    };
    std::sort(tasks_.begin(), tasks_.end(), [&](const StepTask& a, const StepTask& b) {
        return a.start != b.start ? a.start < b.start : a.end != b.end ? a.end < b.end : rank(a) < rank(b);
    });
    for (StepTaskIndex i = 0; i < tasks_.size(); ++i) {
        const StepTask& task = tasks_[i];
        if (std::find(steps_.rbegin(), steps_.rend(), task.key.step) == steps_.rend()) {
            steps_.push_back(task.key.step);
        }
        if (is_copy(task.key.kind)) {
            continue;
        }
        lane_of_.emplace(task.key.partition, task.lane);
        if (task.key.kind != TaskKind::optimizer || has_updates()) {
            lanes_[task.lane.index()].push_back(i);
        }
    }
    const bool is_one_step = graph_ && !own_step_ && steps_.size() == 1;
    recorded_.assign(is_one_step ? graph_->tasks().size() : 0, kNoTask);
    for (StepTaskIndex i = 0; i < tasks_.size(); ++i) {
        const std::optional<TaskIndex> known = is_one_step ? graph_->find(tasks_[i].key) : std::nullopt;
        if (!known) {
            by_key_.emplace(pack(tasks_[i].key), i);
        } else if (recorded_[*known] == kNoTask) {
            recorded_[*known] = i;
        }
    }
}

std::optional<LaneId> StepGraph::receiver(StepTaskIndex copy) const {
    const TaskKey& key = task(copy).key;
    if (const std::optional<TaskIndex> known = graph_ ? graph_->find(key) : std::nullopt) {
        return is_copy(key.kind) ? std::optional(graph_->tasks()[*known].receiver) : std::nullopt;
    }
    std::optional<std::int32_t> partition;
    switch (key.kind) {
        case TaskKind::copy_forward: partition = key.partition + 1; break;
        case TaskKind::skip_forward: partition = popping_partition(key.skip); break;
        case TaskKind::copy_backward:
        case TaskKind::skip_backward: partition = key.partition; break;
        default: return std::nullopt;
    }
    const auto found = partition ? lane_of_.find(*partition) : lane_of_.end();
    return found == lane_of_.end() ? std::nullopt : std::optional(found->second);
}

void StepGraph::find_previous() {
    previous_.assign(tasks_.size(), kNoTask);
    constexpr std::int64_t kOfTheLaneItself = -1;
    constexpr std::int64_t kUnknownReceiver = -2;
    std::map<std::pair<std::int64_t, std::int64_t>, StepTaskIndex> last;  // by lane and by link
    for (StepTaskIndex i = 0; i < tasks_.size(); ++i) {
        std::int64_t link = kOfTheLaneItself;
        if (is_copy(tasks_[i].key.kind)) {
            const std::optional<LaneId> to = receiver(i);
            link = to ? to->value() : kUnknownReceiver;
        }
        const auto [before, first] = last.try_emplace({tasks_[i].lane.value(), link}, i);
        previous_[i] = first ? kNoTask : std::exchange(before->second, i);
        // A sum in buckets runs beside the lane's tasks and delays none of them.
        for (StepTaskIndex& earlier = previous_[i];
             earlier != kNoTask && tasks_[earlier].key.kind == TaskKind::all_reduce &&
             tasks_[i].key.kind != TaskKind::all_reduce && tasks_[earlier].end > tasks_[i].start;) {
            earlier = previous_[earlier];
        }
    }
}

std::optional<std::int32_t> StepGraph::producer_partition(StepTaskIndex skip) const {
    const StepTask& skip_backward = tasks_[skip];
    const std::vector<StepTaskIndex>& order = lanes_[skip_backward.lane.index()];
    const auto later = std::lower_bound(order.begin(), order.end(), skip);
    for (auto i = later; i != order.begin() && later - i < kMostSeen;) {
        const StepTask& task = tasks_[*--i];
        if (task.key.kind == TaskKind::backward && task.key.micro_batch == skip_backward.key.micro_batch &&
            task.key.partition > skip_backward.key.partition && task.end <= skip_backward.start) {
            return task.key.partition;
        }
    }
    return std::nullopt;
}

void StepGraph::find_popping_partitions() {
    // If a lane has several partitions, a few copies may have waited for their link until an earlier copy ended.
    std::map<std::int32_t, std::map<std::int32_t, int>> votes;
    std::map<std::int32_t, std::int32_t> from;
    for (StepTaskIndex i = 0; i < tasks_.size(); ++i) {
        const StepTask& task = tasks_[i];
        if (task.key.kind != TaskKind::skip_backward) {
            continue;
        }
        if (const std::optional<std::int32_t> partition = producer_partition(i)) {
            ++votes[task.key.skip][*partition];
            from[task.key.skip] = task.key.partition;
        }
    }
    for (const auto& [skip, partitions] : votes) {
        const auto most = std::max_element(partitions.begin(), partitions.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
        stashed_.emplace(from[skip], skips_.size());
        popped_.emplace(most->first, skips_.size());
        skips_.push_back({skip, from[skip], most->first});
    }
}

StepTaskIndex StepGraph::gradient_for(const TaskKey& key) const {
    return key.partition == last_partition_ ? loss_of(key.step, key.micro_batch)
                                            : first_of({with(key, TaskKind::copy_backward, key.partition),
                                                        with(key, TaskKind::backward, key.partition + 1)});
}

void StepGraph::find_recompute_start() {
    recomputes_with_gradient_ = std::none_of(tasks_.begin(), tasks_.end(), [this](const StepTask& task) {
        const StepTaskIndex gradient = task.key.kind == TaskKind::recompute ? gradient_for(task.key) : kNoTask;
        return gradient != kNoTask && tasks_[gradient].end > task.start;
    });
}

std::optional<std::int32_t> StepGraph::popping_partition(std::int32_t skip) const {
    if (graph_) {
        const std::vector<SkipRoute>& routes = graph_->shape().skips;
        const auto number = static_cast<std::size_t>(skip);
        return skip >= 0 && number < routes.size()
                   ? std::optional(static_cast<std::int32_t>(routes[number].to.front().value()))
                   : std::nullopt;
    }
    const auto found = std::lower_bound(skips_.begin(), skips_.end(), skip,
                                        [](const SkipEnds& a, std::int32_t b) { return a.skip < b; });
    return found != skips_.end() && found->skip == skip ? std::optional(found->to) : std::nullopt;
}

void StepGraph::link() {
    dependents_.resize(tasks_.size());
    for (StepTaskIndex i = 0; i < tasks_.size(); ++i) {
        for (const StepTaskIndex from : dependencies(i)) {
            dependents_[from].push_back(i);
        }
    }
}

StepTaskIndex StepGraph::find(const TaskKey& key) const {
    StepTaskIndex first = kNoTask;  // the largest index
    TaskKey of_step = key;
    of_step.step = own_step_.value_or(key.step);
    if (const StepTaskIndex own = own_step_ ? find_in_step(of_step) : kNoTask; own != kNoTask) {
        return own;
    }
    for (const std::int32_t step : steps_) {
        of_step.step = step;
        first = std::min(first, find_in_step(of_step));
    }
    return first;
}

StepTaskIndex StepGraph::find_in_step(const TaskKey& key) const {
    if (!recorded_.empty() && key.step == steps_.front()) {
        if (const std::optional<TaskIndex> known = graph_->find(key)) {
            return recorded_[*known];
        }
    }
    const auto found = by_key_.find(pack(key));
    return found == by_key_.end() ? kNoTask : found->second;
}

StepTaskIndex StepGraph::index_of(SliceRef slice) const {
    const auto found =
        std::find_if(tasks_.begin(), tasks_.end(), [&](const StepTask& task) { return task.slice == slice; });
    return found == tasks_.end() ? kNoTask : static_cast<StepTaskIndex>(found - tasks_.begin());
}

std::span<const StepTaskIndex> StepGraph::lane_order(LaneId lane) const {
    return lanes_.at(lane.index());
}

StepTaskIndex StepGraph::first_of(std::initializer_list<TaskKey> keys) const {
    for (const TaskKey& key : keys) {
        if (const StepTaskIndex found = find_in_step(key); found != kNoTask) {
            return found;
        }
    }
    return kNoTask;
}

StepTaskIndex StepGraph::loss_of(std::int32_t step, std::int32_t micro_batch) const {
    return first_of({{step, TaskKind::loss, last_partition_, micro_batch, -1},
                     {step, TaskKind::loss, -1, micro_batch, -1},
                     {step, TaskKind::loss, last_partition_, -1, -1},
                     {step, TaskKind::loss, -1, -1, -1}});
}

std::vector<StepTaskIndex> StepGraph::dependencies(StepTaskIndex index) const {
    const TaskKey& key = tasks_.at(index).key;
    const std::optional<TaskIndex> known = graph_ ? graph_->find(key) : std::nullopt;
    return known ? dependencies_by_graph(*known, key.step, index) : dependencies(key);
}

std::vector<StepTaskIndex> StepGraph::dependencies(const TaskKey& key) const {
    if (!graph_) {
        return dependencies_by_key(key);
    }
    const std::optional<TaskIndex> known = graph_->find(key);
    return known ? dependencies_by_graph(*known, key.step, kNoTask) : std::vector<StepTaskIndex>{};
}

StepTaskIndex StepGraph::recorded_as(TaskIndex of_graph, std::int32_t step) const {
    if (!recorded_.empty() && step == steps_.front()) {
        return recorded_[of_graph];
    }
    TaskKey key = graph_->tasks()[of_graph].key;
    key.step = step;
    return find_in_step(key);
}

std::vector<StepTaskIndex> StepGraph::walk_back(
    TaskIndex task, std::int32_t step,
    const std::function<bool(TaskIndex barrier, std::vector<StepTaskIndex>& found)>& pass) const {
    std::vector<StepTaskIndex> found;
    std::vector<TaskIndex> open;  // not recorded: the task waited for their dependencies instead
    for (const TaskIndex before : graph_->dependencies(task)) {
        if (const StepTaskIndex recorded = recorded_as(before, step); recorded != kNoTask) {
            found.push_back(recorded);
        } else {
            open.push_back(before);
        }
    }
    if (open.empty()) {
        return found;
    }
    const std::span<const TaskIndex> direct = graph_->dependencies(task);
    std::unordered_set<TaskIndex> seen(direct.begin(), direct.end());
    for (std::size_t k = 0; k < open.size(); ++k) {
        if (waits_for_many(*graph_, open[k]) && pass(open[k], found)) {
            continue;
        }
        for (const TaskIndex before : graph_->dependencies(open[k])) {
            if (!seen.insert(before).second) {
                continue;
            }
            if (const StepTaskIndex recorded = recorded_as(before, step); recorded != kNoTask) {
                found.push_back(recorded);
            } else {
                open.push_back(before);
            }
        }
    }
    return found;
}

std::vector<StepTaskIndex> StepGraph::dependencies_by_graph(TaskIndex task, std::int32_t step,
                                                            StepTaskIndex waiting) const {
    return walk_back(task, step, [&](TaskIndex open, std::vector<StepTaskIndex>& found) {
        const auto barrier = barriers_.find({open, step});
        if (barrier == barriers_.end()) {
            return false;
        }
        for (const StepTaskIndex each : chosen_of(barrier->second, waiting)) {
            if (!has(found, each)) {
                found.push_back(each);
            }
        }
        return true;
    });
}

void StepGraph::find_barriers() {
    for (TaskIndex task = 0; task < graph_->tasks().size(); ++task) {
        for (const std::int32_t step : waits_for_many(*graph_, task) ? steps_ : std::vector<std::int32_t>()) {
            if (recorded_as(task, step) == kNoTask) {
                barriers_.emplace(std::pair(task, step), barrier_of(task, step));
            }
        }
    }
}

StepGraph::Barrier StepGraph::barrier_of(TaskIndex task, std::int32_t step) const {
    const std::vector<StepTaskIndex> all = walk_back(task, step, [](auto&&...) { return false; });
    Barrier barrier{all.empty() ? kNoTask : all.front(), {}};
    std::map<std::pair<LaneId, bool>, std::size_t> place;
    for (const StepTaskIndex each : all) {
        const std::pair lane(tasks_[each].lane, is_copy(tasks_[each].key.kind));
        const auto [found, is_new] = place.try_emplace(lane, barrier.by_lane.size());
        if (is_new) {
            barrier.by_lane.emplace_back();
        }
        barrier.by_lane[found->second].push_back(each);
    }
    for (std::vector<StepTaskIndex>& of_lane : barrier.by_lane) {
        std::ranges::reverse(of_lane);  // the first of those that end at once comes last
        std::ranges::stable_sort(of_lane, {}, [this](StepTaskIndex each) { return tasks_[each].end; });
    }
    return barrier;
}

std::vector<StepTaskIndex> StepGraph::chosen_of(const Barrier& barrier, StepTaskIndex waiting) const {
    std::vector<StepTaskIndex> chosen;
    if (barrier.first != kNoTask) {
        chosen.push_back(barrier.first);  // the producer of a copy's data comes first too
    }
    for (const std::vector<StepTaskIndex>& of_lane : barrier.by_lane) {
        StepTaskIndex last = of_lane.back();
        if (waiting != kNoTask) {
            const auto later = std::ranges::upper_bound(of_lane, tasks_[waiting].end, {},
                                                        [this](StepTaskIndex each) { return tasks_[each].end; });
            for (auto i = later; i != of_lane.begin() && later - i < kMostSeen;) {
                if (*--i < waiting) {
                    last = *i;
                    break;
                }
            }
        }
        chosen.push_back(last);
    }
    return chosen;
}

std::vector<StepTaskIndex> StepGraph::dependencies_by_key(const TaskKey& key) const {
    const std::int32_t j = key.partition;
    std::vector<StepTaskIndex> found;
    const auto add = [&](StepTaskIndex task) {
        if (task != kNoTask && tasks_[task].key != key) {
            found.push_back(task);
        }
    };
    switch (key.kind) {
        case TaskKind::forward:
            add(first_of({with(key, TaskKind::copy_forward, j - 1), with(key, TaskKind::forward, j - 1)}));
            for (auto [at, end] = popped_.equal_range(j); at != end; ++at) {
                const SkipEnds& ends = skips_[at->second];
                add(find_in_step(with(key, TaskKind::skip_forward, ends.from, ends.skip)));
            }
            break;
        case TaskKind::copy_forward:
        case TaskKind::skip_forward: add(find_in_step(with(key, TaskKind::forward, j))); break;
        case TaskKind::loss:
            if (key.micro_batch >= 0) {
                add(find_in_step(with(key, TaskKind::forward, last_partition_)));
                break;
            }
            for (StepTaskIndex i = 0; i < tasks_.size(); ++i) {
                const TaskKey& forward = tasks_[i].key;
                if (forward.kind == TaskKind::forward && forward.partition == last_partition_ &&
                    forward.step == key.step) {
                    add(i);
                }
            }
            break;
        case TaskKind::recompute:
            if (const StepTaskIndex loss = loss_of(key.step, -1); loss != kNoTask && tasks_[loss].key.micro_batch < 0) {
                add(loss);  // a loss of the whole mini-batch separates the phases
            }
            if (const StepTaskIndex gradient = gradient_for(key); recomputes_with_gradient_ && !has(found, gradient)) {
                add(gradient);
            }
            break;
        case TaskKind::backward:
            add(find_in_step(with(key, TaskKind::recompute, j)));
            add(gradient_for(key));
            for (auto [at, end] = stashed_.equal_range(j); at != end; ++at) {
                add(find_in_step(with(key, TaskKind::skip_backward, j, skips_[at->second].skip)));
            }
            break;
        case TaskKind::copy_backward: add(find_in_step(with(key, TaskKind::backward, j + 1))); break;
        case TaskKind::backward_weight: add(find_in_step(with(key, TaskKind::backward, j))); break;
        case TaskKind::skip_backward:
            if (const std::optional<std::int32_t> to = popping_partition(key.skip)) {
                add(find_in_step(with(key, TaskKind::backward, *to)));
            }
            break;
        case TaskKind::shared_forward:  // only the graph knows a route's ends
        case TaskKind::shared_backward:
        case TaskKind::shared_sum:
        case TaskKind::optimizer:
        case TaskKind::all_reduce: break;
    }
    return found;
}

std::vector<StepTaskIndex> StepGraph::dependents(StepTaskIndex index) const {
    return dependents_.at(index);
}

StepGraph step_graph_of(const Timeline& step, TimeRange range, std::shared_ptr<const TaskGraph> graph,
                        std::optional<std::int32_t> own_step) {
    std::vector<StepTask> tasks;
    tasks.reserve(step.slices.size());
    for (std::uint32_t i = 0; i < step.slices.size(); ++i) {
        const Slice& slice = step.slices[i];
        tasks.push_back({slice.key, {0, i}, slice.lane, slice.start.count(), slice.end.count()});
    }
    return {std::move(tasks), step.lanes.size(), range, std::move(graph), own_step};
}

CriticalPath critical_path(const StepGraph& tasks) {
    CriticalPath path;
    StepTaskIndex at = kNoTask;
    for (StepTaskIndex i = 0; i < tasks.tasks().size(); ++i) {
        const StepTask& task = tasks.task(i);
        const bool in_the_step =
            is_of_step(task.key.kind) || (task.key.kind == TaskKind::optimizer && tasks.has_updates());
        if (in_the_step && tasks.is_own(task) && (at == kNoTask || task.end >= tasks.task(at).end)) {
            at = i;
        }
    }
    // Cuts off time before the step's start: with staggered updates, the step before is still running then.
    const std::int64_t start = tasks.has_updates() ? tasks.range().start : std::numeric_limits<std::int64_t>::min();
    while (at != kNoTask) {
        const StepTask& task = tasks.task(at);
        const bool moves = is_copy(task.key.kind) || task.key.kind == TaskKind::all_reduce;
        path.tasks.push_back(at);
        (moves ? path.copies : path.compute) += task.end - std::max(task.start, start);
        if (task.start <= start) {
            break;
        }
        std::vector<StepTaskIndex> before = tasks.dependencies(at);
        before.push_back(tasks.previous(at));
        StepTaskIndex latest = kNoTask;
        for (const StepTaskIndex each : before) {
            // Tasks are in topological order. In a damaged trace a task may precede its dependency; this keeps the walk
            // from going in circles.
            const bool earlier = each != kNoTask && each < at && tasks.task(each).end <= task.end;
            if (earlier && (latest == kNoTask || tasks.task(each).end > tasks.task(latest).end)) {
                latest = each;
            }
        }
        if (latest != kNoTask) {
            // Negative if the clocks of two lanes differ slightly, so that a task seems to start before the other one
            // ends.
            path.waits += task.start - std::max(tasks.task(latest).end, start);
        }
        at = latest != kNoTask && tasks.task(latest).end > start ? latest : kNoTask;
    }
    std::reverse(path.tasks.begin(), path.tasks.end());
    return path;
}
}  // namespace pipescope
