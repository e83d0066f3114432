#pragma once

#include "schedule/task_key.h"
#include "tests/gui/sample_trace.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace pipescope {
/// An nsys export of a run with two forwards on one lane: the NVTX ranges, a call in the first one, and the kernel
/// launched by it, which runs during the second one.
inline std::filesystem::path writeNsysExport(const std::string& name) {
    const auto path = temporaryPath(name);
    std::filesystem::remove(path);
    const std::string thread = std::to_string(std::int64_t{1} << 48 | std::int64_t{0x6f} << 24 | 1);
    const auto key = [](int micro_batch) {
        return std::to_string(static_cast<std::int64_t>(pack({0, TaskKind::forward, 0, micro_batch, -1})));
    };
    SQLite::Database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
        .exec(
            "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
            "INSERT INTO StringIds VALUES (1, 'forward'), (2, 'gemm'), (5, 'cudaLaunchKernel_v7000'), "
            "(6, 'pipescope');"
            "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId "
            "INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId "
            "INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value "
            "INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT);"
            "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, textId, domainId, uint64Value) VALUES "
            "(1, NULL, 75, NULL, " +
            thread + ", 6, 3, NULL), (1000, 2000, 59, NULL, " + thread + ", 1, 3, " + key(0) +
            "), (2000, 4000, 59, NULL, " + thread + ", 1, 3, " + key(1) + "), (1200, 1400, 59, 'inner', " + thread +
            ", NULL, 0, NULL);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass "
            "INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER, callchainId "
            "INTEGER);"
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1300, 1310, 0, " +
            thread +
            ", 77, 5, 0, NULL);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER, "
            "contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, "
            "shortName INTEGER);"
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2500, 3000, 0, 1, 7, 77, NULL, 2, 2);");
    return path;
}
}  // namespace pipescope
