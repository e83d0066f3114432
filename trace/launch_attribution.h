#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace pipescope {
/// A task that may have launched work on a device. Threads are numbered by the caller; times in ns.
struct LaunchingTask {
    std::size_t thread = 0;
    std::int64_t lane = -1;  ///< -1: none
    bool computes = true;    ///< false for copies and skips
    std::int64_t start = 0;
    std::int64_t end = 0;
};

/// A kernel, copy or fill by the call that launched it. Streams are numbered by the caller.
struct LaunchedWork {
    std::size_t thread = 0;  ///< of the call
    std::int64_t launch = 0;
    std::size_t stream = 0;
};

struct Attribution {
    std::optional<std::size_t> task;  ///< position in the tasks; nothing: it belongs to no task
    bool by_stream = false;           ///< by the second rule
};

/// Finds the task of each piece of work. It belongs to the innermost task that ran, when it was launched, on the thread
/// that launched it. Autograd launches from threads of its own, in no task: such work belongs to the computing task
/// that ran meanwhile on a lane of its stream, and to none if several did. A stream's lanes are those whose tasks
/// launched a tenth or more of what tasks launched there. Cost: O((tasks + work) log tasks).
std::vector<Attribution> attribute_launches(std::span<const LaunchingTask> tasks, std::span<const LaunchedWork> work);

/// What a device did for one task, summed up over its work in the order of starts. Times in ns.
struct TaskWorkSum {
    std::int64_t kernels = 0;
    std::int64_t copies = 0;        ///< fills too
    std::int64_t start = 0;         ///< of its first work
    std::int64_t end = 0;           ///< of its last work
    std::int64_t busy = 0;          ///< of that, while some of its work ran
    std::int64_t launch_delay = 0;  ///< from its first launching call to that work's start

    void add(bool is_kernel, std::int64_t from, std::int64_t to, std::int64_t launch);
};
}  // namespace pipescope
