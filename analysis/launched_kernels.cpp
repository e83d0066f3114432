#include "analysis/launched_kernels.h"

#include "trace/store/device_launches.h"
#include "trace/store/launch_attribution.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace pipescope {
namespace {
struct LaunchingSlices {
    std::vector<const Slice*> slices;
    std::vector<LaunchingTask> tasks;  // by slice
};

/// Finds the task slice that a range stands for.
class SlicesOfRanges {
public:
    explicit SlicesOfRanges(const OpenedTrace& trace) {
        for (const Slice& slice : trace.measured.slices) {
            by_times_.emplace(std::pair(slice.start, slice.end), &slice);
            if (!trace.task_ranges.empty()) {
                by_key_.emplace(slice.key, &slice);
            }
        }
        for (const RecognisedRange& each : trace.task_ranges) {
            recognized_.emplace(each.range, each.task);
        }
    }

    /// Null if the range is not a task.
    const Slice* of(const TraceRange& range, const RangeArrow::End& place) const {
        if (range.is_task) {
            const auto found = by_times_.find({range.start, range.end});
            return found != by_times_.end() ? found->second : nullptr;
        }
        const auto task = recognized_.find(place);
        const auto found = task != recognized_.end() ? by_key_.find(task->second) : by_key_.end();
        return found != by_key_.end() ? found->second : nullptr;
    }

private:
    std::map<std::pair<Nanoseconds, Nanoseconds>, const Slice*> by_times_;
    std::map<TaskKey, const Slice*> by_key_;
    std::map<RangeArrow::End, TaskKey> recognized_;
};

LaunchingSlices launching_slices(const OpenedTrace& trace, const std::vector<std::size_t>& threads) {
    const SlicesOfRanges slices(trace);
    LaunchingSlices found;
    for (std::uint32_t k = 0; k < trace.tracks.size(); ++k) {
        const RangeTrack& track = trace.tracks[k];
        for (std::uint32_t at = 0; !is_of_device(track.kind) && at < track.ranges.size(); ++at) {
            const TraceRange& range = track.ranges[at];
            if (const Slice* const task = slices.of(range, {k, at})) {
                found.slices.push_back(task);
                found.tasks.push_back(
                    {threads[k], task->lane.value(), !is_copy(task->key.kind), range.start.count(), range.end.count()});
            }
        }
    }
    return found;
}
}  // namespace

std::vector<LaunchedKernel> launched_kernels(const OpenedTrace& trace) {
    const std::vector<std::size_t> threads = threads_of_tracks(trace.tracks);
    const LaunchingSlices host = launching_slices(trace, threads);
    std::vector<LaunchedKernel> kernels;
    std::vector<LaunchedWork> work;
    for (const DeviceLaunch& launch : host.tasks.empty() ? std::vector<DeviceLaunch>() : device_launches(trace)) {
        const TraceRange& call = trace.tracks[launch.call.track].ranges[launch.call.range];
        const TraceRange& range = trace.tracks[launch.work.track].ranges[launch.work.range];
        work.push_back({threads[launch.call.track], call.start.count(), launch.work.track});
        kernels.push_back({&range, nullptr, call.start, trace.names.at(range.category) == "kernel"});
    }
    const std::vector<Attribution> found = attribute_launches(host.tasks, work);
    for (std::size_t k = 0; k < kernels.size(); ++k) {
        kernels[k].task = found[k].task ? host.slices[*found[k].task] : nullptr;
    }
    std::erase_if(kernels, [](const LaunchedKernel& kernel) { return kernel.task == nullptr; });
    std::stable_sort(kernels.begin(), kernels.end(),
                     [](const LaunchedKernel& a, const LaunchedKernel& b) { return a.range->start < b.range->start; });
    return kernels;
}
}  // namespace pipescope
