#pragma once

#include "trace/store/cupti_rows.h"
#include "trace/store/device_work.h"
#include "trace/store/trace_writer.h"

#include <cstdint>

namespace pipescope {
/// Writes a measured task with its range, like the recorder. Returns its id.
inline std::int64_t add_measured_task(TraceWriter& writer, const TaskKey& key, std::int32_t lane, std::int64_t thread,
                                      std::int64_t start, std::int64_t end) {
    NvtxRecord range;
    range.start = start;
    range.end = end;
    range.text = std::string(to_string(key.kind));
    range.global_tid = thread;
    const std::int64_t row = writer.add_range(range);
    return writer.add_task({key, LaneId{lane}, Nanoseconds{start}, Nanoseconds{end}, 0}, Source::measured, row);
}

/// Adds a launch on `thread` of process 7 at `launch`, and its kernel.
inline void add_launched_kernel(CuptiRows& rows, std::uint32_t correlation, std::uint32_t thread, std::int64_t launch,
                                std::uint32_t stream, std::int64_t start, std::int64_t end) {
    rows.add(ApiRecord{launch, launch + 1, false, thread, correlation, "cudaLaunchKernel_v7000", 0});
    KernelRecord kernel;
    kernel.span = {start, end, 0, 1, stream, correlation, 0};
    kernel.mangled_name = "_Z3addPf";
    kernel.demangled_name = "add(float*)";
    kernel.short_name = "add";
    rows.add(kernel);
}

inline void add_device_sample(TraceWriter& writer) {
    add_measured_task(writer, {0, TaskKind::forward, 0, 0, -1}, 0, std::int64_t{7} << 24 | 9, 100, 200);
    CuptiRows rows(writer, 7);
    add_launched_kernel(rows, 1, 9, 110, 13, 150, 250);
    rows.finish();
    writer.change([](SQLite::Database& db) {
        attribute_device_work(db);
        add_named_resource(db, {"CUDA stream", 0, 13, "compute", 13});
    });
}
}  // namespace pipescope
