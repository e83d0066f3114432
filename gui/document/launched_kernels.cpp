// Kernels of a trace that is not ours: found by the calls that launched them.
#include "gui/document/kernel_loading.h"

#include <algorithm>
#include <map>
#include <set>
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

struct Launches {
    std::unordered_map<std::uint32_t, Launch> byTasks;  // by correlation
    /// Calls of threads that ran no task.
    std::unordered_map<std::uint32_t, Nanoseconds> others;
};

Launches launchesOf(const OpenedTrace& trace) {
    const std::map<std::pair<std::string, std::string>, Tasks> threads = tasksOfThreads(trace);
    Launches launches;
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
            if (call.correlation == 0) {
                continue;
            }
            if (thread == threads.end()) {
                launches.others.emplace(call.correlation, call.start);
            } else if (const Slice* task = taskAt(thread->second, call.start)) {
                launches.byTasks.emplace(call.correlation, Launch{task, call.start});
            }
        }
    }
    return launches;
}

/// Autograd launches what goes backward on a device from a thread of its own. Such a call is the backward task's that
/// ran meanwhile on the device's lanes; where several did, or none, it is nobody's. Which lanes a device has is known
/// from what the lanes' own threads launched there.
class BackwardOfDevices {
public:
    explicit BackwardOfDevices(const Timeline& measured) {
        for (const Slice& slice : measured.slices) {
            if (slice.key.kind == TaskKind::backward || slice.key.kind == TaskKind::backward_weight) {
                tasks_[slice.lane].push_back(&slice);
            }
        }
        for (auto& [lane, tasks] : tasks_) {
            std::stable_sort(tasks.begin(), tasks.end(),
                             [](const Slice* a, const Slice* b) { return a->start < b->start; });
        }
    }
    void addLane(const std::string& device, LaneId lane) { lanes_[device].insert(lane); }
    const Slice* at(const std::string& device, Nanoseconds time) const {
        const Slice* found = nullptr;
        const auto lanes = lanes_.find(device);
        for (const LaneId lane : lanes != lanes_.end() ? lanes->second : std::set<LaneId>{}) {
            const auto tasks = tasks_.find(lane);
            const Slice* task = tasks != tasks_.end() ? taskAt(tasks->second, time) : nullptr;
            if (task != nullptr && found != nullptr) {
                return nullptr;
            }
            found = task != nullptr ? task : found;
        }
        return found;
    }

private:
    std::map<LaneId, Tasks> tasks_;
    std::map<std::string, std::set<LaneId>> lanes_;  // of devices
};

/// Every range of a stream whose launch is known, with it.
std::vector<std::pair<const TraceRange*, Launch>> launchedWork(const OpenedTrace& trace) {
    const Launches launches = launchesOf(trace);
    std::vector<std::pair<const TraceRange*, Launch>> launched;
    BackwardOfDevices backward(trace.measured);
    const auto eachOnAStream = [&](const auto& take) {
        for (const RangeTrack& track : trace.tracks) {
            for (const TraceRange& range : track.ranges) {
                if (track.kind == RangeTrack::Kind::stream && range.correlation != 0) {
                    take(track.group, range);
                }
            }
        }
    };
    eachOnAStream([&](const std::string& device, const TraceRange& range) {
        if (const auto launch = launches.byTasks.find(range.correlation); launch != launches.byTasks.end()) {
            launched.emplace_back(&range, launch->second);
            backward.addLane(device, launch->second.task->lane);
        }
    });
    eachOnAStream([&](const std::string& device, const TraceRange& range) {
        const auto call = launches.others.find(range.correlation);
        const Slice* task = call != launches.others.end() ? backward.at(device, call->second) : nullptr;
        if (task != nullptr) {
            launched.emplace_back(&range, Launch{task, call->second});
        }
    });
    return launched;
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
    std::vector<std::pair<const TraceRange*, Launch>> launched = launchedWork(trace);
    if (launched.empty()) {
        return nullptr;
    }
    std::stable_sort(launched.begin(), launched.end(),
                     [](const auto& a, const auto& b) { return a.first->start < b.first->start; });
    KernelStoreBuilder builder(trace.measured.lanes);
    WorkOfTasks work;
    for (const auto& [range, launch] : launched) {
        const Kernel kernel{trace.names.at(range->name), launch.task->key,   launch.task->lane,
                            range->start.count(),        range->end.count(), (range->start - launch.time).count()};
        builder.add(kernel);
        work.add(kernel, trace.names.at(range->category) != "kernel");
    }
    work.giveTo(builder);
    return std::make_shared<const KernelStore>(builder.finish());
}
}  // namespace pipescope
