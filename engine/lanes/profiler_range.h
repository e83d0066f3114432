#pragma once

#include "schedule/task_key.h"

#include <string>

namespace pipescope {
/// A task's name in torch's profiler, which the built-in task rules read back (docs/task-rules.md): "PP:2F5" is the
/// forward of micro-batch 5 on partition 2. Empty for a task without a name, such as a copy of a skip.
std::string profiler_name(const TaskKey& key, bool is_split);

/// A task as a range of torch's profiler, if it runs where the model is called: its callbacks come to the lanes with
/// the rest of the caller's thread-local state. Otherwise the range costs a look at the thread's callbacks, about 16
/// ns.
class ProfilerRange {
public:
    ProfilerRange(const TaskKey& key, bool is_split) : range_(begin(key, is_split)) {}
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
