#include "gui/timeline/step_graph.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
std::uint64_t packedWithoutStep(TaskKey key) {
    key.step = 0;
    return pack(key);
}

TaskKey with(const TaskKey& key, TaskKind kind, std::int32_t partition, std::int32_t skip = -1) {
    return {0, kind, partition, key.micro_batch, skip};
}

/// Rank of a task in the data flow of a micro-batch. Dependencies always have smaller ranks.
std::int32_t placeInFlow(const TaskKey& key, std::int32_t last) {
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
        case TaskKind::optimizer:
        case TaskKind::all_reduce: break;
    }
    return std::numeric_limits<std::int32_t>::max();
}

bool has(const std::vector<StepTaskIndex>& tasks, StepTaskIndex task) {
    return std::find(tasks.begin(), tasks.end(), task) != tasks.end();
}
}  // namespace

StepGraph::StepGraph(const TimelineStore& store, std::int32_t step) : step_(step), lanes_(store.lanes().size()) {
    const StepSpan* span = store.step(step);
    range_ = span != nullptr ? span->range() : TimeRange{};
    // Includes tasks of the step near its range: copies, and the optimizer, which end after the last backward.
    const std::int64_t margin = range_.length();
    const TimeRange near{range_.start - margin, range_.end + margin};
    for (std::uint32_t row = 0; row < store.rows().size() && span != nullptr; ++row) {
        const StoredRow& stored = store.rows()[row];
        const auto first = std::lower_bound(stored.end.begin(), stored.end.end(), near.start) - stored.end.begin();
        for (auto i = static_cast<std::size_t>(first); i < stored.start.size() && stored.start[i] <= near.end; ++i) {
            const std::optional<TaskKey> key = unpack(stored.key[i]);
            if (key && key->step == step) {
                tasks_.push_back(
                    {*key, {row, static_cast<std::uint32_t>(i)}, stored.lane, stored.start[i], stored.end[i]});
            }
        }
    }
    order();
    findPoppingPartitions();
    findPrevious();
    findRecomputeStart();
    link();
}

void StepGraph::order() {
    for (const StepTask& task : tasks_) {
        if (!is_copy(task.key.kind)) {
            lastPartition_ = std::max(lastPartition_, task.key.partition);
        }
    }
    // Tasks start after their dependencies end, so start and end almost define the order. Tasks of zero duration at one
    // instant are ordered by data flow.
    const auto rank = [this](const StepTask& task) {
        return std::tuple(task.start, task.end, placeInFlow(task.key, lastPartition_), task.lane, pack(task.key));
    };
    std::sort(tasks_.begin(), tasks_.end(), [&](const StepTask& a, const StepTask& b) { return rank(a) < rank(b); });
    for (StepTaskIndex i = 0; i < tasks_.size(); ++i) {
        const StepTask& task = tasks_[i];
        byKey_.emplace(packedWithoutStep(task.key), i);
        if (is_copy(task.key.kind)) {
            continue;
        }
        laneOf_.emplace(task.key.partition, task.lane);
        if (task.key.kind != TaskKind::optimizer && task.key.kind != TaskKind::all_reduce) {
            lanes_[task.lane.index()].push_back(i);
        }
    }
}

std::optional<LaneId> StepGraph::receiver(StepTaskIndex copy) const {
    const TaskKey& key = task(copy).key;
    std::optional<std::int32_t> partition;
    switch (key.kind) {
        case TaskKind::copy_forward: partition = key.partition + 1; break;
        case TaskKind::skip_forward: partition = poppingPartition(key.skip); break;
        case TaskKind::copy_backward:
        case TaskKind::skip_backward: partition = key.partition; break;
        default: return std::nullopt;
    }
    const auto found = partition ? laneOf_.find(*partition) : laneOf_.end();
    return found == laneOf_.end() ? std::nullopt : std::optional(found->second);
}

void StepGraph::findPrevious() {
    previous_.assign(tasks_.size(), kNoTask);
    constexpr std::int64_t kOfTheLaneItself = -1;
    constexpr std::int64_t kUnknownReceiver = -2;
    std::map<std::pair<std::int64_t, std::int64_t>, StepTaskIndex> last;  // by lane, and by link
    for (StepTaskIndex i = 0; i < tasks_.size(); ++i) {
        std::int64_t link = kOfTheLaneItself;
        if (is_copy(tasks_[i].key.kind)) {
            const std::optional<LaneId> to = receiver(i);
            link = to ? to->value() : kUnknownReceiver;
        }
        const auto [before, first] = last.try_emplace({tasks_[i].lane.value(), link}, i);
        previous_[i] = first ? kNoTask : std::exchange(before->second, i);
    }
}

std::optional<std::int32_t> StepGraph::producerPartition(StepTaskIndex skip) const {
    constexpr std::ptrdiff_t kMostSeen = 256;  // limits the cost for a damaged trace, which would be quadratic
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

void StepGraph::findPoppingPartitions() {
    // On a lane with several partitions, a copy may wait for its link until another partition's task has ended. Most
    // copies do not, so the majority decides.
    std::map<std::int32_t, std::map<std::int32_t, int>> votes;
    std::map<std::int32_t, std::int32_t> from;
    for (StepTaskIndex i = 0; i < tasks_.size(); ++i) {
        const StepTask& task = tasks_[i];
        if (task.key.kind != TaskKind::skip_backward) {
            continue;
        }
        if (const std::optional<std::int32_t> partition = producerPartition(i)) {
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

StepTaskIndex StepGraph::gradientFor(const TaskKey& key) const {
    return key.partition == lastPartition_ ? lossOf(key.micro_batch)
                                           : firstOf({with(key, TaskKind::copy_backward, key.partition),
                                                      with(key, TaskKind::backward, key.partition + 1)});
}

void StepGraph::findRecomputeStart() {
    recomputesWithGradient_ = std::none_of(tasks_.begin(), tasks_.end(), [this](const StepTask& task) {
        const StepTaskIndex gradient = task.key.kind == TaskKind::recompute ? gradientFor(task.key) : kNoTask;
        return gradient != kNoTask && tasks_[gradient].end > task.start;
    });
}

std::optional<std::int32_t> StepGraph::poppingPartition(std::int32_t skip) const {
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
    const auto found = byKey_.find(packedWithoutStep(key));
    return found == byKey_.end() ? kNoTask : found->second;
}

StepTaskIndex StepGraph::indexOf(SliceRef slice) const {
    const auto found =
        std::find_if(tasks_.begin(), tasks_.end(), [&](const StepTask& task) { return task.slice == slice; });
    return found == tasks_.end() ? kNoTask : static_cast<StepTaskIndex>(found - tasks_.begin());
}

std::span<const StepTaskIndex> StepGraph::laneOrder(LaneId lane) const {
    return lanes_.at(lane.index());
}

StepTaskIndex StepGraph::firstOf(std::initializer_list<TaskKey> keys) const {
    for (const TaskKey& key : keys) {
        if (const StepTaskIndex found = find(key); found != kNoTask) {
            return found;
        }
    }
    return kNoTask;
}

StepTaskIndex StepGraph::lossOf(std::int32_t micro_batch) const {
    return firstOf({{0, TaskKind::loss, lastPartition_, micro_batch, -1},
                    {0, TaskKind::loss, -1, micro_batch, -1},
                    {0, TaskKind::loss, lastPartition_, -1, -1},
                    {0, TaskKind::loss, -1, -1, -1}});
}

std::vector<StepTaskIndex> StepGraph::dependencies(StepTaskIndex index) const {
    const TaskKey& key = tasks_.at(index).key;
    const std::int32_t j = key.partition;
    std::vector<StepTaskIndex> found;
    const auto add = [&](StepTaskIndex task) {
        if (task != kNoTask && task != index) {
            found.push_back(task);
        }
    };
    switch (key.kind) {
        case TaskKind::forward:
            add(firstOf({with(key, TaskKind::copy_forward, j - 1), with(key, TaskKind::forward, j - 1)}));
            for (auto [at, end] = popped_.equal_range(j); at != end; ++at) {
                const SkipEnds& ends = skips_[at->second];
                add(find(with(key, TaskKind::skip_forward, ends.from, ends.skip)));
            }
            break;
        case TaskKind::copy_forward:
        case TaskKind::skip_forward: add(find(with(key, TaskKind::forward, j))); break;
        case TaskKind::loss:
            if (key.micro_batch >= 0) {
                add(find(with(key, TaskKind::forward, lastPartition_)));
                break;
            }
            for (StepTaskIndex i = 0; i < tasks_.size(); ++i) {
                if (tasks_[i].key.kind == TaskKind::forward && tasks_[i].key.partition == lastPartition_) {
                    add(i);
                }
            }
            break;
        case TaskKind::recompute:
            if (const StepTaskIndex loss = lossOf(-1); loss != kNoTask && tasks_[loss].key.micro_batch < 0) {
                add(loss);  // a single loss separates the phases
            }
            if (const StepTaskIndex gradient = gradientFor(key); recomputesWithGradient_ && !has(found, gradient)) {
                add(gradient);
            }
            break;
        case TaskKind::backward:
            add(find(with(key, TaskKind::recompute, j)));
            add(gradientFor(key));
            for (auto [at, end] = stashed_.equal_range(j); at != end; ++at) {
                add(find(with(key, TaskKind::skip_backward, j, skips_[at->second].skip)));
            }
            break;
        case TaskKind::copy_backward: add(find(with(key, TaskKind::backward, j + 1))); break;
        case TaskKind::backward_weight: add(find(with(key, TaskKind::backward, j))); break;
        case TaskKind::skip_backward:
            if (const std::optional<std::int32_t> to = poppingPartition(key.skip)) {
                add(find(with(key, TaskKind::backward, *to)));
            }
            break;
        case TaskKind::optimizer:
        case TaskKind::all_reduce: break;
    }
    return found;
}

std::vector<StepTaskIndex> StepGraph::dependents(StepTaskIndex index) const {
    return dependents_.at(index);
}

CriticalPath criticalPath(const StepGraph& tasks) {
    CriticalPath path;
    StepTaskIndex at = kNoTask;
    for (StepTaskIndex i = 0; i < tasks.tasks().size(); ++i) {
        const StepTask& task = tasks.task(i);
        const bool inTheStep = is_compute(task.key.kind) || task.key.kind == TaskKind::all_reduce;
        if (inTheStep && (at == kNoTask || task.end >= tasks.task(at).end)) {
            at = i;
        }
    }
    while (at != kNoTask) {
        const StepTask& task = tasks.task(at);
        const bool moves = is_copy(task.key.kind) || task.key.kind == TaskKind::all_reduce;
        path.tasks.push_back(at);
        (moves ? path.copies : path.compute) += task.duration();
        std::vector<StepTaskIndex> before = tasks.dependencies(at);
        before.push_back(tasks.previous(at));
        StepTaskIndex latest = kNoTask;
        for (const StepTaskIndex each : before) {
            // Tasks are in topological order. Only a damaged trace has a task before its dependency; that must not
            // cause an endless loop.
            const bool earlier = each != kNoTask && each < at && tasks.task(each).end <= task.end;
            if (earlier && (latest == kNoTask || tasks.task(each).end > tasks.task(latest).end)) {
                latest = each;
            }
        }
        if (latest != kNoTask) {
            // Negative if the lanes' clocks differ slightly and the task seems to start before the other one's end.
            path.waits += task.start - tasks.task(latest).end;
        }
        at = latest;
    }
    std::reverse(path.tasks.begin(), path.tasks.end());
    return path;
}
}  // namespace pipescope
