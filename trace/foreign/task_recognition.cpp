// Recognition makes seven passes over a rank's ranges: which names have a meaning (NamedRanges), which task each range
// is (RankRecognition::number), which backwards only their operators show (add_linked_backwards), whether host or
// device times count (read_device_times), when messages came (read_messages), when tasks truly began (take_tasks), and
// what else the device did (take_lane_work).

#include "trace/foreign/task_recognition.h"

#include "base/printable.h"
#include "base/quantities.h"
#include "trace/foreign/backward_links.h"
#include "trace/foreign/chrome_tracks.h"
#include "trace/store/device_launches.h"
#include "trace/store/launch_attribution.h"
#include "trace/store/process_json.h"
#include "trace/store/range_tracks.h"
#include "trace/store/slice_row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace pipescope {
namespace {
/// A range with a meaning.
struct NamedRange {
    const TraceRange* range = nullptr;
    RangeMeaning meaning;
    std::size_t track = 0;
    bool on_device = false;
    std::optional<RangeArrow::End> place = {};  ///< of the first operator, if the range joins operators
};

bool counts_micro_batches(const RangeMeaning& meaning) {
    const bool is_message =
        meaning.role != RangeRole::task && meaning.role != RangeRole::step && meaning.role != RangeRole::loading;
    return is_message || is_compute(meaning.task) || meaning.task == TaskKind::loss;
}

bool is_transport(RangeRole role) {
    return role == RangeRole::send || role == RangeRole::receive;
}

/// The copy to which a message inside this range belongs. Empty if the range is not an end of a message.
std::optional<TaskKey> copy_in(const TaskKey& key, RangeRole role, RangeRole transport) {
    const bool sends = transport == RangeRole::send;
    const bool forward = role == RangeRole::send_forward || role == RangeRole::receive_forward ||
                         (role == RangeRole::task && key.kind == TaskKind::forward);
    const bool backward = role == RangeRole::send_backward || role == RangeRole::receive_backward ||
                          (role == RangeRole::task && key.kind == TaskKind::backward);
    const std::int32_t partition = key.partition - (forward != sends ? 1 : 0);  // a copy carries the lower partition
    if ((!forward && !backward) || partition < 0) {
        return std::nullopt;
    }
    return TaskKey{key.step, forward ? TaskKind::copy_forward : TaskKind::copy_backward, partition, key.micro_batch,
                   -1};
}

bool sends(RangeRole role) {
    return role == RangeRole::send_forward || role == RangeRole::send_backward;
}

/// Samples of a message with several tensors: the number that its tensors agree on, ignoring unknown ones; else -1.
std::int64_t joined_samples(std::int64_t one, std::int64_t other) {
    return one == other || other == 0 ? one : one == 0 ? other : -1;
}

/// Device work with the call that launched it.
struct LaunchedRange {
    const TraceRange* range = nullptr;
    std::size_t stream = 0;  // its track
    std::size_t thread = 0;  // the call's, as threads_of_tracks() numbers it
    Nanoseconds launch{0};
    bool is_message = false;     // NCCL's, but no collective
    bool is_collective = false;  // NCCL's
    bool is_kernel = false;
    std::uint32_t place = 0;  // within the track

    bool computes() const { return is_kernel && !is_message && !is_collective; }
    RangeArrow::End end() const { return {static_cast<std::uint32_t>(stream), place}; }
};

/// A call that launches work which the file lacks.
struct LostLaunch {
    std::size_t thread = 0;
    Nanoseconds launch{0};
    bool is_kernel = true;  ///< otherwise a copy or fill
};

/// What one rank ran on its devices.
struct DeviceWork {
    bool any = false;                     ///< there is work on a stream
    bool is_called = false;               ///< a call launches a kernel
    std::vector<LaunchedRange> launched;  ///< the work whose launch is known
    std::vector<LostLaunch> lost;
    std::size_t impossible = 0;          ///< kernels among `lost` whose record has times that cannot be
    std::vector<LaunchedRange> orphans;  ///< kernels that compute, without a known launch although others have one
};

struct SpanOnDevice {
    Nanoseconds start{0};
    Nanoseconds end{0};
    std::optional<TaskWorkSum> work = {};  ///< empty if only an annotation shows the span
};

/// What is known of a range of which some kernels are lost.
struct PartialSpan {
    bool first = false;                      ///< the first kernel may be lost
    bool last = false;                       ///< the last kernel may be lost
    std::optional<SpanOnDevice> known = {};  ///< from the first known kernel to the last one
};

/// The times of ranges on the device, by the range on the host.
struct DeviceTimes {
    using Span = SpanOnDevice;
    using Partial = PartialSpan;
    std::map<const TraceRange*, Span> spans;
    std::map<const TraceRange*, Partial> lacking;
    std::set<std::int32_t> whole;  ///< steps whose tasks all have times
};

/// The copy that brings a task its input.
TaskKey input_of(const TaskKey& key) {
    return key.kind == TaskKind::forward
               ? TaskKey{key.step, TaskKind::copy_forward, key.partition - 1, key.micro_batch, -1}
               : TaskKey{key.step, TaskKind::copy_backward, key.partition, key.micro_batch, -1};
}

/// The name of the GPU, if all streams of the file belong to one; else empty.
std::string device_of(const OpenedTrace& trace) {
    std::string group;
    for (const RangeTrack& track : trace.tracks) {
        if (is_of_device(track.kind) && !group.empty() && track.group != group) {
            return {};
        }
        group = is_of_device(track.kind) ? track.group : group;
    }
    return gpu_name(group);
}

/// The ranges of one rank, from its names to its tasks.
class RankRecognition {
public:
    RankRecognition(const OpenedTrace& trace, const std::vector<std::optional<RangeMeaning>>& meanings,
                    const std::vector<std::size_t>& threads, std::vector<NamedRange> ranges, const DeviceWork& work,
                    const std::vector<RangeArrow>& backwards, int rank, std::int32_t position)
        : trace_(trace),
          meanings_(meanings),
          threads_(threads),
          work_(work),
          backwards_(backwards),
          ranges_(std::move(ranges)),
          position_(position) {
        found_.rank = rank;
        for (const NamedRange& each : ranges_) {
            found_.chunks = std::max(found_.chunks, each.meaning.chunk.value_or(0) + 1);
        }
        std::ranges::stable_sort(ranges_, [](const NamedRange& a, const NamedRange& b) {
            return std::tuple(a.range->start, b.range->end) < std::tuple(b.range->start, a.range->end);
        });
        for (const MessageSize& size : trace.message_sizes) {
            MessageEnd& message = sizes_[{size.start, size.name}];
            message.bytes += size.bytes;
            message.samples = joined_samples(message.samples, size.samples);
        }
    }

    RankTasks find(std::vector<std::string>& warnings) {
        read_steps();
        number();
        add_linked_backwards();
        read_device_times();
        read_messages();
        take_tasks();
        take_lane_work();
        if (found_.chunks > 1) {  // between which partitions a message goes is not known
            found_.sent.clear();
            found_.arrived.clear();
        }
        if (!found_.thin_steps.empty()) {
            warnings.push_back(fmt::format(
                "rank {}: {} fewer kernels than the same task of most steps, such as {}: the profiler may have lost "
                "calls and kernels, so times may be too short",
                found_.rank, counted(thin_, "task has", "tasks have"), to_string(first_thin_)));
        }
        if (outside_ > 0) {
            warnings.push_back(
                fmt::format("rank {}: {} of the pipeline outside of every step {} left out; profile whole steps",
                            found_.rank, counted(outside_, "range", "ranges"), outside_ == 1 ? "is" : "are"));
        }
        if (!second_steps_.empty()) {
            warnings.push_back(fmt::format(
                "rank {}: {} a number that an earlier one has, such as {}; of each number the first step counts, and "
                "{} of the pipeline in the others {} left out; give each step its own number",
                found_.rank, counted(second_steps_.size(), "step has", "steps have"),
                second_steps_.front()->meaning.step.value_or(0), counted(in_second_steps_, "range", "ranges"),
                in_second_steps_ == 1 ? "is" : "are"));
        }
        if (repeated_ > 0) {
            warnings.push_back(fmt::format(
                "rank {}: {} a step's task again, as with accumulated gradients; of each task the first range "
                "counts, so the step time is too short: it is that of the first pass; idle time may be too large",
                found_.rank, counted(repeated_, "range is", "ranges are")));
        }
        if (work_.impossible > 0) {
            warnings.push_back(fmt::format(
                "rank {}: {} impossible times, such as an end at the start, or a start before the launch; each counts "
                "as lost",
                found_.rank, counted(work_.impossible, "kernel has", "kernels have")));
        }
        if (lost_in_tasks_ > 0) {
            warnings.push_back(fmt::format(
                "rank {}: {} of the {} calls that launch the tasks' kernels ({:.2g} %) {} no kernel in the file, so "
                "the device times of these tasks are not known; record all kernels, also those of CUDA graphs",
                found_.rank, lost_in_tasks_, lost_in_tasks_ + launched_in_tasks_,
                100.0 * static_cast<double>(lost_in_tasks_) / static_cast<double>(lost_in_tasks_ + launched_in_tasks_),
                lost_in_tasks_ == 1 ? "has" : "have"));
        }
        if (std::string warning = steps_out_of_order(); !warning.empty()) {
            warnings.push_back(std::move(warning));
        }
        if (unsound_ > 0) {
            warnings.push_back(fmt::format("rank {}: {} {} left out; the first one {}", found_.rank,
                                           counted(unsound_, "task", "tasks"), unsound_ == 1 ? "is" : "are",
                                           first_fault_));
        }
        return std::move(found_);
    }

private:
    /// A range that is a task, or an end of a message, of this rank.
    struct Numbered {
        const NamedRange* named = nullptr;
        TaskKey key;
        bool has_inner = false;  ///< an inner range is the task; this one may still hold its messages
    };

    /// Describes steps that are out of order; empty if there are none. Counted steps should be in order, unless a range
    /// is missing or belongs to no step, as in an evaluation.
    std::string steps_out_of_order() const {
        std::int32_t latest = 0;
        std::size_t late = 0;
        const Slice* first = nullptr;
        for (const Slice& slice : found_.tasks) {
            if (!steps_.empty() || !is_compute(slice.key.kind)) {
                continue;
            }
            if (slice.key.step < latest) {
                ++late;
                first = first == nullptr ? &slice : first;
            }
            latest = std::max(latest, slice.key.step);
        }
        return first == nullptr
                   ? std::string()
                   : fmt::format(
                         "rank {}: {} after tasks of a later step, such as {}: no rule names the steps, so the n-th "
                         "range of a task counts as that of step n; if a range is missing or belongs to no step, steps "
                         "after it are wrong; name the steps by a task rule, or profile with ProfilerStep",
                         found_.rank, counted(late, "task starts", "tasks start"), to_string(first->key));
    }

    /// The partition, or the rank's own number of it (RankTasks::chunks).
    std::int32_t partition_of(const RangeMeaning& meaning) const {
        return meaning.partition.value_or(position_ * found_.chunks + meaning.chunk.value_or(0));
    }

    void read_steps() {
        for (const NamedRange& each : ranges_) {
            if (each.meaning.role == RangeRole::step && !each.on_device) {
                const auto number = each.meaning.step.value_or(static_cast<std::int32_t>(found_.steps.size()));
                if (!found_.steps.try_emplace(number, each.range->start, each.range->end).second) {
                    second_steps_.push_back(&each);
                }
            }
        }
        for (const auto& [step, times] : found_.steps) {
            steps_.emplace(times.first, step);
        }
    }

    std::optional<std::int32_t> step_at(Nanoseconds time) const {
        const auto after = steps_.upper_bound(time);
        if (after == steps_.begin()) {
            return std::nullopt;
        }
        const std::int32_t step = std::prev(after)->second;
        return time <= found_.steps.at(step).second ? std::optional(step) : std::nullopt;
    }

    bool in_second_step(Nanoseconds time) const {
        const auto after = std::ranges::upper_bound(second_steps_, time, {},
                                                    [](const NamedRange* step) { return step->range->start; });
        return after != second_steps_.begin() && time <= (*std::prev(after))->range->end;
    }

    /// For each range: true if it is a task's and contains a later range of the same task on its thread.
    std::vector<bool> with_inner() const {
        using Same = std::tuple<std::size_t, RangeRole, TaskKind, std::int32_t, std::int32_t>;
        std::map<Same, Nanoseconds> first_ends;  // of ranges that start later
        std::vector<bool> holds(ranges_.size());
        for (std::size_t k = ranges_.size(); k-- > 0;) {
            const NamedRange& each = ranges_[k];
            const RangeMeaning& meaning = each.meaning;
            if (each.on_device || !meaning.micro_batch) {
                continue;
            }
            const Same same{each.track, meaning.role, meaning.task, partition_of(meaning), *meaning.micro_batch};
            const auto [first, fresh] = first_ends.try_emplace(same, each.range->end);
            holds[k] = !fresh && first->second <= each.range->end;
            first->second = std::min(first->second, each.range->end);
        }
        return holds;
    }

    /// Gives each range on the host its step, partition and micro-batch.
    void number() {
        const std::vector<bool> holds = with_inner();
        std::map<std::tuple<RangeRole, TaskKey>, std::int32_t> counts;
        for (std::size_t k = 0; k < ranges_.size(); ++k) {
            const NamedRange& named = ranges_[k];
            if (named.on_device || named.meaning.role == RangeRole::step || named.meaning.role == RangeRole::loading ||
                is_transport(named.meaning.role) || named.range->open) {
                continue;
            }
            const RangeMeaning& meaning = named.meaning;
            const std::optional<std::int32_t> step = steps_.empty() ? std::optional(0) : step_at(named.range->start);
            if (!step) {
                std::size_t& lost = in_second_step(named.range->start) ? in_second_steps_ : outside_;
                lost += meaning.role == RangeRole::task ? 1 : 0;
                continue;
            }
            const std::int32_t micro_batch = meaning.micro_batch.value_or(-1);
            TaskKey key{*step, meaning.role == RangeRole::task ? meaning.task : TaskKind::copy_forward,
                        partition_of(meaning), micro_batch, -1};
            const bool outer = holds[k];
            std::int32_t& seen = counts[{meaning.role, key}];
            const std::int32_t before = outer ? seen : seen++;
            if (!meaning.micro_batch && counts_micro_batches(meaning)) {
                key.micro_batch = before;
            } else if (steps_.empty()) {
                key.step = before;
            } else if (before > 0 && !outer) {
                repeated_ += meaning.role == RangeRole::task ? 1 : 0;
                continue;
            }
            numbered_.push_back({&named, key, outer});
        }
    }

    /// The forward whose range holds an operator; null if there is none.
    const Numbered* forward_with(const RangeArrow::End& place,
                                 const std::map<std::size_t, std::map<Nanoseconds, const Numbered*>>& forwards) const {
        const auto of_track = forwards.find(place.track);
        if (of_track == forwards.end()) {
            return nullptr;
        }
        const TraceRange& operation = trace_.tracks.at(place.track).ranges.at(place.range);
        const auto after = of_track->second.upper_bound(operation.start);
        if (after == of_track->second.begin()) {
            return nullptr;
        }
        const Numbered* const forward = std::prev(after)->second;
        return operation.start <= forward->named->range->end ? forward : nullptr;
    }

    /// If only forwards have ranges: adds a backward for each forward, from its first linked operator to the last one,
    /// and to those of autograd that directly follow, as these add up gradients.
    void add_linked_backwards() {
        std::map<std::size_t, std::map<Nanoseconds, const Numbered*>> forwards;  // by track and start
        for (const Numbered& each : numbered_) {
            if (is_computing(each) && each.key.kind != TaskKind::forward && each.key.kind != TaskKind::recompute) {
                return;
            }
            if (is_computing(each) && each.key.kind == TaskKind::forward) {
                forwards[each.named->track].emplace(each.named->range->start, &each);
            }
        }
        std::map<std::pair<std::uint32_t, std::uint32_t>, const Numbered*> operators;  // of backwards: their forwards
        for (const RangeArrow& link : forwards.empty() ? std::vector<RangeArrow>() : backwards_) {
            if (const Numbered* const forward = forward_with(link.from, forwards)) {
                operators.try_emplace({link.to.track, link.to.range}, forward);
            }
        }
        struct Span {
            const NamedRange* forward = nullptr;
            TaskKey key;
            RangeArrow::End first, last;
        };
        std::vector<Span> spans;
        for (const auto& [place, forward] : operators) {  // by track and start
            TaskKey key = forward->key;
            key.kind = TaskKind::backward;
            const RangeArrow::End end{place.first, place.second};
            if (!spans.empty() && spans.back().key == key && spans.back().first.track == end.track) {
                spans.back().last = end;
            } else {
                spans.push_back({forward->named, key, end, end});
            }
        }
        std::set<TaskKey> seen;
        for (std::size_t k = 0; k < spans.size(); ++k) {
            if (!seen.insert(spans[k].key).second) {
                ++repeated_;
                continue;
            }
            const bool more = k + 1 < spans.size() && spans[k + 1].first.track == spans[k].first.track;
            add_backward(*spans[k].forward, spans[k].key, spans[k].first,
                         end_of_backward(spans[k].last, more ? std::optional(spans[k + 1].first.range) : std::nullopt));
        }
        std::ranges::stable_sort(numbered_, {}, [](const Numbered& each) { return each.named->range->start; });
    }
    /// The end of autograd's operators that follow `last` within a millisecond of each other, before `next`.
    Nanoseconds end_of_backward(const RangeArrow::End& last, std::optional<std::uint32_t> next) const {
        constexpr Nanoseconds kMostPause{1'000'000};
        const std::vector<TraceRange>& ranges = trace_.tracks.at(last.track).ranges;
        Nanoseconds end = ranges[last.range].end;
        const std::size_t until = next.value_or(static_cast<std::uint32_t>(ranges.size()));
        for (std::size_t at = last.range + 1; at < until && ranges[at].start - end <= kMostPause; ++at) {
            if (trace_.names.at(ranges[at].name).starts_with(kAutogradOperator)) {
                end = std::max(end, ranges[at].end);
            }
        }
        return end;
    }
    void add_backward(const NamedRange& forward, const TaskKey& key, const RangeArrow::End& first, Nanoseconds end) {
        TraceRange& range = joined_ranges_.emplace_back(trace_.tracks.at(first.track).ranges.at(first.range));
        range.end = end;
        NamedRange& named = joined_named_.emplace_back(NamedRange{&range, forward.meaning, first.track, false, first});
        named.meaning.task = TaskKind::backward;
        numbered_.push_back({&named, key, false});
    }

    static bool is_computing(const Numbered& each) {
        return each.named->meaning.role == RangeRole::task && !each.has_inner && is_compute(each.key.kind);
    }

    /// The tracks of ranges on streams that run NCCL's kernels only. A task's range there holds a wait for other ranks.
    std::set<std::size_t> tracks_of_messages() const {
        std::map<std::pair<std::string, std::string>, bool> computes;  // by group and name of the stream
        for (const RangeTrack& track : trace_.tracks) {
            if (track.kind == RangeTrack::Kind::stream) {
                computes[{track.group, track.name}] = std::ranges::any_of(track.ranges, [&](const TraceRange& range) {
                    return !trace_.names.at(range.name).starts_with("nccl");
                });
            }
        }
        std::set<std::size_t> found;
        for (std::size_t k = 0; k < trace_.tracks.size(); ++k) {
            const RangeTrack& track = trace_.tracks[k];
            if (track.kind != RangeTrack::Kind::annotations || !track.name.ends_with(kAnnotationsSuffix)) {
                continue;
            }
            const auto stream =
                computes.find({track.group, track.name.substr(0, track.name.size() - kAnnotationsSuffix.size())});
            if (stream != computes.end() && !stream->second) {
                found.insert(k);
            }
        }
        return found;
    }

    /// Takes times from the ranges that the profiler shows on the device. Ranges with one name run there in the host's
    /// order, so the times are known if the profiler shows all of them.
    DeviceTimes times_of_annotations() const {
        struct OfName {
            std::vector<const TraceRange*> host;
            std::map<std::size_t, std::vector<const TraceRange*>> device;  // by track
        };
        std::map<std::uint32_t, OfName> names;
        for (const NamedRange& each : ranges_) {
            OfName& own = names[each.range->name];
            (each.on_device ? own.device[each.track] : own.host).push_back(each.range);
        }
        const std::set<std::size_t> waiting = tracks_of_messages();
        DeviceTimes times;
        for (const auto& [name, ranges] : names) {
            const std::optional<RangeMeaning>& meaning = meanings_.at(name);
            const bool computes = meaning && meaning->role == RangeRole::task && is_compute(meaning->task);
            const std::vector<const TraceRange*>* longest = nullptr;
            Nanoseconds most{-1};
            for (const auto& [track, device] : ranges.device) {
                Nanoseconds total{0};
                for (const TraceRange* range : device) {
                    total += range->duration();
                }
                if (device.size() == ranges.host.size() && total > most && !(computes && waiting.contains(track))) {
                    longest = &device;
                    most = total;
                }
            }
            for (std::size_t k = 0; longest != nullptr && k < ranges.host.size(); ++k) {
                times.spans.emplace(ranges.host[k], DeviceTimes::Span{(*longest)[k]->start, (*longest)[k]->end});
            }
        }
        return times;
    }

    /// Takes times from the kernels that a range launched: first start to last end. A message inside a task does not
    /// count, since its kernel waits for the other rank. Copies count only if there is no kernel, since copies on other
    /// streams may run far ahead.
    /// `annotations`: times_of_annotations(), which tell the task of some kernels without a call.
    DeviceTimes times_of_kernels(const DeviceTimes& annotations) {
        std::vector<const Numbered*> launching;
        std::vector<LaunchingTask> tasks;
        for (const Numbered& each : numbered_) {
            if (each.has_inner) {
                continue;
            }
            const bool computes = is_computing(each);
            launching.push_back(&each);
            tasks.push_back({threads_.at(each.named->track), computes ? 0 : -1, computes,
                             each.named->range->start.count(), each.named->range->end.count()});
        }
        std::vector<LaunchedWork> work;
        std::map<std::size_t, std::size_t> streams;  // the last one of each thread
        for (const LaunchedRange& each : work_.launched) {
            work.push_back({each.thread, each.launch.count(), each.stream});
            streams[each.thread] = each.stream;
        }
        for (const LostLaunch& each : work_.lost) {
            const auto stream = streams.find(each.thread);
            work.push_back({each.thread, each.launch.count(), stream == streams.end() ? 0 : stream->second});
        }
        const std::vector<Attribution> found = attribute_launches(tasks, work);
        std::map<const TraceRange*, std::vector<const LaunchedRange*>> by_range;
        for (std::size_t k = 0; k < work_.launched.size(); ++k) {
            const LaunchedRange& each = work_.launched[k];
            const Numbered* task = found[k].task ? launching[*found[k].task] : nullptr;
            const bool is_task = task != nullptr && task->named->meaning.role == RangeRole::task;
            if (task != nullptr && !(is_task && each.is_message)) {
                by_range[task->named->range].push_back(&each);
            }
            if (is_task) {
                found_.work.push_back({each.end(), task->key, each.launch, found[k].by_stream});
            }
            launched_in_tasks_ += task != nullptr && is_computing(*task) && each.is_kernel ? 1 : 0;
            note_work(each, task);
        }
        DeviceTimes times;
        place_orphans(found, launching, annotations, by_range, times);
        for (auto& [host, launched] : by_range) {
            leave_out_edges(launched);
            TaskWorkSum sum;
            for (const LaunchedRange* each : launched) {
                sum.add(each->is_kernel, each->range->start.count(), each->range->end.count(),
                        on_device_clock(each->launch).count());
            }
            times.spans.emplace(host, DeviceTimes::Span{Nanoseconds{sum.start}, Nanoseconds{sum.end}, sum});
        }
        for (std::size_t k = work_.launched.size(); k < found.size(); ++k) {
            const Numbered* const task = found[k].task ? launching[*found[k].task] : nullptr;
            if (task == nullptr || !is_computing(*task)) {
                continue;
            }
            const LostLaunch& lost = work_.lost[k - work_.launched.size()];
            const std::vector<const LaunchedRange*>& known = by_range[task->named->range];
            if (!lost.is_kernel && std::ranges::any_of(known, &LaunchedRange::computes)) {
                continue;  // copies do not count beside kernels
            }
            ++lost_in_tasks_;
            const auto launched_after = [&](const LaunchedRange* each) { return each->launch > lost.launch; };
            DeviceTimes::Partial& partial = times.lacking[task->named->range];
            partial.first = partial.first || std::ranges::all_of(known, launched_after);
            partial.last = partial.last || std::ranges::none_of(known, launched_after);
        }
        leave_out_lacking(times);
        return times;
    }

    /// Sorts the work by start. If some of it computes, leaves out what does not, but for collectives between kernels
    /// that compute: the others may run far ahead, or wait long for other ranks.
    static void leave_out_edges(std::vector<const LaunchedRange*>& launched) {
        std::ranges::stable_sort(launched, {}, [](const LaunchedRange* each) { return each->range->start; });
        if (std::ranges::none_of(launched, &LaunchedRange::computes)) {
            return;
        }
        Nanoseconds first = Nanoseconds::max();
        Nanoseconds last = Nanoseconds::min();
        for (const LaunchedRange* each : launched) {
            if (each->computes()) {
                first = std::min(first, each->range->start);
                last = std::max(last, each->range->end);
            }
        }
        std::erase_if(launched, [&](const LaunchedRange* each) {
            const bool is_within = each->is_collective && each->range->start >= first && each->range->end <= last;
            return !each->computes() && !is_within;
        });
    }

    /// Kernels without a call belong to the task around them on their stream. Between two tasks, an annotation on the
    /// device may tell. Otherwise it is not known which one lacks the kernel, so both do.
    void place_orphans(const std::vector<Attribution>& found, const std::vector<const Numbered*>& launching,
                       const DeviceTimes& annotations,
                       std::map<const TraceRange*, std::vector<const LaunchedRange*>>& by_range, DeviceTimes& times) {
        const auto shows = [&](const Numbered* task, const LaunchedRange& orphan) {
            const auto span = task == nullptr ? annotations.spans.end() : annotations.spans.find(task->named->range);
            return span != annotations.spans.end() && span->second.start <= orphan.range->start &&
                   span->second.end >= orphan.range->end;
        };
        struct Neighbour {
            const LaunchedRange* work = nullptr;
            const Numbered* task = nullptr;
        };
        std::map<std::size_t, std::map<Nanoseconds, Neighbour>> streams;  // by start
        for (std::size_t k = 0; k < work_.launched.size() && !work_.orphans.empty(); ++k) {
            const LaunchedRange& each = work_.launched[k];
            if (each.computes()) {
                const Numbered* const task = found[k].task ? launching[*found[k].task] : nullptr;
                streams[each.stream].emplace(each.range->start, Neighbour{&each, task});
            }
        }
        for (const LaunchedRange& orphan : work_.orphans) {
            const auto& neighbours = streams[orphan.stream];
            const auto after = neighbours.upper_bound(orphan.range->start);
            const Numbered* const before = after == neighbours.begin() ? nullptr : std::prev(after)->second.task;
            const Numbered* const next = after == neighbours.end() ? nullptr : after->second.task;
            const bool is_inside = before != nullptr && before == next;
            if (is_inside || shows(before, orphan) || shows(next, orphan)) {
                const Numbered* const task = is_inside || shows(before, orphan) ? before : next;
                by_range[task->named->range].push_back(&orphan);
                attributed_.emplace_back(orphan.range->start, orphan.range->end);
                continue;
            }
            unattributed_.emplace_back(orphan.range->start, orphan.range->end);
            if (before != nullptr && is_computing(*before)) {
                times.lacking[before->named->range].last = true;
            }
            if (next != nullptr && is_computing(*next) && orphan.range->start >= next->named->range->start) {
                times.lacking[next->named->range].first = true;
            }
        }
    }

    /// Notes what the device did beside the tasks that compute, and what nothing explains.
    void note_work(const LaunchedRange& work, const Numbered* task) {
        const std::string& name = trace_.names.at(work.range->name);
        const bool updates = task != nullptr ? task->key.kind == TaskKind::optimizer && is_task(*task)
                                             : work.computes() && is_optimizer_kernel(name);
        // "Memcpy HtoD (Pinned -> Device)" of PyTorch's profiler, "copy Host-to-Device" of nsys
        const bool loads = !work.is_kernel &&
                           (name.find("HtoD") != std::string::npos || name.find("Host-to-Device") != std::string::npos);
        const std::optional<LaneWorkKind> kind = work.is_collective ? std::optional(LaneWorkKind::collective)
                                                 : updates          ? std::optional(LaneWorkKind::optimizer)
                                                 : loads            ? std::optional(LaneWorkKind::loading)
                                                                    : std::nullopt;
        if (kind) {
            found_.lane_work.push_back({LaneId{0}, *kind, work.range->start, work.range->end});
        }
        if (work.is_collective) {
            collectives_.emplace_back(work.range->start, work.range->end);
            const WorkFacts& facts = trace_.facts.at(work.range->facts);
            if (!facts.collective.group.empty() && facts.collective.group_size > 1) {
                found_.collectives[{facts.collective, facts.bytes}].emplace_back(work.range->start, work.range->end);
            }
        } else if (!work.is_message) {
            (kind || task != nullptr ? attributed_ : unattributed_).emplace_back(work.range->start, work.range->end);
        }
    }
    static bool is_task(const Numbered& each) { return each.named->meaning.role == RangeRole::task; }

    /// If the tasks have the device's times: what else kept the lane busy, and how much of the device's time has no
    /// explanation. Kernels of NCCL wait for other ranks, so they explain no other work that runs meanwhile, and those
    /// of messages are no work.
    void take_lane_work() {
        if (!on_device_ || found_.tasks.empty()) {
            found_.lane_work.clear();
            return;
        }
        for (const NamedRange& each : ranges_) {
            if (each.meaning.role == RangeRole::loading && !each.on_device && !each.range->open) {
                found_.lane_work.push_back({LaneId{0}, LaneWorkKind::data, each.range->start, each.range->end});
            }
        }
        found_.lane_work = joined_work(std::move(found_.lane_work));
        Nanoseconds start = Nanoseconds::max();
        Nanoseconds end = Nanoseconds::min();
        for (const Slice& slice : found_.tasks) {
            start = std::min(start, slice.start);
            end = std::max(end, slice.end);
        }
        for (auto* ranges : {&attributed_, &unattributed_, &collectives_}) {
            for (auto& [from, to] : *ranges) {
                from = std::clamp(from, start, end);
                to = std::clamp(to, start, end);
            }
        }
        const Nanoseconds explained = covered_time(attributed_);
        unattributed_.insert(unattributed_.end(), attributed_.begin(), attributed_.end());
        found_.unattributed = covered_time(unattributed_) - explained;
        unattributed_.insert(unattributed_.end(), collectives_.begin(), collectives_.end());
        found_.device_busy = covered_time(std::move(unattributed_));
    }

    /// Tasks that lack kernels have no time, but for the known part.
    static void leave_out_lacking(DeviceTimes& times) {
        for (auto& [range, partial] : times.lacking) {
            if (const auto span = times.spans.find(range); span != times.spans.end()) {
                partial.known = span->second;
                times.spans.erase(span);
            }
        }
    }

    /// Finds the steps in which every task has a time. One half of a split backward may have no work on a partition, as
    /// the first half on the first partition.
    void find_whole_steps(DeviceTimes& times) const {
        const bool splits = std::ranges::any_of(numbered_, [](const Numbered& each) {
            return is_computing(each) && each.key.kind == TaskKind::backward_weight;
        });
        const auto name_of = [](const Numbered& each) { return std::pair(each.key.kind, each.key.partition); };
        std::set<std::pair<TaskKind, std::int32_t>> with_work;
        for (const Numbered& each : numbered_) {
            if (is_computing(each) && times.spans.contains(each.named->range)) {
                with_work.insert(name_of(each));
            }
        }
        std::set<std::int32_t> lacking;
        for (const Numbered& each : numbered_) {
            if (!is_computing(each)) {
                continue;
            }
            const bool is_half =
                splits && (each.key.kind == TaskKind::backward || each.key.kind == TaskKind::backward_weight);
            const bool has_none = is_half && !with_work.contains(name_of(each));
            times.whole.insert(each.key.step);
            if (!has_none && !times.spans.contains(each.named->range)) {
                lacking.insert(each.key.step);
            }
        }
        for (const std::int32_t step : lacking) {
            times.whole.erase(step);
        }
    }

    /// True if a task's kernels end after its range, so the host did not wait for them.
    bool runs_ahead(const DeviceTimes& kernels) const {
        constexpr Nanoseconds kRounding{1};
        const auto ends_later = [kRounding](const TraceRange& range, const DeviceTimes::Span& span) {
            return span.end > range.end + kRounding;
        };
        return std::ranges::any_of(numbered_, [&](const Numbered& each) {
            const TraceRange* const range = each.named->range;
            const auto span = kernels.spans.find(range);
            const auto partial = kernels.lacking.find(range);
            const bool whole_does = span != kernels.spans.end() && ends_later(*range, span->second);
            const bool part_does =
                partial != kernels.lacking.end() && partial->second.known && ends_later(*range, *partial->second.known);
            return is_computing(each) && (whole_does || part_does);
        });
    }

    /// True if the tasks' kernels are known and take most of their ranges' time, so the device does the work, although
    /// the host waits for it.
    bool fills_ranges(const DeviceTimes& kernels) const {
        Nanoseconds on_host{0};
        Nanoseconds on_device{0};
        for (const Numbered& each : numbered_) {
            const auto span = kernels.spans.find(each.named->range);
            if (is_computing(each) && span != kernels.spans.end() && span->second.work->kernels > 0) {
                on_device += span->second.end - span->second.start;
            }
            on_host += is_computing(each) ? each.named->range->duration() : Nanoseconds{0};
        }
        return !kernels.whole.empty() && 2 * on_device > on_host;
    }

    /// Decides whether the tasks of the rank have the host's or the device's times.
    void read_device_times() {
        if (std::ranges::none_of(numbered_, is_computing)) {
            return;
        }
        compare_clocks();
        DeviceTimes annotations = times_of_annotations();
        DeviceTimes kernels = times_of_kernels(annotations);
        find_whole_steps(kernels);
        find_whole_steps(annotations);
        const bool is_annotated = std::ranges::any_of(ranges_, [](const NamedRange& each) {
            return each.on_device && each.meaning.role == RangeRole::task && is_compute(each.meaning.task);
        });
        found_.has_device_work = is_annotated || !work_.launched.empty();
        const bool is_on_gpu = trace_.rank && trace_.rank->has_nccl;
        const bool links_nothing = (work_.any || work_.is_called || is_on_gpu) && work_.launched.empty();
        if (!is_annotated && !links_nothing && !runs_ahead(kernels) && !fills_ranges(kernels)) {
            return;  // the host's ranges hold the work
        }
        DeviceTimes best = joined_times(std::move(kernels), std::move(annotations));
        if (best.whole.empty()) {
            found_.only_launches = true;
            return;
        }
        for (const Numbered& each : numbered_) {
            if (is_computing(each) && !best.whole.contains(each.key.step)) {
                found_.lost_steps.insert(each.key.step);
            }
        }
        on_device_ = std::move(best);
        found_.has_device_times = true;
        find_thin_tasks();
    }

    /// Finds tasks that have fewer kernels than the same task has in at least half of the steps. If more than a quarter
    /// of the tasks have, the program's work varies.
    void find_thin_tasks() {
        struct OfTask {
            std::map<std::int64_t, std::size_t> steps;  ///< by number of kernels
            std::size_t all = 0;
        };
        std::map<TaskKey, OfTask> tasks;
        const auto kernels_of = [&](const Numbered& each) -> std::optional<std::int64_t> {
            const DeviceTimes::Span* const span = is_computing(each) ? device_times_of(*each.named) : nullptr;
            return span != nullptr && span->work ? std::optional(span->work->kernels) : std::nullopt;
        };
        const auto without_step = [](TaskKey key) {
            key.step = 0;
            return key;
        };
        std::size_t all = 0;
        for (const Numbered& each : numbered_) {
            if (const auto kernels = kernels_of(each)) {
                OfTask& task = tasks[without_step(each.key)];
                ++task.steps[*kernels];
                ++task.all;
                ++all;
            }
        }
        std::vector<TaskKey> thin;
        for (const Numbered& each : numbered_) {
            const auto kernels = kernels_of(each);
            const OfTask* const task = kernels ? &tasks.at(without_step(each.key)) : nullptr;
            if (task != nullptr && task->all > 2 &&
                std::any_of(task->steps.upper_bound(*kernels), task->steps.end(),
                            [&](const auto& more) { return 2 * more.second >= task->all; })) {
                thin.push_back(each.key);
            }
        }
        if (thin.empty() || 4 * thin.size() > all) {
            return;
        }
        thin_ = thin.size();
        first_thin_ = thin.front();
        std::ranges::transform(thin, std::inserter(found_.thin_steps, found_.thin_steps.end()), &TaskKey::step);
    }

    /// The span of an annotation, if it shows the kernels that the range lacks: then it is longer than the known ones.
    static std::optional<DeviceTimes::Span> shown_span(const DeviceTimes::Partial& partial,
                                                       const DeviceTimes& annotations, const TraceRange* range) {
        const auto annotation = annotations.spans.find(range);
        if (annotation == annotations.spans.end() || !partial.known || !partial.known->work) {
            return std::nullopt;
        }
        DeviceTimes::Span span = annotation->second;
        const DeviceTimes::Span& known = *partial.known;
        constexpr Nanoseconds kRounding{1};
        const bool shows_first = partial.first ? span.start < known.start - kRounding : true;
        const bool shows_last = partial.last ? span.end > known.end + kRounding : true;
        if (!shows_first || !shows_last || span.start > known.start + kRounding || span.end < known.end - kRounding) {
            return std::nullopt;
        }
        if (!partial.first) {  // its launch is known; how long its kernels worked is not
            span.work = known.work;
            span.work->launch_delay += span.start.count() - span.work->start;
            span.work->start = span.start.count();
            span.work->end = span.end.count();
            span.work->busy = span.work->end - span.work->start;
            span.work->launch_gap = 0;
            span.work->paced = span.work->busy;
        }
        return span;
    }

    /// Fills in what the better source lacks from the other.
    DeviceTimes joined_times(DeviceTimes kernels, DeviceTimes annotations) const {
        const bool by_kernels = kernels.whole.size() >= annotations.whole.size();
        std::map<const TraceRange*, DeviceTimes::Span> shown;
        for (const auto& [range, partial] : kernels.lacking) {
            if (const auto span = shown_span(partial, annotations, range)) {
                shown.emplace(range, *span);
            }
        }
        DeviceTimes& best = by_kernels ? kernels : annotations;
        for (const auto& [range, span] : (by_kernels ? annotations : kernels).spans) {
            DeviceTimes::Span& own = best.spans.try_emplace(range, span).first->second;
            own.work = own.work ? own.work : span.work;
        }
        for (const auto& [range, partial] : kernels.lacking) {
            best.spans.erase(range);
        }
        best.spans.insert(shown.begin(), shown.end());
        best.whole.clear();
        find_whole_steps(best);
        return std::move(best);
    }

    /// The range's times on the device. Null if the host's times count, or if the device has none.
    const DeviceTimes::Span* device_times_of(const NamedRange& named) const {
        if (!on_device_) {
            return nullptr;
        }
        const auto found = on_device_->spans.find(named.range);
        return found != on_device_->spans.end() ? &found->second : nullptr;
    }

    std::optional<Nanoseconds> launch_of(const DeviceTimes::Span& span) const {
        return span.work ? std::optional(Nanoseconds{span.work->start - span.work->launch_delay}) : std::nullopt;
    }
    /// A time of the host as the device's clock shows it. If kernels seem to start before their launch, the device's
    /// clock is behind by the largest such time.
    Nanoseconds on_device_clock(Nanoseconds launch) const { return launch - device_behind_; }
    void compare_clocks() {
        for (const LaunchedRange& each : work_.launched) {
            device_behind_ = std::max(device_behind_, each.launch - each.range->start);
        }
    }

    /// True if the host's range of a message shows when it was sent or arrived. With NCCL it only shows the launch.
    bool shows_message(const TraceRange& range) const {
        return !on_device_ || trace_.names.at(range.name).starts_with("gloo:");
    }

    /// Adds the tensor that the range sends or receives.
    void add_tensor(MessageEnd& end, const TraceRange& range) const {
        if (const auto found = sizes_.find({range.start, range.name}); found != sizes_.end()) {
            end.bytes += found->second.bytes;
            end.samples = joined_samples(end.samples, found->second.samples);
        }
    }
    void add_sent(const TaskKey& copy, const TraceRange& range) {
        MessageEnd& end = found_.sent.try_emplace(copy, MessageEnd{range.start}).first->second;
        end.time = std::min(end.time, range.start);
        add_tensor(end, range);
    }
    void add_arrived(const TaskKey& copy, const TraceRange& range) {
        MessageEnd& end = found_.arrived.try_emplace(copy, MessageEnd{range.end}).first->second;
        end.time = std::max(end.time, range.end);
        add_tensor(end, range);
    }

    /// The kernel that sends or receives: the first one of a message that the thread launches from the range's start
    /// on, since messages of a batch are launched together after their ranges. Null if there is none before `until`.
    const LaunchedRange* kernel_of_message(const NamedRange& message, Nanoseconds until) const {
        const std::pair from(threads_.at(message.track), message.range->start);
        const auto found = message_kernels_.lower_bound(from);
        const bool fits =
            found != message_kernels_.end() && found->first.first == from.first && found->first.second <= until;
        return fits ? found->second : nullptr;
    }
    void find_message_kernels() {
        for (const LaunchedRange& each : work_.launched) {
            if (each.is_message) {
                message_kernels_.emplace(std::pair(each.thread, each.launch), &each);
            }
        }
    }
    /// Adds the tensor of a message whose times come from the device.
    void add_size(const TaskKey& key, RangeRole role, const NamedRange& message) {
        if (const auto copy = copy_in(key, role, message.meaning.role)) {
            auto& ends = message.meaning.role == RangeRole::send ? found_.sent : found_.arrived;
            add_tensor(ends[*copy], *message.range);
        }
    }
    /// Adds a message by its kernel, and the tensor that the range sends or receives.
    void add_kernel(const TaskKey& copy, RangeRole role, const TraceRange& range, const LaunchedRange& kernel) {
        const bool sends = role == RangeRole::send;
        MessageEnd& end = (sends ? found_.sent : found_.arrived)[copy];
        end.time = sends ? kernel.range->start : std::max(end.time, kernel.range->end);
        end.began = kernel.range->start;
        end.launched = on_device_clock(kernel.launch);
        end.ended = kernel.range->end;
        add_tensor(end, range);
    }

    /// Messages start in a task's range, or in a separate range of the message.
    void read_messages() {
        find_message_kernels();
        std::vector<const NamedRange*> transports;
        for (const NamedRange& each : ranges_) {
            if (is_transport(each.meaning.role) && !each.on_device) {
                transports.push_back(&each);
            }
        }
        for (const Numbered& each : numbered_) {
            const RangeRole role = each.named->meaning.role;
            const TraceRange& range = *each.named->range;
            const auto first = std::ranges::lower_bound(transports, range.start, {},
                                                        [](const NamedRange* named) { return named->range->start; });
            const DeviceTimes::Span* const device = device_times_of(*each.named);
            // Messages of a batch share a kernel, which belongs to one of their ranges.
            const LaunchedRange* const shared = role != RangeRole::task && on_device_ && device == nullptr
                                                    ? kernel_of_message(*each.named, range.end)
                                                    : nullptr;
            bool any = false;
            for (auto at = first; at != transports.end() && (*at)->range->start <= range.end; ++at) {
                const bool is_shown = shows_message(*(*at)->range);
                const LaunchedRange* const kernel =
                    is_shown || role != RangeRole::task ? nullptr : kernel_of_message(**at, range.end);
                const bool belongs = (*at)->track == each.named->track && (is_shown || kernel != nullptr);
                const auto copy = belongs ? copy_in(each.key, role, (*at)->meaning.role) : std::nullopt;
                if (copy && kernel != nullptr) {
                    add_kernel(*copy, (*at)->meaning.role, *(*at)->range, *kernel);
                } else if (copy && (*at)->meaning.role == RangeRole::send) {
                    add_sent(*copy, *(*at)->range);
                } else if (copy) {
                    add_arrived(*copy, *(*at)->range);
                }
                any = any || copy;
                const bool is_own_message =
                    role != RangeRole::task && sends(role) == ((*at)->meaning.role == RangeRole::send);
                if ((device != nullptr || shared != nullptr) && is_own_message && !is_shown &&
                    (*at)->track == each.named->track) {
                    add_size(each.key, role, **at);
                }
            }
            const RangeRole end_of = sends(role) ? RangeRole::send : RangeRole::receive;
            const auto copy = role == RangeRole::task ? std::nullopt : copy_in(each.key, role, end_of);
            if (copy && shared != nullptr && !any) {
                add_kernel(*copy, end_of, range, *shared);
            }
            if (role == RangeRole::task || (device == nullptr && (any || on_device_))) {
                continue;
            }
            if (copy) {
                auto& ends = sends(role) ? found_.sent : found_.arrived;
                const DeviceTimes::Span times = device != nullptr ? *device : DeviceTimes::Span{range.start, range.end};
                MessageEnd& end = ends[*copy];
                end.time = sends(role) ? times.start : times.end;
                if (device != nullptr) {
                    end.began = times.start;
                    end.launched = launch_of(times);
                    end.ended = times.end;
                }
            }
        }
    }

    bool has_role(const TraceRange& range, RangeRole role) const {
        const std::optional<RangeMeaning>& meaning = meanings_.at(range.name);
        return meaning && meaning->role == role;
    }

    /// The messages at the end of a task.
    struct Sending {
        std::optional<Nanoseconds> first;  ///< starts after all computation; empty if the task ends with computation
        Nanoseconds until{0};              ///< ranges that start earlier belong to sending
        Nanoseconds beyond = Nanoseconds::max();  ///< the earliest end of messages that last longer than the task
    };

    /// Follows the thread's ranges within the task. At an inner task it continues with the inner task's state, which
    /// was found before, and resumes after it.
    Sending sending_of(const NamedRange& named) const {
        const TraceRange& task = *named.range;
        const std::vector<TraceRange>& ranges = trace_.tracks.at(named.track).ranges;
        Sending state;
        auto at = ranges.begin() + (named.range - ranges.data()) + 1;
        while (at != ranges.end() && at->start < task.end) {
            const bool part_of_sending = state.first && at->start < state.until;
            const auto inner = part_of_sending ? sendings_.end() : sendings_.find(&*at);
            const auto next = std::next(at);
            const bool is_alone = at->start == task.start || next == ranges.end() || next->start > at->start;
            if (inner != sendings_.end() && is_alone && at->end <= task.end && inner->second.beyond > task.end) {
                const Nanoseconds beyond = std::min(state.beyond, inner->second.beyond);
                state = inner->second;
                state.beyond = beyond;
                at = std::lower_bound(next, ranges.end(), at->end,
                                      [](const TraceRange& range, Nanoseconds end) { return range.start < end; });
                continue;
            }
            if (at->start > task.start && !part_of_sending && !has_role(*at, RangeRole::receive)) {
                if (!has_role(*at, RangeRole::send)) {
                    state.first.reset();  // it computes again after sending
                } else {
                    state.first = state.first.value_or(at->start);
                    state.until = at->end <= task.end ? at->end : at->start;  // it is sent while the thread goes on
                    state.beyond = at->end <= task.end ? state.beyond : std::min(state.beyond, at->end);
                }
            }
            at = next;
        }
        return state;
    }

    /// Finds where the computation of each task on the host ends. It ends at the first message if the thread only sends
    /// from there on, as in ScheduleGPipe. Sending may block.
    void find_sending() {
        for (auto each = numbered_.rbegin(); each != numbered_.rend(); ++each) {  // inner tasks first
            if (each->named->meaning.role == RangeRole::task && !each->has_inner) {
                sendings_.emplace(each->named->range, each->named->place ? Sending{} : sending_of(*each->named));
            }
        }
    }
    Nanoseconds end_of_computation(const NamedRange& named) const {
        return sendings_.at(named.range).first.value_or(named.range->end);
    }

    RangeArrow::End place_of(const NamedRange& named) const {
        if (named.place) {
            return *named.place;
        }
        const auto range = named.range - trace_.tracks.at(named.track).ranges.data();
        return {static_cast<std::uint32_t>(named.track), static_cast<std::uint32_t>(range)};
    }

    void take_tasks() {
        find_sending();
        Nanoseconds device_end{0};
        for (const Numbered& each : numbered_) {
            const bool is_task = each.named->meaning.role == RangeRole::task && !each.has_inner;
            if (!is_task || found_.lost_steps.contains(each.key.step)) {
                continue;
            }
            const TraceRange& host = *each.named->range;
            Slice slice{each.key, LaneId{0}, host.start, end_of_computation(*each.named), 0};
            if (const DeviceTimes::Span* const device = device_times_of(*each.named)) {
                slice.start = device->start;
                slice.end = device->end;
                device_end = std::max(device_end, slice.end);
                if (const auto& work = device->work) {  // an annotation may be shorter than its kernels, by rounding
                    const Nanoseconds busy = std::min(Nanoseconds{work->busy}, slice.end - slice.start);
                    found_.on_device.push_back({each.key, work->kernels, work->copies, slice.start, slice.end, busy,
                                                *launch_of(*device),
                                                std::min(Nanoseconds{work->launch_gap}, slice.end - slice.start - busy),
                                                Nanoseconds{work->paced}});
                }
            } else if (on_device_) {  // the device had nothing to compute
                slice.start = std::max(host.start, device_end);
                slice.end = is_compute(each.key.kind) ? slice.start : std::max(slice.start, slice.end);
            }
            const bool takes_input = each.key.kind == TaskKind::forward || each.key.kind == TaskKind::backward;
            if (takes_input && !on_device_) {
                const auto input = found_.arrived.find(input_of(each.key));
                if (input != found_.arrived.end() && input->second.time <= slice.end) {
                    slice.start = std::max(slice.start, input->second.time);
                }
            }
            if (const std::string fault = fault_of(slice); fault.empty()) {
                found_.tasks.push_back(slice);
                found_.ranges.push_back({place_of(*each.named), each.key});
            } else if (unsound_++ == 0) {
                first_fault_ = fault;
            }
        }
        give_optimizer_a_partition();
        std::ranges::stable_sort(found_.tasks, {}, &Slice::start);
        part_touching_tasks();
    }

    /// Files give a range's start and duration, each rounded, so a range may end 1 ns after the next one starts.
    void part_touching_tasks() {
        constexpr Nanoseconds kRounding{1};
        for (std::size_t k = 1; k < found_.tasks.size(); ++k) {
            Slice& before = found_.tasks[k - 1];
            const Nanoseconds next = found_.tasks[k].start;
            if (before.end > next && before.end - next <= kRounding) {
                before.end = std::max(before.start, next);
            }
        }
    }

    /// An optimizer without a partition updates all partitions of its rank. Gives it the rank's first partition.
    void give_optimizer_a_partition() {
        std::optional<std::int32_t> first;
        for (const Slice& slice : found_.tasks) {
            first =
                is_compute(slice.key.kind) ? std::min(first.value_or(slice.key.partition), slice.key.partition) : first;
        }
        const auto give = [&](TaskKey& key) {
            if (key.kind == TaskKind::optimizer && key.partition == position_ * found_.chunks) {
                key.partition = first.value_or(-1);
            }
        };
        std::ranges::for_each(found_.tasks, [&](Slice& slice) { give(slice.key); });
        std::ranges::for_each(found_.ranges, [&](RecognisedRange& range) { give(range.task); });
        std::ranges::for_each(found_.on_device, [&](TaskOnDevice& task) { give(task.task); });
        std::ranges::for_each(found_.work, [&](WorkOfTask& work) { give(work.task); });
        if (!first) {
            found_.tasks.clear();  // training without a pipeline has an optimizer too
            found_.on_device.clear();
            found_.work.clear();
        }
    }

    const OpenedTrace& trace_;
    const std::vector<std::optional<RangeMeaning>>& meanings_;  // by name
    const std::vector<std::size_t>& threads_;                   // by track
    const DeviceWork& work_;
    const std::vector<RangeArrow>& backwards_;  // from an operator to that of its backward
    std::vector<NamedRange> ranges_;            // by start, longer ones first
    std::deque<TraceRange> joined_ranges_;      // of backwards without ranges
    std::deque<NamedRange> joined_named_;
    Nanoseconds device_behind_{0};
    std::vector<std::pair<Nanoseconds, Nanoseconds>> attributed_;    // the device's work
    std::vector<std::pair<Nanoseconds, Nanoseconds>> unattributed_;  // the device's work
    std::vector<std::pair<Nanoseconds, Nanoseconds>> collectives_;   // the device's work
    std::size_t lost_in_tasks_ = 0;                                  // calls without a kernel
    std::size_t launched_in_tasks_ = 0;                              // kernels
    const std::int32_t position_;
    std::map<std::pair<Nanoseconds, std::uint32_t>, MessageEnd> sizes_;  // without times
    std::map<Nanoseconds, std::int32_t> steps_;                          // by start
    std::vector<Numbered> numbered_;
    std::map<const TraceRange*, Sending> sendings_;                                        // of tasks
    std::map<std::pair<std::size_t, Nanoseconds>, const LaunchedRange*> message_kernels_;  // by thread and launch
    std::optional<DeviceTimes> on_device_;         // set if all times of tasks come from the device
    std::vector<const NamedRange*> second_steps_;  // their numbers are taken; by start
    std::size_t outside_ = 0;
    std::size_t in_second_steps_ = 0;
    std::size_t repeated_ = 0;
    std::size_t unsound_ = 0;
    std::size_t thin_ = 0;  // tasks
    TaskKey first_thin_;
    std::string first_fault_;
    RankTasks found_;
};

/// True if the file gives times more finely than whole microseconds, so that no kernel takes no time.
bool has_fine_times(const OpenedTrace& trace) {
    constexpr std::int64_t kMicrosecond = 1'000;
    return std::ranges::any_of(trace.tracks, [](const RangeTrack& track) {
        return track.kind == RangeTrack::Kind::stream && std::ranges::any_of(track.ranges, [](const TraceRange& range) {
                   return range.duration().count() % kMicrosecond != 0;
               });
    });
}

/// Finds kernels that start before their launch by more than the clocks of host and device differ. A stream runs its
/// work in the order of the launches, so only such work out of this order is suspect, and the rest shows the clocks.
std::vector<bool> started_too_early(const std::vector<LaunchedRange>& launched) {
    constexpr Nanoseconds kMostClocksDiffer{1'000'000'000};
    constexpr Nanoseconds kTolerance{10'000};
    std::vector<std::size_t> order(launched.size());
    for (std::size_t k = 0; k < order.size(); ++k) {
        order[k] = k;
    }
    std::ranges::stable_sort(order, {}, [&](std::size_t k) {
        return std::tuple(launched[k].stream, launched[k].launch, launched[k].range->start);
    });
    const auto early_by = [&](std::size_t k) { return launched[k].launch - launched[k].range->start; };
    std::vector<bool> in_order(launched.size());
    Nanoseconds behind{0};
    const LaunchedRange* latest = nullptr;  // of the stream
    for (const std::size_t k : order) {
        const LaunchedRange& each = launched[k];
        latest = latest != nullptr && latest->stream == each.stream ? latest : nullptr;
        in_order[k] = latest == nullptr || each.range->start >= latest->range->start;
        if (early_by(k) <= kMostClocksDiffer && in_order[k]) {
            latest = &each;
            behind = std::max(behind, early_by(k));
        }
    }
    std::vector<bool> early(launched.size());
    for (std::size_t k = 0; k < early.size(); ++k) {
        early[k] = early_by(k) > (in_order[k] ? kMostClocksDiffer : behind + kTolerance);
    }
    return early;
}

/// Moves kernels whose times cannot be from the known work to the lost work.
void leave_out_impossible(DeviceWork& work, bool is_fine) {
    const auto takes_no_time = [&](const LaunchedRange& each) {
        return is_fine && each.is_kernel && each.range->end <= each.range->start;
    };
    std::vector<LaunchedRange> possible;
    const auto keep = [&](auto&& is_impossible) {
        possible.clear();
        for (std::size_t k = 0; k < work.launched.size(); ++k) {
            const LaunchedRange& each = work.launched[k];
            if (is_impossible(k)) {
                work.lost.push_back({each.thread, each.launch, each.is_kernel});
                ++work.impossible;
            } else {
                possible.push_back(each);
            }
        }
        work.launched.swap(possible);
    };
    keep([&](std::size_t k) { return takes_no_time(work.launched[k]); });
    const std::vector<bool> early = started_too_early(work.launched);
    keep([&](std::size_t k) { return early[k]; });
    std::erase_if(work.orphans, takes_no_time);
}

/// The work on devices of each process with tasks. A stream of an unknown process counts for every process.
std::map<std::string, DeviceWork> device_work_of(const OpenedTrace& trace, const std::vector<std::size_t>& threads,
                                                 const std::vector<std::string>& groups) {
    std::map<std::string, DeviceWork> work;
    std::map<std::int64_t, std::string> processes;
    const auto group_of = [&](const RangeTrack& track) { return trace.rank ? std::string() : track.group; };
    for (const std::string& group : groups) {
        work[group];
    }
    for (const RangeTrack& track : trace.tracks) {
        if (!is_of_device(track.kind) && track.process != 0) {
            processes.emplace(track.process, group_of(track));
        }
    }
    for (const RangeTrack& track : trace.tracks) {
        if (track.kind == RangeTrack::Kind::stream) {
            const auto own = processes.find(track.process);
            for (auto& [group, each] : work) {
                each.any = each.any || own == processes.end() || own->second == group;
            }
        }
    }
    std::vector<bool> launches(trace.names.size());
    std::vector<bool> copies(trace.names.size());  // or fills
    for (std::size_t name = 0; name < launches.size(); ++name) {
        const auto has = [&](const char* part) { return trace.names[name].find(part) != std::string::npos; };
        launches[name] = has("LaunchKernel") || has("GraphLaunch");  // of CUDA and HIP
        // cudaMemcpyAsync, hipMemsetAsync, cuMemcpyHtoD_v2; cudaGraphAddMemcpyNode runs nothing
        copies[name] = (has("Memcpy") || has("Memset")) && !has("Graph");
    }
    for (const RangeTrack& track : trace.tracks) {
        const auto own = is_of_device(track.kind) ? work.end() : work.find(group_of(track));
        if (own != work.end() && !own->second.is_called) {
            own->second.is_called =
                std::ranges::any_of(track.ranges, [&](const TraceRange& range) { return launches.at(range.name); });
        }
    }
    std::vector<std::vector<bool>> linked_work(trace.tracks.size());  // by track
    for (std::size_t k = 0; k < trace.tracks.size(); ++k) {
        linked_work[k].resize(trace.tracks[k].kind == RangeTrack::Kind::stream ? trace.tracks[k].ranges.size() : 0);
    }
    const auto launched_range = [&](const RangeArrow::End& place) {
        const TraceRange& range = trace.tracks[place.track].ranges[place.range];
        const std::string& name = trace.names.at(range.name);
        const bool is_copy = trace.names.at(range.category).find("mem") != std::string::npos;  // gpu_memcpy, memset
        const bool is_collective = is_collective_kernel(name);
        return LaunchedRange{
            &range,        place.track, 0,          range.start, name.starts_with("nccl") && !is_collective,
            is_collective, !is_copy,    place.range};
    };
    std::map<std::string, std::unordered_set<std::uint32_t>> known;  // by group: two calls may share a correlation
    for (const DeviceLaunch& launch : device_launches(trace)) {
        const RangeTrack& calls = trace.tracks[launch.call.track];
        known[calls.group].insert(calls.ranges[launch.call.range].correlation);
        linked_work[launch.work.track][launch.work.range] = true;
        const auto own = work.find(group_of(calls));
        if (own == work.end()) {
            continue;
        }
        LaunchedRange range = launched_range(launch.work);
        range.thread = threads[launch.call.track];
        range.launch = calls.ranges[launch.call.range].start;
        own->second.launched.push_back(range);
    }
    for (std::uint32_t k = 0; k < trace.tracks.size(); ++k) {
        const auto process = processes.find(trace.tracks[k].process);
        const auto own = process != processes.end() ? work.find(process->second)
                         : work.size() == 1         ? work.begin()
                                                    : work.end();
        for (std::uint32_t at = 0; own != work.end() && at < linked_work[k].size(); ++at) {
            const LaunchedRange range = launched_range({k, at});
            if (!linked_work[k][at] && range.computes() && !own->second.launched.empty()) {
                own->second.orphans.push_back(range);
            }
        }
    }
    for (std::size_t k = 0; k < trace.tracks.size(); ++k) {
        const RangeTrack& track = trace.tracks[k];
        const auto own = is_of_device(track.kind) ? work.end() : work.find(group_of(track));
        if (own == work.end()) {
            continue;
        }
        const std::unordered_set<std::uint32_t>& linked = known[track.group];
        Nanoseconds within = Nanoseconds::min();  // a call of the driver inside this call may have another number
        for (const TraceRange& range : track.ranges) {
            if (range.correlation == 0 || !(launches.at(range.name) || copies.at(range.name))) {
                continue;
            }
            if (linked.contains(range.correlation)) {
                within = std::max(within, range.end);
            } else if (range.start >= within) {
                own->second.lost.push_back({threads[k], range.start, launches.at(range.name)});
            }
        }
    }
    const bool is_fine = has_fine_times(trace);
    for (auto& [group, each] : work) {
        leave_out_impossible(each, is_fine);
    }
    return work;
}

/// The lanes of a rank, counted from 0. Usually there is one. If a process has several, each lane runs its partitions
/// in a separate thread.
class LanesOfRank {
public:
    explicit LanesOfRank(const RankTasks& rank) {
        std::map<std::int32_t, std::uint32_t> threads;  // by partition
        for (const RecognisedRange& each : rank.ranges) {
            if (is_compute(each.task.kind) &&
                threads.try_emplace(each.task.partition, each.range.track).first->second != each.range.track) {
                return;  // a partition runs on several threads
            }
        }
        std::map<std::uint32_t, int> lanes;  // by thread
        for (const auto& [partition, thread] : threads) {
            of_partition_[partition] = lanes.try_emplace(thread, static_cast<int>(lanes.size())).first->second;
        }
        count_ = std::max(1, static_cast<int>(lanes.size()));
    }

    int count() const { return count_; }
    int of_partition(std::int32_t partition) const {
        const auto found = of_partition_.find(partition);
        return found == of_partition_.end() ? 0 : found->second;
    }
    int of_sender(const TaskKey& copy) const {
        return of_partition(copy.partition + (copy.kind == TaskKind::copy_backward ? 1 : 0));
    }
    std::string name_of(int lane, int rank) const {
        return count_ == 1 ? fmt::format("rank {}", rank) : fmt::format("rank {}, lane {}", rank, lane);
    }

private:
    std::map<std::int32_t, int> of_partition_;
    int count_ = 1;
};

/// Steps that names of ranges mark but no rule takes.
struct UnnamedSteps {
    std::set<std::int32_t> numbers;
    std::string prefix;  ///< one of the names up to its number, without characters special to rules
};

UnnamedSteps unnamed_steps(const OpenedTrace& trace, const std::vector<std::optional<RangeMeaning>>& meanings) {
    std::vector<std::optional<std::int32_t>> numbers;
    for (std::size_t k = 0; k < trace.names.size(); ++k) {
        numbers.push_back(meanings[k] ? std::nullopt : usual_step_number(trace.names[k]));
    }
    UnnamedSteps steps;
    for (const RangeTrack& track : trace.tracks) {
        for (const TraceRange& range : track.ranges) {
            if (const std::optional<std::int32_t> number = numbers[range.name]; number && range.end > range.start) {
                steps.numbers.insert(*number);
                const std::string& name = trace.names[range.name];
                steps.prefix = name.substr(0, name.find_last_not_of("0123456789") + 1);
            }
        }
    }
    return steps;
}

/// Names the steps of the program's loop if no rule finds them, so that all tasks are in one step; else empty.
std::string unnamed_steps_warning(const OpenedTrace& trace, const std::vector<std::optional<RangeMeaning>>& meanings,
                                  const std::vector<RankTasks>& ranks) {
    const bool in_one_step = std::ranges::all_of(ranks, [](const RankTasks& rank) {
        return rank.steps.empty() &&
               std::ranges::all_of(rank.tasks, [](const Slice& slice) { return slice.key.step == 0; });
    });
    const UnnamedSteps steps = in_one_step && !ranks.empty() ? unnamed_steps(trace, meanings) : UnnamedSteps{};
    return steps.numbers.size() < 2
               ? std::string()
               : fmt::format(
                     "{}the threads have ranges of {} steps, but no task rule names them, so all tasks count as one "
                     "step; add a rule such as {{\"name\": \"steps\", \"pattern\": \"{}(?<step>\\\\d+)\", \"kind\": "
                     "\"step\"}}",
                     trace.rank ? fmt::format("rank {}: ", trace.rank->rank) : "", steps.numbers.size(), steps.prefix);
}
}  // namespace

RecognizedTasks recognize_tasks(const OpenedTrace& trace, const TaskRules& rules) {
    RecognizedTasks found;
    found.matches.assign(rules.rules().size(), 0);
    std::vector<std::optional<RangeMeaning>> meanings;
    for (const std::string& name : trace.names) {
        meanings.push_back(rules.meaning_of(name));
        if (const std::string_view plain = without_call(name); !meanings.back() && plain != name) {
            meanings.back() = rules.meaning_of(plain);
        }
    }
    std::map<std::size_t, std::pair<std::size_t, std::uint32_t>> faulty;  // by rule: ranges, and the first one's name
    std::vector<std::string> groups;                                      // of the processes with tasks
    std::map<std::string, std::vector<NamedRange>> by_group;
    for (std::size_t k = 0; k < trace.tracks.size(); ++k) {
        const RangeTrack& track = trace.tracks[k];
        for (const TraceRange& range : track.ranges) {
            const std::optional<RangeMeaning>& meaning = meanings.at(range.name);
            if (!meaning) {
                continue;
            }
            ++found.matches[meaning->rule];
            const bool on_device = is_of_device(track.kind);
            if (!meaning->fault.empty()) {
                if (!on_device) {
                    ++faulty.try_emplace(meaning->rule, 0, range.name).first->second.first;
                }
                continue;
            }
            const std::string group = trace.rank ? "" : track.group;
            if (std::ranges::find(groups, group) == groups.end()) {
                groups.push_back(group);
            }
            by_group[group].push_back({&range, *meaning, k, on_device});
        }
    }
    for (const auto& [rule, ranges] : faulty) {
        const auto& [count, first] = ranges;
        found.faults.push_back(fmt::format(
            "{}{} of the rule '{}' {} left out, such as '{}': it has {}; number from 0, or correct the rule",
            trace.rank ? fmt::format("rank {}: ", trace.rank->rank) : "", counted(count, "range", "ranges"),
            rules.rules()[rule].name, count == 1 ? "is" : "are", printable(trace.names.at(first)),
            meanings[first]->fault));
    }
    const std::string device = trace.rank ? device_of(trace) : "";
    const std::vector<std::size_t> threads = threads_of_tracks(trace.tracks);
    const std::map<std::string, DeviceWork> work =
        groups.empty() ? std::map<std::string, DeviceWork>() : device_work_of(trace, threads, groups);
    const std::vector<RangeArrow> backwards = groups.empty() ? std::vector<RangeArrow>() : backward_links(trace);
    int next = 0;
    for (const std::string& group : groups) {
        const int rank = trace.rank ? trace.rank->rank : next;
        const int position = trace.rank ? trace.rank->pipeline_position : next;
        RankTasks tasks = RankRecognition(trace, meanings, threads, std::move(by_group[group]), work.at(group),
                                          backwards, rank, position)
                              .find(found.warnings);
        tasks.device = device;
        if (!tasks.tasks.empty()) {
            found.ranks.push_back(std::move(tasks));
            ++next;
        }
    }
    if (std::string warning = unnamed_steps_warning(trace, meanings, found.ranks); !warning.empty()) {
        found.warnings.push_back(std::move(warning));
    }
    return found;
}

namespace {
/// Steps that some rank lost, and those in which some rank may have lost kernels, unless these are all. Adds a warning
/// that names them.
std::set<std::int32_t> lost_steps(const std::vector<RankTasks>& ranks, std::vector<std::string>& warnings) {
    std::set<std::int32_t> lost;
    std::set<std::int32_t> thin;
    std::set<std::int32_t> all;
    for (const RankTasks& rank : ranks) {
        lost.insert(rank.lost_steps.begin(), rank.lost_steps.end());
        thin.insert(rank.thin_steps.begin(), rank.thin_steps.end());
        std::ranges::transform(rank.tasks, std::inserter(all, all.end()),
                               [](const Slice& slice) { return slice.key.step; });
    }
    thin.insert(lost.begin(), lost.end());
    const bool some_left = !std::ranges::includes(thin, all);
    lost = some_left ? std::move(thin) : std::move(lost);
    std::vector<int> losing;
    for (const RankTasks& rank : ranks) {
        if (!rank.lost_steps.empty() || (some_left && !rank.thin_steps.empty())) {
            losing.push_back(rank.rank);
        }
    }
    if (!lost.empty()) {
        warnings.push_back(
            fmt::format("{} {} {} left out: on {} {} the ranges only launch work on a device, and {}, as at the start "
                        "of a profile; record a step more",
                        lost.size() == 1 ? "step" : "steps", fmt::join(lost, ", "), lost.size() == 1 ? "is" : "are",
                        losing.size() == 1 ? "rank" : "ranks", fmt::join(losing, ", "), kKernelsMissing));
    }
    return lost;
}

/// Ranks of a run work alike. If others have device times, a rank that computes but has no device work lost its
/// kernels.
void note_launches(const std::vector<const RankTasks*>& ranks, OpenedTrace& trace) {
    const bool any_device = std::ranges::any_of(ranks, [](const RankTasks* rank) { return rank->has_device_times; });
    std::vector<int> launching;
    for (const RankTasks* rank : ranks) {
        const bool computes =
            std::ranges::any_of(rank->tasks, [](const Slice& slice) { return is_compute(slice.key.kind); });
        if (rank->only_launches || (any_device && !rank->has_device_work && computes)) {
            launching.push_back(rank->rank);
        }
    }
    if (!launching.empty()) {
        trace.run.emplace(kLaunchesKey, fmt::format("{{\"ranks\": [{}]}}", fmt::join(launching, ", ")));
    }
}
}  // namespace

namespace {
/// Notes the samples of a micro-batch in most steps, and the steps with another number. `samples`: joined_samples(), by
/// step.
void note_samples(const std::map<std::int32_t, std::int64_t>& samples, OpenedTrace& trace) {
    std::map<std::int64_t, std::vector<std::int32_t>> steps;  // by samples
    for (const auto& [step, of_step] : samples) {
        if (of_step != 0) {
            steps[of_step].push_back(step);
        }
    }
    const auto usual = std::ranges::max_element(
        steps, {}, [](const auto& each) { return std::tuple(each.first > 0, each.second.size(), each.first); });
    if (usual == steps.end()) {
        return;
    }
    const auto known = [](std::int64_t of_step) {
        return of_step > 0 ? nlohmann::ordered_json(of_step) : nlohmann::ordered_json(nullptr);
    };
    nlohmann::ordered_json entry;
    entry["samples"] = known(usual->first);  // null: the number varies within every step that shows it
    for (const auto& [of_step, numbers] : steps) {
        if (of_step != usual->first || of_step <= 0) {
            entry["others"].push_back({{"samples", known(of_step)}, {"steps", numbers}});
        }
    }
    trace.run.emplace(kMicroBatchKey, entry.dump());
}

/// Notes how much of each lane's device time is explained. A rank with several lanes has one device: its first lane's.
void note_device_time(const std::vector<const RankTasks*>& ranks, OpenedTrace& trace) {
    nlohmann::ordered_json lanes = nlohmann::ordered_json::array();
    int lane = 0;
    for (const RankTasks* rank : ranks) {
        if (rank->has_device_times) {
            lanes.push_back({{"lane", lane},
                             {"busy_ns", rank->device_busy.count()},
                             {"unattributed_ns", rank->unattributed.count()}});
        }
        lane += LanesOfRank(*rank).count();
    }
    if (!lanes.empty()) {
        trace.run.emplace(kDeviceTimeKey, nlohmann::ordered_json{{"lanes", lanes}}.dump());
    }
}

/// What the messages and partitions of some ranks reveal about other ranks.
struct Neighbours {
    bool send_here = false;          ///< a message came from a partition of another rank
    bool receive_from_here = false;  ///< a message went to a partition of another rank
    bool between = false;            ///< another rank has a partition below the highest one
    bool any_message = false;
};

Neighbours neighbours_of(const std::vector<const RankTasks*>& ranks) {
    std::set<std::int32_t> partitions;
    for (const RankTasks* rank : ranks) {
        for (const Slice& slice : rank->tasks) {
            if (is_compute(slice.key.kind)) {
                partitions.insert(slice.key.partition);
            }
        }
    }
    const auto has_both_ends = [&](const auto& message) {  // a copy carries the lower partition
        return partitions.contains(message.first.partition) && partitions.contains(message.first.partition + 1);
    };
    Neighbours found;
    found.between = !partitions.empty() && *partitions.rbegin() + 1 != static_cast<std::int32_t>(partitions.size());
    for (const RankTasks* rank : ranks) {
        found.send_here = found.send_here || !std::ranges::all_of(rank->arrived, has_both_ends);
        found.receive_from_here = found.receive_from_here || !std::ranges::all_of(rank->sent, has_both_ends);
        found.any_message = found.any_message || !rank->sent.empty() || !rank->arrived.empty();
    }
    return found;
}

/// The ranks of the shown pipeline: the ranks in its process group if all files name it; otherwise all.
std::set<int> pipeline_of(const std::vector<const RankTasks*>& kept, const std::vector<RecordingRank>& given,
                          bool& is_named) {
    std::set<int> named;
    std::set<int> all;
    is_named = true;
    for (const RecordingRank& each : given) {
        for (int rank = 0; rank < each.size; ++rank) {
            all.insert(rank);
        }
        if (std::ranges::any_of(kept, [&](const RankTasks* rank) { return rank->rank == each.rank; })) {
            is_named = is_named && !each.pipeline.empty();
            named.insert(each.pipeline.begin(), each.pipeline.end());
        }
    }
    is_named = is_named && !named.empty();
    return is_named ? named : all;
}

/// Notes the ranks of the pipeline that are not given. Without a process group, the run's other ranks may be replicas:
/// they count as missing unless messages show that the pipeline ends with the given ranks. `left_out`:
/// ranks_of_unknown_steps(), whose tasks are not shown.
void note_missing_ranks(const std::vector<const RankTasks*>& kept, const std::vector<RecordingRank>& given,
                        const std::set<int>& left_out, OpenedTrace& trace) {
    bool is_named = false;
    MissingRanks missing;
    std::ranges::copy_if(pipeline_of(kept, given, is_named), std::back_inserter(missing.ranks), [&](int rank) {
        return std::ranges::none_of(given, [&](const RecordingRank& each) { return each.rank == rank; });
    });
    const bool computes = std::ranges::any_of(kept, [](const RankTasks* rank) {
        return std::ranges::any_of(rank->tasks, [](const Slice& slice) { return is_compute(slice.key.kind); });
    });
    const Neighbours found = neighbours_of(kept);
    const bool may_lack = is_named || found.between || found.send_here || found.receive_from_here || !found.any_message;
    if (computes && (given.empty() ? found.send_here || !left_out.empty() : may_lack && !missing.ranks.empty())) {
        missing.size = given.empty() ? 0 : given.front().size;
        std::ranges::set_intersection(missing.ranks, left_out, std::back_inserter(missing.without_steps));
        trace.run.emplace(kMissingRanksKey, to_json(missing));
    }
}
}  // namespace

std::set<int> ranks_of_unknown_steps(const std::vector<const RankTasks*>& ranks) {
    std::set<int> unknown;
    for (const RankTasks* rank : ranks) {
        if (rank->steps.empty()) {
            unknown.insert(rank->rank);
        }
    }
    return unknown.size() < ranks.size() ? unknown : std::set<int>();
}

ChunkPlaces chunk_places(const std::vector<RankTasks>& ranks) {
    ChunkPlaces places;
    std::map<std::int32_t, Nanoseconds> second;  // the first forward of each rank's second chunk, by position
    for (const RankTasks& rank : ranks) {
        for (const Slice& slice : rank.tasks) {
            const std::int32_t position = slice.key.partition / rank.chunks;
            places.positions = std::max(places.positions, position + 1);
            if (slice.key.kind == TaskKind::forward && slice.key.partition % rank.chunks == 1) {
                Nanoseconds& first = second.try_emplace(position, slice.start).first->second;
                first = std::min(first, slice.start);
            }
        }
    }
    places.turns = !second.empty() && second.begin()->second > second.rbegin()->second;
    const auto has_too_many = [&](const RankTasks& rank) {
        return std::ranges::any_of(rank.tasks, [&](const Slice& slice) {
            return slice.key.partition % rank.chunks * places.positions + places.positions > kMostPartitions;
        });
    };
    places.positions = std::ranges::any_of(ranks, has_too_many) ? 0 : places.positions;
    return places;
}

void place_chunks(RankTasks& tasks, const ChunkPlaces& places) {
    const std::int32_t chunks = std::exchange(tasks.chunks, 1);
    if (chunks == 1) {
        return;
    }
    if (places.positions == 0) {
        tasks.tasks.clear();
        tasks.ranges.clear();
        tasks.on_device.clear();
        tasks.work.clear();
        return;
    }
    const auto place = [&](TaskKey& key) {
        const std::int32_t chunk = key.partition % chunks;
        const std::int32_t position = key.partition / chunks;
        const bool back = places.turns && chunk % 2 == 1;
        key.partition = chunk * places.positions + (back ? places.positions - 1 - position : position);
    };
    std::ranges::for_each(tasks.tasks, [&](Slice& slice) { place(slice.key); });
    std::ranges::for_each(tasks.ranges, [&](RecognisedRange& range) { place(range.task); });
    std::ranges::for_each(tasks.on_device, [&](TaskOnDevice& task) { place(task.task); });
    std::ranges::for_each(tasks.work, [&](WorkOfTask& work) { place(work.task); });
}

RankPipelines pipelines_of(const std::vector<const RankTasks*>& ranks, const std::vector<RecordingRank>& given) {
    RankPipelines found;
    std::vector<std::size_t> sizes;
    std::map<std::vector<int>, std::size_t> named;
    std::vector<std::set<TaskKey>> taken;  // tasks of each unnamed pipeline
    const bool are_named = !ranks.empty() && std::ranges::all_of(ranks, [&](const RankTasks* rank) {
        const auto own = std::ranges::find(given, rank->rank, &RecordingRank::rank);
        return own != given.end() && !own->pipeline.empty();
    });
    for (const RankTasks* rank : ranks) {
        std::size_t number = 0;
        if (are_named) {
            const std::vector<int>& pipeline = std::ranges::find(given, rank->rank, &RecordingRank::rank)->pipeline;
            number = named.try_emplace(pipeline, named.size()).first->second;
        } else {
            const auto is_free = [&](const std::set<TaskKey>& others) {
                return std::ranges::none_of(rank->tasks, [&](const Slice& slice) {
                    return is_compute(slice.key.kind) && others.contains(slice.key);
                });
            };
            const auto free = std::ranges::find_if(taken, is_free);
            number = static_cast<std::size_t>(free - taken.begin());
            taken.resize(std::max(taken.size(), number + 1));
            std::ranges::transform(rank->tasks, std::inserter(taken[number], taken[number].end()), &Slice::key);
        }
        sizes.resize(std::max(sizes.size(), number + 1));
        ++sizes[number];
        found.of_rank.push_back(number);
    }
    found.shown = static_cast<std::size_t>(std::ranges::max_element(sizes) - sizes.begin());
    return found;
}

namespace {
/// Kernels of one collective on all ranks of its group. A kernel of NCCL waits until the kernels of all ranks run.
using CollectiveOnRanks = std::vector<std::pair<int, std::vector<std::pair<Nanoseconds, Nanoseconds>>>>;

/// Adds the parts of collectives, by rank: how long each waited for other ranks, and how much longer than the shortest
/// one it took from then on. None if the n-th kernels of all ranks do not overlap.
void add_parts(CollectiveOnRanks ranks, std::map<int, std::vector<LaneWork>>& parts) {
    std::vector<std::pair<Nanoseconds, Nanoseconds>> moves;  // of the n-th kernels, while all run
    for (auto& [rank, kernels] : ranks) {
        std::ranges::sort(kernels);
        if (kernels.size() != ranks.front().second.size()) {
            return;
        }
        moves.resize(kernels.size(), {Nanoseconds::min(), Nanoseconds::max()});
        for (std::size_t n = 0; n < kernels.size(); ++n) {
            moves[n].first = std::max(moves[n].first, kernels[n].first);
            moves[n].second = std::min(moves[n].second, kernels[n].second);
        }
    }
    Nanoseconds shortest = Nanoseconds::max();
    for (const auto& [start, end] : moves) {
        if (start > end) {
            return;
        }
        shortest = std::min(shortest, end - start);
    }
    for (const auto& [rank, kernels] : ranks) {
        for (std::size_t n = 0; n < kernels.size(); ++n) {
            const auto add = [&, rank = rank](LaneWorkKind kind, Nanoseconds start, Nanoseconds end) {
                if (start < end) {
                    parts[rank].push_back({LaneId{0}, kind, start, end});
                }
            };
            add(LaneWorkKind::collective_wait, kernels[n].first, moves[n].first);
            add(LaneWorkKind::collective_slow, moves[n].first + shortest, kernels[n].second);
        }
    }
}

std::map<int, std::vector<LaneWork>> parts_of_collectives(const std::vector<RankTasks>& ranks) {
    std::map<std::pair<CollectiveFacts, Bytes>, CollectiveOnRanks> all;
    for (const RankTasks& rank : ranks) {
        for (const auto& [facts, kernels] : rank.collectives) {
            all[facts].emplace_back(rank.rank, kernels);
        }
    }
    std::map<int, std::vector<LaneWork>> parts;
    for (auto& [facts, on_ranks] : all) {
        if (std::cmp_equal(on_ranks.size(), facts.first.group_size)) {
            add_parts(std::move(on_ranks), parts);
        }
    }
    return parts;
}
}  // namespace

std::vector<std::string> set_timeline(const std::vector<RankTasks>& ranks, const std::vector<RecordingRank>& given,
                                      OpenedTrace& trace) {
    std::vector<std::string> warnings;
    const std::map<int, std::vector<LaneWork>> collectives = parts_of_collectives(ranks);
    Timeline& timeline = trace.measured;
    const std::set<std::int32_t> lost = lost_steps(ranks, warnings);
    std::map<TaskKey, int> owners;  // the rank of each compute task
    std::map<TaskKey, MessageEnd> arrived;
    std::vector<const RankTasks*> kept;
    std::vector<const RankTasks*> all;
    std::ranges::transform(ranks, std::back_inserter(all), [](const RankTasks& rank) { return &rank; });
    const std::set<int> unknown = ranks_of_unknown_steps(all);
    const RankPipelines pipelines = pipelines_of(all, given);
    std::map<TaskKey, int> shown_by;  // the rank of each compute task in the pipeline that is shown
    for (std::size_t k = 0; k < ranks.size(); ++k) {
        for (const Slice& slice : ranks[k].tasks) {
            if (pipelines.of_rank[k] == pipelines.shown && is_compute(slice.key.kind)) {
                shown_by.emplace(slice.key, ranks[k].rank);
            }
        }
    }
    for (std::size_t k = 0; k < ranks.size(); ++k) {
        const RankTasks& rank = ranks[k];
        if (unknown.contains(rank.rank)) {
            warnings.push_back(fmt::format(
                "rank {} names no steps, and other ranks do: which of its tasks belong to which step is not known, so "
                "its tasks and messages are left out; profile all ranks with ProfilerStep, or name the steps by a task "
                "rule",
                rank.rank));
            continue;
        }
        const bool is_shown = pipelines.of_rank[k] == pipelines.shown;
        const std::map<TaskKey, int>& others = is_shown ? owners : shown_by;
        const auto repeated = std::ranges::find_if(
            rank.tasks, [&](const Slice& slice) { return is_compute(slice.key.kind) && others.contains(slice.key); });
        if (repeated != rank.tasks.end()) {
            warnings.push_back(fmt::format(
                "rank {} has tasks of rank {} again, such as {}, as replicas of a pipeline have; the tasks of rank {} "
                "are left out; give the files of one pipeline",
                rank.rank, others.at(repeated->key), to_string(repeated->key), rank.rank));
            continue;
        }
        if (!is_shown) {
            warnings.push_back(
                fmt::format("rank {} belongs to another replica of the pipeline; its tasks are left out; give the "
                            "files of one pipeline",
                            rank.rank));
            continue;
        }
        for (const Slice& slice : rank.tasks) {
            owners.emplace(slice.key, rank.rank);
        }
        trace.task_ranges.insert(trace.task_ranges.end(), rank.ranges.begin(), rank.ranges.end());
        trace.on_device.insert(trace.on_device.end(), rank.on_device.begin(), rank.on_device.end());
        arrived.insert(rank.arrived.begin(), rank.arrived.end());
        kept.push_back(&rank);
    }
    std::map<std::int32_t, std::int64_t> samples;  // per micro-batch, by step: joined_samples()
    std::map<std::int32_t, StepRecord> steps;
    const auto widen = [](StepRecord& step, bool fresh, Nanoseconds start, Nanoseconds end) {
        step.wall_start = fresh ? start : std::min(step.wall_start, start);
        step.wall_end = fresh ? end : std::max(step.wall_end, end);
    };
    for (const RankTasks* rank : kept) {
        const LanesOfRank lanes(*rank);
        const auto first = static_cast<int>(timeline.lanes.size());
        for (int lane = 0; lane < lanes.count(); ++lane) {
            timeline.lanes.push_back({lanes.name_of(lane, rank->rank), rank->device});
        }
        const auto take_work = [&](const std::vector<LaneWork>& work) {
            for (LaneWork each : work) {
                each.lane = LaneId{first};
                trace.lane_work.push_back(each);
            }
        };
        take_work(rank->lane_work);
        if (const auto parts = collectives.find(rank->rank); parts != collectives.end() && rank->has_device_times) {
            take_work(parts->second);
        }
        for (Slice slice : rank->tasks) {
            slice.lane = LaneId{first + lanes.of_partition(slice.key.partition)};
            timeline.slices.push_back(slice);
        }
        for (const auto& [copy, sent] : rank->sent) {
            if (const auto end = arrived.find(copy); end != arrived.end()) {
                const MessageEnd& received = end->second;
                const Nanoseconds until = std::max(sent.time, received.time);
                // A kernel of NCCL waits until the other rank's runs too. Only then the message moves.
                const Nanoseconds start =
                    sent.began && received.began ? std::min(until, std::max(*sent.began, *received.began)) : sent.time;
                timeline.slices.push_back(
                    {copy, LaneId{first + lanes.of_sender(copy)}, start, until, std::max(sent.bytes, received.bytes)});
                if (sent.launched && received.launched) {
                    trace.on_device.push_back(
                        {copy, 2, 0, start, until, until - start, std::max(*sent.launched, *received.launched)});
                }
                if (copy.kind == TaskKind::copy_forward) {
                    std::int64_t& of_step = samples[copy.step];
                    of_step = joined_samples(joined_samples(of_step, sent.samples), received.samples);
                }
            }
        }
        for (const auto& [number, times] : rank->steps) {
            const auto [found, fresh] = steps.try_emplace(number);
            found->second.step = number;
            found->second.training_loss = std::numeric_limits<double>::quiet_NaN();
            widen(found->second, fresh, times.first, times.second);
        }
    }
    std::erase_if(timeline.slices, [&](const Slice& slice) { return lost.contains(slice.key.step); });
    std::erase_if(trace.task_ranges, [&](const RecognisedRange& range) { return lost.contains(range.task.step); });
    std::erase_if(trace.on_device, [&](const TaskOnDevice& task) { return lost.contains(task.task.step); });
    sort_slices(timeline);
    note_launches(kept, trace);
    note_device_time(kept, trace);
    trace.lane_work = joined_work(std::move(trace.lane_work));
    std::vector<RecordingRank> shown = given;
    std::erase_if(shown, [&](const RecordingRank& each) { return unknown.contains(each.rank); });
    note_missing_ranks(kept, shown, unknown, trace);
    std::erase_if(samples, [&](const auto& step) { return lost.contains(step.first); });
    note_samples(samples, trace);
    std::map<std::int32_t, StepStatistics> of_steps = statistics_by_step(timeline, Update::synchronous);
    for (auto& [number, step] : steps) {
        const StepStatistics& statistics = of_steps[number];
        if (statistics.end > statistics.start) {
            step.start = statistics.start;
            step.end = statistics.end;
            trace.steps.push_back(step);
        }
    }
    return warnings;
}

std::string unknown_times_warning(const std::map<std::string, std::string>& run) {
    const auto found = run.find(std::string(kLaunchesKey));
    if (found == run.end()) {
        return {};
    }
    const nlohmann::json entry = nlohmann::json::parse(found->second, nullptr, false);
    const nlohmann::json list = entry.is_object() ? entry.value("ranks", nlohmann::json()) : nlohmann::json();
    std::vector<std::int64_t> ranks;
    for (const nlohmann::json& rank : list.is_array() ? list : nlohmann::json::array()) {
        if (rank.is_number_integer()) {
            ranks.push_back(rank.get<std::int64_t>());
        }
    }
    return fmt::format(
        "the ranges of {} {} only launch work on a device, and the kernels of whole steps are not known: the tasks' "
        "times are those of the host, so idle time and bubble fractions are not known and not shown; record whole "
        "steps with the CUDA calls and kernels (ProfilerActivity.CPU and CUDA, or 'nsys profile --trace=cuda,nvtx')",
        ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

std::string missing_ranks_warning(const std::map<std::string, std::string>& run) {
    const std::optional<MissingRanks> missing = missing_ranks_entry(run);
    return !missing || run.contains("process")
               ? std::string()
               : fmt::format(
                     "{} {} not given or left out, and as far as the files show, this pipeline has tasks there: a task "
                     "whose input comes from there may include the wait for it, so idle time, step times and costs are "
                     "not known and not shown; give the folder with the files of all ranks",
                     missing->text(), missing->ranks.size() > 1 ? "are" : "is");
}

std::vector<std::string> unused_rules(const TaskRules& rules, const std::vector<std::size_t>& matches) {
    std::vector<std::string> warnings;
    for (std::size_t k = 0; k < rules.rules().size(); ++k) {
        if (!rules.rules()[k].built_in && matches.at(k) == 0) {
            warnings.push_back(fmt::format(
                "the rule '{}' matches no range; its pattern must match the whole name of a range; compare it "
                "with the names among the threads",
                rules.rules()[k].name));
        }
    }
    return warnings;
}

void add_recognized_tasks(OpenedTrace& trace, const TaskRules& rules) {
    if (trace.has_tasks()) {
        return;
    }
    RecognizedTasks found = recognize_tasks(trace, rules);
    const auto warn = [&](const std::vector<std::string>& texts) {
        for (const std::string& text : texts) {
            trace.diagnostics.push_back({"warning", "task rules", text});
        }
    };
    warn(unused_rules(rules, found.matches));
    warn(found.faults);
    if (found.ranks.empty()) {
        return;
    }
    warn(found.warnings);
    const ChunkPlaces places = chunk_places(found.ranks);
    std::ranges::for_each(found.ranks, [&](RankTasks& rank) { place_chunks(rank, places); });
    warn(set_timeline(found.ranks, trace.rank ? std::vector{*trace.rank} : std::vector<RecordingRank>(), trace));
    if (trace.rank && trace.rank->size > 1) {
        ProcessFacts process;
        process.rank = trace.rank->rank;
        process.size = trace.rank->size;
        for (std::size_t lane = 0; lane < trace.measured.lanes.size(); ++lane) {
            process.lanes.emplace_back(static_cast<std::int32_t>(lane));
        }
        trace.run.emplace("process", to_json(process));
    }
}
}  // namespace pipescope
