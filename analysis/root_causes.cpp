#include "analysis/root_causes.h"

#include "analysis/replay.h"
#include "base/sample_statistics.h"
#include "simulator/clock/task_clock.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using KindAndPartition = std::pair<TaskKind, std::int32_t>;  // kind and partition
constexpr double kSlower = 1.05;
constexpr std::int64_t kNotRecorded = std::numeric_limits<std::int64_t>::min();
constexpr double kLeastShare = 0.03;

KindAndPartition kind_and_partition(const TaskKey& key) {
    return {key.kind, key.partition};
}

/// Durations of the tasks of one step, in graph order and ns.
struct StepWork {
    std::vector<std::int64_t> spans;
    std::vector<std::int64_t> busy;         ///< without a device's gaps between kernels, and without earlier tasks'
    std::vector<std::int64_t> inner_gaps;   ///< between kernels, while the host had not launched the next one
    std::vector<std::int64_t> launch_gaps;  ///< from when the task was ready until the host had launched it
    std::vector<std::int64_t> waits;        ///< launch_gaps, and then a collective on the lane before the task starts
    std::vector<std::int64_t> queues;       ///< waits, and what messages of a device wait for other messages
    std::array<std::int64_t, kNumRootCauses> before{};     ///< the collectives in `waits`, by root cause
    std::array<std::int64_t, kNumRootCauses> after_all{};  ///< collectives after the last task of each lane
    std::int64_t measured = 0;                             ///< the step
};

/// Typical tasks of all steps, by kind and partition.
struct TypicalTasks {
    std::map<KindAndPartition, std::int64_t> times;
    std::map<KindAndPartition, std::int64_t> kernels;
    std::map<KindAndPartition, LaneId> lanes;
};

class ReplayedSteps {
public:
    ReplayedSteps(const Measured& measured, const TaskGraph& graph, const TaskLaunches& launches)
        : graph_(graph), clock_(graph), launches_(launches) {
        for (auto& [step, tasks] : tasks_of(measured)) {
            if (add_unrecorded(tasks)) {
                add(tasks, step);
            }
        }
        find_typical();
    }

    std::span<const StepWork> steps() const { return steps_; }
    const TypicalTasks& typical() const { return typical_; }

    /// Idle time of all lanes in ns, if the step ran so. `busy`: the part of the durations in which lanes work.
    std::int64_t idle(std::span<const std::int64_t> durations, std::span<const std::int64_t> gaps,
                      std::span<const std::int64_t> busy) const {
        return idle(makespan_of(graph_, clock_, durations, gaps), busy);
    }
    std::int64_t idle(std::int64_t step, std::span<const std::int64_t> busy) const {
        std::int64_t idle = step * graph_.num_lanes();
        for (std::size_t task = 0; task < busy.size(); ++task) {
            idle -= is_compute(graph_.tasks()[task].key.kind) ? busy[task] : 0;
        }
        return idle;
    }

    /// The step with other durations of its compute tasks, and with or without its messages.
    std::vector<std::int64_t> with(const StepWork& step, const std::map<KindAndPartition, std::int64_t>& times,
                                   bool messages) const {
        std::vector<std::int64_t> durations = step.spans;
        for (std::size_t task = 0; task < durations.size(); ++task) {
            const TaskKey& key = graph_.tasks()[task].key;
            if (is_compute(key.kind)) {
                durations[task] = times.at(kind_and_partition(key));
            } else if (is_copy(key.kind) && !messages) {
                durations[task] = 0;
            }
        }
        return durations;
    }

private:
    std::map<std::int32_t, MeasuredTasks> tasks_of(const Measured& measured) const {
        std::map<std::int32_t, MeasuredTasks> steps;
        const std::vector<std::int64_t> none(graph_.tasks().size(), kNotRecorded);
        for (const std::int32_t step : measured.steps) {
            steps[step] = {none, none};
        }
        for (const Slice& slice : measured.timeline.slices) {
            const auto step = steps.find(slice.key.step);
            const auto task = step == steps.end() ? std::nullopt : graph_.find(slice.key);
            if (task) {
                step->second.starts[*task] = slice.start.count();
                step->second.ends[*task] = slice.end.count();
            }
        }
        return steps;
    }

    /// Another program may name no losses and no messages: they then take no time. False if a computing task lacks.
    bool add_unrecorded(MeasuredTasks& tasks) const {
        for (std::size_t task = 0; task < tasks.ends.size(); ++task) {
            if (tasks.starts[task] != kNotRecorded) {
                continue;
            }
            if (is_compute(graph_.tasks()[task].key.kind)) {
                return false;
            }
            for (const std::uint32_t needed : clock_.needed(task)) {
                tasks.ends[task] = std::max(tasks.ends[task], tasks.ends[needed]);
            }
            tasks.starts[task] = tasks.ends[task];
        }
        return std::ranges::none_of(tasks.starts, [](std::int64_t start) { return start == kNotRecorded; });
    }

    /// The time in ns in which each task ran and no earlier task of its lane did: time that counts as busy once.
    std::vector<std::int64_t> alone_of(const MeasuredTasks& tasks) const {
        std::map<LaneId, std::vector<std::size_t>> lanes;
        std::vector<std::int64_t> alone(tasks.ends.size());
        for (std::size_t task = 0; task < alone.size(); ++task) {
            alone[task] = tasks.ends[task] - tasks.starts[task];
            if (is_compute(graph_.tasks()[task].key.kind)) {
                lanes[graph_.tasks()[task].lane].push_back(task);
            }
        }
        for (auto& [lane, order] : lanes) {
            std::ranges::stable_sort(order, {}, [&](std::size_t task) { return tasks.starts[task]; });
            std::int64_t until = kNotRecorded;
            for (const std::size_t task : order) {
                alone[task] = std::max<std::int64_t>(0, tasks.ends[task] - std::max(until, tasks.starts[task]));
                until = std::max(until, tasks.ends[task]);
            }
        }
        return alone;
    }

    void add(const MeasuredTasks& tasks, std::int32_t number) {
        const std::size_t count = tasks.ends.size();
        StepWork step;
        std::vector<std::int64_t> ready(count);
        clock_.ready(tasks.ends, *std::ranges::min_element(tasks.starts), ready);
        const std::vector<std::int64_t> alone = alone_of(tasks);
        for (std::size_t task = 0; task < count; ++task) {
            TaskKey key = graph_.tasks()[task].key;
            key.step = number;
            const TaskOnDevice* device = launches_.find(key);
            // Copies of one channel that overlap were recorded with their wait for the copy ahead.
            const std::int64_t start =
                is_copy(key.kind) ? std::clamp(ready[task], tasks.starts[task], tasks.ends[task]) : tasks.starts[task];
            const std::int64_t span = tasks.ends[task] - start;
            const std::int64_t gap = std::max<std::int64_t>(0, tasks.starts[task] - ready[task]);
            std::int64_t late = launches_.could_start(key).value_or(ready[task]) - ready[task];
            late -=
                launches_.time_in(graph_.tasks()[task].lane, LaneWorkKind::collective, ready[task], ready[task] + late);
            step.spans.push_back(span);
            const bool has_gaps = device != nullptr && is_compute(key.kind);
            step.busy.push_back(std::min(alone[task], has_gaps ? std::min(span, device->busy.count()) : span));
            step.inner_gaps.push_back(
                has_gaps ? std::clamp<std::int64_t>(device->launch_gap.count(), 0, span - step.busy.back()) : 0);
            step.launch_gaps.push_back(std::clamp<std::int64_t>(late, 0, gap));
            const std::int64_t most = gap - step.launch_gaps.back();
            step.waits.push_back(step.launch_gaps.back() +
                                 std::min(most, add_collectives(graph_.tasks()[task].lane, ready[task],
                                                                tasks.starts[task], step.before)));
            const bool moves_on_devices = is_copy(key.kind) && launches_.could_start(key);
            step.queues.push_back(moves_on_devices ? gap : step.waits.back());
            if (is_compute(key.kind)) {
                times_[kind_and_partition(key)][key.micro_batch].push_back(step.busy.back());
                kernels_[kind_and_partition(key)].push_back(device != nullptr ? device->kernels : 0);
                typical_.lanes[kind_and_partition(key)] = graph_.tasks()[task].lane;
            }
        }
        step.measured = makespan(graph_, tasks.starts, tasks.ends);
        add_collectives_after_all(tasks, step);
        steps_.push_back(std::move(step));
    }

    /// Adds the collectives that ran on the lane from one time to another, and returns their time.
    std::int64_t add_collectives(LaneId lane, std::int64_t from, std::int64_t to,
                                 std::array<std::int64_t, kNumRootCauses>& sums) const {
        if (!launches_.has_work() || from >= to) {
            return 0;
        }
        const auto time_of = [&](LaneWorkKind kind) { return launches_.time_in(lane, kind, from, to); };
        const std::int64_t wait = time_of(LaneWorkKind::collective_wait);
        const std::int64_t slow = time_of(LaneWorkKind::collective_slow);
        const std::int64_t all = time_of(LaneWorkKind::collective);
        sums[static_cast<std::size_t>(RootCause::late_rank)] += wait;
        sums[static_cast<std::size_t>(RootCause::network)] += slow;
        sums[static_cast<std::size_t>(RootCause::collective)] += std::max<std::int64_t>(0, all - wait - slow);
        return all;
    }

    void add_collectives_after_all(const MeasuredTasks& tasks, StepWork& step) const {
        if (!launches_.has_work()) {
            return;
        }
        std::map<LaneId, std::int64_t> lasts;  // when each lane's last task ended
        std::int64_t end = kNotRecorded;
        for (std::size_t task = 0; task < tasks.ends.size(); ++task) {
            const Task& each = graph_.tasks()[task];
            if (is_compute(each.key.kind)) {
                std::int64_t& last = lasts.try_emplace(each.lane, kNotRecorded).first->second;
                last = std::max(last, tasks.ends[task]);
                end = std::max(end, tasks.ends[task]);
            }
        }
        for (const auto& [lane, last] : lasts) {
            add_collectives(lane, last, end, step.after_all);
        }
    }

    /// A lane may be slow in some micro-batches only: takes the mean over them of the medians over the steps.
    void find_typical() {
        for (auto& [name, times] : times_) {
            std::int64_t sum = 0;
            for (auto& [micro_batch, of_steps] : times) {
                sum += median(of_steps);
            }
            typical_.times[name] = sum / static_cast<std::int64_t>(times.size());
            typical_.kernels[name] = median(kernels_.at(name));
        }
    }

    const TaskGraph& graph_;
    TaskClock clock_;
    const TaskLaunches& launches_;
    std::vector<StepWork> steps_;
    std::map<KindAndPartition, std::map<std::int32_t, std::vector<std::int64_t>>> times_;  // by micro-batch
    std::map<KindAndPartition, std::vector<std::int64_t>> kernels_;
    TypicalTasks typical_;
};

struct SlowLane {
    LaneId lane;
    double factor = 1;  ///< how much longer its tasks take
};

/// True if more kernels explain why the partition takes longer, or may explain it.
bool has_more_work(const TypicalTasks& tasks, const KindAndPartition& name,
                   std::span<const std::int64_t> kernels_of_others, std::int32_t last_partition) {
    std::vector<std::int64_t> others(kernels_of_others.begin(), kernels_of_others.end());
    const std::int64_t usual = median(others);
    const std::int64_t own = tasks.kernels.at(name);
    const bool is_known = own > 1 || usual > 1;  // a CUDA graph counts as one
    return is_known ? own != usual : name.second == 0 || name.second == last_partition;
}

std::optional<SlowLane> slow_lane(const TypicalTasks& tasks) {
    std::map<LaneId, double> factors;  // the least of each lane's tasks
    std::map<LaneId, bool> explained;  // by more work in all of its partitions
    std::int32_t last = 0;
    for (const auto& [name, lane] : tasks.lanes) {
        last = std::max(last, name.second);
    }
    for (const auto& [name, time] : tasks.times) {
        const LaneId lane = tasks.lanes.at(name);
        std::vector<std::int64_t> others;
        std::vector<std::int64_t> kernels;
        for (const auto& [other, other_time] : tasks.times) {
            if (other.first == name.first && tasks.lanes.at(other) != lane) {
                others.push_back(other_time);
                kernels.push_back(tasks.kernels.at(other));
            }
        }
        if (others.empty() || median(others) <= 0) {
            continue;
        }
        const double factor = static_cast<double>(time) / static_cast<double>(median(others));
        const auto [least, fresh] = factors.try_emplace(lane, factor);
        least->second = std::min(least->second, factor);
        const bool more = has_more_work(tasks, name, kernels, last);
        bool& all = explained.try_emplace(lane, true).first->second;
        all = all && more;
    }
    std::optional<SlowLane> slowest;
    for (const auto& [lane, factor] : factors) {
        if (factor >= kSlower && !explained.at(lane) && factor > (slowest ? slowest->factor : 0)) {
            slowest = SlowLane{lane, factor};
        }
    }
    return slowest;
}

/// The mean over the partitions for all tasks of a kind.
std::map<KindAndPartition, std::int64_t> balanced(const std::map<KindAndPartition, std::int64_t>& times) {
    std::map<TaskKind, std::pair<std::int64_t, std::int64_t>> sums;
    for (const auto& [name, time] : times) {
        sums[name.first].first += time;
        ++sums[name.first].second;
    }
    std::map<KindAndPartition, std::int64_t> means;
    for (const auto& [name, time] : times) {
        means[name] = sums.at(name.first).first / sums.at(name.first).second;
    }
    return means;
}

RootCause main_of(const RootCauses& causes) {
    RootCause main = RootCause::ramp;
    for (int number = 1; number < kNumRootCauses; ++number) {
        const auto cause = static_cast<RootCause>(number);
        const double least = main == RootCause::ramp ? kLeastShare : causes.of(main).share;
        main = causes.of(cause).share > least ? cause : main;
    }
    return main;
}
}  // namespace

std::string_view to_string(RootCause cause) {
    switch (cause) {
        case RootCause::ramp: return "ramp";
        case RootCause::imbalance: return "imbalance";
        case RootCause::slow_lane: return "slow_lane";
        case RootCause::network: return "network";
        case RootCause::launch: return "launch";
        case RootCause::other: return "other";
        case RootCause::late_rank: return "late_rank";
        case RootCause::collective: return "collective";
    }
    return "unknown";
}

std::string_view describe(RootCause cause) {
    switch (cause) {
        case RootCause::ramp: return "the schedule fills and drains";
        case RootCause::imbalance: return "partitions are unequal";
        case RootCause::slow_lane: return "one lane is slower";
        case RootCause::network: return "messages take time";
        case RootCause::launch: return "the host launches too late";
        case RootCause::other: return "varying times and other causes";
        case RootCause::late_rank: return "a rank comes late to collectives";
        case RootCause::collective: return "collectives take time";
    }
    return "unknown";
}

std::optional<RootCauses> root_causes(const Measured& measured, const TaskGraph& graph, const TaskLaunches& launches) {
    if (measured.update == Update::staggered) {
        return std::nullopt;
    }
    const ReplayedSteps run(measured, graph, launches);
    if (run.steps().empty() || run.steps().size() != measured.steps.size()) {
        return std::nullopt;
    }
    const std::map<KindAndPartition, std::int64_t>& typical = run.typical().times;
    std::map<KindAndPartition, std::int64_t> equal = typical;  // without the slow lane's slowness
    const std::optional<SlowLane> slow = slow_lane(run.typical());
    for (auto& [name, time] : equal) {
        if (slow && run.typical().lanes.at(name) == slow->lane) {
            time = static_cast<std::int64_t>(static_cast<double>(time) / slow->factor);
        }
    }
    const std::map<KindAndPartition, std::int64_t> mean = balanced(equal);
    RootCauses causes;
    for (const StepWork& step : run.steps()) {
        const std::vector<std::int64_t> none(step.spans.size(), 0);
        const auto idle_of = [&](const std::map<KindAndPartition, std::int64_t>& times, bool messages) {
            const std::vector<std::int64_t> durations = run.with(step, times, messages);
            return run.idle(durations, none, durations);
        };
        const std::vector<std::int64_t> busy = run.with(step, typical, true);
        std::vector<std::int64_t> launched = busy;
        for (std::size_t task = 0; task < launched.size(); ++task) {
            launched[task] += step.inner_gaps[task];
        }
        const std::array<std::int64_t, 5> idle{idle_of(mean, false), idle_of(equal, false), idle_of(typical, false),
                                               idle_of(typical, true), run.idle(launched, step.launch_gaps, busy)};
        const std::int64_t with_collectives = run.idle(launched, step.waits, busy);
        const std::int64_t with_queues = run.idle(launched, step.queues, busy);
        const std::int64_t recorded = run.idle(step.measured, step.busy);
        const auto whole = static_cast<double>(step.measured * graph.num_lanes());
        const auto count = static_cast<double>(run.steps().size());
        const auto add = [&](RootCause cause, std::int64_t part) {
            RootCauses::Part& sum = causes.parts[static_cast<std::size_t>(cause)];
            sum.time += Nanoseconds{part};
            sum.share += whole > 0 ? static_cast<double>(part) / whole / count : 0;
        };
        for (std::size_t cause = 0; cause < idle.size(); ++cause) {
            const std::int64_t part = idle[cause] - (cause > 0 ? idle[cause - 1] : 0);
            add(static_cast<RootCause>(cause), part);
        }
        // All lanes idle while they wait for one lane's collective, so its parts share what it adds to the idle time.
        const std::int64_t before = std::reduce(step.before.begin(), step.before.end());
        const auto of_each =
            before > 0 ? static_cast<double>(with_collectives - idle.back()) / static_cast<double>(before) : 0;
        std::int64_t rest = recorded - idle.back();
        for (std::size_t cause = 0; cause < step.before.size(); ++cause) {
            const std::int64_t part =
                step.after_all[cause] + std::llround(of_each * static_cast<double>(step.before[cause]));
            add(static_cast<RootCause>(cause), part);
            rest -= part;
        }
        add(RootCause::network, with_queues - with_collectives);
        add(RootCause::other, rest - (with_queues - with_collectives));
    }
    for (RootCauses::Part& part : causes.parts) {
        part.time /= static_cast<std::int64_t>(run.steps().size());
    }
    causes.main = main_of(causes);
    causes.slow_lane = causes.main == RootCause::slow_lane ? std::optional(slow->lane) : std::nullopt;
    return causes;
}

std::shared_ptr<const TaskGraph> replayed_graph(const RecordedRun& run) {
    return run.graph == nullptr && run.profile && run.options
               ? pipeline_graph_of(*run.profile, options_as_recorded(run))
               : run.graph;
}

std::optional<RootCauses> root_causes(const Measured& measured, const RecordedRun& run) {
    const std::shared_ptr<const TaskGraph> graph = replayed_graph(run);
    return graph == nullptr || measured.timeline.source == Source::simulated
               ? std::nullopt
               : root_causes(measured, *graph, run.launches);
}
}  // namespace pipescope
