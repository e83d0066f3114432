#pragma once

#include "analysis/step_graph.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace pipescope {
/// The tasks of one step of a timeline; their slices are its own, in row 0.
inline StepGraph tasks_of_step(const Timeline& timeline, std::int32_t step,
                               std::shared_ptr<const TaskGraph> graph = nullptr) {
    const StepStatistics statistics = step_statistics(timeline, step);
    std::vector<StepTask> tasks;
    for (std::uint32_t i = 0; i < timeline.slices.size(); ++i) {
        const Slice& slice = timeline.slices[i];
        if (slice.key.step == step) {
            tasks.push_back({slice.key, {0, i}, slice.lane, slice.start.count(), slice.end.count()});
        }
    }
    return {
        std::move(tasks), timeline.lanes.size(), {statistics.start.count(), statistics.end.count()}, std::move(graph)};
}
}  // namespace pipescope
