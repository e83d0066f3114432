#pragma once

#include "profiler/profile/profile.h"
#include "schedule/task_graph.h"
#include "simulator/clock/task_costs.h"
#include "simulator/pipeline_options.h"

#include <cstdint>
#include <span>

namespace pipescope {
/// Moves the sums of gradients (all_reduce tasks) to where they run in buckets (PipelineOptions::gradient_bucket).
///
/// A partition's gradients are complete layer by layer, from the last layer on, while its last backward runs. A bucket
/// is summed once its gradients are complete and the lane's network has summed those before; a layer of several buckets
/// completes them all at its end. A sum starts with its first bucket and ends with its last one. Nothing waits for
/// sums, so they are played once all other tasks have their times. They slow nothing down.
///
/// `starts` and `ends`, by task, hold the times of all others. Cost O(layers + buckets).
/// Preconditions: several replicas; each partition's sum is a task of its lane.
void play_buckets(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                  const TaskGraph& graph, std::span<std::int64_t> starts, std::span<std::int64_t> ends);
}  // namespace pipescope
