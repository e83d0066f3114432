#include "simulator/steady_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

namespace pipescope {
namespace {
/// Renames "micro-batch s m + i" to "micro-batch i of step s".
void number_by_step(TaskKey& key, int m, int first_step) {
    if (key.micro_batch >= 0) {
        key.step = key.micro_batch / m - first_step;
        key.micro_batch %= m;
    }
}
}  // namespace

int mini_batches_to_settle(int n, int m) {
    // Filling and draining take about n micro-batches each; twice that again lets the lanes settle.
    return 2 + (4 * n + m - 1) / m;
}

SteadyTasks steady_tasks(const TaskGraph& graph, int mini_batches) {
    const int m = graph.shape().num_micro_batches / mini_batches;
    const int n = graph.shape().num_partitions;
    // The last mini-batch that finishes before the lanes run out of forwards.
    const int last = std::max(1, mini_batches - 1 - (n + m - 1) / m);
    const auto last_of = [&](int step) {
        return graph.find({0, TaskKind::backward, 0, (step + 1) * m - 1, -1}).value();
    };
    return {{last_of(last - 1)}, {last_of(last)}};
}

SteadyTasks updates_around(const TaskGraph& graph, int step) {
    SteadyTasks found;
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
            const TaskKey& key = graph.tasks()[task].key;
            if (key.kind == TaskKind::optimizer && (key.step == step - 1 || key.step == step)) {
                (key.step == step ? found.last : found.before).push_back(task);
            }
        }
    }
    return found;
}

bool is_settled(const TaskGraph& graph, std::span<const std::int64_t> ends, int step) {
    constexpr double kEqual = 1e-6;
    const auto end_of = [&](const std::vector<TaskIndex>& updates) {
        std::int64_t end = 0;
        for (const TaskIndex each : updates) {
            end = std::max(end, ends[each]);
        }
        return end;
    };
    const SteadyTasks own = updates_around(graph, step);
    const SteadyTasks earlier = updates_around(graph, step - 1);
    const auto period = static_cast<double>(end_of(own.last) - end_of(own.before));
    const auto before = static_cast<double>(end_of(earlier.last) - end_of(earlier.before));
    return std::abs(period - before) <= kEqual * period;
}

Timeline cut_to(const Timeline& timeline, const SteadyWindow& window, int m) {
    Timeline cut{timeline.source, timeline.lanes, {}};
    int first_step = std::numeric_limits<int>::max();
    for (Slice slice : timeline.slices) {
        const bool is_inside = slice.end > window.start && slice.start < window.end;
        if (is_inside && slice.key.micro_batch >= 0) {
            first_step = std::min(first_step, slice.key.micro_batch / m);
            slice.start = std::max(slice.start, window.start) - window.start;
            slice.end = std::min(slice.end, window.end) - window.start;
            cut.slices.push_back(slice);
        }
    }
    for (Slice& slice : cut.slices) {
        number_by_step(slice.key, m, first_step);
    }
    sort_slices(cut);
    return cut;
}

namespace {
/// The samples within the window, with times from its start, and what lanes hold when it opens. rename(key) names their
/// tasks.
template <class Rename>
std::vector<MemorySample> samples_in(const std::vector<MemorySample>& samples, const SteadyWindow& window,
                                     Rename rename) {
    std::map<LaneId, MemorySample> before;  // what each lane holds when the window opens
    std::vector<MemorySample> inside;
    for (const MemorySample& sample : samples) {
        if (sample.time <= window.start) {
            before[sample.lane] = sample;
        } else if (sample.time <= window.end) {
            inside.push_back(sample);
        }
    }
    std::vector<MemorySample> cut;
    for (auto& [lane, sample] : before) {
        sample.time = window.start;
        sample.peak = sample.allocated;
        sample.task = -1;
        cut.push_back(sample);
    }
    cut.insert(cut.end(), inside.begin(), inside.end());
    for (MemorySample& sample : cut) {
        sample.time -= window.start;
        if (auto key = unpack(static_cast<std::uint64_t>(sample.task)); sample.task >= 0 && key) {
            rename(*key);
            sample.task = static_cast<std::int64_t>(pack(*key));
        }
    }
    return cut;
}

/// Names the task of a step in a row as one of steps 0, 1 and 2 around `step`.
void number_around(TaskKey& key, int step, int m) {
    if (key.micro_batch >= 0) {
        key.step = key.micro_batch / m;
        key.micro_batch %= m;
    }
    key.step -= step - 1;
}
}  // namespace

std::vector<MemorySample> cut_to(const std::vector<MemorySample>& samples, const SteadyWindow& window, int m) {
    return samples_in(samples, window, [m](TaskKey& key) {
        number_by_step(key, m, 0);
        key.step = 0;
    });
}

Timeline steps_around(const Timeline& timeline, int step, int m) {
    Timeline around{timeline.source, timeline.lanes, {}};
    for (Slice slice : timeline.slices) {
        number_around(slice.key, step, m);
        if (slice.key.step >= 0 && slice.key.step <= 2) {
            around.slices.push_back(slice);
        }
    }
    return around;
}

std::vector<MemorySample> samples_around(const std::vector<MemorySample>& samples, const SteadyWindow& window, int step,
                                         int m) {
    return samples_in(samples, window, [step, m](TaskKey& key) { number_around(key, step, m); });
}
}  // namespace pipescope
