#pragma once

#include "schedule/task_key.h"

#include <string>

namespace pipescope {
/// A task's name in torch's profiler, which the built-in task rules read back (docs/task-rules.md): "PP:2F5" is the
/// forward of micro-batch 5 on partition 2. Empty for a task without a name, such as a copy of a skip.
std::string profiler_name(const TaskKey& key, bool is_split);

/// True if one of torch's profilers may listen to this thread. A lane looks once before its tasks, since a look costs
/// as much as the rest of a task's span.
bool may_be_profiled();

/// A task as a range of torch's profiler, if it runs where the model is called: its callbacks come to the lanes with
/// the rest of the caller's thread-local state.
class ProfilerRange {
public:
    /// `is_profiled`: false leaves the range out.
    ProfilerRange(const TaskKey& key, bool is_split, bool is_profiled)
        : range_(is_profiled ? begin(key, is_split) : nullptr) {}
    ~ProfilerRange() {
        if (range_ != nullptr) {
            end(range_);
        }
    }
    ProfilerRange(const ProfilerRange&) = delete;
    ProfilerRange& operator=(const ProfilerRange&) = delete;

private:
    static void* begin(const TaskKey& key, bool is_split);
    static void end(void* range) noexcept;

    void* const range_;  // null if nobody listens
};
}  // namespace pipescope
