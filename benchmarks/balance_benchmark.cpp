// The exact balance with and without a memory limit, and the planner with 768 candidates.

#include "balance/optimal_partition.h"
#include "benchmarks/random_profile.h"
#include "simulator/plan/planner.h"
#include "simulator/search/balance_search.h"

#include <benchmark/benchmark.h>

#include <numeric>
#include <string>

namespace pipescope {
namespace {
/// N layers, n partitions. `limit`: bytes per lane, from a function without cost.
void optimal(benchmark::State& state) {
    const auto layers = static_cast<std::size_t>(state.range(0));
    const CheckedProfile profile = random_profile(layers);
    PartitionProblem problem;
    problem.partitions = static_cast<int>(state.range(1));
    problem.micro_batches = 32;
    problem.checkpoint = static_cast<Checkpoint>(state.range(2));
    for (const LayerProfile& layer : profile->layers) {
        problem.forward_ns.push_back(layer.forward_ns[0]);
        problem.backward_ns.push_back(layer.backward_ns[0]);
    }
    problem.recompute_ns = problem.forward_ns;
    problem.copy_forward_ns.assign(layers - 1, 67'500);
    problem.copy_backward_ns.assign(layers - 1, 67'500);
    if (state.range(3) != 0) {
        const Bytes limit = static_cast<Bytes>(layers) / state.range(1) + 2;
        problem.memory_limits.assign(static_cast<std::size_t>(problem.partitions), limit);
        problem.peak_bytes = [](PartitionId, LayerRange range) { return static_cast<Bytes>(range.size()); };
        problem.exceeds_limit = [most = limit](PartitionId, LayerRange range) {
            return static_cast<Bytes>(range.size()) > most;
        };
    }
    for (auto _ : state) {
        benchmark::DoNotOptimize(optimal_partitions(problem));
    }
    state.SetLabel(to_string(problem.checkpoint) + (state.range(3) != 0 ? ", memory limit" : ""));
}
BENCHMARK(optimal)
    ->ArgsProduct({{200}, {8}, {0, 1, 2}, {0, 1}})
    ->ArgsProduct({{400}, {16}, {0, 1, 2}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

PipelineOptions options_for(std::int64_t batch) {
    PipelineOptions options;
    options.chunks = options.batch = batch;
    options.hardware.link = {16e9, 5'000};
    return options;
}

/// Includes the memory model, and the simulation of the result.
void find_balance_within_a_limit(benchmark::State& state) {
    const CheckedProfile profile = random_profile(200);
    PipelineOptions options = options_for(32);
    options.hardware.memory_limit = 260'000'000;
    for (auto _ : state) {
        benchmark::DoNotOptimize(find_balance(profile, options, 8, BalanceAlgorithm::optimal));
    }
}
BENCHMARK(find_balance_within_a_limit)->Unit(benchmark::kMillisecond);

/// Five layers of the first half stash their output, and five of the second half pop it.
Profile u_net(std::size_t layers) {
    Profile profile = random_profile(layers);
    for (std::size_t k = 1; k <= 5; ++k) {
        const std::string skip = std::to_string(k);
        LayerProfile& stashing = profile.layers[k * layers / 11];
        stashing.aliases_input = true;
        stashing.stash[skip] = {1e6};
        LayerProfile& popping = profile.layers[layers - k * layers / 11];
        popping.passes_gradient = true;
        popping.pop = {skip};
    }
    return profile;
}

/// Needs the memory of millions of layer ranges.
void find_balance_of_a_u_net_within_a_limit(benchmark::State& state) {
    const CheckedProfile profile = u_net(static_cast<std::size_t>(state.range(0)));
    PipelineOptions options = options_for(32);
    options.hardware.memory_limit = state.range(0) * 1'000'000;
    for (auto _ : state) {
        benchmark::DoNotOptimize(find_balance(profile, options, 8, BalanceAlgorithm::optimal));
    }
}
BENCHMARK(find_balance_of_a_u_net_within_a_limit)->Arg(2000)->Unit(benchmark::kMillisecond);

/// 200 layers, up to 16 partitions, 16 numbers of micro-batches, three modes.
void plan_768(benchmark::State& state) {
    const CheckedProfile profile = random_profile(200);
    PlanRequest request;
    take_options(request, options_for(64));
    request.partitions.resize(16);
    std::iota(request.partitions.begin(), request.partitions.end(), 1);
    request.chunks = {1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 64};
    request.schedules = {Schedule::gpipe};
    if (state.range(0) != 0) {
        request.hardware.memory_limit = state.range(0);
    }
    request.threads = 2;
    for (auto _ : state) {
        benchmark::DoNotOptimize(plan(profile, request));
    }
}
BENCHMARK(plan_768)->Arg(0)->Arg(400'000'000)->Unit(benchmark::kMillisecond)->UseRealTime();
}  // namespace
}  // namespace pipescope
