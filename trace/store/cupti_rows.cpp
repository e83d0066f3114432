#include "trace/store/cupti_rows.h"

#include "trace/store/sqlite_insert.h"

namespace pipescope {
namespace {
constexpr int kRuntimeClass = 0;  // ENUM_NSYS_EVENT_CLASS
constexpr int kDriverClass = 1;

/// nsys numbers kinds one lower than CUPTI, and puts CUPTI's "unknown" (0) last.
int nsys_memory_kind(int kind) {
    constexpr int kNsysUnknown = 7;
    return kind <= 0 || kind > kNsysUnknown ? kNsysUnknown : kind - 1;
}

/// nsys numbers the driver's compiler 2. CUPTI's other kinds, which are multiples of 2^16, start at 3.
int nsys_overhead_type(int kind) {
    return kind >> 16 != 0 ? (kind >> 16) + 2 : kind == 0 ? 0 : kind + 1;
}

std::optional<std::uint64_t> unless_zero(std::uint64_t value) {
    return value == 0 ? std::nullopt : std::optional(value);
}
}  // namespace

struct CuptiRows::Impl {
    Impl(TraceWriter& given, std::int64_t process) : writer(given), pid(process) {
        writer.change([&](SQLite::Database& db) { statements.emplace(db); });
    }

    template <class... Values>
    void insert(const char* into, const Values&... values) {
        writer.change([&](SQLite::Database&) { statements->insert(into, values...); });
        ++rows;
    }
    /// Adds a row that begins with the columns of a DeviceSpan.
    template <class... Values>
    void insert_span(const char* into, const DeviceSpan& span, const Values&... values) {
        insert(into, span.start, span.end, static_cast<std::int32_t>(span.device), span.context, span.stream,
               span.correlation, global_pid(), values...);
    }

    std::int64_t global_pid() const { return pid << 24; }
    std::optional<std::int64_t> global_tid(std::uint32_t thread) const {
        return thread == 0 ? std::nullopt : std::optional(pid << 24 | std::int64_t{thread});
    }

    TraceWriter& writer;
    const std::int64_t pid;
    std::optional<PreparedStatements> statements;
    std::int64_t rows = 0;
};

CuptiRows::CuptiRows(TraceWriter& writer, std::int64_t pid) : impl_(std::make_unique<Impl>(writer, pid)) {}
CuptiRows::~CuptiRows() = default;

void CuptiRows::add(const KernelRecord& kernel) {
    impl_->insert_span(
        "CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, globalPid, graphNodeId, "
        "demangledName, shortName, mangledName, launchType, cacheConfig, registersPerThread, gridX, gridY, gridZ, "
        "blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory, localMemoryPerThread, localMemoryTotal, "
        "gridId, sharedMemoryExecuted, sharedMemoryLimitConfig)",
        kernel.span, unless_zero(kernel.span.graph_node), impl_->writer.intern(kernel.demangled_name),
        impl_->writer.intern(kernel.short_name), impl_->writer.intern(kernel.mangled_name),
        kernel.launch_type + 1,  // nsys has an extra "unknown" before CUPTI's first value
        kernel.cache_config, kernel.registers_per_thread, kernel.grid[0], kernel.grid[1], kernel.grid[2],
        kernel.block[0], kernel.block[1], kernel.block[2], kernel.static_shared_memory, kernel.dynamic_shared_memory,
        kernel.local_memory_per_thread, kernel.local_memory_total, kernel.grid_id, kernel.shared_memory_executed,
        kernel.shared_memory_limit);
}

void CuptiRows::add(const MemcpyRecord& copy) {
    const auto peer = [&](std::uint32_t MemcpyRecord::Peers::*which) {
        return copy.peers ? std::optional((*copy.peers).*which) : std::nullopt;
    };
    using Peers = MemcpyRecord::Peers;
    impl_->insert_span(
        "CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, contextId, streamId, correlationId, globalPid, graphNodeId, "
        "bytes, copyKind, srcKind, dstKind, srcDeviceId, srcContextId, dstDeviceId, dstContextId, copyCount)",
        copy.span, unless_zero(copy.span.graph_node), copy.bytes, copy.copy_kind, nsys_memory_kind(copy.source_kind),
        nsys_memory_kind(copy.destination_kind), peer(&Peers::source_device), peer(&Peers::source_context),
        peer(&Peers::destination_device), peer(&Peers::destination_context), copy.copies);
}

void CuptiRows::add(const MemsetRecord& set) {
    impl_->insert_span(
        "CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, contextId, streamId, correlationId, globalPid, graphNodeId, "
        "value, bytes, memKind)",
        set.span, unless_zero(set.span.graph_node), set.value, set.bytes, nsys_memory_kind(set.memory_kind));
}

void CuptiRows::add(const GraphRecord& graph) {
    impl_->insert_span(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, contextId, streamId, correlationId, globalPid, "
        "graphId, graphExecId)",
        graph.span, graph.graph, 0);
}

void CuptiRows::add(const ApiRecord& call) {
    impl_->insert("CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, globalTid, correlationId, nameId, returnValue)",
                  call.start, call.end, call.driver ? kDriverClass : kRuntimeClass, impl_->global_tid(call.thread),
                  call.correlation, impl_->writer.intern(call.name), call.return_value);
}

void CuptiRows::add(const SynchronizationRecord& wait) {
    impl_->insert_span(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start, end, deviceId, contextId, streamId, correlationId, globalPid, "
        "syncType, eventId, eventSyncId)",
        wait.span, wait.type, wait.event, unless_zero(wait.event_sync));
}

void CuptiRows::add(const CudaEventRecord& event) {
    impl_->insert(
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT (timestamp, deviceId, contextId, streamId, correlationId, globalPid, eventId, "
        "eventSyncId)",
        event.timestamp, static_cast<std::int32_t>(event.device), event.context, event.stream, event.correlation,
        impl_->global_pid(), event.event, unless_zero(event.event_sync));
}

void CuptiRows::add(const DeviceMemoryRecord& memory) {
    impl_->insert(
        "CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, pc, bytes, memKind, "
        "memoryOperationType, name, correlationId, streamId)",
        memory.time, impl_->global_pid(), memory.device, memory.context, memory.address, memory.program_counter,
        memory.bytes, nsys_memory_kind(memory.memory_kind),
        memory.operation - 1,  // nsys counts from 0, CUPTI from 1
        std::string(memory.name), memory.correlation, memory.stream);
}

void CuptiRows::add(const CuptiOverheadRecord& overhead) {
    impl_->insert("CUPTI_ACTIVITY_KIND_OVERHEAD (start, end, eventClass, globalTid, correlationId, overheadType)",
                  overhead.start, overhead.end, kDriverClass, impl_->global_tid(overhead.thread), overhead.correlation,
                  nsys_overhead_type(overhead.kind));
}

void CuptiRows::add(const DeviceRecord& device) {
    impl_->insert(
        "TARGET_INFO_GPU (vmId, id, name, isDiscrete, l2CacheSize, totalMemory, memoryBandwidth, clockRate, smCount, "
        "uuid, cuDevice, computeMajor, computeMinor, smMajor, smMinor)",
        0, device.device, std::string(device.name), 1, device.l2_cache, device.total_memory, device.memory_bandwidth,
        device.clock_rate, device.multiprocessors, device.uuid, device.device, device.compute_major,
        device.compute_minor, device.compute_major, device.compute_minor);
    impl_->insert("TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid, uuid, numMultiprocessors)", device.device,
                  device.device, impl_->pid, device.uuid, device.multiprocessors);
}

void CuptiRows::add(const ContextRecord& context) {
    impl_->insert(
        "TARGET_INFO_CUDA_CONTEXT_INFO (nullStreamId, hwId, vmId, processId, deviceId, contextId, parentContextId, "
        "isGreenContext)",
        context.null_stream, 0, 0, impl_->pid, context.device, context.context, unless_zero(context.parent),
        context.green);
}

void CuptiRows::add(const StreamRecord& stream) {
    impl_->insert("TARGET_INFO_CUDA_STREAM (streamId, hwId, vmId, processId, contextId, priority, flag)", stream.stream,
                  0, 0, impl_->pid, stream.context, stream.priority, stream.flag);
}

void CuptiRows::finish() {
    impl_->writer.change([](SQLite::Database& db) {
        db.exec(
            "UPDATE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION SET deviceId = coalesce((SELECT deviceId FROM "
            "TARGET_INFO_CUDA_CONTEXT_INFO AS c WHERE c.contextId = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION.contextId), "
            "-1) WHERE deviceId = -1");
    });
}

std::int64_t CuptiRows::rows() const {
    return impl_->rows;
}

void add_named_resource(SQLite::Database& db, const NamedResource& resource) {
    SQLite::Statement row(
        db, "INSERT INTO PIPESCOPE_RESOURCE (kind, domainId, identifier, name, streamId) VALUES (?,?,?,?,?)");
    run(row, resource.kind, resource.domain, resource.identifier, resource.name, resource.stream);
}
}  // namespace pipescope
