#pragma once

#include "schedule/task_key.h"

#include <atomic>
#include <string>

namespace pipescope {
/// Every task is an NVTX range in the domain "pipescope": its kind is a registered string, its packed TaskKey the
/// unsigned 64-bit payload, and its thread that of the lane.
///
/// NVTX looks for a tool once per process, at the first call; without one a new domain is null. prepare_task_ranges()
/// makes that first call when the first model is built, and keeps the answer in this flag. Without a tool a range costs
/// one relaxed load and a branch. A linked tool (the recorder) counts as listening even while idle.
extern std::atomic<bool> task_ranges_enabled;

/// Idempotent; any thread.
void prepare_task_ranges();
/// Shows `name` for the calling thread in NVTX tools. No effect without a tool.
void name_thread_for_profilers(const std::string& name);

/// Shows `name` for a CUDA device's stream, given as its CUstream, in NVTX tools, as a resource of the domain
/// "pipescope". No effect without a tool. Call after prepare_task_ranges().
void name_cuda_stream_for_profilers(const void* stream, const std::string& name);

/// The range of one task. Construct and destroy it on one thread; ranges of one thread nest.
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
