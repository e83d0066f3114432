#include "trace/store/launch_attribution.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <utility>

namespace pipescope {
namespace {
/// Tasks of one thread, which follow or contain each other. Finds the task that ran at a given time.
class TasksInTime {
public:
    void add(std::size_t task, std::int64_t start, std::int64_t end) { spans_.push_back({task, start, end}); }

    void sort() {
        std::ranges::stable_sort(spans_, [](const Span& a, const Span& b) { return a.start < b.start; });
        leaves_ = std::bit_ceil(spans_.size() + 1);
        last_ends_.assign(2 * leaves_, std::numeric_limits<std::int64_t>::min());
        for (std::size_t k = 0; k < spans_.size(); ++k) {
            last_ends_[leaves_ + k] = spans_[k].end;
        }
        for (std::size_t node = leaves_ - 1; node > 0; --node) {
            last_ends_[node] = std::max(last_ends_[2 * node], last_ends_[2 * node + 1]);
        }
    }
    /// The innermost task, if any. Cost: O(log tasks), however deep they nest.
    std::optional<std::size_t> at(std::int64_t time) const {
        const auto after = std::upper_bound(spans_.begin(), spans_.end(), time,
                                            [](std::int64_t t, const Span& span) { return t < span.start; });
        // From the first span that starts later, goes left and up to a node that contains a span still open.
        std::size_t node = leaves_ + static_cast<std::size_t>(after - spans_.begin());
        while (node > 1 && (node % 2 == 0 || last_ends_[node - 1] < time)) {
            node /= 2;
        }
        if (node <= 1) {
            return std::nullopt;
        }
        for (--node; node < leaves_;) {  // down to the last such span in the node
            node = 2 * node + (last_ends_[2 * node + 1] >= time ? 1 : 0);
        }
        return spans_[node - leaves_].task;
    }

private:
    struct Span {
        std::size_t task = 0;
        std::int64_t start = 0;
        std::int64_t end = 0;
    };
    std::vector<Span> spans_;
    std::size_t leaves_ = 1;
    std::vector<std::int64_t> last_ends_;  // a tree: node n has the latest end in nodes 2 n and 2 n + 1
};

using Lanes = std::map<std::size_t, std::vector<std::int64_t>>;  // by stream, or by thread

/// `of`: the work's stream or its thread.
Lanes lanes_by(std::size_t LaunchedWork::*of, std::span<const LaunchingTask> tasks, std::span<const LaunchedWork> work,
               std::span<const Attribution> found) {
    std::map<std::size_t, std::map<std::int64_t, std::int64_t>> votes;
    std::map<std::size_t, std::int64_t> all;
    for (std::size_t k = 0; k < work.size(); ++k) {
        if (found[k].task && tasks[*found[k].task].lane >= 0) {
            ++votes[work[k].*of][tasks[*found[k].task].lane];
            ++all[work[k].*of];
        }
    }
    constexpr std::int64_t kLeastPart = 10;
    Lanes lanes;
    for (const auto& [number, counts] : votes) {
        for (const auto& [lane, count] : counts) {
            if (count * kLeastPart >= all[number]) {
                lanes[number].push_back(lane);
            }
        }
    }
    return lanes;
}

/// The task that ran on one of the lanes; empty if there was none, or if several ran.
std::optional<std::size_t> only_task(const std::vector<std::int64_t>& lanes,
                                     const std::map<std::int64_t, TasksInTime>& of_lane, std::int64_t time) {
    std::optional<std::size_t> found;
    for (const std::int64_t lane : lanes) {
        const auto tasks = of_lane.find(lane);
        const std::optional<std::size_t> task = tasks != of_lane.end() ? tasks->second.at(time) : std::nullopt;
        if (task && found) {
            return std::nullopt;
        }
        found = task ? task : found;
    }
    return found;
}
}  // namespace

std::vector<Attribution> attribute_launches(std::span<const LaunchingTask> tasks, std::span<const LaunchedWork> work) {
    std::map<std::size_t, TasksInTime> of_thread;
    std::map<std::int64_t, TasksInTime> of_lane;
    for (std::size_t k = 0; k < tasks.size(); ++k) {
        of_thread[tasks[k].thread].add(k, tasks[k].start, tasks[k].end);
        if (tasks[k].lane >= 0 && tasks[k].computes) {
            of_lane[tasks[k].lane].add(k, tasks[k].start, tasks[k].end);
        }
    }
    std::ranges::for_each(of_thread, [](auto& each) { each.second.sort(); });
    std::ranges::for_each(of_lane, [](auto& each) { each.second.sort(); });
    std::vector<Attribution> found(work.size());
    for (std::size_t k = 0; k < work.size(); ++k) {
        if (const auto thread = of_thread.find(work[k].thread); thread != of_thread.end()) {
            found[k].task = thread->second.at(work[k].launch);
        }
    }
    const Lanes streams = lanes_by(&LaunchedWork::stream, tasks, work, found);
    const auto take = [&](const auto& lanes_of) {
        for (std::size_t k = 0; k < work.size(); ++k) {
            const std::vector<std::int64_t>* const lanes = found[k].task ? nullptr : lanes_of(work[k]);
            if (lanes != nullptr) {
                found[k].task = only_task(*lanes, of_lane, work[k].launch);
                found[k].by_stream = found[k].task.has_value();
            }
        }
    };
    take([&](const LaunchedWork& each) {
        const auto lanes = streams.find(each.stream);
        return lanes == streams.end() ? nullptr : &lanes->second;
    });
    const Lanes threads = lanes_by(&LaunchedWork::thread, tasks, work, found);
    const std::vector<std::int64_t> only =
        of_lane.size() == 1 ? std::vector{of_lane.begin()->first} : std::vector<std::int64_t>();
    take([&](const LaunchedWork& each) {
        if (streams.contains(each.stream)) {
            return static_cast<const std::vector<std::int64_t>*>(nullptr);
        }
        const auto lanes = threads.find(each.thread);
        return lanes == threads.end() ? &only : &lanes->second;
    });
    return found;
}

std::int64_t could_start(std::int64_t launch, std::int64_t start) {
    constexpr std::int64_t kLatency = 10'000;
    return start <= launch + kLatency ? start : launch;
}

void TaskWorkSum::add(bool is_kernel, std::int64_t from, std::int64_t to, std::int64_t launch) {
    if (kernels + copies == 0) {
        start = end = from;
        launch_delay = from - launch;
        first_launch_ = launch;
    }
    if (from > end) {
        const std::int64_t launched = std::clamp(could_start(launch, from), end, from);
        launch_gap += launched - end;
        paced += from - launched;  // another reason than the launch
    }
    const std::int64_t work = std::max<std::int64_t>(0, to - std::max(from, end));
    ++(is_kernel ? kernels : copies);
    busy += work;
    paced = std::max(paced, launch - first_launch_) + work;
    end = std::max(end, to);
}
}  // namespace pipescope
