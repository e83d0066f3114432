#pragma once

#include "gui/timeline/kernel_store.h"
#include "schedule/timeline.h"
#include "trace/opened_trace.h"

#include <QString>

#include <memory>
#include <stop_token>
#include <vector>

namespace pipescope {
/// What devices did for the tasks of one of our own traces; null if it tells of nothing. Read in parts, so that ten
/// million kernels need little more than what is kept of them. Errors: those of query_sql. Threading: any thread; ends
/// early, with null, once `stop` is requested.
std::shared_ptr<const KernelStore> kernelsOf(const QString& path, const std::vector<LaneInfo>& lanes,
                                             const std::stop_token& stop);
/// The same of what others recorded: launched_kernels().
std::shared_ptr<const KernelStore> kernelsOf(const OpenedTrace& trace);
}  // namespace pipescope
