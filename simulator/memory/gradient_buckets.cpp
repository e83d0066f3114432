#include "simulator/memory/gradient_buckets.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace pipescope {
namespace {
/// The task that completes a partition's gradients, in the order of its lane.
struct LastBackward {
    int partition = 0;
    TaskIndex task = 0;
    std::optional<TaskIndex> sum;
};

/// Of a task, in ns.
struct Span {
    double begin = 0;
    double length = 0;
};

/// By the order in which the lane runs them.
std::vector<LastBackward> last_backwards(const TaskGraph& graph, LaneId lane) {
    std::vector<LastBackward> last;
    const auto of = [&](int partition) { return std::ranges::find(last, partition, &LastBackward::partition); };
    for (const TaskIndex task : graph.lane_order(lane)) {
        const TaskKey& key = graph.tasks()[task].key;
        if (key.kind == TaskKind::backward || key.kind == TaskKind::backward_weight) {
            if (const auto before = of(key.partition); before != last.end()) {
                last.erase(before);
            }
            last.push_back({key.partition, task, std::nullopt});
        } else if (key.kind == TaskKind::all_reduce) {
            of(key.partition)->sum = task;
        }
    }
    return last;
}
}  // namespace

void play_buckets(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                  const TaskGraph& graph, std::span<std::int64_t> starts, std::span<std::int64_t> ends) {
    const auto bucket = static_cast<double>(options.gradient_bucket);
    std::vector<std::vector<LastBackward>> by_lane;
    for (int number = 0; number < graph.num_lanes(); ++number) {
        by_lane.push_back(last_backwards(graph, LaneId{number}));
    }
    for (int number = 0; number < graph.num_lanes(); ++number) {
        const LaneId lane{number};
        double free = 0;  // of the lane's network
        for (const LastBackward& last : by_lane[lane.index()]) {
            const Task& task = graph.tasks()[last.task];
            const SizedProfile& at = costs.sized(task.key.micro_batch);
            const std::vector<double>& times =
                task.key.kind == TaskKind::backward_weight ? at.backward_weight : at.backward;
            const LayerRange layers = options.balance.layers_of(PartitionId{last.partition});
            double work = 0;
            for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
                work += times[l];
            }
            std::vector<Span> copies;  // in the pipeline, which sum their gradients too
            for (const LaneId holder : lanes_of(options, PartitionId{last.partition})) {
                const TaskIndex task_there =
                    std::ranges::find(by_lane[holder.index()], last.partition, &LastBackward::partition)->task;
                const auto begin = static_cast<double>(starts[task_there]);
                copies.push_back({begin, static_cast<double>(ends[task_there]) - begin});
            }
            std::optional<double> first;
            double done = 0;    // of the work
            Gradients waiting;  // bytes that no bucket took yet
            // Experts have buckets of their own.
            const auto send = [&](double Gradients::*part, double bytes, double times_sent, double ready) {
                const double start = std::max(free, ready);
                first = first.value_or(start);
                Gradients sent;
                sent.*part = bytes;
                free = start + times_sent * costs.sum_ns(sent, lane);
                waiting.*part -= times_sent * bytes;
            };
            for (std::size_t l = layers.end.index(); l-- > layers.first.index();) {
                done += times[l];
                waiting += gradients_of(profile.layers[l]);
                const double share = work > 0 ? done / work : 1;
                double ready = 0;
                for (const auto& [begin, length] : copies) {
                    ready = std::max(ready, begin + length * share);
                }
                for (double Gradients::*const part : {&Gradients::usual, &Gradients::experts}) {
                    if (waiting.*part >= bucket) {
                        send(part, bucket, std::floor(waiting.*part / bucket), ready);
                    }
                    if (l == layers.first.index() && waiting.*part > 0) {
                        send(part, waiting.*part, 1, ready);
                    }
                }
            }
            if (last.sum) {
                const double none = static_cast<double>(ends[last.task]);
                starts[*last.sum] = std::llround(first.value_or(none));
                ends[*last.sum] = std::llround(first ? free : none);
            }
        }
    }
}
}  // namespace pipescope
