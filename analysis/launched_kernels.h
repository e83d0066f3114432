#pragma once

#include "trace/store/opened_trace.h"

#include <vector>

namespace pipescope {
/// A range on a device's stream, with the task that launched it. Borrowed from the trace.
struct LaunchedKernel {
    const TraceRange* range = nullptr;
    const Slice* task = nullptr;
    Nanoseconds launch{0};   ///< time of the launch
    bool is_kernel = false;  ///< otherwise a copy or fill
};

/// The device work of tasks in another tool's trace, by start; attribute_launches() finds the tasks. Not needed for
/// PipeScope's traces, which store it in tables.
std::vector<LaunchedKernel> launched_kernels(const OpenedTrace& trace);
}  // namespace pipescope
