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

Host read_host(const OpenedTrace& trace) {
    std::map<std::pair<Nanoseconds, Nanoseconds>, const Slice*> slices;
    for (const Slice& slice : trace.measured.slices) {
        slices.emplace(std::pair(slice.start, slice.end), &slice);
    }
    Host host;
    std::map<std::pair<std::string, std::string>, std::size_t> threads;
    for (const RangeTrack& track : trace.tracks) {
        if (track.kind == RangeTrack::Kind::stream) {
            continue;
        }
        const std::size_t thread = threads.try_emplace(thread_of(track), threads.size()).first->second;
        for (const TraceRange& range : track.ranges) {
            if (range.correlation != 0) {
                host.calls.emplace(range.correlation, Call{thread, range.start});
            }
            const auto slice = range.is_task ? slices.find({range.start, range.end}) : slices.end();
            if (slice != slices.end()) {
                const Slice& task = *slice->second;
                host.slices.push_back(&task);
                host.tasks.push_back(
                    {thread, task.lane.value(), !is_copy(task.key.kind), task.start.count(), task.end.count()});
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
