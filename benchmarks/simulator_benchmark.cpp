#include "balance/contiguous_partition.h"
#include "balance/optimal_partition.h"
#include "benchmarks/random_profile.h"
#include "schedule/schedules.h"
#include "simulator/clock/event_engine.h"
#include "simulator/clock/gpipe_recurrence.h"
#include "simulator/plan/advice.h"
#include "simulator/search/balance_search.h"
#include "simulator/search/schedule_search.h"
#include "simulator/simulation.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <random>

namespace pipescope {
namespace {
constexpr int kPartitions = 8;
constexpr int kMicroBatches = 32;

PipelineOptions options_for(std::int64_t n, std::int64_t m) {
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(n), 1));
    options.chunks = options.batch = m;
    options.hardware.link = {16e9, 5'000};
    return options;
}

PartitionProblem problem_for(std::size_t layers, int n, Checkpoint checkpoint) {
    const CheckedProfile profile = random_profile(layers);
    PartitionProblem problem;
    problem.partitions = n;
    problem.micro_batches = kMicroBatches;
    problem.checkpoint = checkpoint;
    for (const LayerProfile& layer : profile->layers) {
        problem.forward_ns.push_back(layer.forward_ns[0]);
        problem.backward_ns.push_back(layer.backward_ns[0]);
    }
    problem.recompute_ns = problem.forward_ns;
    problem.copy_forward_ns.assign(layers - 1, 67'500);
    problem.copy_backward_ns.assign(layers - 1, 67'500);
    return problem;
}

GPipeTimes random_times(std::size_t n) {
    std::mt19937 random(2);
    const auto draw = [&](std::size_t count) {
        std::vector<std::int64_t> times(count);
        for (std::int64_t& time : times) {
            time = 50'000 + static_cast<std::int64_t>(random() % 100'000);
        }
        return times;
    };
    return {draw(n), draw(n), draw(n), draw(n - 1), draw(n - 1)};
}

/// A schedule of 1,208 tasks: 256 forwards, 248 recomputes, 256 backwards, 448 copies.
void gpipe_recurrence(benchmark::State& state) {
    const GPipeTimes times = random_times(kPartitions);
    GPipeRecurrence recurrence;
    for (auto _ : state) {
        benchmark::DoNotOptimize(recurrence.step(times, kMicroBatches, Checkpoint::except_last, 0));
    }
    state.SetItemsProcessed(state.iterations());
}
BENCHMARK(gpipe_recurrence);

/// The 512 tasks of benchmarks/peers/simpy_peer.py: forward 1, backward 2, no recompute, copies without duration.
void gpipe_recurrence_without_copies(benchmark::State& state) {
    const GPipeTimes times{std::vector<std::int64_t>(kPartitions, 1), std::vector<std::int64_t>(kPartitions, 1),
                           std::vector<std::int64_t>(kPartitions, 2), std::vector<std::int64_t>(kPartitions - 1, 0),
                           std::vector<std::int64_t>(kPartitions - 1, 0)};
    GPipeRecurrence recurrence;
    for (auto _ : state) {
        benchmark::DoNotOptimize(recurrence.step(times, kMicroBatches, Checkpoint::never, 0));
    }
    state.SetItemsProcessed(state.iterations() * 2 * kPartitions * kMicroBatches);
}
BENCHMARK(gpipe_recurrence_without_copies);

/// Assigns lanes to `devices` of capacity 1 in turn. Each channel has its own link.
SharedResources lanes_on_devices(const TaskGraph& graph, std::size_t devices) {
    SharedResources resources;
    for (std::size_t device = 0; device < devices; ++device) {
        std::vector<double>& speeds = resources.speeds.emplace_back();
        for (int busy = 1; busy <= graph.num_lanes(); ++busy) {
            speeds.push_back(1.0 / busy);
        }
    }
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        resources.server_of_lane.push_back(static_cast<std::size_t>(lane) % devices);
    }
    for (std::size_t k = 0; k < graph.channels().size(); ++k) {
        resources.server_of_channel.push_back(resources.speeds.size());
        resources.speeds.push_back({1});
    }
    return resources;
}

void run_engine(benchmark::State& state, const TaskGraph& graph, const SharedResources& resources,
                const std::vector<double>& durations) {
    EventEngine engine(graph, resources);
    std::vector<double> starts(durations.size());
    std::vector<double> ends(durations.size());
    for (auto _ : state) {
        engine.run(durations, starts, ends);
        benchmark::DoNotOptimize(ends.data());
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(durations.size()));
    const auto timed = std::count_if(durations.begin(), durations.end(), [](double each) { return each > 0; });
    state.counters["timed_events"] =
        benchmark::Counter(static_cast<double>(state.iterations() * timed), benchmark::Counter::kIsRate);
}

/// The same schedule in the event engine, with a device per lane. Copies and the loss are free.
void event_engine_without_copies(benchmark::State& state) {
    const TaskGraph graph = make_schedule(
        Schedule::gpipe,
        {.num_partitions = kPartitions, .num_micro_batches = kMicroBatches, .checkpoint = Checkpoint::never});
    std::vector<double> durations;
    for (const Task& task : graph.tasks()) {
        durations.push_back(task.key.kind == TaskKind::forward ? 1 : task.key.kind == TaskKind::backward ? 2 : 0);
    }
    run_engine(state, graph, lanes_on_devices(graph, kPartitions), durations);
}
BENCHMARK(event_engine_without_copies);

/// Random durations of 50 to 150 us. Copies are free, or take as long.
std::vector<double> random_durations(const TaskGraph& graph, bool free_copies) {
    std::mt19937 random(3);
    std::vector<double> durations;
    for (const Task& task : graph.tasks()) {
        const bool is_free = free_copies && is_copy(task.key.kind);
        durations.push_back(is_free ? 0 : 50'000 + static_cast<double>(random() % 100'000));
    }
    return durations;
}

/// n lanes on `devices` of capacity 1 in turn. All tasks except free copies take time. Events are ends of tasks.
void event_engine_with_sharing(benchmark::State& state) {
    const TaskGraph graph = make_schedule(Schedule::gpipe, {.num_partitions = static_cast<int>(state.range(0)),
                                                            .num_micro_batches = static_cast<int>(state.range(1))});
    run_engine(state, graph, lanes_on_devices(graph, static_cast<std::size_t>(state.range(2))),
               random_durations(graph, true));
}
BENCHMARK(event_engine_with_sharing)->Args({8, 32, 1})->Args({8, 32, 4})->Args({64, 512, 4});

/// The same with copies that take time and share one bus in equal parts.
void event_engine_with_copies_on_a_bus(benchmark::State& state) {
    const TaskGraph graph = make_schedule(Schedule::gpipe, {.num_partitions = static_cast<int>(state.range(0)),
                                                            .num_micro_batches = static_cast<int>(state.range(1))});
    SharedResources resources = lanes_on_devices(graph, static_cast<std::size_t>(state.range(2)));
    std::vector<double>& bus = resources.speeds.emplace_back();
    for (std::size_t& server : resources.server_of_channel) {
        server = resources.speeds.size() - 1;
        bus.push_back(1.0 / static_cast<double>(bus.size() + 1));
    }
    run_engine(state, graph, resources, random_durations(graph, false));
}
BENCHMARK(event_engine_with_copies_on_a_bus)->Args({8, 32, 4})->Args({64, 512, 4});

void simulate_on_two_cores(benchmark::State& state) {
    const CheckedProfile profile = random_profile(kPartitions);
    PipelineOptions options = options_for(kPartitions, kMicroBatches);
    options.hardware.devices.assign(kPartitions, "cpu");
    options.hardware.host_cores = 2;
    for (auto _ : state) {
        benchmark::DoNotOptimize(simulate(profile, options, {.noise = false, .memory = false}));
    }
}
BENCHMARK(simulate_on_two_cores)->Unit(benchmark::kMicrosecond);

void simulate_step_only(benchmark::State& state) {
    const CheckedProfile profile = random_profile(static_cast<std::size_t>(state.range(0)));
    const PipelineOptions options = options_for(state.range(0), state.range(1));
    for (auto _ : state) {
        benchmark::DoNotOptimize(simulate(profile, options, {.noise = false, .memory = false}));
    }
}
BENCHMARK(simulate_step_only)->Args({8, 32})->Args({64, 512})->Unit(benchmark::kMicrosecond);

void simulate_with_memory(benchmark::State& state) {
    const CheckedProfile profile = random_profile(static_cast<std::size_t>(state.range(0)));
    const PipelineOptions options = options_for(state.range(0), state.range(1));
    for (auto _ : state) {
        benchmark::DoNotOptimize(simulate(profile, options, {.noise = false, .memory = true}));
    }
}
BENCHMARK(simulate_with_memory)->Args({8, 32})->Args({64, 512})->Unit(benchmark::kMicrosecond);

/// As plans simulate a candidate.
void simulate_with_peaks(benchmark::State& state) {
    const CheckedProfile profile = random_profile(static_cast<std::size_t>(state.range(0)));
    const PipelineOptions options = options_for(state.range(0), state.range(1));
    for (auto _ : state) {
        benchmark::DoNotOptimize(
            simulate(profile, options, {.noise = false, .memory = true, .memory_over_time = false}));
    }
}
BENCHMARK(simulate_with_peaks)->Args({8, 32})->Args({64, 512})->Unit(benchmark::kMicrosecond);

void simulate_with_noise(benchmark::State& state) {
    Profile profile = random_profile(kPartitions);
    for (LayerProfile& layer : profile.layers) {
        layer.forward_cv = layer.backward_cv = 0.05;
    }
    const CheckedProfile noisy = std::move(profile);
    const PipelineOptions options = options_for(kPartitions, kMicroBatches);
    for (auto _ : state) {
        benchmark::DoNotOptimize(simulate(noisy, options, {.noise = true, .memory = false}));
    }
}
BENCHMARK(simulate_with_noise)->Unit(benchmark::kMicrosecond);

/// Lanes that differ by up to a factor of three, so that the first rules do not reach the bound.
void search_schedule(benchmark::State& state) {
    std::mt19937 random(1);
    const auto between = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
    ScheduleCosts costs;
    costs.micro_batches = static_cast<int>(state.range(1));
    for (int lane = 0; lane < state.range(0); ++lane) {
        costs.partitions.push_back({.lane = LaneId{lane},
                                    .forward = between(500, 1500),
                                    .backward = between(500, 1500),
                                    .backward_weight = between(300, 1500),
                                    .copy = between(0, 400),
                                    .input = 1,
                                    .saved = 100});
        costs.limits.push_back(100 * state.range(0));
    }
    FoundSchedule found;
    for (auto _ : state) {
        found = find_schedule(costs);
    }
    state.counters["above_bound"] = static_cast<double>(found.step_ns) / static_cast<double>(found.bound_ns) - 1;
}
BENCHMARK(search_schedule)->Args({8, 32})->Args({32, 256})->Unit(benchmark::kMicrosecond);

void minmax(benchmark::State& state) {
    const std::vector<double> costs =
        problem_for(static_cast<std::size_t>(state.range(0)), 1, Checkpoint::never).forward_ns;
    for (auto _ : state) {
        benchmark::DoNotOptimize(minmax_partition(costs, static_cast<int>(state.range(1))));
    }
}
BENCHMARK(minmax)->Args({50, 8})->Args({200, 8})->Args({400, 16})->Unit(benchmark::kMicrosecond);

void optimal(benchmark::State& state) {
    const PartitionProblem problem =
        problem_for(static_cast<std::size_t>(state.range(0)), static_cast<int>(state.range(1)),
                    static_cast<Checkpoint>(state.range(2)));
    for (auto _ : state) {
        benchmark::DoNotOptimize(optimal_partitions(problem));
    }
    state.SetLabel(to_string(problem.checkpoint));
}
BENCHMARK(optimal)
    ->ArgsProduct({{200}, {8}, {0, 1, 2}})
    ->ArgsProduct({{400}, {16}, {0, 1, 2}})
    ->Unit(benchmark::kMicrosecond);

void find_balance_within_a_limit(benchmark::State& state) {
    const CheckedProfile profile = random_profile(200);
    PipelineOptions options = options_for(kPartitions, kMicroBatches);
    options.hardware.memory_limit = 260'000'000;
    for (auto _ : state) {
        benchmark::DoNotOptimize(find_balance(profile, options, kPartitions, BalanceAlgorithm::optimal));
    }
}
BENCHMARK(find_balance_within_a_limit)->Unit(benchmark::kMicrosecond);

/// All single changes of 8 lanes with 32 micro-batches and 48 layers. Argument: cores that the lanes share; 0: each has
/// a device of its own, and copies take links.
void advise_pipeline(benchmark::State& state) {
    const CheckedProfile profile = random_profile(48);
    PipelineOptions options = options_for(kPartitions, kMicroBatches);
    options.balance = Balance(std::vector<std::int64_t>(kPartitions, 6));
    options.batch = 2 * kMicroBatches;
    if (state.range(0) > 0) {
        options.hardware.link = {};
        options.hardware.devices.assign(kPartitions, kHost);
        options.hardware.host_cores = static_cast<int>(state.range(0));
    }
    std::size_t moves = 0;
    for (auto _ : state) {
        moves = advise(profile, options).moves.size();
    }
    state.counters["moves"] = static_cast<double>(moves);
}
BENCHMARK(advise_pipeline)->Arg(0)->Arg(2)->Unit(benchmark::kMillisecond);
}  // namespace
}  // namespace pipescope
