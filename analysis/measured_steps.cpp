#include "analysis/measured_steps.h"

#include "base/quantities.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>

namespace pipescope {
namespace {
constexpr const char* kNoneWhole =
    "holds no whole step: of each the forwards or the backwards were not recorded, or take no time; record it again";

struct SeenTasks {
    bool forward = false;
    bool backward = false;
    Nanoseconds start = Nanoseconds::max();
    Nanoseconds end = Nanoseconds::min();

    void add(const Slice& slice) {
        forward = forward || slice.key.kind == TaskKind::forward;
        backward = backward || slice.key.kind == TaskKind::backward;
        if (is_compute(slice.key.kind)) {
            start = std::min(start, slice.start);
            end = std::max(end, slice.end);
        }
    }
    bool takes_time() const { return end > start; }
    bool is_step() const { return forward && backward && takes_time(); }
};

/// True if the training loop recorded times for the step that give it no length, which is impossible. A record without
/// times does not count.
bool is_without_length(const StepRecord& step) {
    const Nanoseconds none{0};
    const bool has_times = step.start != none || step.end != none;
    const bool has_wall_times = step.wall_start != none || step.wall_end != none;
    return (has_times && step.end == step.start) || (has_wall_times && step.wall_end == step.wall_start);
}

/// Leaves out steps of another size: a data set's last mini-batch may be smaller, and takes less time than the
/// simulated one.
void leave_out_other_sizes(const RecordedRun& run, MeasuredSteps& measured) {
    if (!run.options) {
        return;
    }
    std::erase_if(measured.steps, [&](const StepRecord& step) {
        const bool is_other = step.samples > 0 && step.samples != run.options->batch;
        if (is_other) {
            measured.of_other_size.push_back(step.step);
        }
        return is_other;
    });
}

void take_evenly(std::size_t most, std::vector<StepRecord>& steps) {
    const std::size_t all = steps.size();
    for (std::size_t i = 0; all > most && i < most; ++i) {
        steps[i] = steps[i * all / most];
    }
    steps.resize(std::min(most, all));
}
}  // namespace

std::vector<std::int32_t> MeasuredSteps::numbers() const {
    std::vector<std::int32_t> numbers;
    std::transform(steps.begin(), steps.end(), std::back_inserter(numbers),
                   [](const StepRecord& step) { return step.step; });
    return numbers;
}

std::vector<Nanoseconds> MeasuredSteps::wall_times() const {
    std::vector<Nanoseconds> times;
    for (const StepRecord& step : steps) {
        if (step.wall_end > step.wall_start) {
            times.push_back(step.wall_end - step.wall_start);
        }
    }
    return times;
}

std::vector<std::int32_t> steps_in_time(const Timeline& timeline) {
    std::map<std::int32_t, SeenTasks> seen;
    for (const Slice& slice : timeline.slices) {
        seen[slice.key.step].add(slice);
    }
    std::vector<std::pair<Nanoseconds, std::int32_t>> starts;
    for (const auto& [step, tasks] : seen) {
        if (tasks.takes_time()) {
            starts.emplace_back(tasks.start, step);
        }
    }
    std::sort(starts.begin(), starts.end());
    std::vector<std::int32_t> steps;
    std::transform(starts.begin(), starts.end(), std::back_inserter(steps),
                   [](const auto& each) { return each.second; });
    return steps;
}

void keep_one_size(const RecordedRun& run, const RunCheck& check, MeasuredSteps& measured) {
    const auto size_of = [&](const StepRecord& step) {
        const auto found = check.sizes.find(step.step);
        return found != check.sizes.end() ? found->second : StepSize{};  // a missing step has a fault
    };
    std::map<StepSize, std::size_t> steps_by_size;
    std::size_t whole = 0;
    for (const StepRecord& step : measured.steps) {
        if (const StepSize size = size_of(step); size.micro_batches > 0) {
            ++steps_by_size[size];
            ++whole;
        }
    }
    if (steps_by_size.size() < 2) {
        return;
    }
    const std::int64_t planned = run.graph && !run.of_another_program ? run.graph->shape().num_micro_batches : 0;
    const auto usual = std::ranges::max_element(steps_by_size, {}, [planned](const auto& size) {
        return std::tuple(size.first.micro_batches == planned, size.second, size.first);
    });
    measured.micro_batches = usual->first.micro_batches;
    measured.of_majority = 2 * usual->second > whole;
    std::erase_if(measured.steps, [&](const StepRecord& step) {
        const StepSize size = size_of(step);
        const bool is_other = size.micro_batches > 0 && size != usual->first;
        if (is_other) {
            (size.micro_batches != measured.micro_batches ? measured.of_other_count : measured.of_other_messages)
                .push_back(step.step);
        }
        return is_other;
    });
    measured.comparable = measured.steps.size();
}

MeasuredSteps steps_to_compare(const RecordedRun& run, const RunCheck& check, std::span<const std::int32_t> recorded,
                               std::size_t most) {
    MeasuredSteps measured;
    if (run.steps.empty()) {
        if (run.cut_off && recorded.size() > 1) {
            recorded = recorded.first(recorded.size() - 1);  // the recording may have ended within the last step
        } else {
            measured.cut_off = run.cut_off;
        }
        std::transform(recorded.begin(), recorded.end(), std::back_inserter(measured.steps), [](std::int32_t step) {
            StepRecord record;
            record.step = step;
            return record;
        });
    } else {
        std::copy_if(run.steps.begin(), run.steps.end(), std::back_inserter(measured.steps),
                     [](const StepRecord& step) { return !step.warmup; });
        leave_out_other_sizes(run, measured);
    }
    measured.comparable = measured.steps.size();
    if (measured.steps.empty() && !measured.of_other_size.empty()) {
        measured.why_none = fmt::format(
            "holds no step of {} after the warm-up, as its configuration says; steps of other sizes take other times; "
            "record mini-batches of one size",
            counted(run.options->batch, "sample", "samples"));
    } else if (measured.steps.empty()) {
        measured.why_none = run.steps.empty()
                                ? kNoneWhole
                                : "holds warm-up steps only; comparing needs at least one more; run with more --steps";
    }
    keep_one_size(run, check, measured);
    take_evenly(std::max<std::size_t>(1, most), measured.steps);
    return measured;
}

std::string_view describe(StepFault fault) {
    return fault == StepFault::missing ? "tasks of a lane are missing" : "tasks were recorded twice";
}

namespace {
constexpr std::size_t number_of(TaskKind kind) {
    return static_cast<std::size_t>(kind);
}
}  // namespace

void StepCheck::add(const TaskKey& key, LaneId lane) {
    const bool is_sound = key.partition >= 0 && key.partition < kMostPartitions && lane.value() >= 0;
    if (!is_compute(key.kind) || !is_sound) {
        return;
    }
    if (last_ == nullptr || last_step_ != key.step) {
        last_ = &steps_[key.step];
        last_step_ = key.step;
    }
    const auto partition = static_cast<std::size_t>(key.partition);
    last_->resize(std::max(last_->size(), partition + 1));
    ++(*last_)[partition][number_of(key.kind)];
    lanes_.resize(std::max(lanes_.size(), lane.index() + 1));
    lanes_[lane.index()] = true;
}

void StepCheck::add_message(const TaskKey& copy, Bytes bytes) {
    if (run_.of_another_program && is_copy(copy.kind) && bytes > 0) {
        Bytes& known = messages_[copy.step][{copy.kind, copy.partition, copy.micro_batch}];
        known = std::max(known, bytes);
    }
}

/// The micro-batches that some partition ran: the last mini-batch of a data set may have fewer.
std::int64_t StepCheck::micro_batches_of(const ByPartition& found) {
    std::int64_t most = 0;
    for (const Counts& counts : found) {
        most = std::max({most, counts[number_of(TaskKind::forward)], counts[number_of(TaskKind::backward)]});
    }
    return most;
}

struct StepCheck::Wanted {
    /// Zeros if the run's pipeline is not known.
    ByPartition of_pipeline;
    std::int64_t micro_batches = 0;                ///< of the pipeline
    std::map<std::int64_t, ByPartition> of_steps;  ///< the largest counts of any step with that many micro-batches
    ByPartition in_all;                            ///< sum over the steps
    bool splits = false;                           ///< backwards have second halves

    /// The fewest tasks of this kind that the partition needs for a whole step of `count` micro-batches, if it ever
    /// runs the kind.
    std::int64_t least(TaskKind kind, std::size_t partition, std::int64_t count) const {
        const std::int64_t planned = of_pipeline[partition][number_of(kind)];
        if (kind == TaskKind::forward || kind == TaskKind::backward) {
            return std::max<std::int64_t>(1, count);
        }
        if (micro_batches > 0) {
            // Even a whole step has micro-batches without a recompute or second half. The same number may lack it here.
            return planned > 0 ? count - (micro_batches - planned) : 0;
        }
        const auto found = of_steps.find(count);
        return found != of_steps.end() && partition < found->second.size() ? found->second[partition][number_of(kind)]
                                                                           : 0;
    }
    /// False if the partition never runs the kind or is not in the pipeline: then no task is missing. Exception: if any
    /// partition splits its backwards, all need their second halves.
    bool may_run(TaskKind kind, std::size_t partition) const {
        if (micro_batches > 0 && of_pipeline[partition] == Counts{}) {
            return false;
        }
        return in_all[partition][number_of(kind)] > 0 || (kind == TaskKind::backward_weight && splits);
    }
};

StepCheck::Wanted StepCheck::wanted() const {
    Wanted wanted;
    const auto combine = [](ByPartition& all, const ByPartition& one, const auto& operation) {
        all.resize(std::max(all.size(), one.size()));
        for (std::size_t partition = 0; partition < one.size(); ++partition) {
            std::ranges::transform(all[partition], one[partition], all[partition].begin(), operation);
        }
    };
    for (const auto& [step, found] : steps_) {
        combine(wanted.in_all, found, std::plus<>());
        if (!repeated_.contains(step)) {
            combine(wanted.of_steps[micro_batches_of(found)], found,
                    [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
        }
    }
    wanted.splits = std::ranges::any_of(
        wanted.in_all, [](const Counts& counts) { return counts[number_of(TaskKind::backward_weight)] > 0; });
    wanted.of_pipeline.resize(wanted.in_all.size());
    if (run_.graph && !run_.of_another_program) {  // then the order is a guess
        wanted.micro_batches = run_.graph->shape().num_micro_batches;
        for (const Task& task : run_.graph->tasks()) {
            const auto partition = static_cast<std::size_t>(task.key.partition);
            if (is_compute(task.key.kind) && partition < wanted.of_pipeline.size()) {
                ++wanted.of_pipeline[partition][number_of(task.key.kind)];
            }
        }
    }
    return wanted;
}

void StepCheck::find_faults(RunCheck& check) const {
    static_assert(number_of(TaskKind::forward) < kNumKinds && number_of(TaskKind::recompute) < kNumKinds &&
                  number_of(TaskKind::backward) < kNumKinds && number_of(TaskKind::backward_weight) < kNumKinds);
    if (run_.lost.any() || (run_.options && !is_synchronous(run_.options->schedule))) {
        return;
    }
    const Wanted wanted = this->wanted();
    const auto lack_of = [&](const ByPartition& found, std::int64_t count) {
        for (std::size_t partition = 0; partition < wanted.in_all.size(); ++partition) {
            for (const TaskKind kind :
                 {TaskKind::forward, TaskKind::recompute, TaskKind::backward, TaskKind::backward_weight}) {
                const std::int64_t ran = partition < found.size() ? found[partition][number_of(kind)] : 0;
                const std::int64_t least = wanted.least(kind, partition, count);
                if (ran < least && wanted.may_run(kind, partition)) {
                    return fmt::format("has {} of {} of the kind {} of partition {}", ran,
                                       counted(least, "task", "tasks"), to_string(kind), partition);
                }
            }
        }
        return std::string();
    };
    for (const auto& [step, found] : steps_) {
        const std::int64_t count = micro_batches_of(found);
        if (repeated_.contains(step)) {
            check.faults.emplace(step, StepFault::repeated);
        } else if (const std::string lack = lack_of(found, count); !lack.empty()) {
            check.faults.emplace(step, StepFault::missing);
            check.first_lack = check.first_lack.empty() ? fmt::format("step {} {}", step, lack) : check.first_lack;
        } else {
            check.sizes.emplace(step, StepSize{count, 0});
        }
    }
}

/// Two steps are alike if the messages that both recorded have equal sizes; a step need not have recorded every
/// message. A step without sizes joins the first group with as many micro-batches.
void StepCheck::tell_messages_apart(RunCheck& check) const {
    struct Alike {
        std::map<MessageName, Bytes> messages;
        std::vector<StepSize*> steps;
    };
    const auto agree = [](const std::map<MessageName, Bytes>& all, const std::map<MessageName, Bytes>& own) {
        return std::ranges::all_of(own, [&all](const auto& message) {
            const auto found = all.find(message.first);
            return found == all.end() || found->second == message.second;
        });
    };
    static const std::map<MessageName, Bytes> kNone;
    std::map<std::int64_t, std::vector<Alike>> by_count;
    for (auto& [step, size] : check.sizes) {
        const auto found = messages_.find(step);
        const std::map<MessageName, Bytes>& own = found != messages_.end() ? found->second : kNone;
        std::vector<Alike>& groups = by_count[size.micro_batches];
        auto group = std::ranges::find_if(groups, [&](const Alike& each) { return agree(each.messages, own); });
        if (group == groups.end()) {
            group = groups.emplace(groups.end());
        }
        group->messages.insert(own.begin(), own.end());
        group->steps.push_back(&size);
    }
    for (const auto& [count, groups] : by_count) {
        for (const Alike& group : groups) {
            Bytes bytes = 0;
            for (const auto& [message, size] : group.messages) {
                bytes += size;
            }
            for (StepSize* const size : group.steps) {
                size->message_bytes = bytes;
            }
        }
    }
}

std::vector<std::int32_t> StepCheck::idle_lanes() const {
    std::vector<std::int32_t> idle;
    const int lanes = run_.graph && !run_.of_another_program && !steps_.empty() ? run_.graph->num_lanes() : 0;
    for (int lane = 0; lane < lanes; ++lane) {
        const auto index = static_cast<std::size_t>(lane);
        if (index >= lanes_.size() || !lanes_[index]) {
            idle.push_back(lane);
        }
    }
    return idle;
}

RunCheck StepCheck::result() const {
    RunCheck check;
    find_faults(check);
    tell_messages_apart(check);
    check.idle_lanes = idle_lanes();
    return check;
}

RunCheck check_run(const RecordedRun& run, const Timeline& timeline) {
    if (timeline.source != Source::measured) {
        return {};
    }
    StepCheck check(run);
    std::vector<const Slice*> last;  // compute task of each lane; slices are in order of their starts
    for (const Slice& slice : timeline.slices) {
        check.add(slice.key, slice.lane);
        check.add_message(slice.key, slice.bytes);
        if (!is_compute(slice.key.kind) || slice.lane.value() < 0) {
            continue;
        }
        if (last.size() <= slice.lane.index()) {
            last.resize(slice.lane.index() + 1);
        }
        const Slice*& before = last[slice.lane.index()];
        if (before != nullptr && before->key == slice.key && slice.start < before->end) {
            check.add_repeated(slice.key.step);
        }
        before = &slice;
    }
    return check.result();
}

namespace {
std::string named_steps(std::span<const std::int32_t> steps) {
    constexpr std::size_t kMostNamed = 5;
    const std::size_t named = std::min(steps.size(), kMostNamed);
    return fmt::format("step {}{}", fmt::join(steps.first(named), ", "),
                       steps.size() > named ? fmt::format(" and {} more", steps.size() - named) : "");
}
}  // namespace

void leave_out_broken(const RunCheck& check, const Timeline& timeline, MeasuredSteps& measured) {
    std::unordered_map<std::int32_t, SeenTasks> seen;
    for (const StepRecord& step : measured.steps) {
        seen.try_emplace(step.step);
    }
    for (const Slice& slice : timeline.slices) {
        if (const auto step = seen.find(slice.key.step); step != seen.end()) {
            step->second.add(slice);
        }
    }
    std::erase_if(measured.steps, [&](const StepRecord& step) {
        if (!seen.at(step.step).is_step() || is_without_length(step)) {
            measured.left_out.push_back(step.step);
            return true;
        }
        if (check.faults.contains(step.step)) {
            measured.faulty.push_back(step.step);
            return true;
        }
        return false;
    });
    measured.comparable -= measured.left_out.size() + measured.faulty.size();
    if (measured.steps.empty() && measured.why_none.empty()) {
        measured.why_none = measured.faulty.empty()
                                ? kNoneWhole
                                : fmt::format(
                                      "holds no whole step: of each, tasks of a lane are missing or were "
                                      "recorded twice{}; the file may be damaged; record it again",
                                      check.first_lack.empty() ? "" : ", and " + check.first_lack);
    }
}

namespace {
/// The step that a simulation simulates.
MeasuredSteps simulated_step(const RecordedRun& run, const Timeline& timeline) {
    const bool is_staggered = update_of(run) == Update::staggered;
    MeasuredSteps simulated;
    for (const std::int32_t step : steps_in_time(timeline)) {
        if (!is_staggered || step == Simulation::kStaggeredStep) {
            simulated.steps.emplace_back().step = step;
        }
    }
    if (simulated.steps.size() > 1) {
        simulated.steps.clear();
        simulated.why_none =
            "is a simulation of a schedule that never drains, which has no single step to compare; choose another file";
    }
    simulated.comparable = simulated.steps.size();
    return simulated;
}
}  // namespace

MeasuredSteps whole_steps(const RecordedRun& run, const Timeline& timeline, const RunCheck& check) {
    MeasuredSteps steps = timeline.source == Source::measured ? steps_to_compare(run, check, steps_in_time(timeline))
                                                              : simulated_step(run, timeline);
    leave_out_broken(check, timeline, steps);
    return steps;
}

MeasuredSteps whole_steps(const RecordedRun& run, const Timeline& timeline) {
    return whole_steps(run, timeline, check_run(run, timeline));
}

std::vector<std::string> left_out_warnings(const MeasuredSteps& measured) {
    std::vector<std::string> warnings;
    if (!measured.left_out.empty()) {
        warnings.push_back(
            fmt::format("not compared, since a forward or a backward phase was not recorded, or takes no time: {}",
                        named_steps(measured.left_out)));
    }
    if (!measured.of_other_size.empty()) {
        warnings.push_back(
            fmt::format("not compared, since the mini-batch has other samples than the simulated one: {}",
                        named_steps(measured.of_other_size)));
    }
    if (!measured.of_other_count.empty()) {
        warnings.push_back(
            fmt::format("{} of {} are compared{}; not compared, since the mini-batch has more or fewer: {}",
                        measured.of_majority ? "steps" : "no number of micro-batches is that of most steps; those",
                        counted(measured.micro_batches, "micro-batch", "micro-batches"),
                        measured.of_majority ? ", as most have" : "", named_steps(measured.of_other_count)));
    }
    if (!measured.of_other_messages.empty()) {
        warnings.push_back(
            fmt::format("{}; not compared, since their messages are larger or smaller, as those of a mini-batch of "
                        "other samples: {}",
                        measured.of_majority ? "steps whose messages have the sizes of most are compared"
                                             : "no size of messages is that of most steps; the most frequent, or of "
                                               "equally frequent ones the largest, are compared",
                        named_steps(measured.of_other_messages)));
    }
    if (!measured.faulty.empty()) {
        warnings.push_back(fmt::format(
            "not compared, since tasks of a lane are missing or were recorded twice, so that idle time is not known: "
            "{}; the file may be damaged",
            named_steps(measured.faulty)));
    }
    return warnings;
}

TraceWarning only_step_cut_off() {
    return refusal(std::string(kStepCutOff),
                   "the recording was cut off in the only step that it holds: the step may have gone on, and its idle "
                   "time and bubble fractions are not known and not shown; record more steps");
}

std::vector<TraceWarning> idle_lane_warnings(const RecordedRun& run, const RunCheck& check) {
    const std::vector<std::int32_t>& idle = check.idle_lanes;
    if (idle.empty() || refuse_bubbles(run.warnings)) {  // the warnings explain it
        return {};
    }
    const bool knows_steps = idle.front() != 0 && run.options && first_lane_tells_step(*run.options);
    TraceWarning warning = refusal(
        std::string(kLaneWithoutTasks),
        fmt::format("{} {} of the run's pipeline {} no task in this file, so idle time{} bubble fractions{} are "
                    "not known and not shown; the file may be damaged; record it again",
                    idle.size() == 1 ? "lane" : "lanes", fmt::join(idle, ", "), idle.size() == 1 ? "has" : "have",
                    knows_steps ? " and" : ",", knows_steps ? "" : ", step times and rates"));
    warning.of_steps = !knows_steps;
    return {std::move(warning)};
}
}  // namespace pipescope
