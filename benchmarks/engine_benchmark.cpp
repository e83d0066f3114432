// Overhead of the engine beyond the layers. For comparable figures, pin the process to one core, so that overlapping
// lanes do not hide the overhead:
//     taskset -c 0 build/release/bin/engine_benchmark --benchmark_repetitions=5

#include "engine/gpipe.h"
#include "engine/lanes/task_ranges.h"
#include "engine/reference.h"

#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include <chrono>

namespace pipescope {
namespace {
constexpr int kPartitions = 8;
constexpr int kMicroBatches = 32;

std::vector<LayerSpec> trivial_layers() {
    std::vector<LayerSpec> layers;
    for (int j = 0; j < kPartitions; ++j) {
        layers.push_back({"linear", [] { return module_layer(torch::nn::AnyModule(torch::nn::Linear(8, 8))); }});
    }
    return layers;
}

at::Tensor mean_of(const Tensors& output, const Tensors&) {
    return output[0].mean();
}

/// Alternates a step of the plain model and one of the pipeline, since a machine's speed drifts. The benchmark's own
/// time is the pipeline's. The counters are µs per (partition, micro-batch), for forward, backward and, if the mode has
/// it, recompute.
void step_overhead(benchmark::State& state, Checkpoint mode) {
    using Clock = std::chrono::steady_clock;
    at::set_num_threads(1);
    PlainModel plain(trivial_layers(), {.chunks = kMicroBatches});
    GPipe pipeline(trivial_layers(), {.balance = std::vector<std::int64_t>(kPartitions, 1),
                                      .devices = std::vector<std::string>(kPartitions, "cpu"),
                                      .chunks = kMicroBatches,
                                      .checkpoint = mode});
    const Tensors input{torch::randn({kMicroBatches, 8})};
    const Tensors target;
    const auto warm_up = [&] {
        plain.step(input, target, mean_of);
        pipeline.step(input, target, mean_of);
    };
    warm_up();
    std::chrono::duration<double> plain_time{0};
    std::chrono::duration<double> pipeline_time{0};
    for (auto _ : state) {
        const auto start = Clock::now();
        plain.step(input, target, mean_of);
        const auto between = Clock::now();
        pipeline.step(input, target, mean_of);
        const auto end = Clock::now();
        plain_time += between - start;
        pipeline_time += end - between;
        state.SetIterationTime(std::chrono::duration<double>(end - between).count());
    }
    const double tasks = 1e-6 * kPartitions * kMicroBatches * static_cast<double>(state.iterations());
    state.counters["plain_us"] = plain_time.count() / tasks;
    state.counters["pipeline_us"] = pipeline_time.count() / tasks;
    state.counters["overhead_us"] = (pipeline_time - plain_time).count() / tasks;
}
BENCHMARK_CAPTURE(step_overhead, never, Checkpoint::never)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step_overhead, except_last, Checkpoint::except_last)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step_overhead, always, Checkpoint::always)->UseManualTime()->Unit(benchmark::kMillisecond);

/// This program has no NVTX tool.
void task_range_with_idle_recorder(benchmark::State& state) {
    prepare_task_ranges();
    const TaskKey key{0, TaskKind::forward, 0, 0, -1};
    for (auto _ : state) {
        const TaskRange range(key);
        benchmark::ClobberMemory();
    }
}
BENCHMARK(task_range_with_idle_recorder);
}  // namespace
}  // namespace pipescope

int engine_benchmark_main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
        return 1;
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
