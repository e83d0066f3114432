#pragma once

#include "trace/opened_trace.h"

#include <vector>

namespace pipescope {
/// A range on a stream of a device, and the task that launched it. Borrowed from the trace.
struct LaunchedKernel {
    const TraceRange* range = nullptr;
    const Slice* task = nullptr;
    Nanoseconds launch{0};   ///< when it was launched
    bool is_kernel = false;  ///< else a copy or a fill
};

/// The device work of tasks in a trace that others recorded, by start; attribute_launches() says whose it is.
/// PipeScope's own traces have it in their tables.
std::vector<LaunchedKernel> launched_kernels(const OpenedTrace& trace);
}  // namespace pipescope
