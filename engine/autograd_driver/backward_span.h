#pragma once

#include "base/ids.h"
#include "engine/task_observer.h"
#include "schedule/task_key.h"

namespace pipescope {
/// The span of a backward task under the autograd driver. Autograd calls the nodes, so only the task's first and last
/// node can mark it. Opening a span closes the one still open on this thread, and so does the end of the whole
/// backward, also if it fails.
/// Call only from a node's apply(). Threading: spans belong to the thread.
void open_backward_span(const TaskKey& key, LaneId lane, TaskObserver* observer);
void close_backward_span();
}  // namespace pipescope
