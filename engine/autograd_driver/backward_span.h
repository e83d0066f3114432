#pragma once

#include "engine/task_observer.h"
#include "schedule/ids.h"
#include "schedule/task_key.h"

namespace pipescope {
/// The span of a backward task where autograd drives: no function of ours surrounds it, only its first and its last
/// node are ours. Opening one ends the one still open on this thread, and so does the end of the whole backward.
/// Call only from a node's apply(). Threading: spans belong to the thread.
void open_backward_span(const TaskKey& key, LaneId lane, TaskObserver* observer);
void close_backward_span();
}  // namespace pipescope
