#include "schedule/task_graph.h"

#include "schedule/error.h"
#include "schedule/parse_name.h"
#include "schedule/placement.h"
#include "schedule/quantities.h"
#include "schedule/stop_check.h"

#include <algorithm>
#include <map>
#include <string>

namespace pipescope {
std::string to_string(BackwardOrder order) {
    return order == BackwardOrder::last_first ? "last-first" : "first-first";
}
BackwardOrder parse_backward_order(std::string_view name) {
    return parse_name<BackwardOrder>(name, {BackwardOrder::last_first, BackwardOrder::first_first},
                                     "backward order is '" + std::string(name) + "'", "leave it out for last-first");
}

std::string to_string(RecomputeStart start) {
    return start == RecomputeStart::early ? "early" : "ordinary";
}
RecomputeStart parse_recompute_start(std::string_view name) {
    return parse_name<RecomputeStart>(name, {RecomputeStart::early, RecomputeStart::ordinary},
                                      "recompute is '" + std::string(name) + "'", "leave it out for early");
}

std::string to_string(LossScope scope) {
    return scope == LossScope::mini_batch ? "mini_batch" : "micro_batch";
}
LossScope parse_loss_scope(std::string_view name) {
    return parse_name<LossScope>(name, {LossScope::mini_batch, LossScope::micro_batch},
                                 "the scope of the loss is '" + std::string(name) + "'", "use mini_batch for gpipe");
}

int PipelineShape::num_lanes() const {
    if (placement.empty()) {
        return num_partitions;
    }
    return std::max_element(placement.begin(), placement.end())->value() + 1;
}

std::optional<LaneId> PipelineShape::lane_of(const TaskKey& key) const {
    switch (key.kind) {
        case TaskKind::loss: return lane_of(PartitionId{num_partitions - 1});
        case TaskKind::copy_backward:
            return key.partition < 0 || key.partition + 1 >= num_partitions
                       ? std::nullopt
                       : std::optional(lane_of(PartitionId{key.partition + 1}));
        case TaskKind::skip_backward:
            return key.skip < 0 || static_cast<std::size_t>(key.skip) >= skips.size()
                       ? std::nullopt
                       : std::optional(lane_of(skips[static_cast<std::size_t>(key.skip)].to));
        default:
            return key.partition < 0 || key.partition >= num_partitions
                       ? std::nullopt
                       : std::optional(lane_of(PartitionId{key.partition}));
    }
}

void PipelineShape::check() const {
    const auto require_count = [](std::string_view name, int value, int most) {
        if (value < 1 || value > most) {
            throw UsageError(std::string(name) + " is " + std::to_string(value) + "; it must be from 1 to " +
                             std::to_string(most) + "; change it");
        }
    };
    require_count("the number of partitions", num_partitions, kMostPartitions);
    require_count("the number of micro-batches", num_micro_batches, kMostMicroBatches);
    require_count("the number of replicas", replicas, 1'000'000);
    if (!placement.empty()) {
        if (placement.size() != static_cast<std::size_t>(num_partitions)) {
            throw UsageError("placement names " + counted(placement.size(), "lane", "lanes") +
                             "; it needs one for each of the pipeline's " +
                             counted(num_partitions, "partition", "partitions") +
                             "; give a lane per partition, such as 0,0,1");
        }
        std::vector<std::int64_t> lanes;
        for (const LaneId lane : placement) {
            lanes.push_back(lane.value());
        }
        checked_placement(lanes);
    }
    for (std::size_t k = 0; k < skips.size(); ++k) {
        if (skips[k].from.value() < 0 || skips[k].to.value() >= num_partitions || skips[k].to < skips[k].from) {
            throw UsageError("skip " + std::to_string(k) + " runs from partition " +
                             std::to_string(skips[k].from.value()) + " to " + std::to_string(skips[k].to.value()) +
                             "; a skip is popped after it is stashed; swap the two");
        }
    }
    if (skips.size() > static_cast<std::size_t>(kMostSkips)) {
        throw UsageError("the model has " + std::to_string(skips.size()) + " skips; at most " +
                         std::to_string(kMostSkips) + " fit a task key; merge some");
    }
}

/// Emits tasks in topological order. Walks the lanes' programs round robin; each emitted task pulls in its copies.
class TaskGraphBuilder {
public:
    TaskGraphBuilder(TaskGraph& graph, const std::vector<LaneProgram>& programs) : graph_(graph), programs_(programs) {}

    void build() {
        graph_.lane_orders_.resize(programs_.size());
        in_backward_phase_.resize(programs_.size(), false);
        std::size_t computes = 0;
        for (const LaneProgram& program : programs_) {
            computes += program.size();
        }
        const std::size_t likely = 2 * computes + computes / 8;  // as many copies, some losses and sums
        graph_.tasks_.reserve(likely);
        graph_.dependencies_.reserve(likely);
        graph_.by_key_.reserve(likely);
        std::vector<std::size_t> next(programs_.size(), 0);
        bool progress = true;
        while (progress) {
            check_stop();
            progress = false;
            for (std::size_t lane = 0; lane < programs_.size(); ++lane) {
                if (next[lane] < programs_[lane].size() && emit_if_ready(programs_[lane][next[lane]], lane)) {
                    ++next[lane];
                    progress = true;
                }
            }
        }
        for (std::size_t lane = 0; lane < programs_.size(); ++lane) {
            if (next[lane] < programs_[lane].size()) {
                throw Error("the schedule can never finish: " + deadlock(next, lane));
            }
        }
        link_dependents();
    }

private:
    const PipelineShape& shape() const { return graph_.shape_; }
    int last_partition() const { return shape().num_partitions - 1; }
    LaneId lane_of(int partition) const { return shape().lane_of(PartitionId{partition}); }
    bool one_loss() const { return shape().loss == LossScope::mini_batch; }
    TaskKey loss_of(int micro_batch) const {
        return {0, TaskKind::loss, last_partition(), one_loss() ? -1 : micro_batch, -1};
    }
    bool crosses_lanes(int from, int to) const { return lane_of(from) != lane_of(to); }

    /// The task that delivers the gradient of the output of (i, j).
    TaskKey gradient_of(Cell at) const {
        const int i = at.i.value();
        const int j = at.j.value();
        if (j == last_partition()) {
            return loss_of(i);
        }
        const bool is_copied = crosses_lanes(j, j + 1);
        return {0, is_copied ? TaskKind::copy_backward : TaskKind::backward, is_copied ? j : j + 1, i, -1};
    }

    /// Keys of the tasks it waits for: a copy if the data crosses lanes, otherwise the producer.
    std::vector<TaskKey> needs(const TaskKey& key) const {
        const int i = key.micro_batch;
        const int j = key.partition;
        std::vector<TaskKey> keys;
        switch (key.kind) {
            case TaskKind::forward:
                if (j > 0) {
                    keys.push_back(
                        {0, crosses_lanes(j - 1, j) ? TaskKind::copy_forward : TaskKind::forward, j - 1, i, -1});
                }
                for (std::size_t k = 0; k < shape().skips.size(); ++k) {
                    const auto [from, to] = shape().skips[k];
                    if (to.value() == j && crosses_lanes(from.value(), j)) {
                        keys.push_back({0, TaskKind::skip_forward, from.value(), i, static_cast<int>(k)});
                    }
                }
                break;
            case TaskKind::loss:
                for (int each = 0; each < shape().num_micro_batches; ++each) {
                    if (one_loss() || each == i) {
                        keys.push_back({0, TaskKind::forward, last_partition(), each, -1});
                    }
                }
                break;
            case TaskKind::recompute:
                keys.push_back({0, TaskKind::forward, j, i, -1});
                if (shape().recompute_start == RecomputeStart::ordinary) {
                    keys.push_back(gradient_of(cell_of(key)));
                }
                break;
            case TaskKind::backward_weight: keys.push_back({0, TaskKind::backward, j, i, -1}); break;
            case TaskKind::backward:
                if (is_checkpointed(shape().checkpoint, MicroBatchId{i}, shape().num_micro_batches)) {
                    keys.push_back({0, TaskKind::recompute, j, i, -1});
                }
                keys.push_back(gradient_of(cell_of(key)));
                for (std::size_t k = 0; k < shape().skips.size(); ++k) {
                    const auto [from, to] = shape().skips[k];
                    if (from.value() == j && crosses_lanes(j, to.value())) {
                        keys.push_back({0, TaskKind::skip_backward, j, i, static_cast<int>(k)});
                    }
                }
                break;
            default: break;
        }
        return keys;
    }

    bool opens_backward_phase(const TaskKey& key, std::size_t lane) const {
        const bool backward_phase = key.kind == TaskKind::recompute || key.kind == TaskKind::backward;
        return one_loss() && backward_phase && !in_backward_phase_[lane];
    }

    /// needs(), and the loss of the gathered output: a barrier in front of each lane's backward phase.
    std::vector<TaskKey> waits_for(const TaskKey& key, std::size_t lane) const {
        std::vector<TaskKey> keys = needs(key);
        const TaskKey loss = loss_of(-1);
        if (opens_backward_phase(key, lane) && std::find(keys.begin(), keys.end(), loss) == keys.end()) {
            keys.push_back(loss);
        }
        return keys;
    }

    /// The compute task that produces a copy's data; a compute task itself.
    TaskKey producer_of(const TaskKey& key) const {
        switch (key.kind) {
            case TaskKind::copy_forward:
            case TaskKind::skip_forward: return {0, TaskKind::forward, key.partition, key.micro_batch, -1};
            case TaskKind::copy_backward: return {0, TaskKind::backward, key.partition + 1, key.micro_batch, -1};
            case TaskKind::skip_backward:
                return {0, TaskKind::backward, shape().skips[static_cast<std::size_t>(key.skip)].to.value(),
                        key.micro_batch, -1};
            default: return key;
        }
    }

    static std::string name_of(TaskKey key) {
        key.step = -1;
        return to_string(key);
    }

    /// The cycle of waits as one sentence, with a remedy. `next` is the task each lane is stuck at; `lane` is stuck.
    std::string deadlock(const std::vector<std::size_t>& next, std::size_t lane) const {
        std::map<TaskKey, std::size_t> lanes;
        for (std::size_t each = 0; each < programs_.size(); ++each) {
            for (const TaskKey& key : programs_[each]) {
                lanes[key] = each;
            }
        }
        std::vector<std::size_t> path;
        std::vector<std::string> waits;  // by lane of `path`
        while (std::find(path.begin(), path.end(), lane) == path.end()) {
            const TaskKey& stuck = programs_[lane][next[lane]];
            const std::vector<TaskKey> keys = waits_for(stuck, lane);
            const TaskKey needed = producer_of(
                *std::find_if(keys.begin(), keys.end(), [&](const TaskKey& key) { return !graph_.find(key); }));
            const auto found = lanes.find(needed);
            if (found == lanes.end()) {
                return name_of(stuck) + " on lane " + std::to_string(lane) + " waits for " + name_of(needed) +
                       ", which no lane runs; add it";
            }
            path.push_back(lane);
            lane = found->second;
            const TaskKey& before = programs_[lane][next[lane]];
            waits.push_back(" waits for " + name_of(needed) +
                            (before == needed
                                 ? " on lane " + std::to_string(lane)
                                 : ", which lane " + std::to_string(lane) + " runs behind " + name_of(before)));
        }
        auto at = static_cast<std::size_t>(std::find(path.begin(), path.end(), lane) - path.begin());
        std::string text = name_of(programs_[lane][next[lane]]) + " on lane " + std::to_string(lane) + waits[at];
        while (++at < path.size()) {
            text += ", which" + waits[at];
        }
        return text + "; move one of them";
    }

    bool emit_if_ready(const TaskKey& key, std::size_t lane) {
        const bool opens_backward = opens_backward_phase(key, lane);
        std::vector<TaskIndex> dependencies;
        for (const TaskKey& needed : waits_for(key, lane)) {
            const std::optional<TaskIndex> index = graph_.find(needed);
            if (!index) {
                return false;
            }
            dependencies.push_back(*index);
        }
        if (opens_backward) {
            in_backward_phase_[lane] = true;
        }
        const LaneId here{static_cast<std::int64_t>(lane)};
        const TaskIndex task = add({key, here, here}, std::move(dependencies));
        graph_.lane_orders_[lane].push_back(task);
        emit_copies_of(task);
        return true;
    }

    void emit_copies_of(TaskIndex producer) {
        const TaskKey key = graph_.tasks_[producer].key;
        const int j = key.partition;
        if (key.kind == TaskKind::forward) {
            if (j < last_partition() && crosses_lanes(j, j + 1)) {
                add_copy({0, TaskKind::copy_forward, j, key.micro_batch, -1}, lane_of(j), lane_of(j + 1), producer);
            }
            for (std::size_t k = 0; k < shape().skips.size(); ++k) {
                const auto [from, to] = shape().skips[k];
                if (from.value() == j && crosses_lanes(j, to.value())) {
                    add_copy({0, TaskKind::skip_forward, j, key.micro_batch, static_cast<int>(k)}, lane_of(j),
                             lane_of(to.value()), producer);
                }
            }
        } else if (key.kind == TaskKind::backward) {
            if (j > 0 && crosses_lanes(j - 1, j)) {
                add_copy({0, TaskKind::copy_backward, j - 1, key.micro_batch, -1}, lane_of(j), lane_of(j - 1),
                         producer);
            }
            for (std::size_t k = 0; k < shape().skips.size(); ++k) {
                const auto [from, to] = shape().skips[k];
                if (to.value() == j && crosses_lanes(from.value(), j)) {
                    add_copy({0, TaskKind::skip_backward, from.value(), key.micro_batch, static_cast<int>(k)},
                             lane_of(j), lane_of(from.value()), producer);
                }
            }
        }
    }

    void add_copy(const TaskKey& key, LaneId from, LaneId to, TaskIndex producer) {
        const TaskIndex task = add({key, from, to}, {producer});
        auto& channels = graph_.channels_;
        auto channel = std::find_if(channels.begin(), channels.end(),
                                    [&](const Channel& each) { return each.from == from && each.to == to; });
        if (channel == channels.end()) {
            channel = channels.insert(channels.end(), Channel{from, to, {}});
        }
        channel->order.push_back(task);
    }

    TaskIndex add(const Task& task, std::vector<TaskIndex> dependencies) {
        const TaskIndex index = graph_.tasks_.size();
        if (!graph_.by_key_.emplace(pack(task.key), index).second) {
            throw Error("the schedule holds " + to_string(task.key) + " twice; each task runs once a step; remove one");
        }
        graph_.tasks_.push_back(task);
        graph_.dependencies_.push_back(std::move(dependencies));
        return index;
    }

    void link_dependents() {
        graph_.dependents_.resize(graph_.tasks_.size());
        for (TaskIndex task = 0; task < graph_.tasks_.size(); ++task) {
            for (const TaskIndex needed : graph_.dependencies_[task]) {
                graph_.dependents_[needed].push_back(task);
            }
        }
    }

    TaskGraph& graph_;
    const std::vector<LaneProgram>& programs_;
    std::vector<bool> in_backward_phase_;  // per lane
};

TaskGraph::TaskGraph(PipelineShape shape, const std::vector<LaneProgram>& programs) : shape_(std::move(shape)) {
    shape_.check();
    TaskGraphBuilder(*this, programs).build();
}

bool TaskGraph::is_split(TaskIndex backward) const {
    const std::span<const TaskIndex> after = dependents(backward);
    return std::any_of(after.begin(), after.end(),
                       [this](TaskIndex dependent) { return tasks_[dependent].key.kind == TaskKind::backward_weight; });
}

std::optional<TaskIndex> TaskGraph::find(TaskKey key) const {
    key.step = 0;
    const auto found = by_key_.find(pack(key));
    return found == by_key_.end() ? std::nullopt : std::optional(found->second);
}

TaskGraph consecutive_steps(const TaskGraph& step, int steps) {
    const int m = step.shape_.num_micro_batches;
    if (m > kMostMicroBatches / steps) {
        throw UsageError("the update is staggered with " + std::to_string(m) + " micro-batches; " +
                         counted(steps, "step", "steps") + " in a row may have " + std::to_string(kMostMicroBatches) +
                         "; use fewer micro-batches, or synchronous updates");
    }
    TaskGraph all;
    all.shape_ = step.shape_;
    all.shape_.num_micro_batches = m * steps;
    all.shape_.steps = steps;
    all.lane_orders_.resize(step.lane_orders_.size());
    for (const Channel& channel : step.channels_) {
        all.channels_.push_back({channel.from, channel.to, {}});
    }
    const auto add = [&all](const Task& task) {
        all.by_key_.emplace(pack(task.key), all.tasks_.size());
        all.tasks_.push_back(task);
        all.dependencies_.emplace_back();
        all.dependents_.emplace_back();
    };
    const auto shifted = [](std::span<const TaskIndex> from, TaskIndex offset, std::vector<TaskIndex>& to) {
        for (const TaskIndex task : from) {
            to.push_back(task + offset);
        }
    };
    for (int s = 0; s < steps; ++s) {
        const TaskIndex offset = all.tasks_.size();
        for (TaskIndex each = 0; each < step.tasks_.size(); ++each) {
            Task task = step.tasks_[each];
            (task.key.micro_batch < 0 ? task.key.step : task.key.micro_batch) += task.key.micro_batch < 0 ? s : s * m;
            add(task);
            shifted(step.dependencies_[each], offset, all.dependencies_.back());
            shifted(step.dependents_[each], offset, all.dependents_.back());
        }
        for (std::size_t k = 0; k < step.channels_.size(); ++k) {
            shifted(step.channels_[k].order, offset, all.channels_[k].order);
        }
        for (std::size_t lane = 0; lane < step.lane_orders_.size(); ++lane) {
            shifted(step.lane_orders_[lane], offset, all.lane_orders_[lane]);
            const LaneId id{static_cast<std::int64_t>(lane)};
            int first = 0;
            while (step.shape_.lane_of(PartitionId{first}) != id) {
                ++first;
            }
            all.lane_orders_[lane].push_back(all.tasks_.size());
            add({{s, TaskKind::optimizer, first, -1, -1}, id, id});
        }
    }
    return all;
}
}  // namespace pipescope
