#include "benchmarks/paper_tables/zero_bubble.h"

#include "simulator/planner.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
std::vector<ZeroBubbleRow> zero_bubble_rows() {
    return {
        {"1.5B", 8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1585, 0.1083},
        {"1.5B", 8, 32, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.1242, 0.0837},
        {"6.2B", 8, 24, 29.718, 29.444, 19.927, 0.527, 0.2347, 0.1323, 0.0698},
        {"6.2B", 8, 32, 29.802, 29.428, 19.530, 0.577, 0.1898, 0.1045, 0.0559},
        {"14.6B", 16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1397, 0.0672},
        {"14.6B", 16, 64, 11.307, 11.254, 8.101, 0.379, 0.2082, 0.1088, 0.0516},
        {"28.3B", 32, 96, 10.419, 10.207, 7.715, 0.408, 0.2646, 0.1421, 0.0641},
        {"28.3B", 32, 128, 10.408, 10.204, 7.703, 0.408, 0.2168, 0.1106, 0.0490},
    };
}

Simulation simulated_row(const ZeroBubbleRow& row, const Schedule& schedule) {
    constexpr double kNsPerMs = 1e6;
    const auto lanes = static_cast<std::size_t>(row.lanes);
    const std::size_t partitions = usual_partitions(schedule, lanes);
    const double share = static_cast<double>(lanes) / static_cast<double>(partitions);
    LayerProfile layer;
    layer.name = "stage";
    layer.forward_ns = {row.forward * share * kNsPerMs};
    layer.backward_ns = {(row.backward_input + row.backward_weight) * share * kNsPerMs};
    layer.backward_weight_ns = {row.backward_weight * share * kNsPerMs};
    layer.output_bytes = {0};
    layer.saved_bytes = {static_cast<double>(kActivation) * share};
    layer.keeps_input = false;
    Profile profile;
    profile.model = row.model;
    profile.samples = {1};
    profile.layers.assign(partitions, layer);
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(partitions, 1));
    options.chunks = options.batch = row.micro_batches;
    options.checkpoint = Checkpoint::never;
    options.schedule = schedule;
    options.placement = placement_of(schedule, partitions, lanes);
    options.hardware.link.latency_ns = row.copy * kNsPerMs;
    return simulate(profile, options, {.noise = false, .memory = true});
}

double bubble_of_lanes(const Simulation& simulation) {
    std::vector<std::pair<std::int64_t, std::int64_t>> spans(simulation.lanes.size(), {INT64_MAX, 0});
    for (const Slice& slice : simulation.timeline.slices) {
        if (is_compute(slice.key.kind)) {
            auto& [first, last] = spans[slice.lane.index()];
            first = std::min(first, slice.start.count());
            last = std::max(last, slice.end.count());
        }
    }
    double cost = 0;
    double work = 0;
    for (std::size_t lane = 0; lane < spans.size(); ++lane) {
        cost = std::max(cost, static_cast<double>(spans[lane].second - spans[lane].first));
        work = std::max(work, static_cast<double>(simulation.lanes[lane].busy.count()));
    }
    return (cost - work) / cost;
}

double most_activations(const Simulation& simulation) {
    return static_cast<double>(highest_peak(simulation)) / static_cast<double>(kActivation);
}
}  // namespace pipescope
