#include "analysis/slow_step.h"

#include "base/sample_statistics.h"
#include "base/short_percent.h"
#include "trace/store/trace_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <utility>

namespace pipescope {
namespace {
constexpr std::size_t kMostTasksListed = 10;
constexpr double kAsUsual = 0.01;         // of the step: a smaller change needs no explanation
constexpr double kNotableOfTask = 0.2;    // a task differs notably if its duration changes by this share of it ..
constexpr double kNotableOfStep = 0.005;  // .. and by this share of the step
constexpr double kMostOfChange = 0.7;     // explains the change
constexpr double kNotableLoadChange = kNotableLoad;  // of the cores' time, against the usual step
constexpr Nanoseconds kClockTick{10'000'000};        // in which the system counts the cores' time
constexpr double kLeastPoint = 0.005;                // of the step: smaller parts are not named

double ratio(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

bool counts(const StepGraph& graph, const StepTask& task) {
    return graph.is_own(task) && task.key.kind != TaskKind::optimizer;
}

/// The task without its step, so that it is found in another step.
TaskKey in_any_step(TaskKey key) {
    key.step = 0;
    return key;
}

/// Differences of tasks that two steps, or two lanes, have in common.
class TaskDifferences {
public:
    /// `whole`: the times that the tasks explain. `usual_step`: the time of which a notable difference takes a share.
    TaskDifferences(const StepPair& whole, std::int64_t usual_step)
        : is_longer_(whole.more() > 0), usual_step_(usual_step) {}

    void add(const TaskInStep& task) {
        const StepPair& time = task.time;
        const double of_step = ratio(std::abs(time.more()), usual_step_);
        const bool same_way = (time.more() > 0) == is_longer_;
        if (same_way && of_step >= kNotableOfStep && ratio(std::abs(time.more()), time.usual) >= kNotableOfTask &&
            (!first_ || task.start < first_->start)) {
            first_ = task;
        }
        if (time.more() != 0) {
            largest_.push_back(task);
        }
        if (is_compute(task.task.kind) && time.usual > 0) {
            factors_.push_back(ratio(time.step, time.usual));
        }
    }

    const std::optional<TaskInStep>& first() const { return first_; }
    /// How many times as long a task took, median.
    double factor() const { return factors_.empty() ? 1 : median(factors_); }
    std::vector<TaskInStep> largest() && {
        std::ranges::stable_sort(largest_, [](const TaskInStep& a, const TaskInStep& b) {
            return std::abs(a.time.more()) > std::abs(b.time.more());
        });
        largest_.resize(std::min(largest_.size(), kMostTasksListed));
        return std::move(largest_);
    }

private:
    bool is_longer_;
    std::int64_t usual_step_;
    std::optional<TaskInStep> first_;
    std::vector<TaskInStep> largest_;
    std::vector<double> factors_;
};

class Comparer {
public:
    Comparer(const StepGraph& step, const StepGraph& usual) : step_(step), usual_(usual) {}

    SlowStep compared(std::int32_t number, std::int32_t usual_number) {
        result_.step = number;
        result_.usual_step = usual_number;
        result_.time = {step_.range().length(), usual_.range().length()};
        join();
        add_kinds();
        add_lanes();
        return std::move(result_);
    }

private:
    void join() {
        for (const StepTask& task : usual_.tasks()) {
            if (counts(usual_, task)) {
                durations_.try_emplace(in_any_step(task.key), task.duration());
            }
        }
        TaskDifferences differences(result_.time, result_.time.usual);
        for (const StepTask& task : step_.tasks()) {
            const auto usual = counts(step_, task) ? durations_.find(in_any_step(task.key)) : durations_.end();
            if (usual == durations_.end()) {
                continue;
            }
            const StepPair time{task.duration(), usual->second};
            differences.add({task.key, task.lane, task.start - step_.range().start, time});
            if (is_compute(task.key.kind) && time.usual > 0) {
                factors_of_lane_[task.lane].push_back(ratio(time.step, time.usual));
            }
        }
        result_.first = differences.first();
        result_.factor = differences.factor();
        result_.largest = std::move(differences).largest();
    }

    /// Sums a step's tasks by kind, in all and on its critical path.
    void add_side(const StepGraph& graph, std::int64_t StepPair::*side, std::map<TaskKind, KindInStep>& kinds) {
        for (const StepTask& task : graph.tasks()) {
            if (counts(graph, task)) {
                KindInStep& kind = kinds[task.key.kind];
                kind.time.*side += task.duration();
                kind.tasks += side == &StepPair::step ? 1 : 0;
            }
        }
        const CriticalPath path = critical_path(graph);
        const std::int64_t start = graph.has_updates() ? graph.range().start : std::numeric_limits<std::int64_t>::min();
        for (const StepTaskIndex index : path.tasks) {
            const StepTask& task = graph.task(index);
            kinds[task.key.kind].path.*side += task.end - std::max(task.start, start);
        }
        result_.waits.*side = path.waits;
    }

    void add_kinds() {
        std::map<TaskKind, KindInStep> kinds;
        add_side(step_, &StepPair::step, kinds);
        add_side(usual_, &StepPair::usual, kinds);
        for (auto& [kind, sums] : kinds) {
            sums.kind = kind;
            result_.kinds.push_back(sums);
        }
        std::ranges::stable_sort(result_.kinds, [](const KindInStep& a, const KindInStep& b) {
            return std::pair(std::abs(a.path.more()), std::abs(a.time.more())) >
                   std::pair(std::abs(b.path.more()), std::abs(b.time.more()));
        });
    }

    void add_lanes() {
        result_.lanes.resize(std::max(step_.num_lanes(), usual_.num_lanes()));
        for (const auto& [graph, side] : {std::pair(&step_, &StepPair::step), std::pair(&usual_, &StepPair::usual)}) {
            for (const StepTask& task : graph->tasks()) {
                if (is_compute(task.key.kind) && graph->is_own(task)) {
                    result_.lanes.at(task.lane.index()).busy.*side += task.duration();
                }
            }
        }
        for (std::size_t number = 0; number < result_.lanes.size(); ++number) {
            LaneInStep& lane = result_.lanes[number];
            lane.lane = LaneId{number};
            lane.idle.step = step_.range().length() - lane.busy.step;
            lane.idle.usual = usual_.range().length() - lane.busy.usual;
            const auto factors = factors_of_lane_.find(lane.lane);
            lane.factor = factors == factors_of_lane_.end() ? 1 : median(factors->second);
        }
    }

    const StepGraph& step_;
    const StepGraph& usual_;
    SlowStep result_;
    std::map<TaskKey, std::int64_t> durations_;  // of the usual step, without the number of the step
    std::map<LaneId, std::vector<double>> factors_of_lane_;
};

void add_causes(const StepGraph& graph, const TaskLaunches& launches, std::int64_t StepPair::*side, SlowStep& result) {
    const BubbleSums sums = sum_bubbles(graph, bubbles_of(graph, Sends::overlapped, launches));
    for (std::size_t cause = 0; cause < sums.ns.size(); ++cause) {
        result.causes[cause].*side = sums.ns[cause];
    }
}

std::string task_name(const TaskKey& key) {
    std::string name = std::string(to_string(key.kind));
    std::ranges::replace(name, '_', ' ');
    if (key.micro_batch >= 0) {
        name += fmt::format(" of micro-batch {}", key.micro_batch);
    }
    return key.partition >= 0 ? name + fmt::format(" on partition {}", key.partition) : name;
}

std::string plural_of(TaskKind kind) {
    std::string name(to_string(kind));
    std::ranges::replace(name, '_', ' ');
    return name + (kind == TaskKind::loss ? "es" : is_copy(kind) ? " tasks" : "s");
}

/// "2.1 times as long"
std::string times_text(double factor) {
    return fmt::format("{:.2g} times as long", factor);
}

/// " The first task that differed: forward of micro-batch 2 on partition 1, 2 times as long."
std::string first_text(const TaskInStep& first) {
    return fmt::format(" The first task that differed: {}, {}.", task_name(first.task),
                       times_text(ratio(first.time.step, first.time.usual)));
}

/// The three largest parts that go the same way: "120.1 points backwards, 8 points forwards".
std::string points_of(std::vector<std::pair<double, std::string>> parts, bool longer) {
    std::erase_if(parts, [longer](const std::pair<double, std::string>& part) {
        return (longer ? part.first : -part.first) < kLeastPoint;
    });
    std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });
    std::string text;
    for (std::size_t k = 0; k < std::min<std::size_t>(parts.size(), 3); ++k) {
        text += (k > 0 ? ", " : "") + short_points(std::abs(parts[k].first)) + " " + parts[k].second;
    }
    return text;
}

/// "120.1 points of that are backwards, 8 points waits between tasks, both on the critical path."
std::string path_text(const SlowStep& step) {
    std::vector<std::pair<double, std::string>> parts;
    for (const KindInStep& kind : step.kinds) {
        parts.emplace_back(ratio(kind.path.more(), step.time.usual), plural_of(kind.kind));
    }
    parts.emplace_back(ratio(step.waits.more(), step.time.usual), "waits between tasks");
    const std::string text = points_of(std::move(parts), step.time.more() > 0);
    return text.empty() ? text : " On the critical path, it is " + text + ".";
}

/// Whether all tasks, or those of one lane, explain the change.
std::string place_text(const SlowStep& step) {
    const double change = step.change();
    const bool longer = change > 0;
    if (longer && step.factor - 1 >= kMostOfChange * change) {
        return fmt::format(" Its tasks took about {} on all lanes, so the machine was slower or busy.",
                           times_text(step.factor));
    }
    std::int64_t sum = 0;
    const LaneInStep* most = nullptr;
    for (const LaneInStep& lane : step.lanes) {
        const std::int64_t more = longer ? lane.busy.more() : -lane.busy.more();
        sum += std::max<std::int64_t>(0, more);
        most = more > 0 && (most == nullptr || more > std::abs(most->busy.more())) ? &lane : most;
    }
    if (most != nullptr && step.lanes.size() > 1 && ratio(std::abs(most->busy.more()), sum) >= kMostOfChange) {
        return fmt::format(" Mostly lane {} differs: its tasks took {} {}.", most->lane.value(),
                           short_percent(std::abs(ratio(most->busy.more(), most->busy.usual))),
                           longer ? "longer" : "less");
    }
    std::size_t cause = 0;
    for (std::size_t each = 1; each < step.causes.size(); ++each) {
        cause = std::abs(step.causes[each].more()) > std::abs(step.causes[cause].more()) ? each : cause;
    }
    const auto lanes = static_cast<std::int64_t>(std::max<std::size_t>(1, step.lanes.size()));
    const double idle = ratio(step.causes[cause].more(), step.time.usual * lanes);
    return (longer ? idle : -idle) >= kLeastPoint
               ? fmt::format(" Of the causes of bubbles, \"{}\" changed most ({} of all lanes' time).",
                             describe(static_cast<BubbleCause>(cause)), short_points(std::abs(idle)))
               : std::string();
}
/// The time of the cores that other programs, or the host of a virtual machine, took.
std::string load_text(const SlowStep& step) {
    if (!step.load) {
        return {};
    }
    const StepLoad& own = step.load->step;
    const StepLoad& usual = step.load->usual;
    const bool longer = step.change() > 0;
    std::string text;
    for (const auto& [who, share] : {std::pair("Other programs", &MachineLoad::others),
                                     std::pair("The host of this virtual machine", &MachineLoad::stolen)}) {
        const double more = own.shares.*share - usual.shares.*share;
        if ((longer ? more : -more) < kNotableLoadChange) {
            continue;
        }
        text += fmt::format(
            " {} took {} of the cores' time{}, and {} in the median step.", who, short_percent(own.shares.*share),
            own.over.count() > 2 * step.time.step
                ? fmt::format(" in {:.2g} s that include this step", static_cast<double>(own.over.count()) / 1e9)
                : std::string(" in this step"),
            short_percent(usual.shares.*share));
    }
    return text;
}
}  // namespace

double SlowStep::change() const {
    return ratio(time.more(), time.usual);
}

SlowStep compare_steps(const StepGraph& step, const StepGraph& usual, std::int32_t step_number,
                       std::int32_t usual_number, const TaskLaunches& launches, const TaskLaunches& usual_launches) {
    SlowStep result = Comparer(step, usual).compared(step_number, usual_number);
    add_causes(step, launches, &StepPair::step, result);
    add_causes(usual, usual_launches, &StepPair::usual, result);
    return result;
}

std::optional<LaneId> median_lane(const StepGraph& step) {
    std::map<LaneId, std::int64_t> busy;
    for (const StepTask& task : step.tasks()) {
        if (is_compute(task.key.kind) && step.is_own(task)) {
            busy[task.lane] += task.duration();
        }
    }
    std::vector<std::pair<std::int64_t, LaneId>> lanes;
    for (const auto& [lane, time] : busy) {
        lanes.emplace_back(time, lane);
    }
    return lanes.empty() ? std::nullopt : std::optional(median_element(lanes).second);
}

LaneDifference compare_lanes(const StepGraph& step, std::span<const Bubble> bubbles, std::int32_t number, LaneId lane,
                             LaneId usual) {
    LaneDifference result;
    result.step = number;
    result.lane = lane;
    result.usual_lane = usual;
    result.step_time = step.range().length();
    const auto add_times = [](LaneId of, StepPair& pair, LaneId own, std::int64_t time, LaneId other) {
        pair.step += of == own ? time : 0;
        pair.usual += of == other ? time : 0;
    };
    std::map<LaneId, std::vector<std::int32_t>> partitions;  // of both lanes, ascending
    std::map<TaskKind, KindInStep> kinds;
    for (const StepTask& task : step.tasks()) {
        if (!counts(step, task) || (task.lane != lane && task.lane != usual)) {
            continue;
        }
        KindInStep& kind = kinds[task.key.kind];
        kind.kind = task.key.kind;
        kind.tasks += task.lane == lane ? 1 : 0;
        add_times(task.lane, kind.time, lane, task.duration(), usual);
        if (is_compute(task.key.kind)) {
            add_times(task.lane, result.busy, lane, task.duration(), usual);
            partitions[task.lane].push_back(task.key.partition);
        }
    }
    for (auto& [of, numbers] : partitions) {
        std::ranges::sort(numbers);
        const auto repeated = std::ranges::unique(numbers);
        numbers.erase(repeated.begin(), repeated.end());
    }
    const auto on_any_lane = [&partitions](const StepTask& task) {
        TaskKey key = in_any_step(task.key);
        const std::vector<std::int32_t>& own = partitions.at(task.lane);
        key.partition = static_cast<std::int32_t>(std::ranges::lower_bound(own, key.partition) - own.begin());
        return key;
    };
    std::map<TaskKey, std::int64_t> durations;
    for (const StepTask& task : step.tasks()) {
        if (step.is_own(task) && is_compute(task.key.kind) && task.lane == usual) {
            durations.try_emplace(on_any_lane(task), task.duration());
        }
    }
    TaskDifferences differences(result.busy, result.step_time);
    for (const StepTask& task : step.tasks()) {
        if (!step.is_own(task) || !is_compute(task.key.kind) || task.lane != lane) {
            continue;
        }
        if (const auto other = durations.find(on_any_lane(task)); other != durations.end()) {
            differences.add({task.key, lane, task.start - step.range().start, {task.duration(), other->second}});
        }
    }
    result.first = differences.first();
    result.factor = differences.factor();
    result.largest = std::move(differences).largest();
    for (const auto& [kind, sums] : kinds) {
        result.kinds.push_back(sums);
    }
    std::ranges::stable_sort(result.kinds, [](const KindInStep& a, const KindInStep& b) {
        return std::abs(a.time.more()) > std::abs(b.time.more());
    });
    for (const Bubble& bubble : bubbles) {
        add_times(bubble.lane, result.causes[static_cast<std::size_t>(bubble.cause)], lane, bubble.length(), usual);
        add_times(bubble.lane, result.idle, lane, bubble.length(), usual);
    }
    return result;
}

std::optional<StepLoad> load_of_step(const RecordedRun& run, std::int32_t step) {
    const StepRecord* own = run.record_of(step);
    if (own == nullptr || own->wall_end <= own->wall_start) {
        return std::nullopt;
    }
    const StepRecord* best = nullptr;
    for (const StepRecord& each : run.steps) {
        // A short step has no load of its own. That of a later step may cover both.
        const bool holds = each.load && each.wall_end >= own->wall_end &&
                           each.wall_end - each.load->over <= own->wall_start + kClockTick;
        const bool is_own = each.load && &each == own;
        if ((holds || is_own) && (best == nullptr || each.wall_end < best->wall_end)) {
            best = &each;
        }
    }
    return best != nullptr ? best->load : std::nullopt;
}

void add_records(const RecordedRun& run, SlowStep& step) {
    const auto outside = [&run](std::int32_t number) -> std::optional<std::int64_t> {
        const StepRecord* record = run.record_of(number);
        const bool known = record != nullptr && record->wall_end > record->wall_start && record->end > record->start;
        return known ? std::optional(((record->wall_end - record->wall_start) - (record->end - record->start)).count())
                     : std::nullopt;
    };
    const std::optional<std::int64_t> own = outside(step.step);
    const std::optional<std::int64_t> usual = outside(step.usual_step);
    if (own && usual) {
        step.outside = StepPair{*own, *usual};
    }
    const std::optional<StepLoad> own_load = load_of_step(run, step.step);
    const std::optional<StepLoad> usual_load = load_of_step(run, step.usual_step);
    if (own_load && usual_load) {
        step.load = SlowStep::Loads{*own_load, *usual_load};
    }
}

SlowStep why_slow(const RunTasks& run, std::int32_t number) {
    if (!run.steps.why_none.empty()) {
        throw TraceFormatError("the run " + run.steps.why_none);
    }
    const std::map<std::int32_t, StepStatistics> all = statistics_by_step(run.timeline, update_of(run.run));
    const auto own = all.find(number);
    if (own == all.end()) {
        throw UsageError(fmt::format("step {} is not in the trace, whose steps are {} to {}; give one of these", number,
                                     all.begin()->first, all.rbegin()->first));
    }
    std::vector<std::pair<std::int64_t, std::int32_t>> lengths;
    for (const std::int32_t step : run.steps.numbers()) {
        lengths.emplace_back(all.at(step).step_time().count(), step);
    }
    const std::int32_t usual = median_element(lengths).second;
    const bool staggered = update_of(run.run) == Update::staggered;
    const auto graph_of = [&](std::int32_t step) {
        const StepStatistics& statistics = all.at(step);
        Timeline tasks{run.timeline.source, run.timeline.lanes, {}};
        for (const Slice& slice : run.timeline.slices) {
            if (slice.key.step == step || (staggered && std::abs(slice.key.step - step) == 1)) {
                tasks.slices.push_back(slice);
            }
        }
        return step_graph_of(tasks, {statistics.start.count(), statistics.end.count()}, run.run.graph,
                             staggered ? std::optional(step) : std::nullopt);
    };
    SlowStep result =
        compare_steps(graph_of(number), graph_of(usual), number, usual, run.run.launches, run.run.launches);
    add_records(run.run, result);
    return result;
}

std::string lane_difference_text(const LaneDifference& lane) {
    if (lane.lane == lane.usual_lane) {
        return fmt::format("Lane {} is the lane of median busy time, with which others are compared.",
                           lane.lane.value());
    }
    const double change = ratio(lane.busy.more(), lane.busy.usual);
    const bool as_usual = std::abs(change) < kAsUsual;
    if (as_usual) {
        return fmt::format("Lane {} works as long as lane {}, within 1 %.", lane.lane.value(), lane.usual_lane.value());
    }
    const bool longer = change > 0;
    std::string text =
        fmt::format("Lane {} works {} {} than lane {}.", lane.lane.value(), short_percent(std::abs(change)),
                    longer ? "longer" : "less", lane.usual_lane.value());
    std::vector<std::pair<double, std::string>> parts;
    for (const KindInStep& kind : lane.kinds) {
        if (is_compute(kind.kind)) {
            parts.emplace_back(ratio(kind.time.more(), lane.step_time), plural_of(kind.kind));
        }
    }
    if (const std::string list = points_of(std::move(parts), longer); !list.empty()) {
        text += " By kind of task, it is " + list + " of the step.";
    }
    std::size_t cause = 0;
    for (std::size_t each = 1; each < lane.causes.size(); ++each) {
        cause = std::abs(lane.causes[each].more()) > std::abs(lane.causes[cause].more()) ? each : cause;
    }
    if (const double idle = ratio(lane.causes[cause].more(), lane.step_time); std::abs(idle) >= kLeastPoint) {
        text += fmt::format(" Its bubbles \"{}\" differ most ({} of the step {}).",
                            describe(static_cast<BubbleCause>(cause)), short_points(std::abs(idle)),
                            idle > 0 ? "more" : "less");
    }
    return lane.first ? text + first_text(*lane.first) : text;
}

std::string slow_step_text(const SlowStep& step) {
    std::string text;
    if (step.step == step.usual_step) {
        return fmt::format("Step {} is the median step, with which others are compared.", step.step);
    }
    const double change = step.change();
    const bool as_usual = std::abs(change) < kAsUsual;
    text = as_usual
               ? fmt::format("Step {} takes as long as the median step {}, within 1 %.", step.step, step.usual_step)
               : fmt::format("Step {} takes {} {} than the median step {}.", step.step, short_percent(std::abs(change)),
                             change > 0 ? "longer" : "less", step.usual_step);
    if (!as_usual) {
        text += path_text(step) + place_text(step) + load_text(step);
        if (step.first) {
            text += first_text(*step.first);
        }
    }
    if (step.outside) {
        const double outside = ratio(step.outside->more(), step.time.usual);
        if (std::abs(outside) >= 0.05) {
            text += fmt::format(
                " Outside the pipeline, the training loop took {} {} of the step than usual, as for data "
                "or a save.",
                short_percent(std::abs(outside)), outside > 0 ? "more" : "less");
        }
    }
    return text;
}
}  // namespace pipescope
