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
        if (work.facts != nullptr) {
            add_facts(group, *work.facts, length);
        }
    };
    add_to(names_[{name, activity}]);
    if (work.task) {
        add_to(tasks_[{*work.task, work.partition, name, activity}]);
    }
    if (work.facts != nullptr && !work.facts->collective.type.empty()) {
        add_collective(work);
    }
    auto& [count, total] = streams_[number_of(work.stream)];
    ++count;
    total += length;
    all_ += length;
}

void KernelSumming::add_facts(Group& group, const WorkFacts& facts, std::int64_t length) {
    if (facts.bytes > 0) {
        if (__builtin_add_overflow(group.bytes, facts.bytes, &group.bytes)) {
            group.bytes = std::numeric_limits<Bytes>::max();
        }
        group.time_of_bytes += length;
    }
    if (facts.has_launch()) {
        group.launches[{facts.grid, facts.block, facts.registers, facts.shared_memory}] += length;
    }
}

void KernelSumming::add_collective(const DeviceActivity& work) {
    const CollectiveFacts& facts = work.facts->collective;
    collectives_[{facts.type, facts.element_type, work.facts->bytes, facts.group_size}]
                [{facts.group, std::string(work.device)}]
                    .push_back({work.start.count(), std::max(work.start, work.end).count()});
}

namespace {
double per_second(double amount, std::int64_t ns) {
    return amount / (static_cast<double>(ns) / 1e9);
}

/// How long the kernels of a group waited for each rank that came last. `ranks` has the kernels of each rank, by start.
/// Empty unless the n-th kernels of all ranks overlap.
std::optional<std::vector<std::int64_t>> skew_of(const std::vector<std::vector<TimeRange>>& ranks) {
    std::vector<std::int64_t> skew(ranks.size());
    for (std::size_t n = 0; n < ranks.front().size(); ++n) {
        std::int64_t last_start = std::numeric_limits<std::int64_t>::min();
        std::int64_t first_end = std::numeric_limits<std::int64_t>::max();
        std::size_t last = 0;
        for (std::size_t k = 0; k < ranks.size(); ++k) {
            if (ranks[k].size() != ranks.front().size()) {
                return std::nullopt;
            }
            last = ranks[k][n].start > last_start ? k : last;
            last_start = std::max(last_start, ranks[k][n].start);
            first_end = std::min(first_end, ranks[k][n].end);
        }
        if (last_start > first_end) {
            return std::nullopt;
        }
        for (const std::vector<TimeRange>& rank : ranks) {
            skew[last] += last_start - rank[n].start;
        }
    }
    return skew;
}
}  // namespace

std::vector<CollectiveSum> KernelSumming::collectives() const {
    std::vector<CollectiveSum> sums;
    for (const auto& [kind, places] : collectives_) {
        CollectiveSum sum;
        std::tie(sum.type, sum.element_type, sum.bytes, sum.group_size) = kind;
        sum.shortest = std::numeric_limits<std::int64_t>::max();
        struct Ranks {
            std::vector<std::string> devices;
            std::vector<std::vector<TimeRange>> kernels;  // of each device
        };
        std::map<std::string, Ranks> groups;
        std::map<std::string, std::int64_t> late;  // skew by device
        for (const auto& [place, kernels] : places) {
            Ranks& group = groups[place.first];
            group.devices.push_back(place.second);
            group.kernels.push_back(kernels);
            std::ranges::sort(group.kernels.back(), {}, &TimeRange::start);
            for (const TimeRange& kernel : kernels) {
                ++sum.count;
                sum.total += kernel.length();
                sum.shortest = std::min(sum.shortest, kernel.length());
            }
        }
        // A message has two ends, of which each is a sum of its own.
        bool is_known = sum.type != "send" && sum.type != "receive" && sum.group_size > 1;
        std::int64_t skew = 0;
        for (const auto& [name, group] : groups) {
            const bool is_whole = !name.empty() && std::cmp_equal(group.devices.size(), sum.group_size);
            const auto of_group = is_known && is_whole ? skew_of(group.kernels) : std::nullopt;
            is_known = of_group.has_value();
            for (std::size_t k = 0; is_known && k < of_group->size(); ++k) {
                skew += (*of_group)[k];
                late[group.devices[k]] += (*of_group)[k];
            }
        }
        const double on_bus = bus_factor(sum.type, sum.group_size) * static_cast<double>(sum.bytes);
        if (is_known) {
            sum.skew = skew;
            for (const auto& [device, part] : late) {
                sum.late_device = part > sum.late_skew ? device : sum.late_device;
                sum.late_skew = std::max(sum.late_skew, part);
            }
            sum.transfer = sum.total - skew;
        }
        if (sum.transfer.value_or(0) > 0 && on_bus > 0) {
            sum.bus_bandwidth = per_second(on_bus * static_cast<double>(sum.count), *sum.transfer);
        }
        if (sum.shortest > 0 && on_bus > 0) {
            sum.best_bandwidth = per_second(on_bus, sum.shortest);
        }
        sums.push_back(std::move(sum));
    }
    std::ranges::stable_sort(sums, std::greater<>(), &CollectiveSum::total);
    return sums;
}

KernelSum KernelSumming::sum_of(const Group& group) {
    std::vector<std::uint32_t> lengths = group.lengths;
    const LengthFigures figures = length_figures(lengths);
    KernelSum sum;
    sum.count = figures.count;
    if (group.bytes > 0) {
        sum.bytes = group.bytes;
    }
    if (group.time_of_bytes > 0) {
        sum.bandwidth = per_second(static_cast<double>(group.bytes), group.time_of_bytes);
    }
    if (!group.launches.empty()) {
        const auto most = std::ranges::max_element(group.launches, {}, [](const auto& each) { return each.second; });
        sum.launch = most->first;
        sum.launch->configurations = std::ssize(group.launches);
    }
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
    sums.collectives = collectives();
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
            summing.add({trace.names.at(range.name), activity, track.group, stream, range.start, range.end,
                         slice != nullptr ? std::optional(slice->key.kind) : std::nullopt,
                         slice != nullptr ? slice->key.partition : -1, &trace.facts.at(range.facts)});
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
