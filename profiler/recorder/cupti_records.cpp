#include "profiler/recorder/cupti_records.h"

#include <fmt/format.h>

namespace pipescope {
namespace {
std::string_view view(const char* text) {
    return text == nullptr ? std::string_view{} : std::string_view(text);
}

/// The UUID in nvidia-smi's notation.
std::string uuid_text(const CUuuid& uuid) {
    std::string text = "GPU-";
    for (int k = 0; k < 16; ++k) {
        text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[k]));
        if (k == 3 || k == 5 || k == 7 || k == 9) {
            text += '-';
        }
    }
    return text;
}

template <class Record>
const Record& as(const CUpti_Activity& record) {
    return reinterpret_cast<const Record&>(record);
}
}  // namespace

CuptiRecords::CuptiRecords(const CuptiFunctions& functions, std::int64_t origin, bool wall_clock)
    : functions_(functions), origin_(origin), wall_clock_(wall_clock) {}

void CuptiRecords::write(std::uint8_t* buffer, std::size_t bytes, CuptiRows& rows) {
    for (CUpti_Activity* record = nullptr; functions_.next_record(buffer, bytes, &record) == CUPTI_SUCCESS;) {
        write(*record, rows);
    }
}

void CuptiRecords::write(const CUpti_Activity& record, CuptiRows& rows) {
    switch (record.kind) {
        case CUPTI_ACTIVITY_KIND_KERNEL:
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: return write(as<CUpti_ActivityKernel10>(record), rows);
        case CUPTI_ACTIVITY_KIND_MEMCPY: return write(as<CUpti_ActivityMemcpy6>(record), rows);
        case CUPTI_ACTIVITY_KIND_MEMCPY2: return write(as<CUpti_ActivityMemcpyPtoP4>(record), rows);
        case CUPTI_ACTIVITY_KIND_MEMSET: return write(as<CUpti_ActivityMemset4>(record), rows);
        case CUPTI_ACTIVITY_KIND_GRAPH_TRACE: return write(as<CUpti_ActivityGraphTrace2>(record), rows);
        case CUPTI_ACTIVITY_KIND_RUNTIME:
        case CUPTI_ACTIVITY_KIND_DRIVER: return write(as<CUpti_ActivityAPI>(record), rows);
        case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: return write(as<CUpti_ActivitySynchronization2>(record), rows);
        case CUPTI_ACTIVITY_KIND_CUDA_EVENT: return write(as<CUpti_ActivityCudaEvent2>(record), rows);
        case CUPTI_ACTIVITY_KIND_MEMORY2: return write(as<CUpti_ActivityMemory4>(record), rows);
        case CUPTI_ACTIVITY_KIND_OVERHEAD: return write(as<CUpti_ActivityOverhead3>(record), rows);
        case CUPTI_ACTIVITY_KIND_DEVICE: return write(as<CUpti_ActivityDevice5>(record), rows);
        case CUPTI_ACTIVITY_KIND_CONTEXT: return write(as<CUpti_ActivityContext3>(record), rows);
        case CUPTI_ACTIVITY_KIND_STREAM: return write(as<CUpti_ActivityStream>(record), rows);
        default: ++unknown_;
    }
}

template <class Activity>
DeviceSpan CuptiRecords::span_of(const Activity& activity, std::uint64_t graph_node) const {
    return {time(activity.start), time(activity.end),     activity.deviceId, activity.contextId,
            activity.streamId,    activity.correlationId, graph_node};
}

void CuptiRecords::write(const CUpti_ActivityKernel10& kernel, CuptiRows& rows) {
    if (!is_complete(kernel.start, kernel.end)) {
        return;
    }
    const KernelName& name = name_of_kernel(kernel.name);
    KernelRecord row;
    row.span = span_of(kernel, kernel.graphNodeId);
    row.mangled_name = name.mangled;
    row.demangled_name = name.demangled;
    row.short_name = name.brief;
    row.launch_type = kernel.launchType;
    row.cache_config = kernel.cacheConfig.config.executed;
    row.registers_per_thread = kernel.registersPerThread;
    row.grid = {kernel.gridX, kernel.gridY, kernel.gridZ};
    row.block = {kernel.blockX, kernel.blockY, kernel.blockZ};
    row.static_shared_memory = kernel.staticSharedMemory;
    row.dynamic_shared_memory = kernel.dynamicSharedMemory;
    row.local_memory_per_thread = kernel.localMemoryPerThread;
    row.local_memory_total = static_cast<std::int64_t>(kernel.localMemoryTotal_v2);  // the older field has only 32 bits
    row.grid_id = kernel.gridId;
    row.shared_memory_executed = kernel.sharedMemoryExecuted;
    row.shared_memory_limit = kernel.shmemLimitConfig;
    rows.add(row);
}

template <class Copy>
void CuptiRecords::write_copy(const Copy& copy, std::optional<MemcpyRecord::Peers> peers, std::uint64_t copies,
                              CuptiRows& rows) {
    if (is_complete(copy.start, copy.end)) {
        rows.add(MemcpyRecord{span_of(copy, copy.graphNodeId), copy.bytes, copy.copyKind, copy.srcKind, copy.dstKind,
                              peers, copies});
    }
}

void CuptiRecords::write(const CUpti_ActivityMemcpy6& copy, CuptiRows& rows) {
    write_copy(copy, std::nullopt, copy.copyCount, rows);
}

void CuptiRecords::write(const CUpti_ActivityMemcpyPtoP4& copy, CuptiRows& rows) {
    write_copy(copy, MemcpyRecord::Peers{copy.srcDeviceId, copy.srcContextId, copy.dstDeviceId, copy.dstContextId}, 1,
               rows);
}

void CuptiRecords::write(const CUpti_ActivityMemset4& set, CuptiRows& rows) {
    if (is_complete(set.start, set.end)) {
        rows.add(MemsetRecord{span_of(set, set.graphNodeId), set.value, set.bytes, set.memoryKind});
    }
}

void CuptiRecords::write(const CUpti_ActivityGraphTrace2& graph, CuptiRows& rows) {
    if (is_complete(graph.start, graph.end)) {
        rows.add(GraphRecord{span_of(graph, 0), graph.graphId});
    }
}

void CuptiRecords::write(const CUpti_ActivityAPI& call, CuptiRows& rows) {
    if (is_complete(call.start, call.end)) {
        const bool driver = call.kind == CUPTI_ACTIVITY_KIND_DRIVER;
        rows.add(ApiRecord{time(call.start), time(call.end), driver, call.threadId, call.correlationId,
                           name_of_call(driver, call.cbid), call.returnValue});
    }
}

void CuptiRecords::write(const CUpti_ActivitySynchronization2& wait, CuptiRows& rows) {
    if (is_complete(wait.start, wait.end)) {
        rows.add(SynchronizationRecord{{time(wait.start), time(wait.end), device_of(wait.contextId), wait.contextId,
                                        wait.streamId, wait.correlationId, 0},
                                       wait.type,
                                       wait.cudaEventId,
                                       wait.cudaEventSyncId});
    }
}

void CuptiRecords::write(const CUpti_ActivityCudaEvent2& event, CuptiRows& rows) {
    rows.add(CudaEventRecord{event.deviceTimestamp == 0 ? 0 : time(event.deviceTimestamp), event.deviceId,
                             event.contextId, event.streamId, event.correlationId, event.eventId,
                             event.cudaEventSyncId});
}

void CuptiRecords::write(const CUpti_ActivityMemory4& memory, CuptiRows& rows) {
    rows.add(DeviceMemoryRecord{time(memory.timestamp), memory.deviceId, memory.contextId, memory.streamId,
                                memory.correlationId, memory.address, memory.PC, memory.bytes, memory.memoryKind,
                                memory.memoryOperationType, view(memory.name)});
}

void CuptiRecords::write(const CUpti_ActivityOverhead3& overhead, CuptiRows& rows) {
    if (is_complete(overhead.start, overhead.end)) {
        const bool of_thread = overhead.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD;
        rows.add(CuptiOverheadRecord{time(overhead.start), time(overhead.end),
                                     of_thread ? overhead.objectId.pt.threadId : 0, overhead.correlationId,
                                     overhead.overheadKind});
    }
}

void CuptiRecords::write(const CUpti_ActivityDevice5& device, CuptiRows& rows) {
    constexpr std::int64_t kKilo = 1000;  // CUPTI uses kB/s and kHz
    DeviceRecord row;
    row.device = device.id;
    row.name = view(device.name);
    row.uuid = uuid_text(device.uuid);
    row.total_memory = static_cast<std::int64_t>(device.globalMemorySize);
    row.l2_cache = device.l2CacheSize;
    row.memory_bandwidth = static_cast<std::int64_t>(device.globalMemoryBandwidth) * kKilo;
    row.clock_rate = std::int64_t{device.coreClockRate} * kKilo;
    row.multiprocessors = device.numMultiprocessors;
    row.compute_major = static_cast<int>(device.computeCapabilityMajor);
    row.compute_minor = static_cast<int>(device.computeCapabilityMinor);
    rows.add(row);
}

void CuptiRecords::write(const CUpti_ActivityContext3& context, CuptiRows& rows) {
    devices_[context.contextId] = context.deviceId;
    rows.add(ContextRecord{context.contextId, context.deviceId, context.nullStreamId, context.parentContextId,
                           context.isGreenContext != 0});
}

void CuptiRecords::write(const CUpti_ActivityStream& stream, CuptiRows& rows) {
    rows.add(StreamRecord{stream.streamId, stream.contextId, stream.priority, stream.flag});
}

std::int64_t CuptiRecords::time(std::uint64_t timestamp) const {
    const auto at = static_cast<std::int64_t>(timestamp);
    return (wall_clock_ && !clocks_.empty() ? clocks_.monotonic_of(at) : at) - origin_;
}

bool CuptiRecords::is_complete(std::uint64_t start, std::uint64_t end) {
    // Zero: not measured for lack of device memory, or still running when CUPTI was flushed.
    const bool complete = start != 0 && end != 0;
    incomplete_ += complete ? 0 : 1;
    return complete;
}

const std::string& CuptiRecords::name_of_call(bool driver, std::uint32_t callback) {
    std::string& name = call_names_[{driver, callback}];
    if (name.empty()) {
        const char* known = nullptr;
        const CUpti_CallbackDomain domain = driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;
        if (functions_.callback_name != nullptr &&
            functions_.callback_name(domain, callback, &known) == CUPTI_SUCCESS && known != nullptr) {
            name = known;
        } else {
            name = fmt::format("{} call {}", driver ? "driver" : "run-time", callback);
        }
    }
    return name;
}

const KernelName& CuptiRecords::name_of_kernel(const char* mangled) {
    const std::string key(mangled == nullptr ? "(unknown kernel)" : mangled);
    const auto found = kernel_names_.find(key);
    return found != kernel_names_.end() ? found->second : kernel_names_.emplace(key, kernel_name(key)).first->second;
}

std::uint32_t CuptiRecords::device_of(std::uint32_t context) const {
    const auto found = devices_.find(context);
    return found == devices_.end() ? kUnknownDevice : found->second;
}
}  // namespace pipescope
