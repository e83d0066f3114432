#include "benchmarks/paper_tables/explainer.h"

#include "simulator/simulation.h"

#include <fmt/format.h>

namespace pipescope {
namespace {
/// Layers whose forward and backward take one time unit each, as in the explainer. Each keeps `bytes` of output per
/// sample for the backward.
Profile uniform_layers(int layers, double bytes) {
    Profile profile;
    profile.model = "uniform";
    profile.samples = {1};
    for (int l = 0; l < layers; ++l) {
        LayerProfile layer;
        layer.name = "layer";
        layer.forward_ns = layer.backward_ns = {1000};
        layer.output_bytes = {bytes};
        layer.keeps_input = false;
        layer.keeps_output = true;
        profile.layers.push_back(layer);
    }
    profile.input_bytes = {bytes};
    return profile;
}

Simulation run(const CheckedProfile& profile, std::int64_t n, std::int64_t m, std::int64_t batch,
               Checkpoint checkpoint) {
    PipelineOptions options;
    const auto layers = static_cast<std::int64_t>(profile->layers.size());
    options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(n), layers / n));
    options.chunks = m;
    options.batch = batch;
    options.checkpoint = checkpoint;
    return simulate(profile, options, {.noise = false, .memory = true});
}

/// Partition inputs and kept outputs at the peak of the fullest lane, in tensors of one sample. Ignores partition 0,
/// because the explainer does not count its input.
double activation_tensors(const Simulation& simulation) {
    Bytes most = 0;
    for (const SimulatedLane& lane : simulation.lanes) {
        most = std::max(most, lane.peak[MemoryCategory::boundary] + lane.peak[MemoryCategory::saved]);
    }
    return static_cast<double>(most);
}
}  // namespace

std::vector<ExplainedFigure> explained_figures() {
    std::vector<ExplainedFigure> figures;
    struct Bubble {
        int n, m;
        double percent;
    };
    for (const Bubble& each : {Bubble{4, 4, 43}, {4, 8, 27}, {4, 16, 16}, {4, 32, 9}, {8, 32, 18}, {8, 64, 10}}) {
        const Simulation simulation = run(uniform_layers(each.n, 0), each.n, each.m, each.m, Checkpoint::never);
        figures.push_back({"Bubble, %", fmt::format("n = {}, m = {}", each.n, each.m), each.percent,
                           simulation.bubble_fraction * 100});
    }
    struct Speedup {
        int n, m;
        double times;
    };
    for (const Speedup& each : {Speedup{4, 8, 2.9}, {8, 16, 4.6}, {8, 1, 1}}) {
        const Simulation simulation = run(uniform_layers(each.n, 0), each.n, each.m, each.m, Checkpoint::never);
        figures.push_back({"Speed-up over one task at a time", fmt::format("n = {}, m = {}", each.n, each.m),
                           each.times, simulation.speedup});
    }
    // 40 layers, 128 samples, one tensor per layer and sample. Subtracts the input, which we also count, unless it is a
    // boundary between partitions.
    const CheckedProfile layers = uniform_layers(40, 1);
    figures.push_back({"Activation tensors", "40 layers, 128 samples, one device, no recompute", 5120,
                       activation_tensors(run(layers, 1, 1, 128, Checkpoint::never)) - 128});
    figures.push_back({"Activation tensors", "the same on 4 devices, 8 micro-batches, recomputed", 288,
                       activation_tensors(run(layers, 4, 8, 128, Checkpoint::always))});
    return figures;
}
}  // namespace pipescope
