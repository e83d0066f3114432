#pragma once

#include "gui/timeline/kernel_store.h"
#include "schedule/timeline.h"
#include "trace/store/opened_trace.h"

#include <QString>

#include <memory>
#include <stop_token>
#include <vector>

namespace pipescope {
/// Device work for the tasks of a PipeScope trace; null if it has none. Reads in parts, so that ten million kernels
/// need little more memory than the result. Errors: those of query_sql. Threading: any thread; ends early, with null,
/// once `stop` is requested.
std::shared_ptr<const KernelStore> kernelsOf(const QString& path, const std::vector<LaneInfo>& lanes,
                                             const std::stop_token& stop);
/// Likewise for traces of other tools: launched_kernels().
std::shared_ptr<const KernelStore> kernelsOf(const OpenedTrace& trace);
}  // namespace pipescope
