#include "analysis/kernel_sums.h"

#include "analysis/launched_kernels.h"
#include "trace/open_trace.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <unordered_map>
#include <utility>

namespace pipescope {
namespace {
void sort_by_total(std::vector<KernelSum>& sums) {
    std::ranges::stable_sort(sums, std::greater<>(), &KernelSum::total);
}
}  // namespace

std::uint32_t KernelSumming::number_of(std::string_view text) {
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) {
        return found->second;
    }
    texts_.emplace_back(text);
    return numbers_.emplace(texts_.back(), static_cast<std::uint32_t>(texts_.size() - 1)).first->second;
}

void KernelSumming::add(const DeviceActivity& work) {
    const std::int64_t length = std::max<std::int64_t>(0, (work.end - work.start).count());
    const auto stored =
        static_cast<std::uint32_t>(std::min<std::int64_t>(length, std::numeric_limits<std::uint32_t>::max()));
    const std::uint32_t name = number_of(work.name);
    const std::uint32_t activity = number_of(work.activity);
    const auto add_to = [&](Group& group) {
        group.total += length;
        group.lengths.push_back(stored);
    };
    add_to(names_[{name, activity}]);
    if (work.task) {
        add_to(tasks_[{*work.task, work.partition, name, activity}]);
    }
    auto& [count, total] = streams_[number_of(work.stream)];
    ++count;
    total += length;
    all_ += length;
}

KernelSum KernelSumming::sum_of(const Group& group) {
    std::vector<std::uint32_t> lengths = group.lengths;
    const LengthFigures figures = length_figures(lengths);
    KernelSum sum;
    sum.count = figures.count;
    sum.total = group.total;
    sum.mean = static_cast<double>(group.total) / static_cast<double>(sum.count);
    sum.median = figures.median;
    sum.p95 = figures.p95;
    return sum;
}

KernelSums KernelSumming::sums() const {
    KernelSums sums;
    const auto share = [&](KernelSum& sum) {
        sum.share = all_ > 0 ? static_cast<double>(sum.total) / static_cast<double>(all_) : 0;
    };
    for (const auto& [key, group] : names_) {
        KernelSum sum = sum_of(group);
        sum.name = texts_[key.first];
        sum.activity = texts_[key.second];
        share(sum);
        sums.by_name.push_back(std::move(sum));
    }
    for (const auto& [key, group] : tasks_) {
        const auto& [task, partition, name, activity] = key;
        KernelSum sum = sum_of(group);
        sum.task = task;
        sum.partition = partition;
        sum.name = texts_[name];
        sum.activity = texts_[activity];
        share(sum);
        sums.by_task.push_back(std::move(sum));
    }
    for (const auto& [stream, work] : streams_) {
        KernelSum sum;
        sum.stream = texts_[stream];
        sum.count = work.first;
        sum.total = work.second;
        sum.mean = static_cast<double>(sum.total) / static_cast<double>(sum.count);
        share(sum);
        sums.by_stream.push_back(std::move(sum));
    }
    for (std::vector<KernelSum>* each : {&sums.by_name, &sums.by_task, &sums.by_stream}) {
        sort_by_total(*each);
    }
    return sums;
}

KernelSums kernel_sums(const OpenedTrace& trace) {
    std::unordered_map<const TraceRange*, const Slice*> tasks;
    for (const LaunchedKernel& kernel : launched_kernels(trace)) {
        tasks.emplace(kernel.range, kernel.task);
    }
    KernelSumming summing;
    for (const RangeTrack& track : trace.tracks) {
        if (track.kind != RangeTrack::Kind::stream) {
            continue;
        }
        const std::string stream = track.group + ", " + track.name;
        for (const TraceRange& range : track.ranges) {
            const auto task = tasks.find(&range);
            const Slice* const slice = task == tasks.end() ? nullptr : task->second;
            std::string_view activity = trace.names.at(range.category);
            if (activity.starts_with("gpu_")) {
                activity.remove_prefix(4);  // of PyTorch's profiler
            }
            summing.add({trace.names.at(range.name), activity, stream, range.start, range.end,
                         slice != nullptr ? std::optional(slice->key.kind) : std::nullopt,
                         slice != nullptr ? slice->key.partition : -1});
        }
    }
    return summing.sums();
}

KernelSums kernel_sums(const TraceReader& reader) {
    KernelSumming summing;
    reader.for_each_device_activity([&](const DeviceActivity& work) { summing.add(work); });
    return summing.sums();
}

KernelSums kernel_sums(const std::filesystem::path& path) {
    if (const std::optional<TraceReader> reader = TraceReader::open(path)) {
        return kernel_sums(*reader);
    }
    return kernel_sums(open_trace(path));
}

std::vector<ComparedKernels> compare_kernels(const KernelSums& before, const KernelSums& after) {
    std::map<std::pair<std::string, std::string>, ComparedKernels> all;
    const auto take = [&](const KernelSums& sums, KernelSum ComparedKernels::*side) {
        for (const KernelSum& sum : sums.by_name) {
            ComparedKernels& both = all[{sum.name, sum.activity}];
            both.before.name = both.after.name = sum.name;
            both.before.activity = both.after.activity = sum.activity;
            both.*side = sum;
        }
    };
    take(before, &ComparedKernels::before);
    take(after, &ComparedKernels::after);
    std::vector<ComparedKernels> compared;
    for (auto& [key, both] : all) {
        compared.push_back(std::move(both));
    }
    std::ranges::stable_sort(compared, std::greater<>(), [](const ComparedKernels& each) {
        return std::abs(each.after.total - each.before.total);
    });
    return compared;
}
}  // namespace pipescope
