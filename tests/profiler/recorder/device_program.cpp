// Records work of the fake CUDA device, or tries to: device_program MODE TRACE. Prints nothing, and exits with 0 even
// if devices could not be recorded.

#include "cupti_record.h"
#include "fake_cuda/fake_cupti.h"
#include "nvtx_task.h"
#include "profiler/recorder/device_recording.h"
#include "profiler/recorder/recorder.h"
#include "profiler/recorder/recording_clock.h"

#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#include <unistd.h>

#include <string>

namespace pipescope {
namespace {
constexpr std::uint32_t kStream = 13;

/// The fake CUPTI if the recorder loaded it; otherwise nothing is emitted.
const FakeCupti* fake() {
    void* library = dlopen("libcupti.so.13", RTLD_LAZY | RTLD_NOLOAD);
    return library == nullptr ? nullptr : static_cast<const FakeCupti*>(dlsym(library, "fake_cupti"));
}

template <class Record>
void emit(const Record& record) {
    if (const FakeCupti* device = fake()) {
        device->emit(&record, sizeof(record));
    }
}

void emit_unfinished(const CUpti_ActivityKernel10& kernel) {
    if (const FakeCupti* device = fake()) {
        device->emit_unfinished(&kernel, sizeof(kernel));
    }
}

std::uint64_t now() {
    const FakeCupti* device = fake();
    return device == nullptr ? 0 : device->now();
}

/// Emits the host's runtime call of a launch, and returns its start.
std::uint64_t emit_call(CUpti_CallbackId call_id, std::uint32_t correlation) {
    auto call = make_record<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
    call.cbid = call_id;
    call.start = now();
    call.end = call.start + 1;
    call.threadId = static_cast<std::uint32_t>(gettid());
    call.correlationId = correlation;
    emit(call);
    return call.start;
}

void launch_kernel(std::uint32_t correlation, std::uint64_t delay, std::uint64_t duration) {
    const std::uint64_t start = emit_call(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, correlation);
    auto kernel = make_record<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    kernel.name = "_ZN2at6native12_GLOBAL__N_13addIfLi4EEEvPT_i";
    kernel.start = start + delay;
    kernel.end = kernel.start + duration;
    kernel.contextId = 1;
    kernel.streamId = kStream;
    kernel.correlationId = correlation;
    kernel.gridX = 4;
    kernel.blockX = 128;
    kernel.registersPerThread = 32;
    kernel.localMemoryTotal_v2 = std::uint64_t{1} << 33;
    emit(kernel);
}

/// One launch of a CUDA graph with three kernels. With GRAPH_TRACE off, CUPTI reports a kernel per node.
void launch_graph(const TaskKey& key, std::uint32_t correlation) {
    const NvtxTask range(key);
    const std::uint64_t start = emit_call(CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, correlation);
    for (std::uint64_t node = 1; node <= 3; ++node) {
        auto kernel = make_record<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
        kernel.name = "_Z4nodev";
        kernel.start = start + 1000 * node;
        kernel.end = kernel.start + 400;
        kernel.contextId = 1;
        kernel.streamId = kStream;
        kernel.correlationId = correlation;
        kernel.graphNodeId = 70 + node;
        emit(kernel);
    }
}

void run_task(const TaskKey& key, std::uint32_t first_correlation) {
    const NvtxTask range(key);
    launch_kernel(first_correlation, 5000, 1000);
    launch_kernel(first_correlation + 1, 7000, 2000);
}

void emit_device() {
    auto device = make_record<CUpti_ActivityDevice5>(CUPTI_ACTIVITY_KIND_DEVICE);
    device.name = "Fake GPU";
    device.globalMemorySize = 1 << 30;
    device.globalMemoryBandwidth = 4'000'000;  // kB/s
    device.coreClockRate = 1'000'000;          // kHz
    device.numMultiprocessors = 132;
    device.computeCapabilityMajor = 9;
    emit(device);
    auto context = make_record<CUpti_ActivityContext3>(CUPTI_ACTIVITY_KIND_CONTEXT);
    context.contextId = 1;
    context.nullStreamId = 7;
    emit(context);
    auto stream = make_record<CUpti_ActivityStream>(CUPTI_ACTIVITY_KIND_STREAM);
    stream.contextId = 1;
    stream.streamId = kStream;
    stream.flag = CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING;
    emit(stream);
}

template <class Record>
Record spanning(CUpti_ActivityKind kind) {
    auto record = make_record<Record>(kind);
    record.start = now();
    record.end = record.start + 10;
    record.contextId = 1;
    record.streamId = kStream;
    return record;
}

void emit_copies() {
    auto copy = spanning<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY);
    copy.bytes = 4096;
    copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
    copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    copy.copyCount = 1;
    emit(copy);
    auto peer = spanning<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2);
    peer.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
    peer.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    peer.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    peer.bytes = 8192;
    peer.dstDeviceId = 1;
    emit(peer);
    auto set = spanning<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
    set.value = 0xab;
    set.bytes = 64;
    set.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    emit(set);
    auto running = spanning<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    running.end = 0;
    emit_unfinished(running);
}

void emit_the_rest() {
    auto call = make_record<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_DRIVER);
    call.cbid = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;
    call.start = now();
    call.end = call.start + 10;
    call.threadId = static_cast<std::uint32_t>(gettid());
    emit(call);
    auto wait = spanning<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
    wait.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
    wait.cudaEventId = 3;
    wait.cudaEventSyncId = 77;
    emit(wait);
    auto event = make_record<CUpti_ActivityCudaEvent2>(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
    event.streamId = kStream;
    event.eventId = 3;
    event.deviceTimestamp = now();
    event.cudaEventSyncId = 77;
    emit(event);
    auto memory = make_record<CUpti_ActivityMemory4>(CUPTI_ACTIVITY_KIND_MEMORY2);
    memory.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
    memory.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    memory.bytes = 1 << 20;
    memory.timestamp = now();
    emit(memory);
    auto overhead = make_record<CUpti_ActivityOverhead3>(CUPTI_ACTIVITY_KIND_OVERHEAD);
    overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
    overhead.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
    overhead.objectId.pt.threadId = static_cast<std::uint32_t>(gettid());
    overhead.start = now();
    overhead.end = overhead.start + 10;
    emit(overhead);
    emit(make_record<CUpti_ActivityName>(CUPTI_ACTIVITY_KIND_NAME));
}

void record_everything(const std::string& path) {
    Recorder recorder({.path = path});
    nvtxNameCudaStreamA(reinterpret_cast<cudaStream_t>(std::uintptr_t{0x1000} + kStream), "copies");
    nvtxNameCudaStreamA(reinterpret_cast<cudaStream_t>(std::uintptr_t{0x77}), "unknown to CUPTI");
    emit_device();
    run_task({0, TaskKind::forward, 0, 0, -1}, 1);
    run_task({0, TaskKind::backward, 0, 0, -1}, 3);
    emit_copies();
    emit_the_rest();
    recorder.stop();
}

void record_graph(const std::string& path) {
    Recorder recorder({.path = path});
    emit_device();
    launch_graph({0, TaskKind::forward, 0, 0, -1}, 1);
    recorder.stop();
}

/// Records a kernel that still runs while the records of a period are written twice.
void record_long_kernel(const std::string& path) {
    TraceWriter writer(path, IfExists::refuse);
    DeviceRecording recording(writer, {.origin = recording_clock_ns(), .pid = getpid()});
    auto kernel = spanning<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    kernel.end = 0;
    emit_unfinished(kernel);
    recording.write_when_due(std::int64_t{1} << 60);
    recording.write_when_due(std::int64_t{1} << 61);
    if (const FakeCupti* device = fake()) {
        device->finish_all(device->now());
    }
    recording.finish();
    writer.close();
}

/// Records more than a few small buffers can hold, without a concurrent writer.
void overload(const std::string& path) {
    TraceWriter writer(path, IfExists::refuse);
    DeviceCaptureOptions options;
    options.origin = recording_clock_ns();
    options.pid = getpid();
    options.buffer_bytes = 4096;
    options.most_buffers = 2;
    DeviceRecording recording(writer, options);
    for (std::uint32_t k = 1; k <= 1000; ++k) {
        launch_kernel(k, 100, 10);
    }
    recording.finish();
    writer.close();
}
}  // namespace
}  // namespace pipescope

int main(int argc, char** argv) {
    if (argc != 3) {
        return 2;
    }
    if (std::string(argv[1]) == "overload") {
        pipescope::overload(argv[2]);
    } else if (std::string(argv[1]) == "graph") {
        pipescope::record_graph(argv[2]);
    } else if (std::string(argv[1]) == "long-kernel") {
        pipescope::record_long_kernel(argv[2]);
    } else if (std::string(argv[1]) == "again") {
        pipescope::record_graph(argv[2]);
        pipescope::record_everything(std::string(argv[2]) + ".second");
    } else {
        pipescope::record_everything(argv[2]);
    }
    return 0;
}
