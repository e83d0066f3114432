// Overhead of the engine beyond the layers. For comparable figures, pin the process to one core, so that overlapping
// lanes do not hide the overhead:
//     taskset -c 0 build/release/bin/engine_benchmark --benchmark_repetitions=5

#include "base/sample_statistics.h"
#include "engine/gpipe.h"
#include "engine/gradients/micro_batch_graph.h"
#include "engine/lanes/task_ranges.h"
#include "engine/model_layers.h"
#include "engine/partition.h"
#include "engine/plain_model.h"
#include "engine/skips/skip_layout.h"
#include "models/zoo.h"

#include <benchmark/benchmark.h>
#include <malloc.h>
#include <torch/torch.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

double seconds_on(clockid_t clock) {
    std::timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Alternates a step of the plain model and one of the pipeline, since a machine's speed drifts. The benchmark's own
/// time is the pipeline's. The counters are µs per (partition, micro-batch), for forward, backward and, if the mode has
/// it, recompute: wall time, and processor time of all threads, which other programs disturb less.
void step_overhead(benchmark::State& state, Checkpoint mode) {
    using Clock = std::chrono::steady_clock;
    at::set_num_threads(1);
    PlainModel plain(trivial_layers(), {.chunks = kMicroBatches});
    GPipe pipeline(trivial_layers(), {.balance = std::vector<std::int64_t>(kPartitions, 1),
                                      .devices = std::vector<std::string>(kPartitions, "cpu"),
                                      .chunks = kMicroBatches,
                                      .checkpoint = mode});
    // The commands' recorder is linked, and listens to every task; a program of a user has none.
    const bool was_enabled = task_ranges_enabled.exchange(false);
    const Tensors input{torch::randn({kMicroBatches, 8})};
    const Tensors target;
    const auto warm_up = [&] {
        plain.step(input, target, mean_of);
        pipeline.step(input, target, mean_of);
    };
    warm_up();
    std::chrono::duration<double> plain_time{0};
    std::chrono::duration<double> pipeline_time{0};
    double plain_work = 0;
    double pipeline_work = 0;
    for (auto _ : state) {
        const double work_before = seconds_on(CLOCK_PROCESS_CPUTIME_ID);
        const auto start = Clock::now();
        plain.step(input, target, mean_of);
        const auto between = Clock::now();
        const double work_between = seconds_on(CLOCK_PROCESS_CPUTIME_ID);
        pipeline.step(input, target, mean_of);
        const auto end = Clock::now();
        pipeline_work += seconds_on(CLOCK_PROCESS_CPUTIME_ID) - work_between;
        plain_work += work_between - work_before;
        plain_time += between - start;
        pipeline_time += end - between;
        state.SetIterationTime(std::chrono::duration<double>(end - between).count());
    }
    const double tasks = 1e-6 * kPartitions * kMicroBatches * static_cast<double>(state.iterations());
    state.counters["plain_us"] = plain_time.count() / tasks;
    state.counters["pipeline_us"] = pipeline_time.count() / tasks;
    state.counters["overhead_us"] = (pipeline_time - plain_time).count() / tasks;
    state.counters["plain_cpu_us"] = plain_work / tasks;
    state.counters["overhead_cpu_us"] = (pipeline_work - plain_work) / tasks;
    task_ranges_enabled = was_enabled;
}
BENCHMARK_CAPTURE(step_overhead, never, Checkpoint::never)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step_overhead, except_last, Checkpoint::except_last)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step_overhead, always, Checkpoint::always)->UseManualTime()->Unit(benchmark::kMillisecond);

/// One micro-batch on one partition, which is the whole model.
class WholeModel {
public:
    WholeModel(const std::string& name, std::int64_t samples) : WholeModel(make_model(name), samples) {}

    void forward() {
        marks_.clear();
        graph_ = {};
        const Tensors outputs = partition_.forward(graph_.open(input_), {}, &marks_);
        gradients_ = {torch::ones_like(outputs[0])};
        graph_.close(outputs);
    }
    void backward() { graph_.backward(std::exchange(gradients_, {})); }
    void backward_inputs() {
        SplitNotes notes(partition_.layers().size());
        graph_.backward_inputs(std::exchange(gradients_, {}), marks_, notes);
    }
    void backward_weights() { graph_.backward_weights(); }

private:
    WholeModel(const ModelSpec& model, std::int64_t samples)
        : partition_(partition_of(make_layers(model.layers))), input_(model.make_batch(samples, 0).input) {}

    static Partition partition_of(std::vector<ModelLayer> layers) {
        const Balance balance({static_cast<std::int64_t>(layers.size())});
        const SkipLayout skips(declared_skips(layers), balance);
        return {PartitionId{0}, LayerId{0}, std::move(layers), skips.of(PartitionId{0})};
    }

    Partition partition_;
    Tensors input_;
    MicroBatchGraph graph_;
    LayerMarks marks_;
    Tensors gradients_;
};

/// Alternates a whole backward and one in two halves. The benchmark's own time is that of both halves. The counters are
/// milliseconds of the thread's processor time: B whole, I and W the halves; and the median of the pairs' ratios.
/// The C library keeps freed memory, as it does in a lane whose other micro-batches hold some. Alone, a micro-batch
/// frees all that it had, and the library gives it back to the system; the halves, which hold more, then take most of
/// it anew.
void split_backward(benchmark::State& state, const std::string& name, std::int64_t samples) {
    constexpr int kMostByHeap = 1 << 30;
    ::mallopt(M_MMAP_THRESHOLD, kMostByHeap);
    ::mallopt(M_TRIM_THRESHOLD, -1);
    at::set_num_threads(1);
    WholeModel model(name, samples);
    model.forward();
    model.backward();
    std::vector<double> whole;
    std::vector<double> inputs;
    std::vector<double> weights;
    std::vector<double> ratios;
    for (auto _ : state) {
        model.forward();
        const double start = seconds_on(CLOCK_THREAD_CPUTIME_ID);
        model.backward();
        whole.push_back(seconds_on(CLOCK_THREAD_CPUTIME_ID) - start);
        model.forward();
        const double half = seconds_on(CLOCK_THREAD_CPUTIME_ID);
        model.backward_inputs();
        const double between = seconds_on(CLOCK_THREAD_CPUTIME_ID);
        model.backward_weights();
        weights.push_back(seconds_on(CLOCK_THREAD_CPUTIME_ID) - between);
        inputs.push_back(between - half);
        ratios.push_back((inputs.back() + weights.back()) / whole.back());
        state.SetIterationTime(inputs.back() + weights.back());
    }
    state.counters["B_ms"] = 1e3 * median(whole);
    state.counters["I_ms"] = 1e3 * median(inputs);
    state.counters["W_ms"] = 1e3 * median(weights);
    state.counters["ratio"] = median(ratios);
}
BENCHMARK_CAPTURE(split_backward, transformer, "transformer:layers=4", 4)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(split_backward, mlp, "mlp:width=1024", 64)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(split_backward, resnet101, "resnet101", 2)->UseManualTime()->Unit(benchmark::kMillisecond);

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
