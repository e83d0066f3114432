#include "analysis/launched_kernels.h"

#include "trace/launch_attribution.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

namespace pipescope {
namespace {
/// The thread of a track. A track of a thread's calls has the thread's name plus their type.
std::pair<std::string, std::string> thread_of(const RangeTrack& track) {
    const bool calls = track.kind == RangeTrack::Kind::calls;
    return {track.group, calls ? track.name.substr(0, track.name.rfind(',')) : track.name};
}

struct Call {
    std::size_t thread = 0;
    Nanoseconds time{0};
};

struct Host {
    std::vector<const Slice*> slices;
    std::vector<LaunchingTask> tasks;               // by slice
    std::unordered_map<std::uint32_t, Call> calls;  // by correlation
};

/// The slices that ranges are.
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

    /// Null if the range is no task.
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

Host read_host(const OpenedTrace& trace) {
    const SlicesOfRanges slices(trace);
    Host host;
    std::map<std::pair<std::string, std::string>, std::size_t> threads;
    for (std::uint32_t k = 0; k < trace.tracks.size(); ++k) {
        const RangeTrack& track = trace.tracks[k];
        if (track.kind == RangeTrack::Kind::stream) {
            continue;
        }
        const std::size_t thread = threads.try_emplace(thread_of(track), threads.size()).first->second;
        for (std::uint32_t at = 0; at < track.ranges.size(); ++at) {
            const TraceRange& range = track.ranges[at];
            if (range.correlation != 0) {
                host.calls.emplace(range.correlation, Call{thread, range.start});
            }
            if (const Slice* const task = slices.of(range, {k, at})) {
                host.slices.push_back(task);
                host.tasks.push_back(
                    {thread, task->lane.value(), !is_copy(task->key.kind), range.start.count(), range.end.count()});
            }
        }
    }
    return host;
}
}  // namespace

std::vector<LaunchedKernel> launched_kernels(const OpenedTrace& trace) {
    const Host host = read_host(trace);
    std::vector<LaunchedKernel> kernels;
    std::vector<LaunchedWork> work;
    for (std::size_t stream = 0; stream < trace.tracks.size() && !host.tasks.empty(); ++stream) {
        const RangeTrack& track = trace.tracks[stream];
        for (const TraceRange& range : track.ranges) {
            const auto call = host.calls.find(range.correlation);
            if (track.kind == RangeTrack::Kind::stream && call != host.calls.end()) {
                work.push_back({call->second.thread, call->second.time.count(), stream});
                kernels.push_back({&range, nullptr, call->second.time, trace.names.at(range.category) == "kernel"});
            }
        }
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
