// Kernels of a trace that is not ours: found by the calls that launched them.
#include "gui/document/kernel_loading.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using Tasks = std::vector<const Slice*>;  // of one thread, by start

/// A launch: the task that made it, and when.
struct Launch {
    const Slice* task = nullptr;
    Nanoseconds time{0};
};

std::map<std::pair<std::string, std::string>, Tasks> tasksOfThreads(const OpenedTrace& trace) {
    std::map<std::pair<Nanoseconds, Nanoseconds>, const Slice*> slices;
    for (const Slice& slice : trace.measured.slices) {
        slices.emplace(std::pair(slice.start, slice.end), &slice);
    }
    std::map<std::pair<std::string, std::string>, Tasks> threads;
    for (const RangeTrack& track : trace.tracks) {
        for (const TraceRange& range : track.ranges) {  // by start
            const auto slice = range.is_task ? slices.find({range.start, range.end}) : slices.end();
            if (slice != slices.end()) {
                threads[{track.group, track.name}].push_back(slice->second);
            }
        }
    }
    return threads;
}

/// The last task to start before `time`, unless it has ended by then.
const Slice* taskAt(const Tasks& tasks, Nanoseconds time) {
    const auto later = std::upper_bound(tasks.begin(), tasks.end(), time,
                                        [](Nanoseconds at, const Slice* task) { return at < task->start; });
    return later != tasks.begin() && time < (*std::prev(later))->end ? *std::prev(later) : nullptr;
}

std::unordered_map<std::uint32_t, Launch> launchesOf(const OpenedTrace& trace) {
    const std::map<std::pair<std::string, std::string>, Tasks> threads = tasksOfThreads(trace);
    std::unordered_map<std::uint32_t, Launch> launches;
    for (const RangeTrack& track : trace.tracks) {
        if (track.kind == RangeTrack::Kind::stream) {
            continue;
        }
        // The track of a thread's calls is called like the thread, and what they are.
        const auto thread = std::find_if(threads.begin(), threads.end(), [&](const auto& each) {
            const auto& [group, name] = each.first;
            return group == track.group && (track.name == name || track.name.starts_with(name + ","));
        });
        for (const TraceRange& call : track.ranges) {
            const Slice* task =
                thread != threads.end() && call.correlation != 0 ? taskAt(thread->second, call.start) : nullptr;
            if (task != nullptr) {
                launches.emplace(call.correlation, Launch{task, call.start});
            }
        }
    }
    return launches;
}

/// Sums up what came in by start.
class WorkOfTasks {
public:
    void add(const Kernel& kernel, bool copies) {
        auto [found, first] = work_.try_emplace(kernel.task);
        Work& work = found->second;
        if (first) {
            work.start = work.end = kernel.start;
            work.total.launchDelay = kernel.launchDelay;
        }
        ++(copies ? work.total.copies : work.total.kernels);
        work.total.busy += std::max<std::int64_t>(0, kernel.end - std::max(work.end, kernel.start));
        work.end = std::max(work.end, kernel.end);
        work.total.span = work.end - work.start;
    }
    void giveTo(KernelStoreBuilder& builder) const {
        for (const auto& [task, work] : work_) {
            builder.setWork(task, work.total);
        }
    }

private:
    struct Work {
        TaskDeviceWork total;
        std::int64_t start = 0;
        std::int64_t end = 0;
    };
    std::map<TaskKey, Work> work_;
};
}  // namespace

std::shared_ptr<const KernelStore> kernelsOf(const OpenedTrace& trace) {
    const std::unordered_map<std::uint32_t, Launch> launches = launchesOf(trace);
    std::vector<std::pair<const TraceRange*, const Launch*>> launched;
    for (const RangeTrack& track : trace.tracks) {
        for (const TraceRange& range : track.ranges) {
            const auto launch = track.kind == RangeTrack::Kind::stream && range.correlation != 0
                                    ? launches.find(range.correlation)
                                    : launches.end();
            if (launch != launches.end()) {
                launched.emplace_back(&range, &launch->second);
            }
        }
    }
    if (launched.empty()) {
        return nullptr;
    }
    std::stable_sort(launched.begin(), launched.end(),
                     [](const auto& a, const auto& b) { return a.first->start < b.first->start; });
    KernelStoreBuilder builder(trace.measured.lanes);
    WorkOfTasks work;
    for (const auto& [range, launch] : launched) {
        const Kernel kernel{trace.names.at(range->name), launch->task->key,  launch->task->lane,
                            range->start.count(),        range->end.count(), (range->start - launch->time).count()};
        builder.add(kernel);
        work.add(kernel, trace.names.at(range->category) != "kernel");
    }
    work.giveTo(builder);
    return std::make_shared<const KernelStore>(builder.finish());
}
}  // namespace pipescope
