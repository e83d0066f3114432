#include "analysis/comparison.h"

#include "analysis/task_join.h"
#include "schedule/error.h"
#include "schedule/median.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace pipescope {
namespace {
bool belongs_to_step(const Slice& slice) {
    return slice.key.kind != TaskKind::optimizer;
}

/// A duration of one task in one step.
struct Occurrence {
    Nanoseconds duration{0};
    std::int32_t step = 0;
};

std::vector<TaskKey> keys_of(const std::vector<Slice>& slices) {
    std::vector<TaskKey> keys;
    for (const Slice& slice : slices) {
        keys.push_back(slice.key);
    }
    return keys;
}

/// Joins the tasks of every step with the simulated ones.
void match_steps(const std::map<std::int32_t, Timeline>& steps, const Timeline& simulated, Comparison& comparison) {
    std::vector<Slice> twins;
    std::copy_if(simulated.slices.begin(), simulated.slices.end(), std::back_inserter(twins), belongs_to_step);
    const std::vector<TaskKey> twin_keys = keys_of(twins);
    std::map<std::pair<TaskKey, std::size_t>, std::vector<Occurrence>> found;  // by twin
    for (const auto& [step, timeline] : steps) {
        const TaskJoin join = join_tasks(keys_of(timeline.slices), twin_keys);
        for (const TaskJoin::Pair& pair : join.pairs) {
            found[{twin_keys[pair.simulated], pair.simulated}].push_back(
                {timeline.slices[pair.measured].duration(), step});
        }
        comparison.tasks_matched += static_cast<std::int64_t>(join.pairs.size());
        comparison.tasks_unmatched += static_cast<std::int64_t>(join.measured.size() + join.simulated.size());
    }
    for (auto& [twin, occurrences] : found) {
        const auto middle = occurrences.begin() + static_cast<std::ptrdiff_t>((occurrences.size() - 1) / 2);
        std::nth_element(occurrences.begin(), middle, occurrences.end(),
                         [](const Occurrence& a, const Occurrence& b) { return a.duration < b.duration; });
        TaskKey task = twin.first;
        task.step = middle->step;
        comparison.worst.push_back({task, middle->duration, twins[twin.second].duration()});
    }
    std::stable_sort(comparison.worst.begin(), comparison.worst.end(),
                     [](const ComparedTask& a, const ComparedTask& b) {
                         return std::chrono::abs(a.measured - a.simulated) > std::chrono::abs(b.measured - b.simulated);
                     });
    constexpr std::size_t kWorst = 10;
    comparison.worst.resize(std::min(comparison.worst.size(), kWorst));
}

void compare_steps(const std::vector<StepStatistics>& statistics, Comparison& comparison) {
    std::vector<Nanoseconds> times;
    std::vector<double> bubbles;
    Nanoseconds sum{0};
    for (const StepStatistics& each : statistics) {
        times.push_back(each.step_time());
        bubbles.push_back(each.bubble_fraction);
        sum += each.step_time();
        comparison.measured_bubble_mean += each.bubble_fraction / static_cast<double>(statistics.size());
    }
    comparison.measured_step_time = median(times);
    comparison.measured_step_mean = sum / static_cast<std::int64_t>(statistics.size());
    comparison.measured_bubble_fraction = median(bubbles);
    const JudgedStep judged = comparison.judged();
    comparison.step_error =
        static_cast<double>(judged.simulated.count()) / static_cast<double>(judged.measured.count()) - 1;
}

void compare_lanes(const std::vector<StepStatistics>& statistics, const Simulation& simulation,
                   Comparison& comparison) {
    comparison.lanes.resize(std::max(statistics.front().lanes.size(), simulation.lanes.size()));
    for (std::size_t lane = 0; lane < comparison.lanes.size(); ++lane) {
        ComparedLane& each = comparison.lanes[lane];
        if (lane < simulation.lanes.size()) {
            each.simulated_busy = simulation.lanes[lane].busy;
            each.simulated_bubble_fraction = simulation.lanes[lane].bubble_fraction;
            each.simulated_peak_bytes = simulation.lanes[lane].peak_bytes;
        }
        if (lane < statistics.front().lanes.size()) {
            std::vector<Nanoseconds> busy;
            std::vector<double> bubbles;
            for (const StepStatistics& step : statistics) {
                busy.push_back(step.lanes[lane].busy);
                bubbles.push_back(step.lanes[lane].bubble_fraction);
            }
            each.measured_busy = median(busy);
            each.measured_bubble_fraction = median(bubbles);
        }
    }
}

void compare_memory(const Measured& measured, const std::vector<StepStatistics>& statistics, Comparison& comparison) {
    for (const MemorySample& sample : measured.memory) {
        const bool inside = std::any_of(statistics.begin(), statistics.end(), [&](const StepStatistics& step) {
            return sample.time >= step.start && sample.time <= step.end;
        });
        if (inside && sample.lane.index() < comparison.lanes.size()) {
            std::optional<Bytes>& peak = comparison.lanes[sample.lane.index()].measured_peak_bytes;
            peak = std::max(peak.value_or(0), std::max(sample.peak, sample.allocated));
        }
    }
}
}  // namespace

JudgedStep Comparison::judged() const {
    if (!simulated_step_mean) {
        return {measured_step_time, simulated_step_time, measured_bubble_fraction, simulated_bubble_fraction, false};
    }
    return {measured_step_mean, *simulated_step_mean, measured_bubble_mean,
            simulated_bubble_mean.value_or(simulated_bubble_fraction), true};
}

std::map<std::int32_t, Timeline> compared_tasks(const Measured& measured) {
    std::map<std::int32_t, Timeline> steps;
    for (const std::int32_t step : measured.steps) {
        steps[step] = Timeline{measured.timeline.source, measured.timeline.lanes, {}};
    }
    // One pass, since a run may have very many steps.
    for (const Slice& slice : measured.timeline.slices) {
        if (const auto found = steps.find(slice.key.step); found != steps.end() && belongs_to_step(slice)) {
            found->second.slices.push_back(slice);
        }
    }
    return steps;
}

Comparison compare(const Measured& measured, const Simulation& simulation) {
    if (measured.steps.empty()) {
        throw Error("the trace has 0 steps to compare; at least 1 after the warm-up is needed; record more steps");
    }
    if (simulation.step_time.count() <= 0) {
        throw Error("the simulated step takes 0 ns; a comparison divides by it; check the profile's times");
    }
    Comparison comparison;
    comparison.steps = measured.steps;
    comparison.simulated_step_time = simulation.step_time;
    comparison.simulated_bubble_fraction = simulation.bubble_fraction;
    comparison.simulated_step_mean = simulation.step_mean;
    comparison.simulated_bubble_mean = simulation.bubble_mean;
    if (!measured.wall_step_times.empty()) {
        comparison.measured_wall_step_time = median(measured.wall_step_times);
    }

    const std::map<std::int32_t, Timeline> steps = compared_tasks(measured);
    std::vector<StepStatistics> statistics;
    for (const auto& [step, timeline] : steps) {
        statistics.push_back(step_statistics(timeline, step));
        if (statistics.back().step_time().count() <= 0) {
            throw Error("step " + std::to_string(step) +
                        " has no forward or backward task; a step to compare has both; leave it out, or record again");
        }
    }
    compare_steps(statistics, comparison);
    compare_lanes(statistics, simulation, comparison);
    compare_memory(measured, statistics, comparison);
    match_steps(steps, simulation.timeline, comparison);
    return comparison;
}
}  // namespace pipescope
