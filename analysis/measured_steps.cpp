#include "analysis/measured_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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
    }
    measured.comparable = measured.steps.size();
    if (measured.steps.empty()) {
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

void StepCheck::add(const TaskKey& key, LaneId lane) {
    const bool forward = key.kind == TaskKind::forward;
    if ((!forward && key.kind != TaskKind::backward) || lane.value() < 0) {
        return;
    }
    if (last_ == nullptr || last_step_ != key.step) {
        last_ = &steps_[key.step];
        last_step_ = key.step;
    }
    if (last_->size() <= lane.index()) {
        last_->resize(lane.index() + 1);
    }
    ++(forward ? (*last_)[lane.index()].forwards : (*last_)[lane.index()].backwards);
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
            in_all[lane].forwards += lanes[lane].forwards;
            in_all[lane].backwards += lanes[lane].backwards;
        }
    }
    // Partitions of a lane, each with a task for every micro-batch. The order of another program is a guess.
    std::vector<std::int64_t> partitions(in_all.size(), 0);
    if (run_.graph && !run_.of_another_program) {
        const PipelineShape& shape = run_.graph->shape();
        for (int partition = 0; partition < shape.num_partitions; ++partition) {
            if (const std::size_t lane = shape.lane_of(PartitionId{partition}).index(); lane < partitions.size()) {
                ++partitions[lane];
            }
        }
    }
    const auto lacks = [&](const ByLane& lanes, std::int64_t Counts::*count) {
        std::int64_t micro_batches = 0;  // that some lane ran: the last mini-batch of a data set may have fewer
        for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
            if (partitions[lane] > 0) {
                const std::int64_t tasks = lanes[lane].*count;
                micro_batches = std::max(micro_batches, (tasks + partitions[lane] - 1) / partitions[lane]);
            }
        }
        for (std::size_t lane = 0; lane < in_all.size(); ++lane) {
            const std::int64_t found = lane < lanes.size() ? lanes[lane].*count : 0;
            const std::int64_t wanted = std::max<std::int64_t>(1, micro_batches * partitions[lane]);
            if (in_all[lane].*count > 0 && found < wanted) {
                return true;
            }
        }
        return false;
    };
    for (const auto& [step, lanes] : steps_) {
        if (repeated_.contains(step)) {
            faults.emplace(step, StepFault::repeated);
        } else if (lacks(lanes, &Counts::forwards) || lacks(lanes, &Counts::backwards)) {
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
            return index < step.second.size() && (step.second[index].forwards > 0 || step.second[index].backwards > 0);
        });
        if (!works) {
            idle.push_back(lane);
        }
    }
    return idle;
}

namespace {
StepCheck check_of(const RecordedRun& run, const Timeline& timeline) {
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
    return check;
}

std::string named_steps(std::span<const std::int32_t> steps) {
    constexpr std::size_t kMostNamed = 5;
    const std::size_t named = std::min(steps.size(), kMostNamed);
    return fmt::format("step {}{}", fmt::join(steps.first(named), ", "),
                       steps.size() > named ? fmt::format(" and {} more", steps.size() - named) : "");
}
}  // namespace

std::map<std::int32_t, StepFault> step_faults(const RecordedRun& run, const Timeline& timeline) {
    return check_of(run, timeline).faults();
}

void leave_out_broken(const RecordedRun& run, const Timeline& timeline, MeasuredSteps& measured) {
    leave_out_broken(
        timeline.source == Source::measured ? step_faults(run, timeline) : std::map<std::int32_t, StepFault>{},
        timeline, measured);
}

void leave_out_broken(const std::map<std::int32_t, StepFault>& faults, const Timeline& timeline,
                      MeasuredSteps& measured) {
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
        if (faults.contains(step.step)) {
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
    if (!measured.faulty.empty()) {
        warnings.push_back(fmt::format(
            "not compared, since tasks of a lane are missing or were recorded twice, so that idle time is not known: "
            "{}; the file may be damaged",
            named_steps(measured.faulty)));
    }
    return warnings;
}

std::vector<TraceWarning> idle_lane_warnings(const RecordedRun& run, const Timeline& timeline) {
    if (refuse_bubbles(run.warnings)) {
        return {};  // which says why lanes are empty, such as the trace of one rank
    }
    const std::vector<std::int32_t> idle = check_of(run, timeline).idle_lanes();
    if (idle.empty()) {
        return {};
    }
    return {
        {Severity::refusal,
         fmt::format("{} {} of the run's pipeline {} no task in this file, so idle time and bubble fractions are "
                     "not known and not shown; the file may be damaged; record it again",
                     idle.size() == 1 ? "lane" : "lanes", fmt::join(idle, ", "), idle.size() == 1 ? "has" : "have")}};
}
}  // namespace pipescope
