#include "gui/document/compared_steps.h"

#include "analysis/comparison.h"

#include <algorithm>
#include <unordered_set>

namespace pipescope {
ComparedSteps stepsToCompare(const TraceDocument& document) {
    std::vector<StepRecord> steps;
    for (const StepRecord& step : document.steps) {
        if (!step.warmup && document.measured->step(step.step) != nullptr) {
            steps.push_back(step);
        }
    }
    if (steps.empty()) {
        for (const StepSpan& span : document.measured->steps()) {
            steps.push_back({span.step, {}, {}, {}, {}, 0, false});
        }
        // What a kill cut short tells nothing, unless there is nothing else.
        const auto cut = [&](const StepRecord& step) { return !document.isWhole(step.step); };
        if (!std::all_of(steps.begin(), steps.end(), cut)) {
            std::erase_if(steps, cut);
        }
    }
    const std::size_t all = std::max<std::size_t>(1, document.measured->steps().size());
    const std::size_t tasks = std::max<std::size_t>(1, document.measured->numSlices() / all);
    const std::size_t most = std::max<std::size_t>(1, ComparedSteps::kMostTasks / tasks);
    ComparedSteps compared{{}, steps.size()};
    const std::size_t count = std::min(steps.size(), most);
    for (std::size_t i = 0; i < count; ++i) {
        compared.steps.push_back(steps[i * steps.size() / count]);
    }
    return compared;
}

namespace {
template <class Wanted>
Timeline slicesOf(const TimelineStore& store, const Wanted& wanted) {
    Timeline timeline{store.source(), store.lanes(), {}};
    for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
        const std::vector<std::uint64_t>& keys = store.rows()[row].key;
        for (std::uint32_t i = 0; i < keys.size(); ++i) {
            if (wanted(keys[i])) {
                timeline.slices.push_back(store.slice({row, i}));
            }
        }
    }
    sort_slices(timeline);
    return timeline;
}
}  // namespace

Timeline timelineOf(const TimelineStore& store, const std::vector<StepRecord>& steps) {
    std::unordered_set<std::int32_t> wanted;
    for (const StepRecord& step : steps) {
        wanted.insert(step.step);
    }
    return slicesOf(store, [&](std::uint64_t key) { return wanted.contains(unpack(key).value_or(TaskKey{}).step); });
}

std::vector<std::int32_t> leaveOutHalves(ComparedSteps& compared, Timeline& timeline) {
    std::vector<std::int32_t> steps;
    for (const StepRecord& step : compared.steps) {
        steps.push_back(step.step);
    }
    const std::vector<std::int32_t> left = half_recorded(timeline, steps);
    if (left.empty()) {
        return left;
    }
    const std::unordered_set<std::int32_t> half(left.begin(), left.end());
    const auto isHalf = [&](std::int32_t step) { return half.contains(step); };
    std::erase_if(compared.steps, [&](const StepRecord& step) { return isHalf(step.step); });
    std::erase_if(timeline.slices, [&](const Slice& slice) { return isHalf(slice.key.step); });
    compared.available -= left.size();
    return left;
}

Timeline timelineOf(const TimelineStore& store) {
    return slicesOf(store, [](std::uint64_t) { return true; });
}
}  // namespace pipescope
