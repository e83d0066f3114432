// Cost of one NVTX range with a recorder and with an idle handler, and write rate of a trace. Run with
// --benchmark_repetitions=9 --benchmark_enable_random_interleaving=true and quote the median.

#include "profiler/recorder/recorder.h"
#include "trace/store/trace_reader.h"

#include <benchmark/benchmark.h>
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

namespace pipescope {
namespace {
std::filesystem::path scratch_file() {
    return std::filesystem::temp_directory_path() / ("pipescope-benchmark-" + std::to_string(getpid()) + ".sqlite");
}

nvtxEventAttributes_t task_event(nvtxDomainHandle_t domain) {
    nvtxEventAttributes_t event{};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    event.message.registered = nvtxDomainRegisterStringA(domain, "forward");
    event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    event.payload.ullValue = pack({0, TaskKind::forward, 0, 0, -1});
    return event;
}

/// The drain thread sleeps, so that only the emitting thread is measured. The number of iterations is that of the
/// ring's entries, so that nothing is dropped.
constexpr std::int64_t kRanges = 1 << 15;

std::unique_ptr<Recorder> start_recorder() {
    RecorderOptions options;
    options.path = scratch_file();
    options.if_exists = IfExists::replace;
    options.ring_entries = kRanges;
    options.drain_period = std::chrono::hours{1};
    auto recorder = std::make_unique<Recorder>(options);
    for (std::int64_t k = 0; k < kRanges; ++k) {
        nvtxMarkA("touches the ring's memory, which a run does once");
    }
    recorder->flush();
    return recorder;
}

void stop_recorder(Recorder& recorder, benchmark::State& state) {
    recorder.stop();
    for (const DropRecord& drop : TraceReader(scratch_file()).drops()) {
        if (drop.dropped != 0) {
            state.SkipWithError("ranges were dropped");
        }
    }
    std::filesystem::remove(scratch_file());
}

void emit_pairs(benchmark::State& state) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("pipescope");
    const nvtxEventAttributes_t event = task_event(domain);
    for (auto _ : state) {
        nvtxDomainRangePushEx(domain, &event);
        nvtxDomainRangePop(domain);
    }
}

void BM_RecordedPairWithRegisteredString(benchmark::State& state) {
    auto recorder = start_recorder();
    emit_pairs(state);
    stop_recorder(*recorder, state);
}
BENCHMARK(BM_RecordedPairWithRegisteredString)->Iterations(kRanges);

void BM_RecordedPairWithPlainText(benchmark::State& state) {
    auto recorder = start_recorder();
    for (auto _ : state) {
        nvtxRangePushA("forward");
        nvtxRangePop();
    }
    stop_recorder(*recorder, state);
}
BENCHMARK(BM_RecordedPairWithPlainText)->Iterations(kRanges);

void BM_PairWithoutRecorder(benchmark::State& state) {
    emit_pairs(state);
}
BENCHMARK(BM_PairWithoutRecorder);

void BM_WriteTask(benchmark::State& state) {
    TraceWriter writer(scratch_file(), IfExists::replace);
    Slice slice{{0, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds{0}, Nanoseconds{1}, 0};
    for (auto _ : state) {
        slice.start += Nanoseconds{2};
        slice.end += Nanoseconds{2};
        writer.add_task(slice, Source::measured);
    }
    writer.close();
    std::filesystem::remove(scratch_file());
}
BENCHMARK(BM_WriteTask)->Iterations(1'000'000)->Unit(benchmark::kNanosecond);

void BM_ReadTimelineOfAMillionTasks(benchmark::State& state) {
    constexpr int kTasks = 1'000'000;
    {
        TraceWriter writer(scratch_file(), IfExists::replace);
        for (int k = 0; k < kTasks; ++k) {
            writer.add_task(
                {{k / 500, TaskKind::forward, k % 8, k % 32, -1}, LaneId{k % 8}, Nanoseconds{k}, Nanoseconds{k + 5}, 0},
                Source::measured);
        }
        writer.close();
    }
    for (auto _ : state) {
        benchmark::DoNotOptimize(TraceReader(scratch_file()).timeline(Source::measured));
    }
    std::filesystem::remove(scratch_file());
}
BENCHMARK(BM_ReadTimelineOfAMillionTasks)->Unit(benchmark::kMillisecond);
}  // namespace
}  // namespace pipescope
