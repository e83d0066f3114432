#include "simulator/steady_state.h"

#include <algorithm>
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
    return {last_of(last - 1), last_of(last)};
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

std::vector<MemorySample> cut_to(const std::vector<MemorySample>& samples, const SteadyWindow& window, int m) {
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
            number_by_step(*key, m, 0);
            key->step = 0;
            sample.task = static_cast<std::int64_t>(pack(*key));
        }
    }
    return cut;
}
}  // namespace pipescope
