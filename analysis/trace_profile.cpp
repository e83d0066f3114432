#include "analysis/trace_profile.h"

#include "analysis/calibration.h"
#include "base/quantities.h"
#include "base/sample_statistics.h"
#include "schedule/schedules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
/// A task without its step.
using TaskName = std::tuple<TaskKind, std::int32_t, std::int32_t>;  // kind, partition, micro-batch
TaskName name_of(const TaskKey& key) {
    return {key.kind, key.partition, key.micro_batch};
}

double median_of(std::vector<double> values) {
    return values.empty() ? 0 : median(std::move(values));
}

struct RunStep {
    std::int32_t number = 0;
    std::map<TaskName, Slice> tasks;  // compute tasks; the first run of a repeated task
    std::map<TaskName, Slice> copies;
    std::map<LaneId, std::vector<Slice>> lanes;  // compute tasks in the order that they ran
};

std::map<std::int32_t, RunStep> steps_by_number(const Timeline& measured, const MeasuredSteps& steps) {
    std::map<std::int32_t, RunStep> found;
    for (const std::int32_t number : steps.numbers()) {
        found[number].number = number;
    }
    for (const Slice& slice : measured.slices) {
        const auto step = found.find(slice.key.step);
        if (step == found.end()) {
            continue;
        }
        const bool has_cell = slice.key.partition >= 0 && slice.key.micro_batch >= 0;
        if (is_copy(slice.key.kind) && has_cell) {
            step->second.copies.emplace(name_of(slice.key), slice);
        } else if (is_compute(slice.key.kind) && has_cell &&
                   step->second.tasks.emplace(name_of(slice.key), slice).second) {
            step->second.lanes[slice.lane].push_back(slice);
        }
    }
    return found;
}

/// The size of the pipeline and the order of tasks on each lane, which are the same in every step.
class RunShape {
public:
    RunShape(const Timeline& measured, const MeasuredSteps& steps) : num_lanes_(measured.lanes.size()) {
        std::map<std::int32_t, RunStep> all = steps_by_number(measured, steps);
        for (const auto& [number, step] : all) {
            for (const auto& [name, slice] : step.tasks) {
                partitions_ = std::max(partitions_, std::get<1>(name) + 1);
                micro_batches_ = std::max(micro_batches_, std::get<2>(name) + 1);
            }
        }
        require_partition_0(all);
        const std::int32_t frozen = frozen_partition(all);
        for (const std::int32_t number : steps.numbers()) {
            RunStep& step = all.at(number);
            const std::string lacks = what_lacks(step);
            if (lacks.empty()) {
                steps_.push_back(std::move(step));
            } else {
                first_lack_ = first_lack_.empty() ? fmt::format("step {} lacks {}", number, lacks) : first_lack_;
            }
        }
        if (frozen >= 0) {
            throw Error(fmt::format(
                "holds no backward of partition {} in any step, as if it were frozen; simulations and profiles are of "
                "pipelines whose partitions all run backwards, and would wait for its; 'pipescope view' shows the run, "
                "and 'pipescope compare' compares it with another recorded run",
                frozen));
        }
        if (steps_.empty()) {
            throw Error(fmt::format(
                "holds no step from which a profile can be measured: each partition needs a forward and a backward of "
                "each micro-batch{}; give the files of all ranks of the pipeline, and record whole steps",
                first_lack_.empty() ? "" : ", and " + first_lack_));
        }
        keep_usual_steps();
        find_placement();
    }

    std::int32_t partitions() const { return partitions_; }
    std::int32_t micro_batches() const { return micro_batches_; }
    std::size_t num_lanes() const { return num_lanes_; }
    const std::vector<RunStep>& steps() const { return steps_; }
    /// Empty if partition j is on lane j.
    const std::vector<LaneId>& placement() const { return placement_; }
    LaneId lane_of(std::int32_t partition) const { return pipescope::lane_of(placement_, PartitionId{partition}); }

    /// The mode whose micro-batches are recomputed, or the nearest mode; the flag says whether it fits exactly.
    std::pair<Checkpoint, bool> checkpoint() const {
        std::set<std::int32_t> recomputed;
        for (const auto& [name, slice] : steps_.front().tasks) {
            if (std::get<0>(name) == TaskKind::recompute) {
                recomputed.insert(std::get<2>(name));
            }
        }
        for (const Checkpoint mode : {Checkpoint::never, Checkpoint::except_last, Checkpoint::always}) {
            std::set<std::int32_t> wanted;
            for (std::int32_t i = 0; i < micro_batches_; ++i) {
                if (is_checkpointed(mode, MicroBatchId{i}, micro_batches_)) {
                    wanted.insert(i);
                }
            }
            if (wanted == recomputed) {
                return {mode, true};
            }
        }
        return {Checkpoint::always, false};
    }

private:
    void require_partition_0(const std::map<std::int32_t, RunStep>& steps) const {
        std::int32_t least = partitions_;
        for (const auto& [number, step] : steps) {
            for (const auto& [name, slice] : step.tasks) {
                least = std::min(least, std::get<1>(name));
            }
        }
        if (least > 0 && least < partitions_) {
            throw Error(fmt::format(
                "holds tasks of the partitions {} to {}, and none of partition 0; partitions are numbered from 0; if "
                "this program numbers them from {}, name its tasks anew, otherwise give the files of all ranks of the "
                "pipeline",
                least, partitions_ - 1, least));
        }
    }

    /// The first partition that has forwards but no backward in any step. -1 if there is none, or if no partition has
    /// backwards.
    std::int32_t frozen_partition(const std::map<std::int32_t, RunStep>& steps) const {
        std::set<std::int32_t> forwards;
        std::set<std::int32_t> backwards;
        for (const auto& [number, step] : steps) {
            for (const auto& [name, slice] : step.tasks) {
                if (std::get<0>(name) == TaskKind::forward || std::get<0>(name) == TaskKind::backward) {
                    (std::get<0>(name) == TaskKind::forward ? forwards : backwards).insert(std::get<1>(name));
                }
            }
        }
        const auto frozen = std::ranges::find_if(
            forwards, [&](std::int32_t partition) { return !backwards.empty() && !backwards.contains(partition); });
        return frozen == forwards.end() ? -1 : *frozen;
    }

    /// Names a missing task, such as "the backward (1, 0)"; empty if the step is whole.
    std::string what_lacks(const RunStep& step) const {
        for (std::int32_t j = 0; j < partitions_; ++j) {
            for (std::int32_t i = 0; i < micro_batches_; ++i) {
                for (const TaskKind kind : {TaskKind::forward, TaskKind::backward}) {
                    if (!step.tasks.contains({kind, j, i})) {
                        return fmt::format("{} ({}, {})", to_string(kind), i, j);
                    }
                }
            }
        }
        return step.tasks.empty() ? "every task" : "";
    }

    /// For runs that lost records, whose steps are not checked. Keeps the steps with the most frequent number of tasks,
    /// or the larger of two equally frequent numbers. The others lack recomputes or second halves of backwards.
    void keep_usual_steps() {
        std::map<std::size_t, std::size_t> steps_by_size;
        for (const RunStep& step : steps_) {
            ++steps_by_size[step.tasks.size()];
        }
        const auto usual = std::ranges::max_element(
            steps_by_size, {}, [](const auto& size) { return std::pair(size.second, size.first); });
        std::erase_if(steps_, [&](const RunStep& step) { return step.tasks.size() != usual->first; });
    }

    void find_placement() {
        bool in_turn = true;
        for (std::int32_t j = 0; j < partitions_; ++j) {
            placement_.push_back(steps_.front().tasks.at({TaskKind::forward, j, 0}).lane);
            in_turn = in_turn && placement_.back() == LaneId{j};
        }
        for (const RunStep& step : steps_) {
            for (const auto& [name, slice] : step.tasks) {
                if (slice.lane != placement_[static_cast<std::size_t>(std::get<1>(name))]) {
                    throw Error(fmt::format(
                        "holds partition {} on two lanes, such as {}; a profile is measured of a pipeline whose "
                        "partitions stay where they are; correct the task rules",
                        std::get<1>(name), to_string(slice.key)));
                }
            }
        }
        if (in_turn) {
            placement_.clear();
        }
    }

    std::int32_t partitions_ = 0;
    std::int32_t micro_batches_ = 0;
    std::size_t num_lanes_ = 0;
    std::vector<RunStep> steps_;
    std::vector<LaneId> placement_;
    std::string first_lack_;
};

/// The copy that brings a task its input from another lane; empty if there is none.
std::optional<TaskName> copy_for(const RunShape& shape, const TaskName& task) {
    const auto& [kind, partition, micro_batch] = task;
    const std::int32_t from = kind == TaskKind::forward    ? partition - 1
                              : kind == TaskKind::backward ? partition + 1
                                                           : -1;
    if (from < 0 || from >= shape.partitions() || shape.lane_of(from) == shape.lane_of(partition)) {
        return std::nullopt;
    }
    return TaskName{kind == TaskKind::forward ? TaskKind::copy_forward : TaskKind::copy_backward,
                    std::min(from, partition), micro_batch};
}

/// The copy that takes a task's output to another lane; empty if there is none.
std::optional<TaskName> copy_from(const RunShape& shape, const TaskName& task) {
    const auto& [kind, partition, micro_batch] = task;
    const std::int32_t to = kind == TaskKind::forward ? partition + 1 : partition - 1;
    return to >= 0 && to < shape.partitions() ? copy_for(shape, {kind, to, micro_batch}) : std::nullopt;
}

/// The task that sends the copy.
TaskName sender_of(const TaskName& copy) {
    const auto& [kind, partition, micro_batch] = copy;
    return kind == TaskKind::copy_forward ? TaskName{TaskKind::forward, partition, micro_batch}
                                          : TaskName{TaskKind::backward, partition + 1, micro_batch};
}

/// Costs of tasks in ns: what each took in every step.
using Costs = std::map<TaskName, std::vector<double>>;

/// True for the task that opens the backward phase of the last partition.
bool opens_backwards(const RunShape& shape, const std::vector<Slice>& lane, std::size_t k) {
    return k > 0 && lane[k].key.partition == shape.partitions() - 1 && lane[k].key.kind != TaskKind::forward &&
           lane[k - 1].key.kind == TaskKind::forward;
}

double gap_before(const std::vector<Slice>& lane, std::size_t k) {
    return k == 0 ? 0 : std::max(0.0, static_cast<double>((lane[k].start - lane[k - 1].end).count()));
}

/// The loss of a mini-batch: the time in ns that the last partition idles before its first backward, beyond its idle
/// time before other backwards. Median over the steps. A recompute right before a backward belongs to it.
double loss_of_phases(const RunShape& shape) {
    std::vector<double> losses;
    for (const RunStep& step : shape.steps()) {
        std::vector<double> others;
        std::optional<double> opening;
        const std::vector<Slice>& lane = step.lanes.at(shape.lane_of(shape.partitions() - 1));
        for (std::size_t k = 1; k < lane.size(); ++k) {
            if (lane[k].key.partition != shape.partitions() - 1 || lane[k].key.kind != TaskKind::backward) {
                continue;
            }
            const bool recomputes = lane[k - 1].key.kind == TaskKind::recompute;
            const std::size_t first = recomputes ? k - 1 : k;
            const double gaps = gap_before(lane, k) + (recomputes ? gap_before(lane, first) : 0);
            if (opens_backwards(shape, lane, first)) {
                opening = gaps;
            } else {
                others.push_back(gaps);
            }
        }
        losses.push_back(std::max(0.0, opening.value_or(0) - median_of(others)));
    }
    return median_of(losses);
}

/// Times of tasks, and how well they are known.
struct MeasuredCosts {
    Costs costs;
    std::size_t left_out = 0;                              ///< times that may contain a wait
    std::set<std::pair<TaskKind, std::int32_t>> may_wait;  ///< kinds and partitions with only such times
};

/// When a message would have arrived if the host had launched it in time. Nothing else simulates that delay, so it
/// counts as the time of the task that waits for the message.
Nanoseconds arrival_in_time(const RunStep& step, const Slice& copy, const TaskLaunches& launches) {
    const std::optional<std::int64_t> could_start = launches.could_start(copy.key);
    const auto sender = step.tasks.find(sender_of(name_of(copy.key)));
    if (!could_start || sender == step.tasks.end()) {
        return copy.end;
    }
    Nanoseconds ready = sender->second.end;
    const auto after_link = [&](auto other) {  // a message of the same link that went before
        const bool same = std::get<0>(other->first) == copy.key.kind && std::get<1>(other->first) == copy.key.partition;
        ready = same && other->second.start < copy.start ? std::max(ready, other->second.end) : ready;
    };
    const auto own = step.copies.find(name_of(copy.key));
    if (own != step.copies.begin()) {
        after_link(std::prev(own));
    }
    if (std::next(own) != step.copies.end()) {
        after_link(std::next(own));
    }
    const Nanoseconds late = std::min(Nanoseconds{*could_start}, copy.start) - ready;
    return copy.end - std::max(late, Nanoseconds{0});
}

/// When the outputs of tasks could leave: at their end, or at the end of a collective that follows them, as the last
/// sum of a tensor-parallel group. Such a sum follows every task of its kind and partition, starts after the task, and
/// ends before the output's message starts, or, without a message, before the lane's next task. A sum of gradients over
/// replicas does not: it belongs to the end of the step.
class OutputTimes {
public:
    OutputTimes(const RunShape& shape, const TaskLaunches& launches) : launches_(launches) {
        struct Sums {
            std::size_t tasks = 0;
            std::vector<double> times;
        };
        std::map<std::pair<TaskKind, std::int32_t>, Sums> all;
        for (const RunStep& step : shape.steps()) {
            for (const auto& [lane, slices] : step.lanes) {
                for (std::size_t k = 0; k < slices.size(); ++k) {
                    if (!needed_at(step, slices, k)) {
                        continue;
                    }
                    Sums& sums = all[{slices[k].key.kind, slices[k].key.partition}];
                    ++sums.tasks;
                    if (const Nanoseconds time = sum_after(step, lane, slices, k); time > Nanoseconds{0}) {
                        sums.times.push_back(static_cast<double>(time.count()));
                    }
                }
            }
        }
        constexpr std::size_t kTenths = 9;  // the others' collectives may be lost
        for (auto& [name, sums] : all) {
            if (!sums.times.empty() && sums.times.size() * 10 >= sums.tasks * kTenths) {
                usual_[name] = Nanoseconds{std::llround(median_of(std::move(sums.times)))};
            }
        }
    }

    Nanoseconds end_of(const RunStep& step, LaneId lane, const std::vector<Slice>& slices, std::size_t k) const {
        const Slice& slice = slices[k];
        const auto usual = usual_.find({slice.key.kind, slice.key.partition});
        if (usual == usual_.end()) {
            return slice.end;
        }
        // After the first partition's last backward, neither a message nor a task shows where its sum ends, so the
        // usual time stands for that sum.
        return slice.end + (needed_at(step, slices, k) ? sum_after(step, lane, slices, k) : usual->second);
    }

private:
    /// When the output's message starts, or else the lane's next task. Empty if there is neither.
    static std::optional<Nanoseconds> needed_at(const RunStep& step, const std::vector<Slice>& slices, std::size_t k) {
        const Slice& slice = slices[k];
        if (const Slice* const sent = message_of(step, slice)) {
            return sent->start;
        }
        return k + 1 < slices.size() ? std::optional(slices[k + 1].start) : std::nullopt;
    }
    static const Slice* message_of(const RunStep& step, const Slice& slice) {
        TaskKey copy = slice.key;
        copy.kind = slice.key.kind == TaskKind::forward ? TaskKind::copy_forward : TaskKind::copy_backward;
        copy.partition -= slice.key.kind == TaskKind::forward ? 0 : 1;
        const auto sent = step.copies.find(name_of(copy));
        return sent == step.copies.end() ? nullptr : &sent->second;
    }
    /// From the end of the task to that of its sum; 0 if there is none.
    Nanoseconds sum_after(const RunStep& step, LaneId lane, const std::vector<Slice>& slices, std::size_t k) const {
        constexpr Nanoseconds kPause{20'000};
        constexpr Nanoseconds kRounding{1'000};
        const Slice& slice = slices[k];
        const std::span<const LaneWork> work = launches_.work_of(lane, LaneWorkKind::collective);
        const auto next = std::ranges::upper_bound(work, slice.end, {}, &LaneWork::end);
        const bool computes = slice.key.kind == TaskKind::forward || slice.key.kind == TaskKind::backward;
        if (next == work.end() || !computes || next->start < slice.end - kRounding ||
            next->end > needed_at(step, slices, k).value_or(slice.end)) {
            return Nanoseconds{0};
        }
        const bool follows = message_of(step, slice) != nullptr || next->start <= slice.end + kPause;
        return follows ? next->end - slice.end : Nanoseconds{0};
    }

    const TaskLaunches& launches_;
    std::map<std::pair<TaskKind, std::int32_t>, Nanoseconds> usual_;  // median time of the sum, by kind and partition
};

/// True if the tasks of each kind and partition wait for launches alike. A mean over tasks of which only some do says
/// nothing of when either kind ends.
bool are_launched_alike(const RunShape& shape, const TaskLaunches& launches) {
    constexpr double kAlike = 1.25;  // the ninth tenth over the first
    std::map<std::pair<TaskKind, std::int32_t>, std::vector<std::int64_t>> paced;
    for (const RunStep& step : shape.steps()) {
        for (const auto& [lane, slices] : step.lanes) {
            for (const Slice& slice : slices) {
                if (const TaskOnDevice* const task = launches.find(slice.key)) {
                    paced[{slice.key.kind, slice.key.partition}].push_back(task->paced.count());
                }
            }
        }
    }
    return std::ranges::all_of(paced, [&](auto& each) {
        std::vector<std::int64_t>& times = each.second;
        std::ranges::sort(times);
        const std::size_t tenth = times.size() / 10;
        return static_cast<double>(times[times.size() - 1 - tenth]) <= kAlike * static_cast<double>(times[tenth]);
    });
}

/// True if all hosts launch ahead and wait for nothing. In most steps, such a host has launched the task that waits
/// longest for its input before the input was there. A host that waits for its device or for messages has not.
bool hosts_launch_ahead(const RunShape& shape, const TaskLaunches& launches) {
    if (!are_launched_alike(shape, launches)) {
        return false;
    }
    constexpr Nanoseconds kLatency{10'000};                       // a call may take effect that much later
    std::map<LaneId, std::pair<std::size_t, std::size_t>> steps;  // with a wait, and launched ahead
    for (const RunStep& step : shape.steps()) {
        for (const auto& [lane, slices] : step.lanes) {
            Nanoseconds longest{0};
            bool ahead = false;
            for (std::size_t k = 0; k < slices.size(); ++k) {
                const TaskOnDevice* const task = launches.find(slices[k].key);
                const std::optional<TaskName> copy = copy_for(shape, name_of(slices[k].key));
                const auto arrived = copy ? step.copies.find(*copy) : step.copies.end();
                if (task == nullptr || task->paced == Nanoseconds{0} || arrived == step.copies.end()) {
                    continue;
                }
                const Nanoseconds since = k > 0 ? slices[k - 1].end : arrived->second.start;
                if (const Nanoseconds wait = arrived->second.end - since; wait > longest) {
                    longest = wait;
                    ahead = task->launch + kLatency < arrived->second.end;
                }
            }
            steps[lane].first += longest > Nanoseconds{0} ? 1 : 0;
            steps[lane].second += ahead ? 1 : 0;
        }
    }
    const auto is_ahead = [](const auto& lane) { return lane.second.second * 2 > lane.second.first; };
    const auto waits = [](const auto& lane) { return lane.second.first > 0; };
    return std::ranges::any_of(steps, waits) &&
           std::ranges::all_of(steps, [&](const auto& lane) { return !waits(lane) || is_ahead(lane); });
}

/// Times of tasks, from the moment when the lane was free and the input had arrived. If the input's arrival is not
/// recorded, the task's time may contain its wait. Such a time is the recorded range alone, and counts only if no task
/// of its kind and partition has a better one. `loss_ns`: loss_of_phases() if it is known to be a loss, which is then
/// not part of the backward after it; otherwise 0. `ahead`: hosts_launch_ahead(); then times are the devices' alone,
/// without what they wait for launches.
MeasuredCosts costs_of(const RunShape& shape, const TaskLaunches& launches, bool ahead, double loss_ns) {
    MeasuredCosts measured;
    Costs uncertain;
    std::set<std::pair<TaskKind, std::int32_t>> certain;
    const OutputTimes outputs(shape, launches);
    for (const RunStep& step : shape.steps()) {
        for (const auto& [lane, slices] : step.lanes) {
            Nanoseconds loss_left{0};
            for (std::size_t k = 0; k < slices.size(); ++k) {
                const Slice& slice = slices[k];
                const bool recomputes = slice.key.kind == TaskKind::recompute;
                // On the last partition there is no gradient to wait for. Elsewhere a recompute may wait, though it
                // need not.
                const bool may_wait = recomputes && slice.key.partition != shape.partitions() - 1;
                Nanoseconds begin = slice.start;
                const std::optional<TaskName> copy = copy_for(shape, name_of(slice.key));
                const auto arrived = copy ? step.copies.find(*copy) : step.copies.end();
                const bool is_certain = !copy || arrived != step.copies.end();
                if (opens_backwards(shape, slices, k)) {
                    loss_left = Nanoseconds{std::llround(loss_ns)};
                }
                const auto end_of = [&, lane = lane, &slices = slices](std::size_t at) {
                    return outputs.end_of(step, lane, slices, at);
                };
                if (k > 0 && !may_wait && is_certain) {
                    const Nanoseconds before = end_of(k - 1);
                    const Nanoseconds input = !copy   ? before
                                              : ahead ? arrived->second.end
                                                      : arrival_in_time(step, arrived->second, launches);
                    begin = std::max(before, input);
                    if (ahead) {
                        begin = std::max(begin, Nanoseconds{launches.could_start(slice.key).value_or(begin.count())});
                    }
                    begin = std::min(begin, slice.start);
                    const Nanoseconds loss = std::min(loss_left, slice.start - begin);
                    begin += loss;
                    loss_left = recomputes ? loss_left - loss : Nanoseconds{0};  // the rest may follow a recompute
                }
                const TaskOnDevice* const device = ahead ? launches.find(slice.key) : nullptr;
                const Nanoseconds gaps = device != nullptr ? device->launch_gap : Nanoseconds{0};
                (is_certain ? measured.costs : uncertain)[name_of(slice.key)].push_back(
                    static_cast<double>((end_of(k) - begin - gaps).count()));
                if (is_certain) {
                    certain.emplace(slice.key.kind, slice.key.partition);
                }
            }
        }
    }
    for (const auto& [name, times] : uncertain) {
        const std::pair group{std::get<0>(name), std::get<1>(name)};
        if (certain.contains(group)) {
            measured.left_out += times.size();
        } else {
            measured.may_wait.insert(group);
            measured.costs[name] = times;
        }
    }
    return measured;
}

/// Mean over the micro-batches of the medians over the steps; 0 without such a task.
double mean_of(const Costs& costs, TaskKind kind, std::int32_t partition) {
    double total = 0;
    std::size_t count = 0;
    const auto first = costs.lower_bound({kind, partition, -1});
    for (auto at = first; at != costs.end() && std::get<0>(at->first) == kind && std::get<1>(at->first) == partition;
         ++at) {
        total += median_of(at->second);
        ++count;
    }
    return count == 0 ? 0 : total / static_cast<double>(count);
}

/// Number of micro-batches that have such a task.
std::size_t count_of(const Costs& costs, TaskKind kind, std::int32_t partition) {
    return static_cast<std::size_t>(std::ranges::count_if(costs, [&](const auto& task) {
        return std::get<0>(task.first) == kind && std::get<1>(task.first) == partition;
    }));
}

/// How hosts that launch ahead launch the tasks of each kind and partition.
std::map<std::pair<TaskKind, std::int32_t>, LaunchTimes> launch_times_of(const RunShape& shape,
                                                                         const TaskLaunches& launches) {
    using Group = std::pair<TaskKind, std::int32_t>;
    const auto group_of = [](const TaskName& name) { return Group{std::get<0>(name), std::get<1>(name)}; };
    Costs host;
    Costs paced;
    std::map<Group, std::vector<double>> sends;
    std::map<Group, std::vector<double>> receives;
    const OutputTimes outputs(shape, launches);
    for (const RunStep& step : shape.steps()) {
        std::map<TaskName, double> launched;
        for (const auto& [lane, slices] : step.lanes) {
            std::vector<std::pair<double, TaskName>> order;
            for (std::size_t k = 0; k < slices.size(); ++k) {
                const TaskName name = name_of(slices[k].key);
                if (const TaskOnDevice* const task = launches.find(slices[k].key)) {
                    const Nanoseconds after = outputs.end_of(step, lane, slices, k) - slices[k].end;
                    paced[name].push_back(static_cast<double>((task->paced + after).count()));
                    order.emplace_back(static_cast<double>(task->launch.count()), name);
                }
            }
            std::ranges::sort(order);
            for (std::size_t k = 0; k < order.size(); ++k) {
                launched[order[k].second] = order[k].first;
                if (k + 1 < order.size()) {
                    host[order[k].second].push_back(order[k + 1].first - order[k].first);
                }
            }
        }
        for (const auto& [name, slice] : step.copies) {
            const TaskOnDevice* const copy = launches.find(slice.key);
            const bool forward = std::get<0>(name) == TaskKind::copy_forward;
            const TaskName consumer{forward ? TaskKind::forward : TaskKind::backward,
                                    std::get<1>(name) + (forward ? 1 : 0), std::get<2>(name)};
            const auto sender = launched.find(sender_of(name));
            const auto receiver = launched.find(consumer);
            if (copy != nullptr && sender != launched.end()) {
                sends[group_of(sender->first)].push_back(static_cast<double>(copy->launch.count()) - sender->second);
            }
            if (copy != nullptr && receiver != launched.end()) {
                receives[group_of(consumer)].push_back(static_cast<double>(copy->launch.count()) - receiver->second);
            }
        }
    }
    // A copy's launch is the later one of both ranks, so the least difference to a rank's task is that of its own.
    const auto low_of = [](std::map<Group, std::vector<double>>& differences, const Group& group) {
        constexpr std::size_t kTenths = 10;
        std::vector<double>& all = differences[group];
        std::ranges::sort(all);
        return all.empty() ? 0 : all[all.size() / kTenths];
    };
    std::map<Group, LaunchTimes> times;
    for (const auto& [name, values] : paced) {
        const Group group = group_of(name);
        if (times.contains(group)) {
            continue;
        }
        LaunchTimes& of_group = times[group];
        of_group.paced_ns = std::round(mean_of(paced, group.first, group.second));
        of_group.host_ns = std::round(mean_of(host, group.first, group.second));
        of_group.sends_ns = std::round(std::clamp(low_of(sends, group), 0.0, of_group.host_ns));
        of_group.receives_ns = std::round(std::max(0.0, -low_of(receives, group)));
    }
    return times;
}

// ---- The link ----

/// Times of messages in ns, by size.
using MessageTimes = std::map<Bytes, std::vector<double>>;

/// True if the lane ran nothing from `from` to `to`.
bool idle(const std::vector<Slice>& lane, Nanoseconds from, Nanoseconds to) {
    return std::ranges::none_of(lane, [&](const Slice& slice) { return slice.start < to && slice.end > from; });
}

/// A message between lanes.
struct Message {
    LaneId from;
    LaneId to;
    Bytes bytes = 0;
    double ns = 0;
};

/// Messages for which the receiving lane waited; others may have been fetched late. If there are none, all messages.
std::vector<Message> timed_messages(const RunShape& shape) {
    std::vector<Message> awaited;
    std::vector<Message> all;
    for (const RunStep& step : shape.steps()) {
        for (const auto& [name, copy] : step.copies) {
            const auto& [kind, partition, micro_batch] = name;
            if ((kind != TaskKind::copy_forward && kind != TaskKind::copy_backward) ||
                partition + 1 >= shape.partitions()) {
                continue;
            }
            Message message{shape.lane_of(partition), shape.lane_of(partition + 1), copy.bytes,
                            static_cast<double>(copy.duration().count())};
            if (kind == TaskKind::copy_backward) {
                std::swap(message.from, message.to);
            }
            all.push_back(message);
            const auto lane = step.lanes.find(message.to);
            if (lane == step.lanes.end() || idle(lane->second, copy.start, copy.end)) {
                awaited.push_back(message);
            }
        }
    }
    return awaited.empty() ? all : awaited;
}

MessageTimes times_by_size(const std::vector<Message>& messages) {
    MessageTimes times;
    for (const Message& message : messages) {
        times[message.bytes].push_back(message.ns);
    }
    return times;
}

/// Gives links whose messages take longer or shorter than those of the others a latency and a bandwidth of their own.
/// Returns a sentence about them, or nothing.
std::string set_links_of_pairs(const std::vector<Message>& messages, Hardware& hardware) {
    constexpr double kAlike = 1.1;
    std::map<std::pair<LaneId, LaneId>, std::vector<double>> ratios;  // to the time over the usual link
    for (const Message& message : messages) {
        if (const double usual = hardware.link.message_ns(static_cast<double>(message.bytes)); usual > 0) {
            ratios[std::minmax(message.from, message.to)].push_back(message.ns / usual);
        }
    }
    std::vector<std::string> texts;
    for (auto& [lanes, of_pair] : ratios) {
        const double ratio = median_of(std::move(of_pair));
        if (ratio <= 0 || (ratio < kAlike && ratio > 1 / kAlike)) {
            continue;
        }
        Link link = hardware.link;
        link.latency_ns = std::round(link.latency_ns * ratio);
        link.bytes_per_second = std::round(link.bytes_per_second / ratio);
        hardware.pairs.push_back(
            {static_cast<int>(lanes.first.value()), static_cast<int>(lanes.second.value()), std::move(link)});
        texts.push_back(fmt::format("those between lanes {} and {} {:.3g} times as long", lanes.first.value(),
                                    lanes.second.value(), ratio));
    }
    return texts.empty() ? ""
                         : fmt::format(
                               "messages do not take equally long over all links: {}, compared with the usual "
                               "ones; the simulation has a link of its own for {}, which no option of simulate "
                               "names",
                               fmt::join(texts, ", "), texts.size() == 1 ? "these lanes" : "each of these");
}

/// True if each lane handles one message after the other, in the order of its tasks, as on one stream of NCCL: a
/// message whose data are there, and which was launched, still waits until the lane's message before it has ended.
/// Messages of one link always do, so only those of different links or directions tell.
bool messages_take_turns(const RunShape& shape, const TaskLaunches& launches) {
    constexpr Nanoseconds kSlack{20'000};  // launches, and the error of clocks
    constexpr std::size_t kFewest = 4;
    constexpr std::size_t kTwentieths = 20;  // one in as many may be an accident
    std::size_t waited = 0;
    std::size_t beside = 0;  // ran beside the message before it
    struct Sent {
        const Slice* copy = nullptr;
        Nanoseconds ready{0};
        std::pair<TaskKind, std::int32_t> link;
    };
    for (const RunStep& step : shape.steps()) {
        for (const auto& [lane, slices] : step.lanes) {
            std::vector<Sent> messages;
            const auto add = [&](const std::optional<TaskName>& name) {
                const auto found = name ? step.copies.find(*name) : step.copies.end();
                const auto sender = found == step.copies.end() ? step.tasks.end() : step.tasks.find(sender_of(*name));
                if (sender != step.tasks.end()) {
                    messages.push_back({&found->second, sender->second.end, {std::get<0>(*name), std::get<1>(*name)}});
                }
            };
            for (const Slice& slice : slices) {
                add(copy_for(shape, name_of(slice.key)));
                add(copy_from(shape, name_of(slice.key)));
            }
            for (std::size_t k = 1; k < messages.size(); ++k) {
                const Sent& before = messages[k - 1];
                const Sent& message = messages[k];
                const TaskOnDevice* const launched = launches.find(message.copy->key);
                const Nanoseconds free = before.copy->end - 2 * kSlack;
                if (message.link == before.link || launched == nullptr || launched->launch > free ||
                    message.ready > free) {
                    continue;
                }
                ++(message.copy->start + kSlack >= before.copy->end ? waited : beside);
            }
        }
    }
    return waited >= kFewest && beside * kTwentieths <= waited;
}

/// Sets latency and bandwidth, and returns the number of messages. Two sizes give both. One size gives a latency for a
/// small message, and a bandwidth for a large one.
std::size_t set_link(const MessageTimes& messages, Link& link) {
    constexpr Bytes kSmall = 64 << 10;
    if (messages.empty()) {
        return 0;
    }
    const Bytes least = messages.begin()->first;
    const Bytes most = messages.rbegin()->first;
    const double short_ns = median_of(messages.begin()->second);
    const double long_ns = median_of(messages.rbegin()->second);
    if (least > 0 && most > least && long_ns > short_ns) {
        link.bytes_per_second = static_cast<double>(most - least) / (long_ns - short_ns) * 1e9;
        link.latency_ns = std::max(0.0, short_ns - static_cast<double>(least) / link.bytes_per_second * 1e9);
    } else if (most > kSmall && long_ns > 0) {
        link.bytes_per_second = static_cast<double>(most) / long_ns * 1e9;
    } else {
        link.latency_ns = std::round(short_ns);
    }
    link.bytes_per_second = std::round(link.bytes_per_second);
    link.latency_ns = std::round(link.latency_ns);
    return std::accumulate(messages.begin(), messages.end(), std::size_t{0},
                           [](std::size_t sum, const auto& size) { return sum + size.second.size(); });
}

/// Without messages: the time from the end of a task to the start of the next partition's task, if its lane waited. The
/// mean of both directions cancels out a difference of the ranks' clocks. Negative if ranges contain waits.
double hand_off_ns(const RunShape& shape) {
    std::map<TaskKind, std::vector<double>> times;
    for (const RunStep& step : shape.steps()) {
        for (const auto& [lane, slices] : step.lanes) {
            for (std::size_t k = 0; k < slices.size(); ++k) {
                const std::optional<TaskName> copy = copy_for(shape, name_of(slices[k].key));
                if (!copy || step.copies.contains(*copy)) {
                    continue;
                }
                const Slice& sender = step.tasks.at(sender_of(*copy));
                if (k == 0 || slices[k - 1].end <= sender.end) {
                    times[slices[k].key.kind].push_back(static_cast<double>((slices[k].start - sender.end).count()));
                }
            }
        }
    }
    const auto& forward = times[TaskKind::forward];
    const auto& backward = times[TaskKind::backward];
    if (forward.empty() || backward.empty()) {
        return 0;
    }
    return (median_of(forward) + median_of(backward)) / 2;
}

// ---- The schedule ----

std::vector<LaneProgram> programs_of(const RunShape& shape) {
    std::vector<LaneProgram> programs(shape.num_lanes());
    for (const auto& [lane, slices] : shape.steps().front().lanes) {
        for (const Slice& slice : slices) {
            TaskKey key = slice.key;
            key.step = 0;
            programs[lane.index()].push_back(key);
        }
    }
    return programs;
}

/// Share of the tasks that have the same place on their lane in both orders.
double agreement(const std::vector<LaneProgram>& programs, const TaskGraph& graph) {
    std::size_t equal = 0;
    std::size_t tasks = 0;
    for (std::size_t lane = 0; lane < programs.size(); ++lane) {
        LaneProgram order;
        for (const TaskIndex task : graph.lane_order(LaneId(lane))) {
            if (is_compute(graph.tasks()[task].key.kind)) {
                order.push_back(graph.tasks()[task].key);
            }
        }
        tasks += std::max(order.size(), programs[lane].size());
        for (std::size_t k = 0; k < std::min(order.size(), programs[lane].size()); ++k) {
            equal += order[k] == programs[lane][k] ? 1 : 0;
        }
    }
    return tasks == 0 ? 0 : static_cast<double>(equal) / static_cast<double>(tasks);
}

struct LikelySchedule {
    Schedule schedule;
    BackwardOrder backward_order = BackwardOrder::last_first;
    double agreement = -1;
};

/// The synchronous schedule whose lanes run the tasks in the recorded order, or the most similar one.
LikelySchedule schedule_of(const RunShape& shape, Checkpoint checkpoint) {
    const std::vector<LaneProgram> programs = programs_of(shape);
    LikelySchedule best;
    for (const Schedule& schedule : all_schedules()) {
        for (const BackwardOrder order : {BackwardOrder::last_first, BackwardOrder::first_first}) {
            if (!is_synchronous(schedule) || (order == BackwardOrder::first_first && !takes_backward_order(schedule))) {
                continue;
            }
            PipelineShape wanted;
            wanted.num_partitions = shape.partitions();
            wanted.num_micro_batches = shape.micro_batches();
            wanted.checkpoint = checkpoint;
            wanted.placement = shape.placement();
            wanted.backward_order = order;
            try {
                const double alike = agreement(programs, make_schedule(schedule, wanted));
                if (alike > best.agreement) {
                    best = {schedule, order, alike};
                }
            } catch (const Error&) {
                continue;  // the schedule cannot run a pipeline of this shape
            }
        }
    }
    return best;
}

/// The recorded order as a schedule; empty if it cannot run, for example because lanes would wait for each other.
std::optional<Schedule> recorded_order_of(const RunShape& shape, bool is_checkpoint_mode) {
    const std::map<TaskName, Slice>& tasks = shape.steps().front().tasks;
    ScheduleTable table;
    for (const LaneProgram& program : programs_of(shape)) {
        std::vector<ScheduleTable::Cell> row;
        for (const TaskKey& key : program) {
            if (key.kind != TaskKind::recompute || is_checkpoint_mode) {
                const bool is_split = key.kind == TaskKind::backward &&
                                      tasks.contains({TaskKind::backward_weight, key.partition, key.micro_batch});
                row.push_back({{key, is_split}});
            }
        }
        table.rows.push_back(std::move(row));
    }
    try {
        return Schedule::from_csv("recorded order", to_csv(table));
    } catch (const Error&) {
        return std::nullopt;
    }
}

// ---- Profiles ----

struct ProfileInProgress : TraceFacts {
    Profile profile;
};

PipelineOptions options_of(const RunShape& shape, std::int64_t samples, ProfileInProgress& made) {
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(shape.partitions()), 1));
    options.chunks = shape.micro_batches();
    options.batch = samples * shape.micro_batches();
    options.placement = shape.placement();
    const auto [checkpoint, is_mode] = shape.checkpoint();
    options.checkpoint = checkpoint;
    if (!is_mode) {
        made.notes.emplace_back(
            "only some micro-batches are recomputed, which is no checkpoint mode; all of them count as recomputed");
    }
    const LikelySchedule found = schedule_of(shape, checkpoint);
    options.schedule = found.schedule;
    options.backward_order = found.backward_order;
    made.known_schedule = found.agreement == 1;
    if (!made.known_schedule) {
        made.recorded_order = recorded_order_of(shape, is_mode);
        made.notes.push_back(fmt::format(
            "the order of the tasks is that of no schedule that is known here; {} is the most alike, with {:.0f} % of "
            "the tasks at their place, and is simulated {}",
            to_string(found.schedule), 100 * std::max(found.agreement, 0.0),
            made.recorded_order ? "where another pipeline is asked about; this run is simulated in its own order"
                                : "instead"));
    }
    return options;
}

double mean_bytes(const RunShape& shape, std::int32_t partition) {
    std::vector<double> bytes;
    for (const RunStep& step : shape.steps()) {
        for (const auto& [name, copy] : step.copies) {
            const bool leaves = std::get<0>(name) == TaskKind::copy_forward && std::get<1>(name) == partition;
            if (leaves && copy.bytes > 0) {
                bytes.push_back(static_cast<double>(copy.bytes));
            }
        }
    }
    return median_of(bytes);
}

double optimizer_ns(const Timeline& measured, const RunShape& shape) {
    std::map<std::int32_t, double> by_step;
    for (const Slice& slice : measured.slices) {
        if (slice.key.kind == TaskKind::optimizer) {
            by_step[slice.key.step] += static_cast<double>(slice.duration().count());
        }
    }
    std::vector<double> times;
    for (const RunStep& step : shape.steps()) {
        if (const auto found = by_step.find(step.number); found != by_step.end()) {
            times.push_back(found->second);
        }
    }
    return median_of(times);
}

/// Notes which times may contain waits, if the run shows other messages. Without any message, another note says so.
void note_waits(const MeasuredCosts& measured, ProfileInProgress& made) {
    if (measured.left_out > 0) {
        made.notes.push_back(
            fmt::format("{} no part of the costs, since no message is seen to bring the input: the time may contain "
                        "the wait for it",
                        counted(measured.left_out, "task is", "tasks are")));
    }
    std::vector<std::string> groups;
    for (const auto& [kind, partition] : measured.may_wait) {
        groups.push_back(fmt::format("{} of partition {}", to_string(kind), partition));
    }
    if (!groups.empty() && made.messages > 0) {
        made.notes.push_back(
            fmt::format("no message is seen to bring the input of these tasks: {}; if their ranges hold the wait for "
                        "it, their costs contain it",
                        fmt::join(groups, ", ")));
    }
}

/// One layer for each partition, with one micro-batch size.
void measure_partitions(const RunShape& shape, const Timeline& measured, const TaskLaunches& launches,
                        ProfileInProgress& made) {
    const bool has_phases = made.known_schedule && !needs_loss_inside(made.options.schedule);
    const double loss = has_phases ? loss_of_phases(shape) : 0;
    const bool ahead = hosts_launch_ahead(shape, launches);
    std::map<std::pair<TaskKind, std::int32_t>, LaunchTimes> launch_times;
    if (ahead) {
        launch_times = launch_times_of(shape, launches);
    }
    const MeasuredCosts measured_costs = costs_of(shape, launches, ahead, loss);
    const Costs& costs = measured_costs.costs;
    note_waits(measured_costs, made);
    Profile& profile = made.profile;
    const double m = shape.micro_batches();
    if (loss > 0) {
        profile.loss_ns = {loss / m};  // for one micro-batch's samples
        made.notes.push_back(
            fmt::format("the last partition takes {} from its last forward to its first backward, beyond what it takes "
                        "before other backwards; that time counts once a step, as that of the loss",
                        loss < 1e9 ? fmt::format("{:.4g} ms", loss / 1e6) : fmt::format("{:.1f} s", loss / 1e9)));
    }
    for (std::int32_t j = 0; j < shape.partitions(); ++j) {
        LayerProfile layer;
        layer.name = fmt::format("partition {}", j);
        layer.forward_ns = {std::round(mean_of(costs, TaskKind::forward, j))};
        const double halves = static_cast<double>(count_of(costs, TaskKind::backward_weight, j)) / m;  // of backwards
        const double weights = std::round(mean_of(costs, TaskKind::backward_weight, j) * halves);
        layer.backward_ns = {std::round(mean_of(costs, TaskKind::backward, j)) + weights};
        // Half of a backward, which the program does not split, as in a profile of layers.
        layer.backward_weight_ns = {weights > 0 ? weights : layer.backward_ns.front() / 2};
        if (count_of(costs, TaskKind::recompute, j) > 0) {
            layer.recompute_ns = {mean_of(costs, TaskKind::recompute, j)};
        }
        layer.output_bytes = {mean_bytes(shape, j)};
        for (const TaskKind kind :
             {TaskKind::forward, TaskKind::recompute, TaskKind::backward, TaskKind::backward_weight}) {
            if (const auto found = launch_times.find({kind, j}); found != launch_times.end()) {
                layer.launches.emplace(std::string(to_string(kind)), found->second);
            }
        }
        profile.layers.push_back(std::move(layer));
    }
    profile.optimizer_ns = optimizer_ns(measured, shape);
    profile.memory_unknown = true;
    const std::string device = measured.lanes.empty() ? "" : measured.lanes.front().device;
    profile.device = device.empty() ? kHost : device;
}

std::vector<std::int32_t> numbers_of(const RunShape& shape) {
    std::vector<std::int32_t> numbers;
    std::ranges::transform(shape.steps(), std::back_inserter(numbers), &RunStep::number);
    return numbers;
}

ProfileInProgress measure_other_program(const RecordedRun& run, const Timeline& measured, const RunShape& shape,
                                        std::optional<std::int64_t> samples) {
    ProfileInProgress made;
    made.micro_batch_samples = samples ? samples : run.samples_in(numbers_of(shape));
    const std::optional<std::int64_t> known = made.micro_batch_samples;
    made.profile.model = run.model;
    made.profile.samples = {known.value_or(1)};
    made.unequal = std::ranges::any_of(numbers_of(shape), [&](std::int32_t number) {
        const auto other = run.other_samples.find(number);
        return other != run.other_samples.end() && other->second == 0;
    });
    if (made.unequal) {
        made.notes.emplace_back(
            "micro-batches of one step have different numbers of samples, as their messages show; each simulated one "
            "takes the mean of their times, so the simulated step and its bubbles may be wrong; record micro-batches "
            "of one size");
    }
    if (!known && made.unequal) {
        made.notes.emplace_back(
            "how many samples a mini-batch has counts as unknown, so rates in samples are not shown, and more "
            "micro-batches of the same batch cannot be tried");
    } else if (!known) {
        made.notes.emplace_back(
            "the trace does not say how many samples a micro-batch has; it counts as one, so more micro-batches of the "
            "same batch cannot be tried; 'pipescope profile --from-trace' takes --micro-batch-size");
    }
    made.options = options_of(shape, known.value_or(1), made);
    const std::vector<Message> timed = timed_messages(shape);
    const MessageTimes messages = times_by_size(timed);
    made.messages = set_link(messages, made.options.hardware.link);
    if (messages_take_turns(shape, run.launches)) {
        made.options.hardware.link.protocol = LinkProtocol::in_turn;
        made.notes.emplace_back(
            "messages wait for the messages before them on their lane, as on one stream of NCCL, so the simulation "
            "lets each lane handle one after the other (--link-protocol in-turn)");
    }
    if (std::string note = set_links_of_pairs(timed, made.options.hardware); !note.empty()) {
        made.notes.push_back(std::move(note));
    }
    measure_partitions(shape, measured, run.launches, made);
    if (made.messages == 0 && shape.num_lanes() > 1) {
        const double hand_off = hand_off_ns(shape);
        made.options.hardware.link.latency_ns = std::round(std::max(0.0, hand_off));
        made.notes.push_back(fmt::format(
            "the trace shows no messages between partitions; the link's latency of {} is the time from the end "
            "of a task to the start of the one that waits for it, and its bandwidth is unlimited",
            made.options.hardware.link.latency_ns < 1e3
                ? fmt::format("{:.0f} ns", made.options.hardware.link.latency_ns)
                : fmt::format("{:.1f} us", made.options.hardware.link.latency_ns / 1e3)));
        if (hand_off < 0) {
            made.notes.emplace_back(
                "tasks start before the tasks that they wait for have ended, and no message shows when their input "
                "came: their ranges hold the wait, so costs and the simulated step are too long; record the messages, "
                "or name ranges that start when the input is there");
        }
    } else if (made.messages > 0 && messages.rbegin()->first == 0) {
        made.notes.emplace_back(
            "the trace does not say how large messages are; the link has a latency and no bandwidth; record with "
            "record_shapes=True");
    } else if (made.messages > 0 && messages.size() == 1) {
        made.notes.push_back(fmt::format(
            "the messages that lanes waited for are all of {}, so latency and bandwidth cannot be told apart: the "
            "whole time is taken as {}",
            format_bytes(messages.begin()->first),
            made.options.hardware.link.latency_ns > 0 ? "latency" : "bandwidth"));
    }
    made.notes.emplace_back(
        "the trace does not say what layers hold, so memory is unknown; each partition is one layer");
    return made;
}

ProfileInProgress measure_own(const RecordedRun& run, const Timeline& measured, const RunShape& shape) {
    const std::size_t partitions = run.options->balance.num_partitions();
    if (shape.partitions() != static_cast<std::int32_t>(partitions)) {
        throw Error(fmt::format("holds tasks of {}, but its configuration has {}; the file is damaged; record it again",
                                counted(shape.partitions(), "partition", "partitions"), partitions));
    }
    const std::vector<std::int32_t> steps = numbers_of(shape);
    ProfileInProgress made;
    made.options = *run.options;
    made.profile =
        calibrated_profile(*run.profile, std::array{CalibrationRun{*run.options, measured, steps, run.load}});
    if (made.options.hardware.processes > 1) {
        Link link;
        if (const std::size_t messages = set_link(times_by_size(timed_messages(shape)), link); messages > 0) {
            link.sharing = made.options.hardware.link.sharing;
            made.options.hardware.link = link;
            made.messages = messages;
        }
    }
    return made;
}
}  // namespace

TraceProfile profile_of_trace(const RecordedRun& run, const Timeline& measured, const MeasuredSteps& steps,
                              std::optional<std::int64_t> samples) {
    if (measured.slices.empty()) {
        throw Error("holds no measured task; a profile is measured from tasks; record a run, or write task rules");
    }
    if (const std::string why = why_no_costs(run); !why.empty()) {
        throw Error(why);
    }
    if (run.only_launches) {
        throw Error(
            "holds ranges that only launch work on a device, and not the kernels of whole steps, so the tasks' costs "
            "are not known; record whole steps with the CUDA calls and kernels");
    }
    if (!steps.why_none.empty()) {
        throw Error(steps.why_none);
    }
    const RunShape shape(measured, steps);
    ProfileInProgress made = run.of_another_program ? measure_other_program(run, measured, shape, samples)
                                                    : measure_own(run, measured, shape);
    made.profile.from_trace = true;
    made.profile.command_options.clear();
    made.steps = numbers_of(shape);
    return {std::move(made), std::move(made.profile)};
}

void take_measured_profile(RecordedRun& run, const Timeline& measured, const MeasuredSteps& steps) {
    if (!run.of_another_program || run.profile || measured.slices.empty()) {
        return;
    }
    try {
        TraceProfile made = profile_of_trace(run, measured, steps);
        run.micro_batch_samples = made.micro_batch_samples;
        run.profile = made.profile;
        run.options = std::move(made.options);
        run.recorded_order = std::move(made.recorded_order);
        run.why_not_simulated.clear();
        const auto remark = [&](std::string text) {
            // In another order than the recorded one, or with other sizes, the simulation may be far off.
            const bool as_recorded = (made.known_schedule || made.recorded_order) && !made.unequal;
            run.warnings.push_back({as_recorded ? Severity::remark : Severity::caution, std::move(text), true});
        };
        remark(
            fmt::format("the profile is measured from this trace, from {}: the simulation shows what follows from "
                        "its own tasks and messages",
                        counted(made.steps.size(), "step", "steps")));
        for (std::string& note : made.notes) {
            remark(std::move(note));
        }
        if (!run.graph && (made.known_schedule || run.recorded_order)) {
            run.graph = pipeline_graph_of(*run.profile, options_as_recorded(run));
        }
    } catch (const Error& error) {
        run.why_not_simulated = error.what();
    }
}
}  // namespace pipescope
