#include "analysis/measured_steps.h"

#include "schedule/quantities.h"

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

/// The last mini-batch of a data set may be smaller, and takes less time than the simulated one.
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

MeasuredSteps steps_to_compare(const RecordedRun& run, std::span<const std::int32_t> recorded, std::size_t most) {
    MeasuredSteps measured;
    if (run.steps.empty()) {
        if (run.cut_off && recorded.size() > 1) {
            recorded = recorded.first(recorded.size() - 1);  // the recording may have ended within the last one
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
    if (!is_compute(key.kind) || lane.value() < 0) {
        return;
    }
    if (last_ == nullptr || last_step_ != key.step) {
        last_ = &steps_[key.step];
        last_step_ = key.step;
    }
    if (last_->size() <= lane.index()) {
        last_->resize(lane.index() + 1);
    }
    ++(*last_)[lane.index()][number_of(key.kind)];
}

/// Tasks of a whole step by lane. Zeros if the pipeline is not known: the order of another program is a guess.
std::vector<StepCheck::Counts> StepCheck::wanted_by_pipeline(std::size_t lanes) const {
    std::vector<Counts> wanted(lanes, Counts{});
    if (run_.graph && !run_.of_another_program) {
        for (const Task& task : run_.graph->tasks()) {
            if (is_compute(task.key.kind) && task.lane.index() < lanes) {
                ++wanted[task.lane.index()][number_of(task.key.kind)];
            }
        }
    }
    return wanted;
}

/// `wanted`: wanted_by_pipeline(). A lane is not asked for a kind that it runs in no step, except for the second halves
/// of backwards that other lanes have.
bool StepCheck::lacks_tasks(const ByLane& found, const ByLane& in_all, const ByLane& wanted) const {
    static_assert(number_of(TaskKind::forward) < kNumKinds && number_of(TaskKind::recompute) < kNumKinds &&
                  number_of(TaskKind::backward) < kNumKinds && number_of(TaskKind::backward_weight) < kNumKinds);
    const std::int64_t all = wanted.empty() || !run_.graph ? 0 : run_.graph->shape().num_micro_batches;
    const auto found_on = [&](std::size_t lane) { return lane < found.size() ? found[lane] : Counts{}; };
    const auto partitions_on = [&](std::size_t lane) {
        return all > 0 ? wanted[lane][number_of(TaskKind::forward)] / all : 0;
    };
    // That some lane ran: the last mini-batch of a data set may have fewer.
    const auto micro_batches = [&](TaskKind kind) {
        std::int64_t most = 0;
        for (std::size_t lane = 0; lane < in_all.size(); ++lane) {
            if (const std::int64_t partitions = partitions_on(lane); partitions > 0) {
                most = std::max(most, (found_on(lane)[number_of(kind)] + partitions - 1) / partitions);
            }
        }
        return most;
    };
    const std::int64_t forwards = micro_batches(TaskKind::forward);
    const std::int64_t backwards = micro_batches(TaskKind::backward);
    const bool splits =
        std::ranges::any_of(in_all, [](const Counts& lane) { return lane[number_of(TaskKind::backward_weight)] > 0; });
    for (std::size_t lane = 0; lane < in_all.size(); ++lane) {
        const std::int64_t partitions = partitions_on(lane);
        const auto lacks = [&](TaskKind kind, std::int64_t least) {
            return found_on(lane)[number_of(kind)] < least &&
                   (in_all[lane][number_of(kind)] > 0 || (kind == TaskKind::backward_weight && splits));
        };
        // Even in a whole step, some micro-batches have no recompute or no second half. As many may lack it here.
        const auto least = [&](TaskKind kind) {
            const std::int64_t without = partitions * all - wanted[lane][number_of(kind)];
            return wanted[lane][number_of(kind)] > 0 ? partitions * forwards - without : 0;
        };
        if (lacks(TaskKind::forward, std::max<std::int64_t>(1, forwards * partitions)) ||
            lacks(TaskKind::backward, std::max<std::int64_t>(1, backwards * partitions)) ||
            lacks(TaskKind::recompute, least(TaskKind::recompute)) ||
            lacks(TaskKind::backward_weight, least(TaskKind::backward_weight))) {
            return true;
        }
    }
    return false;
}

std::map<std::int32_t, StepFault> StepCheck::faults() const {
    std::map<std::int32_t, StepFault> faults;
    if (run_.lost.any() || (run_.options && !is_synchronous(run_.options->schedule))) {
        return faults;
    }
    ByLane in_all;
    for (const auto& [step, lanes] : steps_) {
        in_all.resize(std::max(in_all.size(), lanes.size()));
        for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
            std::ranges::transform(in_all[lane], lanes[lane], in_all[lane].begin(), std::plus<>());
        }
    }
    const ByLane wanted = wanted_by_pipeline(in_all.size());
    for (const auto& [step, lanes] : steps_) {
        if (repeated_.contains(step)) {
            faults.emplace(step, StepFault::repeated);
        } else if (lacks_tasks(lanes, in_all, wanted)) {
            faults.emplace(step, StepFault::missing);
        }
    }
    return faults;
}

std::vector<std::int32_t> StepCheck::idle_lanes() const {
    std::vector<std::int32_t> idle;
    const int lanes = run_.graph && !run_.of_another_program && !steps_.empty() ? run_.graph->num_lanes() : 0;
    for (int lane = 0; lane < lanes; ++lane) {
        const bool works = std::any_of(steps_.begin(), steps_.end(), [lane](const auto& step) {
            const auto index = static_cast<std::size_t>(lane);
            return index < step.second.size() && std::ranges::any_of(step.second[index], [](auto n) { return n > 0; });
        });
        if (!works) {
            idle.push_back(lane);
        }
    }
    return idle;
}

RunCheck StepCheck::result() const {
    return {faults(), idle_lanes()};
}

RunCheck check_run(const RecordedRun& run, const Timeline& timeline) {
    if (timeline.source != Source::measured) {
        return {};
    }
    StepCheck check(run);
    std::vector<const Slice*> last;  // compute task of each lane; slices are in order of their starts
    for (const Slice& slice : timeline.slices) {
        check.add(slice.key, slice.lane);
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
        if (!seen.at(step.step).is_step()) {
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
                                : "holds no whole step: of each, tasks of a lane are missing or were recorded twice; "
                                  "the file may be damaged; record it again";
    }
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
    if (idle.empty() || refuse_bubbles(run.warnings)) {  // which say why, such as the trace of one rank
        return {};
    }
    return {refusal(
        std::string(kLaneWithoutTasks),
        fmt::format("{} {} of the run's pipeline {} no task in this file, so idle time and bubble fractions are "
                    "not known and not shown; the file may be damaged; record it again",
                    idle.size() == 1 ? "lane" : "lanes", fmt::join(idle, ", "), idle.size() == 1 ? "has" : "have"))};
}
}  // namespace pipescope
