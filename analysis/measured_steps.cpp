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

/// The phases recorded for one step.
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

void leave_out_halves(const Timeline& timeline, MeasuredSteps& measured) {
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
        const bool half = !seen.at(step.step).is_step();
        if (half) {
            measured.left_out.push_back(step.step);
        }
        return half;
    });
    measured.comparable -= measured.left_out.size();
    if (measured.steps.empty() && measured.why_none.empty()) {
        measured.why_none = kNoneWhole;
    }
}

std::string left_out_warning(std::span<const std::int32_t> steps) {
    constexpr std::size_t kMostNamed = 5;
    const std::size_t named = std::min(steps.size(), kMostNamed);
    return fmt::format(
        "not compared, since a forward or a backward phase was not recorded, or takes no time: step {}{}",
        fmt::join(steps.first(named), ", "),
        steps.size() > named ? fmt::format(" and {} more", steps.size() - named) : "");
}
}  // namespace pipescope
