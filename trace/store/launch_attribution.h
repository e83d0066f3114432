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

/// A kernel, copy or fill, identified by the call that launched it. Streams are numbered by the caller.
struct LaunchedWork {
    std::size_t thread = 0;  ///< of the call
    std::int64_t launch = 0;
    std::size_t stream = 0;
};

struct Attribution {
    std::optional<std::size_t> task;  ///< index of the task; empty: none
    bool by_stream = false;           ///< found by the second rule
};

/// Finds the task of each piece of work. First rule: the innermost task that ran on the launching thread at the time of
/// the launch. Second rule: autograd launches from its own threads, outside any task. Such work belongs to the
/// computing task that ran meanwhile on a lane of its stream, or to no task if several did. A stream's lanes are those
/// whose tasks launched at least a tenth of the work on that stream. If none did, the stream is used by such threads
/// only: then the lanes are those of the thread's other work, or else the only lane. Cost: O((tasks + work) log tasks).
std::vector<Attribution> attribute_launches(std::span<const LaunchingTask> tasks, std::span<const LaunchedWork> work);

/// When a device could have started work since the host had launched it, in ns. An idle device starts work within 10 us
/// of the call, so such work waited for nothing else.
std::int64_t could_start(std::int64_t launch, std::int64_t start);

/// Device work of one task: totals over its work, in order of starts. Times in ns.
struct TaskWorkSum {
    std::int64_t kernels = 0;
    std::int64_t copies = 0;        ///< includes fills
    std::int64_t start = 0;         ///< start of its first work
    std::int64_t end = 0;           ///< end of its last work
    std::int64_t busy = 0;          ///< time from `start` to `end` in which some of its work ran
    std::int64_t launch_delay = 0;  ///< from its first launching call to the start of that work
    std::int64_t launch_gap = 0;    ///< time between its work in which the host had not launched the next work
    std::int64_t paced = 0;         ///< from its first launch to its end, if the device only waited for launches

    void add(bool is_kernel, std::int64_t from, std::int64_t to, std::int64_t launch);

private:
    std::int64_t first_launch_ = 0;
};
}  // namespace pipescope
