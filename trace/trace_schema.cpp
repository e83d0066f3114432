#include "trace/trace_schema.h"

namespace pipescope {
const char* create_tables_sql() {
    return R"sql(
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE NVTX_EVENTS (
    start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER,
    text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER,
    int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER,
    jsonText TEXT, binaryData TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER,
    cacheConfig INTEGER, registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL,
    gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL,
    staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL,
    localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER,
    sharedMemoryLimitConfig INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER,
    srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER,
    graphNodeId INTEGER, virtualAddress INTEGER, copyCount INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    value INTEGER NOT NULL, bytes INTEGER NOT NULL, graphNodeId INTEGER, memKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (
    start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (
    start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    syncType INTEGER NOT NULL, eventId INTEGER NOT NULL, eventSyncId INTEGER);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE TARGET_INFO_GPU (
    vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, isDiscrete INTEGER, l2CacheSize INTEGER,
    totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, pwGpuId INTEGER, uuid TEXT,
    luid INTEGER, chipName TEXT, cuDevice INTEGER, computeMajor INTEGER, computeMinor INTEGER, smMajor INTEGER,
    smMinor INTEGER);
CREATE TABLE TARGET_INFO_CUDA_DEVICE (
    gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT, numMultiprocessors INTEGER NOT NULL);
CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
CREATE TABLE ENUM_NSYS_EVENT_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUPTI_SYNC_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE PIPESCOPE_RUN (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE PIPESCOPE_STEP (
    step INTEGER, start INTEGER NOT NULL, end INTEGER NOT NULL, wallStart INTEGER NOT NULL, wallEnd INTEGER NOT NULL,
    trainingLoss REAL, warmup INTEGER NOT NULL);
CREATE TABLE PIPESCOPE_TASK (
    id INTEGER NOT NULL PRIMARY KEY, step INTEGER, kind TEXT NOT NULL, partition INTEGER, microBatch INTEGER,
    skip INTEGER, lane INTEGER, device TEXT, start INTEGER NOT NULL, end INTEGER NOT NULL, source TEXT NOT NULL,
    nvtxId INTEGER, bytes INTEGER NOT NULL);
CREATE TABLE PIPESCOPE_PROFILE (profile TEXT NOT NULL);
CREATE TABLE PIPESCOPE_MEMORY (
    lane INTEGER NOT NULL, time INTEGER NOT NULL, allocated INTEGER NOT NULL, peak INTEGER NOT NULL,
    reserved INTEGER NOT NULL, taskId INTEGER, parameters INTEGER, gradients INTEGER, optimizer INTEGER,
    boundary INTEGER, saved INTEGER, skip INTEGER, transient INTEGER, copy INTEGER, output INTEGER);
CREATE TABLE PIPESCOPE_DROPS (
    source TEXT NOT NULL, thread INTEGER NOT NULL, recorded INTEGER NOT NULL, dropped INTEGER NOT NULL,
    truncated INTEGER NOT NULL, openAtExit INTEGER NOT NULL, PRIMARY KEY (source, thread));
CREATE TABLE PIPESCOPE_CLOCK (
    realtime INTEGER NOT NULL, monotonic INTEGER NOT NULL, boottime INTEGER NOT NULL, tsc INTEGER NOT NULL);
CREATE TABLE PIPESCOPE_OVERHEAD (source TEXT NOT NULL, what TEXT NOT NULL, value INTEGER NOT NULL);
CREATE TABLE PIPESCOPE_DIAGNOSTIC (severity TEXT NOT NULL, source TEXT NOT NULL, text TEXT NOT NULL);
)sql";
}

const char* fill_enums_sql() {
    // nsys numbers memory kinds one below CUPTI, with CUPTI's unknown (0) moved to the end.
    return R"sql(
INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES
    (33, 'NvtxCategory', 'NVTX category'), (34, 'NvtxMark', 'NVTX mark'), (39, 'NvtxThread', 'NVTX thread'),
    (59, 'NvtxPushPopRange', 'NVTX push/pop range'), (60, 'NvtxStartEndRange', 'NVTX start/end range'),
    (75, 'NvtxDomainCreate', 'NVTX domain create'), (76, 'NvtxDomainDestroy', 'NVTX domain destroy');
INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES
    (0, 'CUDA_MEMCPY_KIND_UNKNOWN', 'Unknown'), (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device'),
    (2, 'CUDA_MEMCPY_KIND_DTOH', 'Device-to-Host'), (3, 'CUDA_MEMCPY_KIND_HTOA', 'Host-to-Array'),
    (4, 'CUDA_MEMCPY_KIND_ATOH', 'Array-to-Host'), (5, 'CUDA_MEMCPY_KIND_ATOA', 'Array-to-Array'),
    (6, 'CUDA_MEMCPY_KIND_ATOD', 'Array-to-Device'), (7, 'CUDA_MEMCPY_KIND_DTOA', 'Device-to-Array'),
    (8, 'CUDA_MEMCPY_KIND_DTOD', 'Device-to-Device'), (9, 'CUDA_MEMCPY_KIND_HTOH', 'Host-to-Host'),
    (10, 'CUDA_MEMCPY_KIND_PTOP', 'Peer-to-Peer');
INSERT INTO ENUM_CUDA_MEM_KIND VALUES
    (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable'), (1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', 'Pinned'),
    (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device'), (3, 'CUDA_MEMOPR_MEMORY_KIND_ARRAY', 'Array'),
    (4, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED', 'Managed'), (5, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC', 'Device Static'),
    (6, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC', 'Managed Static'),
    (7, 'CUDA_MEMOPR_MEMORY_KIND_UNKNOWN', 'Unknown');
INSERT INTO ENUM_CUPTI_SYNC_TYPE VALUES
    (0, 'CUPTI_SYNC_TYPE_UNKNOWN', 'Unknown'), (1, 'CUPTI_SYNC_TYPE_EVENT_SYNCHRONIZE', 'Event synchronize'),
    (2, 'CUPTI_SYNC_TYPE_STREAM_WAIT_EVENT', 'Stream wait event'),
    (3, 'CUPTI_SYNC_TYPE_STREAM_SYNCHRONIZE', 'Stream synchronize'),
    (4, 'CUPTI_SYNC_TYPE_CONTEXT_SYNCHRONIZE', 'Context synchronize');
)sql";
}

const char* create_indexes_sql() {
    return R"sql(
CREATE INDEX IF NOT EXISTS PIPESCOPE_TASK_BY_TIME ON PIPESCOPE_TASK (source, start);
CREATE INDEX IF NOT EXISTS PIPESCOPE_TASK_BY_STEP ON PIPESCOPE_TASK (step, source);
CREATE INDEX IF NOT EXISTS PIPESCOPE_MEMORY_BY_TIME ON PIPESCOPE_MEMORY (lane, time);
CREATE INDEX IF NOT EXISTS NVTX_EVENTS_BY_TIME ON NVTX_EVENTS (start);
)sql";
}
}  // namespace pipescope
