#include "trace/cupti_rows.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <type_traits>

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

/// SQLite has no unsigned 64-bit integers; the bits are kept.
std::int64_t same_bits(std::uint64_t value) {
    return static_cast<std::int64_t>(value);
}

std::optional<std::int64_t> unless_zero(std::uint64_t value) {
    return value == 0 ? std::nullopt : std::optional(same_bits(value));
}

void bind_value(SQLite::Statement& row, int index, const std::optional<std::int64_t>& value) {
    if (value) {
        row.bind(index, *value);
    } else {
        row.bind(index);
    }
}
void bind_value(SQLite::Statement& row, int index, const std::string& text) {
    row.bind(index, text);
}
template <class Integer>
requires std::is_integral_v<Integer>
void bind_value(SQLite::Statement& row, int index, Integer value) {
    row.bind(index, static_cast<std::int64_t>(value));
}

template <class... Values>
void insert(SQLite::Statement& row, const Values&... values) {
    int index = 0;
    (bind_value(row, ++index, values), ...);
    try {
        row.exec();
    } catch (...) {
        row.tryReset();
        throw;
    }
    row.reset();
}

/// The prepared statements of all tables.
struct Statements {
    explicit Statements(SQLite::Database& db)
        : kernel(db,
                 "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, "
                 "globalPid, graphNodeId, demangledName, shortName, mangledName, launchType, cacheConfig, "
                 "registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, "
                 "dynamicSharedMemory, localMemoryPerThread, localMemoryTotal, gridId, sharedMemoryExecuted, "
                 "sharedMemoryLimitConfig) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"),
          copy(db,
               "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, contextId, streamId, correlationId, "
               "globalPid, graphNodeId, bytes, copyKind, srcKind, dstKind, srcDeviceId, srcContextId, dstDeviceId, "
               "dstContextId, copyCount) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"),
          set(db,
              "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, contextId, streamId, correlationId, "
              "globalPid, graphNodeId, value, bytes, memKind) VALUES (?,?,?,?,?,?,?,?,?,?,?)"),
          graph(db,
                "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, contextId, streamId, "
                "correlationId, globalPid, graphId, graphExecId) VALUES (?,?,?,?,?,?,?,?,0)"),
          call(db,
               "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, globalTid, correlationId, nameId, "
               "returnValue) VALUES (?,?,?,?,?,?,?)"),
          wait(db,
               "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start, end, deviceId, contextId, streamId, "
               "correlationId, globalPid, syncType, eventId, eventSyncId) VALUES (?,?,?,?,?,?,?,?,?,?)"),
          event(db,
                "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT (timestamp, deviceId, contextId, streamId, correlationId, "
                "globalPid, eventId, eventSyncId) VALUES (?,?,?,?,?,?,?,?)"),
          memory(db,
                 "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS (start, globalPid, deviceId, contextId, address, pc, bytes, "
                 "memKind, memoryOperationType, name, correlationId, streamId) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"),
          overhead(db,
                   "INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD (start, end, eventClass, globalTid, correlationId, "
                   "overheadType) VALUES (?,?,?,?,?,?)") {}

    SQLite::Statement kernel;
    SQLite::Statement copy;
    SQLite::Statement set;
    SQLite::Statement graph;
    SQLite::Statement call;
    SQLite::Statement wait;
    SQLite::Statement event;
    SQLite::Statement memory;
    SQLite::Statement overhead;
};
}  // namespace

struct CuptiRows::Impl {
    Impl(TraceWriter& given, std::int64_t process) : writer(given), pid(process) {
        writer.change([&](SQLite::Database& db) { statements.emplace(db); });
    }

    template <class... Values>
    void add_row(SQLite::Statement& statement, const Values&... values) {
        writer.change([&](SQLite::Database&) { insert(statement, values...); });
        ++rows;
    }
    /// Adds a row whose first columns are those of a DeviceSpan, for tables with a graph node column.
    template <class... Values>
    void add_node(SQLite::Statement& statement, const DeviceSpan& span, const Values&... values) {
        add_row(statement, span.start, span.end, span.device, span.context, span.stream, span.correlation, global_pid(),
                unless_zero(span.graph_node), values...);
    }
    /// Adds one of the few rows that come once. Keeps no statement.
    template <class... Values>
    void add_once(const char* sql, const Values&... values) {
        writer.change([&](SQLite::Database& db) {
            SQLite::Statement statement(db, sql);
            insert(statement, values...);
        });
        ++rows;
    }

    std::int64_t global_pid() const { return pid << 24; }
    std::optional<std::int64_t> global_tid(std::uint32_t thread) const {
        return thread == 0 ? std::nullopt : std::optional(pid << 24 | std::int64_t{thread});
    }

    TraceWriter& writer;
    const std::int64_t pid;
    std::optional<Statements> statements;
    std::int64_t rows = 0;
};

CuptiRows::CuptiRows(TraceWriter& writer, std::int64_t pid) : impl_(std::make_unique<Impl>(writer, pid)) {}
CuptiRows::~CuptiRows() = default;

void CuptiRows::add(const KernelRecord& kernel) {
    impl_->add_node(impl_->statements->kernel, kernel.span, impl_->writer.intern(kernel.demangled_name),
                    impl_->writer.intern(kernel.short_name), impl_->writer.intern(kernel.mangled_name),
                    kernel.launch_type + 1,  // nsys has an extra "unknown" before CUPTI's first value
                    kernel.cache_config, kernel.registers_per_thread, kernel.grid[0], kernel.grid[1], kernel.grid[2],
                    kernel.block[0], kernel.block[1], kernel.block[2], kernel.static_shared_memory,
                    kernel.dynamic_shared_memory, kernel.local_memory_per_thread, kernel.local_memory_total,
                    kernel.grid_id, kernel.shared_memory_executed, kernel.shared_memory_limit);
}

void CuptiRows::add(const MemcpyRecord& copy) {
    std::optional<std::int64_t> source_device;
    std::optional<std::int64_t> source_context;
    std::optional<std::int64_t> destination_device;
    std::optional<std::int64_t> destination_context;
    if (copy.peers) {
        source_device = copy.peers->source_device;
        source_context = copy.peers->source_context;
        destination_device = copy.peers->destination_device;
        destination_context = copy.peers->destination_context;
    }
    impl_->add_node(impl_->statements->copy, copy.span, same_bits(copy.bytes), copy.copy_kind,
                    nsys_memory_kind(copy.source_kind), nsys_memory_kind(copy.destination_kind), source_device,
                    source_context, destination_device, destination_context, same_bits(copy.copies));
}

void CuptiRows::add(const MemsetRecord& set) {
    impl_->add_node(impl_->statements->set, set.span, set.value, same_bits(set.bytes),
                    nsys_memory_kind(set.memory_kind));
}

void CuptiRows::add(const GraphRecord& graph) {
    const DeviceSpan& span = graph.span;
    impl_->add_row(impl_->statements->graph, span.start, span.end, span.device, span.context, span.stream,
                   span.correlation, impl_->global_pid(), graph.graph);
}

void CuptiRows::add(const ApiRecord& call) {
    impl_->add_row(impl_->statements->call, call.start, call.end, call.driver ? kDriverClass : kRuntimeClass,
                   impl_->global_tid(call.thread), call.correlation, impl_->writer.intern(call.name),
                   call.return_value);
}

void CuptiRows::add(const SynchronizationRecord& wait) {
    const DeviceSpan& span = wait.span;
    impl_->add_row(impl_->statements->wait, span.start, span.end, static_cast<std::int32_t>(span.device), span.context,
                   span.stream, span.correlation, impl_->global_pid(), wait.type, wait.event,
                   unless_zero(wait.event_sync));
}

void CuptiRows::add(const CudaEventRecord& event) {
    impl_->add_row(impl_->statements->event, event.timestamp, static_cast<std::int32_t>(event.device), event.context,
                   event.stream, event.correlation, impl_->global_pid(), event.event, unless_zero(event.event_sync));
}

void CuptiRows::add(const DeviceMemoryRecord& memory) {
    impl_->add_row(impl_->statements->memory, memory.time, impl_->global_pid(), memory.device, memory.context,
                   same_bits(memory.address), same_bits(memory.program_counter), same_bits(memory.bytes),
                   nsys_memory_kind(memory.memory_kind), memory.operation - 1,  // nsys counts from 0, CUPTI from 1
                   std::string(memory.name), memory.correlation, memory.stream);
}

void CuptiRows::add(const CuptiOverheadRecord& overhead) {
    impl_->add_row(impl_->statements->overhead, overhead.start, overhead.end, kDriverClass,
                   impl_->global_tid(overhead.thread), overhead.correlation, nsys_overhead_type(overhead.kind));
}

void CuptiRows::add(const DeviceRecord& device) {
    impl_->add_once(
        "INSERT INTO TARGET_INFO_GPU (vmId, id, name, isDiscrete, l2CacheSize, totalMemory, memoryBandwidth, "
        "clockRate, "
        "smCount, uuid, cuDevice, computeMajor, computeMinor, smMajor, smMinor) VALUES (0,?,?,1,?,?,?,?,?,?,?,?,?,?,?)",
        device.device, std::string(device.name), device.l2_cache, device.total_memory, device.memory_bandwidth,
        device.clock_rate, device.multiprocessors, device.uuid, device.device, device.compute_major,
        device.compute_minor, device.compute_major, device.compute_minor);
    impl_->add_once(
        "INSERT INTO TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid, uuid, numMultiprocessors) VALUES (?,?,?,?,?)",
        device.device, device.device, impl_->pid, device.uuid, device.multiprocessors);
}

void CuptiRows::add(const ContextRecord& context) {
    impl_->add_once(
        "INSERT INTO TARGET_INFO_CUDA_CONTEXT_INFO (nullStreamId, hwId, vmId, processId, deviceId, contextId, "
        "parentContextId, isGreenContext) VALUES (?,0,0,?,?,?,?,?)",
        context.null_stream, impl_->pid, context.device, context.context, unless_zero(context.parent),
        context.green ? 1 : 0);
}

void CuptiRows::add(const StreamRecord& stream) {
    impl_->add_once(
        "INSERT INTO TARGET_INFO_CUDA_STREAM (streamId, hwId, vmId, processId, contextId, priority, flag) "
        "VALUES (?,0,0,?,?,?,?)",
        stream.stream, impl_->pid, stream.context, stream.priority, stream.flag);
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
    row.bind(1, resource.kind);
    row.bind(2, resource.domain);
    row.bind(3, same_bits(resource.identifier));
    row.bind(4, resource.name);
    if (resource.stream) {
        row.bind(5, *resource.stream);
    }
    row.exec();
}

const char* create_cupti_tables_sql() {
    return R"sql(
CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_CUDA_EVENT (
    timestamp INTEGER, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, eventId INTEGER NOT NULL, eventSyncId INTEGER);
CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_GRAPH_TRACE (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_OVERHEAD (
    start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER, overheadType INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS CUDA_GPU_MEMORY_USAGE_EVENTS (
    start INTEGER NOT NULL, globalPid INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    address INTEGER NOT NULL, pc INTEGER NOT NULL, bytes INTEGER NOT NULL, memKind INTEGER NOT NULL,
    memoryOperationType INTEGER NOT NULL, name TEXT, correlationId INTEGER, streamId INTEGER,
    localMemoryPoolAddress INTEGER, localMemoryPoolReleaseThreshold INTEGER, localMemoryPoolSize INTEGER,
    localMemoryPoolUtilizedSize INTEGER, importedMemoryPoolAddress INTEGER, importedMemoryPoolProcessId INTEGER);
CREATE TABLE IF NOT EXISTS TARGET_INFO_CUDA_CONTEXT_INFO (
    nullStreamId INTEGER NOT NULL, hwId INTEGER NOT NULL, vmId INTEGER NOT NULL, processId INTEGER NOT NULL,
    deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, parentContextId INTEGER, isGreenContext INTEGER);
CREATE TABLE IF NOT EXISTS TARGET_INFO_CUDA_STREAM (
    streamId INTEGER NOT NULL, hwId INTEGER NOT NULL, vmId INTEGER NOT NULL, processId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, priority INTEGER NOT NULL, flag INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS PIPESCOPE_DEVICE_WORK (
    taskId INTEGER NOT NULL, activity TEXT NOT NULL, activityId INTEGER NOT NULL, launchStart INTEGER NOT NULL,
    attribution TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS PIPESCOPE_TASK_DEVICE (
    taskId INTEGER NOT NULL PRIMARY KEY, kernels INTEGER NOT NULL, copies INTEGER NOT NULL, start INTEGER NOT NULL,
    end INTEGER NOT NULL, busy INTEGER NOT NULL, gap INTEGER NOT NULL, launchDelay INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS PIPESCOPE_RESOURCE (
    kind TEXT NOT NULL, domainId INTEGER NOT NULL, identifier INTEGER NOT NULL, name TEXT NOT NULL,
    streamId INTEGER);
CREATE TABLE IF NOT EXISTS ENUM_NSYS_EVENT_CLASS (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE IF NOT EXISTS ENUM_CUDA_KERNEL_LAUNCH_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE IF NOT EXISTS ENUM_CUDA_DEV_MEM_EVENT_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE IF NOT EXISTS ENUM_CUPTI_OVERHEAD_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE IF NOT EXISTS ENUM_CUPTI_STREAM_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
INSERT OR IGNORE INTO ENUM_NSYS_EVENT_CLASS VALUES
    (0, 'TRACE_PROCESS_EVENT_CUDA_RUNTIME', 'CUDA runtime'), (1, 'TRACE_PROCESS_EVENT_CUDA_DRIVER', 'CUDA driver');
INSERT OR IGNORE INTO ENUM_CUDA_KERNEL_LAUNCH_TYPE VALUES
    (0, 'CUDA_KERNEL_LAUNCH_TYPE_UNKNOWN', 'Unknown'), (1, 'CUDA_KERNEL_LAUNCH_TYPE_REGULAR', 'Regular'),
    (2, 'CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE', 'Coop Single Device'),
    (3, 'CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_MULTI_DEVICE', 'Coop Multi Device'),
    (4, 'CUDA_KERNEL_LAUNCH_TYPE_CBL_COMMANDLIST', 'Command list');
INSERT OR IGNORE INTO ENUM_CUDA_DEV_MEM_EVENT_OPER VALUES
    (0, 'CUDA_DEV_MEM_EVENT_OPR_ALLOCATION', 'Allocation'), (1, 'CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION', 'Deallocation');
INSERT OR IGNORE INTO ENUM_CUPTI_OVERHEAD_TYPE VALUES
    (0, 'OVERHEAD_UNKNOWN', 'Unknown'), (2, 'OVERHEAD_DRIVER_COMPILER', 'Driver JIT compiler'),
    (3, 'OVERHEAD_CUPTI_BUFFER_FLUSH', 'Buffer flush'), (4, 'OVERHEAD_CUPTI_INSTRUMENTATION', 'Instrumentation'),
    (5, 'OVERHEAD_CUPTI_RESOURCE', 'Resource'),
    (6, 'OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING', 'Runtime module loading'),
    (7, 'OVERHEAD_LAZY_FUNCTION_LOADING', 'Lazy function loading'),
    (8, 'OVERHEAD_COMMAND_BUFFER_FULL', 'Command buffer full'),
    (9, 'OVERHEAD_ACTIVITY_BUFFER_REQUEST', 'Activity buffer request'), (10, 'OVERHEAD_UVM_ACTIVITY_INIT', 'UVM activity initialization');
INSERT OR IGNORE INTO ENUM_CUPTI_STREAM_TYPE VALUES
    (0, 'CUPTI_ACTIVITY_STREAM_CREATE_FLAG_UNKNOWN', 'Unknown stream'),
    (1, 'CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT', 'Default stream'),
    (2, 'CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING', 'Non-blocking stream'),
    (3, 'CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL', 'Null stream');
)sql";
}
}  // namespace pipescope
