#include "schedule/task_graph.h"

#include "base/error.h"
#include "base/parse_name.h"
#include "base/quantities.h"
#include "base/stop_check.h"
#include "schedule/placement.h"

#include <algorithm>
#include <functional>
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

std::optional<PartitionId> SkipRoute::behind(PartitionId partition) const {
    const auto next = std::ranges::upper_bound(to, partition);
    return next == to.end() ? std::nullopt : std::optional(*next);
}

int PipelineShape::num_lanes() const {
    if (placement.empty()) {
        return num_partitions;
    }
    return std::max_element(placement.begin(), placement.end())->value() + 1;
}

std::vector<LaneId> PipelineShape::lanes_of(PartitionId partition) const {
    std::vector<LaneId> lanes{lane_of(partition)};
    if (bidirectional) {
        lanes.push_back(lane_of(PartitionId{mirrored<std::int64_t>(partition.value(), num_partitions)}));
    }
    return lanes;
}

std::optional<LaneId> PipelineShape::lane_of(const TaskKey& key) const {
    const MicroBatchId i{key.micro_batch};
    switch (key.kind) {
        case TaskKind::loss: return lane_of(Cell{i, PartitionId{num_partitions - 1}});
        case TaskKind::copy_backward:
            return key.partition < 0 || key.partition + 1 >= num_partitions
                       ? std::nullopt
                       : std::optional(lane_of(Cell{i, PartitionId{key.partition + 1}}));
        case TaskKind::skip_backward:
            return key.skip < 0 || static_cast<std::size_t>(key.skip) >= skips.size()
                       ? std::nullopt
                       : std::optional(lane_of(Cell{i, skips[static_cast<std::size_t>(key.skip)].to.front()}));
        case TaskKind::shared_backward:
            return key.skip < 0 || static_cast<std::size_t>(key.skip) >= shared.size()
                       ? std::nullopt
                       : std::optional(lane_of(shared[static_cast<std::size_t>(key.skip)].users.front()));
        default:
            return key.partition < 0 || key.partition >= num_partitions ? std::nullopt
                                                                        : std::optional(lane_of(cell_of(key)));
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
    check_skips();
    check_shared();
    if (bidirectional && (num_partitions % 2 != 0 || micro_batches_per_step() % 2 != 0 || !shared.empty() ||
                          num_lanes() != num_partitions)) {
        throw UsageError("the pipeline is bidirectional with " + counted(num_partitions, "partition", "partitions") +
                         " on " + counted(num_lanes(), "lane", "lanes") + ", " +
                         counted(micro_batches_per_step(), "micro-batch", "micro-batches") + " and " +
                         counted(shared.size(), "route", "routes") +
                         " of shared parameters; it needs an even number of lanes with a partition each, an even "
                         "number of micro-batches and no such route; change them");
    }
}

void PipelineShape::check_skips() const {
    for (std::size_t k = 0; k < skips.size(); ++k) {
        const PartitionId from = skips[k].from;
        const std::vector<PartitionId>& to = skips[k].to;
        const std::string name = "skip " + std::to_string(k);
        if (to.empty()) {
            throw UsageError(name + " runs from partition " + std::to_string(from.value()) +
                             " to none; a skip is popped by at least one partition; name it");
        }
        if (from.value() < 0 || to.back().value() >= num_partitions || to.front() < from) {
            throw UsageError(name + " runs from partition " + std::to_string(from.value()) + " to " +
                             std::to_string((to.front() < from ? to.front() : to.back()).value()) +
                             "; a skip is popped after it is stashed; swap the two");
        }
        if (std::ranges::adjacent_find(to, std::ranges::greater_equal()) != to.end()) {
            throw UsageError(name + " names its popping partitions out of order, or one twice; they ascend; sort them");
        }
        const auto elsewhere =
            std::ranges::find_if(to, [&](PartitionId each) { return lane_of(each) != lane_of(to.front()); });
        if (elsewhere != to.end()) {
            throw UsageError(name + " is popped by partition " + std::to_string(to.front().value()) + " on lane " +
                             std::to_string(lane_of(to.front()).value()) + " and by partition " +
                             std::to_string(elsewhere->value()) + " on lane " +
                             std::to_string(lane_of(*elsewhere).value()) +
                             "; a route goes to one lane; make one for each lane");
        }
    }
    if (skips.size() > static_cast<std::size_t>(kMostSkips)) {
        throw UsageError("the model has " + std::to_string(skips.size()) + " skips; at most " +
                         std::to_string(kMostSkips) + " fit a task key; merge some");
    }
}

void PipelineShape::check_shared() const {
    for (std::size_t k = 0; k < shared.size(); ++k) {
        const auto& [from, users, trains] = shared[k];
        const auto refuse = [&](const std::string& what) {
            throw UsageError("route " + std::to_string(k) + " of shared parameters " + what);
        };
        if (users.empty() || from.value() < 0 || !(from < users.front()) || users.back().value() >= num_partitions ||
            !std::ranges::is_sorted(users)) {
            refuse("names partition " + std::to_string(from.value()) + " and " +
                   counted(users.size(), "user", "users") +
                   "; the first partition that uses them holds them, and the others follow in order; sort them");
        }
        for (const PartitionId user : users) {
            if (lane_of(user) == lane_of(from) || lane_of(user) != lane_of(users.front())) {
                refuse("has partition " + std::to_string(user.value()) + " on lane " +
                       std::to_string(lane_of(user).value()) +
                       "; a route goes from the lane of its parameters to one other lane; make one for each lane");
            }
        }
    }
    if (shared.size() > static_cast<std::size_t>(kMostSkips)) {
        throw UsageError("the model has " + std::to_string(shared.size()) + " routes of shared parameters; at most " +
                         std::to_string(kMostSkips) + " fit a task key; use fewer lanes");
    }
}

TaskLists TaskLists::inverted() const {
    TaskLists inverse;
    inverse.first_.assign(first_.size(), 0);
    for (const TaskIndex task : tasks_) {
        ++inverse.first_[task + 1];
    }
    for (std::size_t k = 1; k < inverse.first_.size(); ++k) {
        inverse.first_[k] += inverse.first_[k - 1];
    }
    inverse.tasks_.resize(tasks_.size());
    std::vector<std::size_t> next(inverse.first_.begin(), inverse.first_.end() - 1);
    for (TaskIndex list = 0; list < size(); ++list) {
        for (std::size_t k = first_[list]; k < first_[list + 1]; ++k) {
            inverse.tasks_[next[tasks_[k]]++] = list;
        }
    }
    return inverse;
}

namespace {
/// Position in a kind's table, if the key has one.
std::optional<std::size_t> table_slot(const PipelineShape& shape, const TaskKey& key) {
    if (key.step != 0 || key.skip != -1 || key.partition < 0 || key.partition >= shape.num_partitions ||
        key.micro_batch < -1 || key.micro_batch >= shape.num_micro_batches) {
        return std::nullopt;
    }
    const auto row = static_cast<std::size_t>(shape.num_micro_batches) + 1;
    return static_cast<std::size_t>(key.partition) * row + static_cast<std::size_t>(key.micro_batch + 1);
}
}  // namespace

bool TaskFinder::add(const PipelineShape& shape, const TaskKey& key, TaskIndex task) {
    const std::optional<std::size_t> slot = table_slot(shape, key);
    if (!slot) {
        return others_.emplace(pack(key), task).second;
    }
    std::vector<std::uint32_t>& table = tables_[static_cast<std::size_t>(key.kind)];
    if (table.empty()) {
        table.resize(static_cast<std::size_t>(shape.num_partitions) *
                     (static_cast<std::size_t>(shape.num_micro_batches) + 1));
    }
    const bool is_new = table[*slot] == 0;
    table[*slot] = is_new ? static_cast<std::uint32_t>(task + 1) : table[*slot];
    return is_new;
}

std::optional<TaskIndex> TaskFinder::find(const PipelineShape& shape, TaskKey key) const {
    key.step = 0;
    if (const std::optional<std::size_t> slot = table_slot(shape, key)) {
        const std::vector<std::uint32_t>& table = tables_[static_cast<std::size_t>(key.kind)];
        return table.empty() || table[*slot] == 0 ? std::nullopt : std::optional<TaskIndex>(table[*slot] - 1);
    }
    const auto found = others_.find(pack(key));
    return found == others_.end() ? std::nullopt : std::optional(found->second);
}

namespace {
bool is_backward(const TaskKey& key) {
    return key.kind == TaskKind::backward || key.kind == TaskKind::backward_weight;
}

/// What routes of shared parameters need of the programs.
struct SharedEnds {
    SharedEnds(const PipelineShape& shape, const std::vector<LaneProgram>& programs) {
        if (shape.shared.empty()) {
            return;
        }
        first_forwards.assign(static_cast<std::size_t>(shape.num_partitions), -1);
        for (const LaneProgram& program : programs) {
            for (const TaskKey& key : program) {
                if (key.kind == TaskKind::forward && key.partition >= 0 && key.partition < shape.num_partitions &&
                    first_forwards[static_cast<std::size_t>(key.partition)] < 0) {
                    first_forwards[static_cast<std::size_t>(key.partition)] = key.micro_batch;
                }
            }
        }
        for (const SharedRoute& route : shape.shared) {
            const auto is_last = [&](const TaskKey& key) {
                return is_backward(key) &&
                       std::ranges::find(route.users, PartitionId{key.partition}) != route.users.end();
            };
            const std::size_t lane = shape.lane_of(route.users.front()).index();
            const LaneProgram none;
            const LaneProgram& program = lane < programs.size() ? programs[lane] : none;
            const auto last = std::find_if(program.rbegin(), program.rend(), is_last);
            last_backwards.push_back(last == program.rend() ? std::nullopt : std::optional(*last));
        }
    }

    bool is_first_forward(const TaskKey& key) const {
        return key.kind == TaskKind::forward && !first_forwards.empty() &&
               first_forwards[static_cast<std::size_t>(key.partition)] == key.micro_batch;
    }

    std::vector<std::int32_t> first_forwards;            // micro-batch, by partition; -1: none. Empty without routes
    std::vector<std::optional<TaskKey>> last_backwards;  // by route
};

/// By partition, the task that completes the gradients of each of its copies in a bidirectional pipeline.
std::vector<std::vector<TaskKey>> last_backwards_of_copies(const PipelineShape& shape,
                                                           const std::vector<LaneProgram>& programs) {
    std::vector<std::vector<TaskKey>> last(shape.bidirectional ? static_cast<std::size_t>(shape.num_partitions)
                                                               : std::size_t{0});
    for (const LaneProgram& program : programs) {
        std::map<std::int32_t, TaskKey> of_partition;
        for (const TaskKey& key : program) {
            if (is_backward(key) && key.partition >= 0 && static_cast<std::size_t>(key.partition) < last.size()) {
                of_partition[key.partition] = key;
            }
        }
        for (const auto& [partition, key] : of_partition) {
            last[static_cast<std::size_t>(partition)].push_back(key);
        }
    }
    return last;
}

/// Adds the sums at the ends of their lanes, where they delay nothing, in front of the all_reduces.
std::vector<LaneProgram> with_shared_sums(const PipelineShape& shape, const SharedEnds& ends,
                                          std::vector<LaneProgram> programs) {
    for (std::size_t k = 0; k < shape.shared.size(); ++k) {
        const SharedRoute& route = shape.shared[k];
        const std::size_t lane = shape.lane_of(route.from).index();
        if (route.trains && ends.last_backwards[k] && lane < programs.size()) {
            LaneProgram& program = programs[lane];
            const auto end =
                std::ranges::find_if(program, [](const TaskKey& key) { return key.kind == TaskKind::all_reduce; });
            program.insert(end, {0, TaskKind::shared_sum, route.from.value(), -1, static_cast<std::int32_t>(k)});
        }
    }
    return programs;
}
}  // namespace

/// Emits tasks in topological order. Walks the lanes' programs round robin; each emitted task pulls in its copies.
class TaskGraphBuilder {
public:
    TaskGraphBuilder(TaskGraph& graph, const std::vector<LaneProgram>& programs, const std::vector<LaneJoints>& joints)
        : graph_(graph),
          ends_(graph.shape_, programs),
          last_of_copies_(last_backwards_of_copies(graph.shape_, programs)),
          joints_(joints),
          with_sums_(graph.shape_.shared.empty() ? std::vector<LaneProgram>()
                                                 : with_shared_sums(graph.shape_, ends_, programs)),
          programs_(graph.shape_.shared.empty() ? programs : with_sums_) {}

    void build() {
        graph_.lane_orders_.resize(programs_.size());
        in_backward_phase_.resize(programs_.size(), false);
        std::size_t computes = 0;
        for (const LaneProgram& program : programs_) {
            computes += program.size();
        }
        const std::size_t likely = 2 * computes + computes / 8;  // as many copies, some losses and sums
        graph_.tasks_.reserve(likely);
        graph_.dependencies_.reserve(likely, 2 * likely);
        for (int j = 0; j < last_partition(); ++j) {
            crosses_.push_back(lane_of(j) != lane_of(j + 1));
        }
        forward_channels_.resize(2 * crosses_.size(), kNoChannel);
        backward_channels_.resize(2 * crosses_.size(), kNoChannel);
        joints_begun_.resize(programs_.size(), 0);
        std::vector<std::size_t> next(programs_.size(), 0);
        bool progress = true;
        while (progress) {
            check_stop();
            progress = false;
            for (std::size_t lane = 0; lane < programs_.size(); ++lane) {
                if (next[lane] < programs_[lane].size()) {
                    const std::size_t emitted = emit_if_ready(lane, next[lane]);
                    next[lane] += emitted;
                    progress = progress || emitted > 0;
                }
            }
        }
        for (std::size_t lane = 0; lane < programs_.size(); ++lane) {
            if (next[lane] < programs_[lane].size()) {
                throw Error("the schedule can never finish: " + deadlock(next, lane));
            }
        }
        graph_.dependents_ = graph_.dependencies_.inverted();
    }

private:
    static constexpr std::size_t kNoChannel = static_cast<std::size_t>(-1);

    const PipelineShape& shape() const { return graph_.shape_; }
    int last_partition() const { return shape().num_partitions - 1; }
    LaneId lane_of(int partition) const { return shape().lane_of(PartitionId{partition}); }
    LaneId lane_of(int micro_batch, int partition) const {
        return shape().lane_of(Cell{MicroBatchId{micro_batch}, PartitionId{partition}});
    }
    bool one_loss() const { return shape().loss == LossScope::mini_batch; }
    TaskKey loss_of(int micro_batch) const {
        return {0, TaskKind::loss, last_partition(), one_loss() ? -1 : micro_batch, -1};
    }
    bool crosses_lanes(int from, int to) const {
        return to == from + 1 ? crosses_[static_cast<std::size_t>(from)] : lane_of(from) != lane_of(to);
    }

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
    void find_needs(const TaskKey& key, std::vector<TaskKey>& keys) const {
        const int i = key.micro_batch;
        const int j = key.partition;
        keys.clear();
        switch (key.kind) {
            case TaskKind::forward:
                if (j > 0) {
                    keys.push_back(
                        {0, crosses_lanes(j - 1, j) ? TaskKind::copy_forward : TaskKind::forward, j - 1, i, -1});
                }
                for (std::size_t k = 0; k < shape().skips.size(); ++k) {
                    const auto& [from, to] = shape().skips[k];
                    if (to.front().value() == j && crosses_lanes(from.value(), j)) {
                        keys.push_back({0, TaskKind::skip_forward, from.value(), i, static_cast<int>(k)});
                    }
                }
                for (std::size_t k = 0; k < shape().shared.size() && ends_.is_first_forward(key); ++k) {
                    const SharedRoute& route = shape().shared[k];
                    if (route.users.front().value() == j) {
                        keys.push_back({0, TaskKind::shared_forward, route.from.value(), -1, static_cast<int>(k)});
                    }
                }
                break;
            case TaskKind::all_reduce:
                if (shape().bidirectional && j >= 0 && static_cast<std::size_t>(j) < last_of_copies_.size()) {
                    keys = last_of_copies_[static_cast<std::size_t>(j)];
                }
                break;
            case TaskKind::shared_sum: keys.push_back({0, TaskKind::shared_backward, j, -1, key.skip}); break;
            case TaskKind::loss:
                if (one_loss()) {
                    for (int each = 0; each < shape().num_micro_batches; ++each) {
                        keys.push_back({0, TaskKind::forward, last_partition(), each, -1});
                    }
                } else if (i >= 0 && i < shape().num_micro_batches) {
                    keys.push_back({0, TaskKind::forward, last_partition(), i, -1});
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
                    const auto& [from, to] = shape().skips[k];
                    if (from.value() == j && crosses_lanes(j, to.front().value())) {
                        keys.push_back({0, TaskKind::skip_backward, j, i, static_cast<int>(k)});
                    }
                }
                break;
            default: break;
        }
    }

    bool opens_backward_phase(const TaskKey& key, std::size_t lane) const {
        const bool backward_phase = key.kind == TaskKind::recompute || key.kind == TaskKind::backward;
        return one_loss() && backward_phase && !in_backward_phase_[lane];
    }

    /// find_needs(), and the loss of the gathered output: a barrier in front of each lane's backward phase. Valid until
    /// the next call.
    const std::vector<TaskKey>& waits_for(const TaskKey& key, std::size_t lane) {
        std::vector<TaskKey>& keys = keys_;
        find_needs(key, keys);
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
                return {0, TaskKind::backward, shape().skips[static_cast<std::size_t>(key.skip)].to.front().value(),
                        key.micro_batch, -1};
            case TaskKind::shared_forward:
                return {0, TaskKind::forward, key.partition,
                        ends_.first_forwards[static_cast<std::size_t>(key.partition)], -1};
            case TaskKind::shared_backward: return ends_.last_backwards[static_cast<std::size_t>(key.skip)].value();
            default: return key;
        }
    }

    static std::string name_of(TaskKey key) {
        key.step = -1;
        return to_string(key);
    }

    /// The cycle of waits as one sentence, with a remedy. `next` is the task each lane is stuck at; `lane` is stuck.
    std::string deadlock(const std::vector<std::size_t>& next, std::size_t lane) {
        std::map<TaskKey, std::size_t> lanes;
        for (std::size_t each = 0; each < programs_.size(); ++each) {
            for (const TaskKey& key : programs_[each]) {
                lanes[key] = each;
            }
        }
        std::vector<std::size_t> path;
        std::vector<std::string> waits;  // by lane of `path`
        while (std::find(path.begin(), path.end(), lane) == path.end()) {
            const auto [stuck, missing] = stuck_at(lane, next[lane]);
            const TaskKey needed = producer_of(missing);
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
                                 : ", which lane " + std::to_string(lane) + " runs after " + name_of(before)));
        }
        auto at = static_cast<std::size_t>(std::find(path.begin(), path.end(), lane) - path.begin());
        std::string text = name_of(stuck_at(lane, next[lane]).first) + " on lane " + std::to_string(lane) + waits[at];
        while (++at < path.size()) {
            text += ", which" + waits[at];
        }
        return text + "; move one of them";
    }

    /// The lane's tasks from that position that run as one; usually a single one.
    std::span<const TaskKey> joint_from(std::size_t lane, std::size_t at) {
        std::size_t count = 1;
        if (lane < joints_.size()) {
            const LaneJoints& joints = joints_[lane];
            std::size_t& next = joints_begun_[lane];
            while (next < joints.size() && joints[next].first < at) {
                ++next;
            }
            count = next < joints.size() && joints[next].first == at ? joints[next].count : 1;
        }
        return std::span(programs_[lane]).subspan(at, std::min(count, programs_[lane].size() - at));
    }

    /// A task of the lane that cannot start, and what it waits for. Precondition: the lane is stuck at that position.
    std::pair<TaskKey, TaskKey> stuck_at(std::size_t lane, std::size_t at) {
        const std::span<const TaskKey> joint = joint_from(lane, at);
        for (std::size_t k = 0; k < joint.size(); ++k) {
            for (const TaskKey& needed : waits_for(joint[k], lane)) {
                if (!graph_.find(needed) && std::ranges::find(joint.first(k), needed) == joint.begin() + k) {
                    return {joint[k], needed};
                }
            }
        }
        throw Error("the schedule has a lane that is not stuck");
    }

    /// Emits the task at that position of the lane, with those that run as one with it. Returns their number; 0 if one
    /// of them cannot start yet.
    std::size_t emit_if_ready(std::size_t lane, std::size_t at) {
        const TaskKey& key = programs_[lane][at];
        if (key.kind == TaskKind::loss && one_loss() && outputs_ < shape().num_micro_batches) {
            return 0;  // without a search for every one of them in each round
        }
        const std::span<const TaskKey> joint = joint_from(lane, at);
        const bool opens_backward = opens_backward_phase(key, lane);
        dependencies_.clear();
        for (std::size_t k = 0; k < joint.size(); ++k) {
            for (const TaskKey& needed : waits_for(joint[k], lane)) {
                const std::optional<TaskIndex> index = graph_.find(needed);
                if (index) {
                    dependencies_.push_back(*index);
                } else if (std::ranges::find(joint.first(k), needed) == joint.begin() + k) {
                    return 0;
                }
            }
        }
        if (opens_backward) {
            in_backward_phase_[lane] = true;
        }
        const LaneId here{static_cast<std::int64_t>(lane)};
        const TaskIndex first = add({key, here, here}, dependencies_);
        for (std::size_t k = 0; k < joint.size(); ++k) {
            if (k > 0) {
                dependencies_.clear();
                for (const TaskKey& needed : waits_for(joint[k], lane)) {
                    dependencies_.push_back(graph_.find(needed).value());
                }
                add({joint[k], here, here}, dependencies_);
            }
            graph_.lane_orders_[lane].push_back(first + k);
            outputs_ += joint[k].kind == TaskKind::forward && joint[k].partition == last_partition() ? 1 : 0;
        }
        if (joint.size() > 1) {
            const std::span order(graph_.lane_orders_[lane]);
            graph_.joints_.add(order.last(joint.size()));
        }
        for (std::size_t k = 0; k < joint.size(); ++k) {
            emit_copies_of(joint[k], first + joint.size() - 1);
        }
        return joint.size();
    }

    /// Of a task whose results leave when `producer` has ended: itself, or the last one that runs as one with it.
    void emit_copies_of(const TaskKey& key, TaskIndex producer) {
        const int i = key.micro_batch;
        const int j = key.partition;
        const auto channel = [&](std::vector<std::size_t>& channels, int boundary) {
            const bool reversed = shape().is_reversed(MicroBatchId{i});
            return &channels[static_cast<std::size_t>(boundary) + (reversed ? crosses_.size() : 0)];
        };
        if (key.kind == TaskKind::forward) {
            if (j < last_partition() && crosses_lanes(j, j + 1)) {
                add_copy({0, TaskKind::copy_forward, j, i, -1}, lane_of(i, j), lane_of(i, j + 1), producer,
                         channel(forward_channels_, j));
            }
            for (std::size_t k = 0; k < shape().skips.size(); ++k) {
                const auto& [from, to] = shape().skips[k];
                if (from.value() == j && crosses_lanes(j, to.front().value())) {
                    add_copy({0, TaskKind::skip_forward, j, i, static_cast<int>(k)}, lane_of(i, j),
                             lane_of(i, to.front().value()), producer);
                }
            }
        } else if (key.kind == TaskKind::backward) {
            if (j > 0 && crosses_lanes(j - 1, j)) {
                add_copy({0, TaskKind::copy_backward, j - 1, i, -1}, lane_of(i, j), lane_of(i, j - 1), producer,
                         channel(backward_channels_, j - 1));
            }
            for (std::size_t k = 0; k < shape().skips.size(); ++k) {
                const auto& [from, to] = shape().skips[k];
                if (to.front().value() == j && crosses_lanes(from.value(), j)) {
                    add_copy({0, TaskKind::skip_backward, from.value(), i, static_cast<int>(k)}, lane_of(i, j),
                             lane_of(i, from.value()), producer);
                }
            }
        }
        emit_shared_copies_of(key, producer);
    }

    void emit_shared_copies_of(const TaskKey& key, TaskIndex producer) {
        for (std::size_t k = 0; k < shape().shared.size(); ++k) {
            const SharedRoute& route = shape().shared[k];
            const LaneId holder = shape().lane_of(route.from);
            const LaneId user = shape().lane_of(route.users.front());
            const auto skip = static_cast<std::int32_t>(k);
            if (key.partition == route.from.value() && ends_.is_first_forward(key)) {
                add_copy({0, TaskKind::shared_forward, route.from.value(), -1, skip}, holder, user, producer);
            } else if (route.trains && ends_.last_backwards[k] == key) {
                add_copy({0, TaskKind::shared_backward, route.from.value(), -1, skip}, user, holder, producer);
            }
        }
    }

    /// `known`: where the boundary's channel is kept once it is found; null: nowhere.
    void add_copy(const TaskKey& key, LaneId from, LaneId to, TaskIndex producer, std::size_t* known = nullptr) {
        const TaskIndex task = add({key, from, to}, std::span(&producer, 1));
        auto& channels = graph_.channels_;
        std::size_t channel = known != nullptr ? *known : kNoChannel;
        if (channel == kNoChannel) {
            channel = static_cast<std::size_t>(
                std::ranges::find_if(channels,
                                     [&](const Channel& each) { return each.from == from && each.to == to; }) -
                channels.begin());
            if (channel == channels.size()) {
                channels.push_back({from, to, {}});
            }
            if (known != nullptr) {
                *known = channel;
            }
        }
        channels[channel].order.push_back(task);
    }

    TaskIndex add(const Task& task, std::span<const TaskIndex> dependencies) {
        const TaskIndex index = graph_.tasks_.size();
        if (!graph_.by_key_.add(shape(), task.key, index)) {
            throw Error("the schedule holds " + to_string(task.key) + " twice; each task runs once a step; remove one");
        }
        graph_.tasks_.push_back(task);
        graph_.dependencies_.add(dependencies);
        return index;
    }

    TaskGraph& graph_;
    const SharedEnds ends_;
    const std::vector<std::vector<TaskKey>> last_of_copies_;
    const std::vector<LaneJoints>& joints_;
    std::vector<std::size_t> joints_begun_;     // by lane: the first that is not behind
    const std::vector<LaneProgram> with_sums_;  // empty without shared parameters
    const std::vector<LaneProgram>& programs_;
    std::vector<bool> in_backward_phase_;  // per lane
    std::vector<bool> crosses_;            // by partition: the next one is on another lane
    // By partition, then the same of a bidirectional pipeline's second copies: once known, the channel of the copies
    // to the next one, and from the next one.
    std::vector<std::size_t> forward_channels_;
    std::vector<std::size_t> backward_channels_;
    int outputs_ = 0;                      // forwards of the last partition so far
    std::vector<TaskKey> keys_;            // scratch of waits_for()
    std::vector<TaskIndex> dependencies_;  // scratch of emit_if_ready()
};

TaskGraph::TaskGraph(PipelineShape shape, const std::vector<LaneProgram>& programs,
                     const std::vector<LaneJoints>& joints)
    : shape_(std::move(shape)) {
    shape_.check();
    TaskGraphBuilder(*this, programs, joints).build();
}

bool TaskGraph::is_split(TaskIndex backward) const {
    const std::span<const TaskIndex> after = dependents(backward);
    return std::any_of(after.begin(), after.end(),
                       [this](TaskIndex dependent) { return tasks_[dependent].key.kind == TaskKind::backward_weight; });
}

std::optional<TaskIndex> TaskGraph::find(TaskKey key) const {
    return by_key_.find(shape_, key);
}

TaskGraph consecutive_steps(const TaskGraph& step, int steps) {
    const int m = step.shape_.num_micro_batches;
    if (!step.shape_.shared.empty()) {
        throw UsageError(
            "the update is staggered where lanes share parameters; each lane updates its own at another time; use "
            "synchronous updates, or put the layers that share parameters on one lane");
    }
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
        all.by_key_.add(all.shape_, task.key, all.tasks_.size());
        all.tasks_.push_back(task);
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
            all.dependencies_.add(step.dependencies(each), offset);
            all.dependents_.add(step.dependents(each), offset);
        }
        for (std::size_t k = 0; k < step.joints_.size(); ++k) {
            all.joints_.add(step.joints_.at(k), offset);
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
            all.dependencies_.add({});
            all.dependents_.add({});
        }
    }
    return all;
}
}  // namespace pipescope
