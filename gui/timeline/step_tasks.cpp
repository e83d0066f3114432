#include "gui/timeline/step_tasks.h"

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
}  // namespace

StepTasks::StepTasks(const TimelineStore& store, std::int32_t step) : step_(step), lanes_(store.lanes().size()) {
    const StepSpan* span = store.step(step);
    range_ = span != nullptr ? span->range() : TimeRange{};
    // A step's other tasks lie near it: copies and the optimizer that end after the last backward.
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
    link();
}

void StepTasks::order() {
    std::sort(tasks_.begin(), tasks_.end(), [](const StepTask& a, const StepTask& b) {
        return std::tuple(a.start, a.lane, a.end, pack(a.key)) < std::tuple(b.start, b.lane, b.end, pack(b.key));
    });
    previous_.assign(tasks_.size(), kNoTask);
    std::map<std::pair<std::int64_t, int>, StepTaskIndex> last;  // of a lane's tasks, and of its copies of each kind
    for (StepTaskIndex i = 0; i < tasks_.size(); ++i) {
        const StepTask& task = tasks_[i];
        byKey_.emplace(packedWithoutStep(task.key), i);
        const int line = is_copy(task.key.kind) ? static_cast<int>(task.key.kind) : -1;
        const auto [before, first] = last.try_emplace({task.lane.value(), line}, i);
        previous_[i] = first ? kNoTask : std::exchange(before->second, i);
        if (line < 0) {
            lastPartition_ = std::max(lastPartition_, task.key.partition);
            if (task.key.kind != TaskKind::optimizer && task.key.kind != TaskKind::all_reduce) {
                lanes_[task.lane.index()].push_back(i);
            }
        }
    }
}

std::optional<std::int32_t> StepTasks::producerPartition(const StepTask& skip_backward) const {
    constexpr std::ptrdiff_t kMostSeen = 256;  // a damaged trace must not cost the square of its tasks
    const std::vector<StepTaskIndex>& order = lanes_[skip_backward.lane.index()];
    const auto later = std::partition_point(
        order.begin(), order.end(), [&](StepTaskIndex index) { return tasks_[index].start < skip_backward.start; });
    for (auto i = later; i != order.begin() && later - i < kMostSeen;) {
        const StepTask& task = tasks_[*--i];
        if (task.key.kind == TaskKind::backward && task.key.micro_batch == skip_backward.key.micro_batch &&
            task.key.partition > skip_backward.key.partition && task.end <= skip_backward.start) {
            return task.key.partition;
        }
    }
    return std::nullopt;
}

void StepTasks::findPoppingPartitions() {
    // Where a lane has several partitions, a copy may have waited for its link until the next of them was through; most
    // have not.
    std::map<std::int32_t, std::map<std::int32_t, int>> votes;
    std::map<std::int32_t, std::int32_t> from;
    for (const StepTask& task : tasks_) {
        if (task.key.kind != TaskKind::skip_backward) {
            continue;
        }
        if (const std::optional<std::int32_t> partition = producerPartition(task)) {
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

std::optional<std::int32_t> StepTasks::poppingPartition(std::int32_t skip) const {
    const auto found = std::lower_bound(skips_.begin(), skips_.end(), skip,
                                        [](const SkipEnds& a, std::int32_t b) { return a.skip < b; });
    return found != skips_.end() && found->skip == skip ? std::optional(found->to) : std::nullopt;
}

void StepTasks::link() {
    dependents_.resize(tasks_.size());
    for (StepTaskIndex i = 0; i < tasks_.size(); ++i) {
        for (const StepTaskIndex from : dependencies(i)) {
            dependents_[from].push_back(i);
        }
    }
}

StepTaskIndex StepTasks::find(const TaskKey& key) const {
    const auto found = byKey_.find(packedWithoutStep(key));
    return found == byKey_.end() ? kNoTask : found->second;
}

StepTaskIndex StepTasks::indexOf(SliceRef slice) const {
    const auto found =
        std::find_if(tasks_.begin(), tasks_.end(), [&](const StepTask& task) { return task.slice == slice; });
    return found == tasks_.end() ? kNoTask : static_cast<StepTaskIndex>(found - tasks_.begin());
}

std::span<const StepTaskIndex> StepTasks::laneOrder(LaneId lane) const {
    return lanes_.at(lane.index());
}

StepTaskIndex StepTasks::firstOf(std::initializer_list<TaskKey> keys) const {
    for (const TaskKey& key : keys) {
        if (const StepTaskIndex found = find(key); found != kNoTask) {
            return found;
        }
    }
    return kNoTask;
}

StepTaskIndex StepTasks::lossOf(std::int32_t micro_batch) const {
    return firstOf({{0, TaskKind::loss, lastPartition_, micro_batch, -1},
                    {0, TaskKind::loss, -1, micro_batch, -1},
                    {0, TaskKind::loss, lastPartition_, -1, -1},
                    {0, TaskKind::loss, -1, -1, -1}});
}

std::vector<StepTaskIndex> StepTasks::dependencies(StepTaskIndex index) const {
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
                add(loss);  // with one loss for all, it separates the phases
            }
            break;
        case TaskKind::backward:
            add(find(with(key, TaskKind::recompute, j)));
            add(j == lastPartition_
                    ? lossOf(key.micro_batch)
                    : firstOf({with(key, TaskKind::copy_backward, j), with(key, TaskKind::backward, j + 1)}));
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

std::vector<StepTaskIndex> StepTasks::dependents(StepTaskIndex index) const {
    return dependents_.at(index);
}

CriticalPath criticalPath(const StepTasks& tasks) {
    CriticalPath path;
    StepTaskIndex at = kNoTask;
    for (StepTaskIndex i = 0; i < tasks.tasks().size(); ++i) {
        const StepTask& task = tasks.task(i);
        if (is_compute(task.key.kind) && (at == kNoTask || task.end >= tasks.task(at).end)) {
            at = i;
        }
    }
    while (at != kNoTask) {
        const StepTask& task = tasks.task(at);
        path.tasks.push_back(at);
        (is_copy(task.key.kind) ? path.copies : path.compute) += task.duration();
        std::vector<StepTaskIndex> before = tasks.dependencies(at);
        before.push_back(tasks.previous(at));
        StepTaskIndex latest = kNoTask;
        for (const StepTaskIndex each : before) {
            // Only what began before it: a damaged trace must not send the walk round in a circle.
            const bool earlier = each != kNoTask && each < at && tasks.task(each).end <= task.end;
            if (earlier && (latest == kNoTask || tasks.task(each).end > tasks.task(latest).end)) {
                latest = each;
            }
        }
        if (latest != kNoTask) {
            // Negative where clocks of two lanes differ a little and the one seems to begin before the other's end.
            path.waits += task.start - tasks.task(latest).end;
        }
        at = latest;
    }
    std::reverse(path.tasks.begin(), path.tasks.end());
    return path;
}
}  // namespace pipescope
