#pragma once

#include "engine/current_task.h"

namespace pipescope {
/// What current_task() and its kin answer on this thread while it lives. For engine and profiler; scopes do not nest.
class CurrentTaskScope {
public:
    CurrentTaskScope(const TaskKey& key, LaneId lane, bool is_checkpointed_forward);
    ~CurrentTaskScope();
    CurrentTaskScope(const CurrentTaskScope&) = delete;
    CurrentTaskScope& operator=(const CurrentTaskScope&) = delete;
};
}  // namespace pipescope
