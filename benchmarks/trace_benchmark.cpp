// Rows per second that one core writes to a trace, and reads from it. items_per_second counts CPU time. The gate is 1 M
// rows/s for "ranges and tasks", including commits every 20,000 rows. Run with --benchmark_repetitions=9 and quote the
// median.

#include "trace/store/trace_reader.h"
#include "trace/store/trace_writer.h"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace pipescope {
namespace {
constexpr int kRowsPerCommit = 20'000;  // rows in the 20 ms period of a recorder at 1 M rows/s
constexpr int kRows = 400'000;

std::filesystem::path scratch_file() {
    return std::filesystem::temp_directory_path() / ("pipescope-trace-" + std::to_string(getpid()) + ".sqlite");
}

Slice slice(int k) {
    return {{k / 64, TaskKind::forward, k % 8, k / 8 % 8, -1},
            LaneId{k % 8},
            Nanoseconds{std::int64_t{k} * 100'000},
            Nanoseconds{std::int64_t{k} * 100'000 + 90'000},
            0};
}

NvtxRecord range(int k) {
    const Slice of = slice(k);
    NvtxRecord record;
    record.start = of.start.count();
    record.end = of.end.count();
    record.text = "forward";
    record.global_tid = (4321LL << 24) | (4321 + k % 8);
    record.domain_id = 1;
    record.uint64_value = pack(of.key);
    return record;
}

/// Calls `add_row` with increasing numbers until the trace has kRows rows, with a recorder's commits.
template <class AddRow>
void write_rows(benchmark::State& state, int rows_per_call, AddRow&& add_row) {
    for (auto _ : state) {
        TraceWriter writer(scratch_file(), IfExists::replace);
        writer.set_lanes(std::vector<LaneInfo>(8, {"lane", "cpu"}));
        for (int k = 0; k < kRows / rows_per_call; ++k) {
            add_row(writer, k);
            if (k % (kRowsPerCommit / rows_per_call) == 0) {
                writer.commit();
            }
        }
        writer.commit();
        state.PauseTiming();
        writer.close();
        state.ResumeTiming();
    }
    state.SetItemsProcessed(state.iterations() * kRows);
    std::filesystem::remove(scratch_file());
}

/// Writes the rows of each engine task: its range and the task itself.
void ranges_and_tasks(benchmark::State& state) {
    write_rows(state, 2, [](TraceWriter& writer, int k) {
        const std::int64_t row = writer.add_range(range(k));
        writer.add_task(slice(k), Source::measured, row);
    });
}
BENCHMARK(ranges_and_tasks)->Unit(benchmark::kMillisecond);

void ranges(benchmark::State& state) {
    write_rows(state, 1, [](TraceWriter& writer, int k) { writer.add_range(range(k)); });
}
BENCHMARK(ranges)->Unit(benchmark::kMillisecond);

void tasks(benchmark::State& state) {
    write_rows(state, 1, [](TraceWriter& writer, int k) { writer.add_task(slice(k), Source::measured); });
}
BENCHMARK(tasks)->Unit(benchmark::kMillisecond);

void memory_samples(benchmark::State& state) {
    MemorySample sample{LaneId{1}, Nanoseconds{0}, 1 << 20, 1 << 21, 0, 77};
    for (std::size_t c = 0; c < kNumMemoryCategories; ++c) {
        sample.composition[static_cast<MemoryCategory>(c)] = 1000;
    }
    write_rows(state, 1, [&](TraceWriter& writer, int k) {
        sample.time = Nanoseconds{k};
        writer.add_memory(sample);
    });
}
BENCHMARK(memory_samples)->Unit(benchmark::kMillisecond);

/// Reads a timeline from a finished trace.
void read_tasks(benchmark::State& state) {
    {
        TraceWriter writer(scratch_file(), IfExists::replace);
        for (int k = 0; k < kRows; ++k) {
            writer.add_task(slice(k), Source::measured);
        }
        writer.close();
    }
    for (auto _ : state) {
        benchmark::DoNotOptimize(TraceReader(scratch_file()).timeline(Source::measured));
    }
    state.SetItemsProcessed(state.iterations() * kRows);
    std::filesystem::remove(scratch_file());
}
BENCHMARK(read_tasks)->Unit(benchmark::kMillisecond);
}  // namespace
}  // namespace pipescope

BENCHMARK_MAIN();
