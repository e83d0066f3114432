#pragma once

#include "schedule/task_key.h"

#include <atomic>
#include <string>

namespace pipescope {
/// Every task is an NVTX range in the domain "pipescope": the kind as a registered string, the packed TaskKey as the
/// unsigned 64-bit payload, on the thread of the lane that runs it.
///
/// NVTX looks for a tool once per process, at the first call; without one a new domain is null. That first call is made
/// by prepare_task_ranges(), when the first model is built, and its answer is kept in this flag: while nobody listens a
/// range costs one relaxed load and a branch. A tool that is linked in (the recorder) counts as listening even while it
/// is idle.
extern std::atomic<bool> task_ranges_enabled;

/// Idempotent; any thread.
void prepare_task_ranges();
/// Shows `name` for the calling thread in NVTX tools. No effect while nobody listens.
void name_thread_for_profilers(const std::string& name);

/// The range of one task, from construction to destruction on the same thread; ranges of one thread nest.
class TaskRange {
public:
    explicit TaskRange(const TaskKey& key) : open_(task_ranges_enabled.load(std::memory_order_relaxed)) {
        if (open_) {
            push(key);
        }
    }
    ~TaskRange() {
        if (open_) {
            pop();
        }
    }
    TaskRange(const TaskRange&) = delete;
    TaskRange& operator=(const TaskRange&) = delete;

private:
    static void push(const TaskKey& key);
    static void pop();

    const bool open_;
};
}  // namespace pipescope
