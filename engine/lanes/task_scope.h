#pragma once

#include "engine/current_task.h"

namespace pipescope {
/// While it lives, current_task() and its kin report this task on this thread. For engine and profiler; scopes do not
/// nest.
class CurrentTaskScope {
public:
    CurrentTaskScope(const TaskKey& key, LaneId lane, bool is_checkpointed_forward);
    ~CurrentTaskScope();
    CurrentTaskScope(const CurrentTaskScope&) = delete;
    CurrentTaskScope& operator=(const CurrentTaskScope&) = delete;
};
}  // namespace pipescope
