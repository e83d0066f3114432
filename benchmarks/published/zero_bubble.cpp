#include "benchmarks/published/zero_bubble.h"

#include "base/csv_rows.h"
#include "simulator/memory/memory_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
std::vector<ZeroBubbleRow> zero_bubble_rows(const std::filesystem::path& folder) {
    std::vector<ZeroBubbleRow> rows;
    for (const CsvRow& row : read_csv_rows(folder / "benchmarks" / "published" / "zero_bubble.csv")) {
        rows.push_back({row.text("model"), row.count("p"), row.count("m"), row.number("T_F"), row.number("T_B"),
                        row.number("T_W"), row.number("T_comm"), row.number("bubble_1f1b"), row.number("bubble_zbh1"),
                        row.number("bubble_zbh2")});
    }
    return rows;
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
    return simulate(std::move(profile), options, {.noise = false, .memory = true});
}

double span_of_lanes(const Simulation& simulation) {
    std::vector<std::pair<std::int64_t, std::int64_t>> spans(simulation.lanes.size(), {INT64_MAX, 0});
    for (const Slice& slice : simulation.timeline.slices) {
        if (is_compute(slice.key.kind)) {
            auto& [first, last] = spans[slice.lane.index()];
            first = std::min(first, slice.start.count());
            last = std::max(last, slice.end.count());
        }
    }
    double longest = 0;
    for (const auto& [first, last] : spans) {
        longest = std::max(longest, static_cast<double>(last - first));
    }
    return longest;
}

double bubble_of_lanes(const Simulation& simulation) {
    const double cost = span_of_lanes(simulation);
    double work = 0;
    for (const SimulatedLane& lane : simulation.lanes) {
        work = std::max(work, static_cast<double>(lane.busy.count()));
    }
    return (cost - work) / cost;
}

double most_activations(const Simulation& simulation) {
    return static_cast<double>(highest_peak(simulation)) / static_cast<double>(kActivation);
}
}  // namespace pipescope
