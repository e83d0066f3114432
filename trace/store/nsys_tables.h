#pragma once

#include "trace/store/opened_trace.h"

#include <SQLiteCpp/Database.h>

#include <functional>

namespace pipescope {
/// True if the database has one of the tables that every export of nsys has.
bool has_nsys_tables(SQLite::Database& db);

/// Reads the tables common to nsys exports and our traces into the trace's tracks, counters and start time. Any table
/// and most columns may be missing: versions differ, and nsys creates a table only if it has rows. NVTX texts come from
/// `text` or `textId`, whichever is set.
void read_nsys_tables(SQLite::Database& db, OpenedTrace& trace);

/// A kernel, copy, fill or graph on a device, with the task that launched it. Borrowed texts and facts.
struct DeviceActivity {
    std::string_view name;      ///< of a kernel, with its arguments
    std::string_view activity;  ///< "kernel", "memcpy", "memset", "graph"
    std::string_view device;    ///< "GPU 0 (NVIDIA H100)"
    std::string_view stream;    ///< with the device: "GPU 0 (NVIDIA H100), stream 7"
    Nanoseconds start{0};
    Nanoseconds end{0};
    std::optional<TaskKind> task = {};
    std::int32_t partition = -1;
    const WorkFacts* facts = nullptr;  ///< null: nothing is known
};

/// Calls `each` with the device work that read_nsys_tables() puts on streams, in the order of the tables. The
/// tasks are those of PIPESCOPE_DEVICE_WORK. Memory: the rows of PIPESCOPE_TASK, PIPESCOPE_DEVICE_WORK and
/// PIPESCOPE_MESSAGE, with their texts, but no kernel, copy or fill.
void for_each_device_activity(SQLite::Database& db, const std::function<void(const DeviceActivity&)>& each);

/// Creates slices of trace.measured from ranges of the NVTX domain "pipescope" that carry a packed TaskKey: a run of
/// PipeScope under nsys. The lane is the partition; a backward copy is on the partition that sends it.
void read_nsys_tasks(SQLite::Database& db, OpenedTrace& trace);
}  // namespace pipescope
