// Recognition happens in four passes over a rank's ranges: which names mean something (NamedRanges), which task each
// range is (RankRecognition::number), when messages came (read_messages), and when tasks truly began (take_tasks).

#include "trace/task_recognition.h"

#include "schedule/printable.h"
#include "schedule/quantities.h"
#include "trace/chrome_tracks.h"
#include "trace/process_json.h"
#include "trace/slice_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
/// A range with a meaning.
struct NamedRange {
    const TraceRange* range = nullptr;
    RangeMeaning meaning;
    std::size_t track = 0;
    bool on_device = false;
};

bool counts_micro_batches(const RangeMeaning& meaning) {
    const bool is_message = meaning.role != RangeRole::task && meaning.role != RangeRole::step;
    return is_message || is_compute(meaning.task) || meaning.task == TaskKind::loss;
}

bool is_transport(RangeRole role) {
    return role == RangeRole::send || role == RangeRole::receive;
}

/// The copy that a message inside this range is. Empty if the range is no end of a message.
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

/// Samples of a message of several tensors: of those that say it, if they agree; else -1.
std::int64_t joined_samples(std::int64_t one, std::int64_t other) {
    return one == other || other == 0 ? one : one == 0 ? other : -1;
}

/// The copy that brings a task its input.
TaskKey input_of(const TaskKey& key) {
    return key.kind == TaskKind::forward
               ? TaskKey{key.step, TaskKind::copy_forward, key.partition - 1, key.micro_batch, -1}
               : TaskKey{key.step, TaskKind::copy_backward, key.partition, key.micro_batch, -1};
}

/// The name of the GPU, if all streams of the file are of one; else empty.
std::string device_of(const OpenedTrace& trace) {
    std::string group;
    for (const RangeTrack& track : trace.tracks) {
        if (track.kind == RangeTrack::Kind::stream && !group.empty() && track.group != group) {
            return {};
        }
        group = track.kind == RangeTrack::Kind::stream ? track.group : group;
    }
    return gpu_name(group);
}

/// The ranges of one rank, from its names to its tasks.
class RankRecognition {
public:
    RankRecognition(const OpenedTrace& trace, const std::vector<std::optional<RangeMeaning>>& meanings,
                    std::vector<NamedRange> ranges, int rank, std::int32_t position)
        : trace_(trace), meanings_(meanings), ranges_(std::move(ranges)), position_(position) {
        found_.rank = rank;
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
        read_messages();
        take_tasks();
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
                "counts, so idle time is too large",
                found_.rank, counted(repeated_, "range is", "ranges are")));
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
        bool has_inner = false;  ///< another range inside is the task; this one may hold its messages
    };

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

    /// True if `inner` is a later range within this one, of the same task.
    bool holds_same_task(const NamedRange& outer, const NamedRange& inner) const {
        const auto partition = [&](const NamedRange& each) { return each.meaning.partition.value_or(position_); };
        return inner.range->end <= outer.range->end && inner.track == outer.track && !inner.on_device &&
               inner.meaning.role == outer.meaning.role && inner.meaning.task == outer.meaning.task &&
               partition(inner) == partition(outer) && inner.meaning.micro_batch.has_value() &&
               inner.meaning.micro_batch == outer.meaning.micro_batch;
    }

    bool has_inner(std::size_t outer) const {
        for (std::size_t k = outer + 1; k < ranges_.size() && ranges_[k].range->start <= ranges_[outer].range->end;
             ++k) {
            if (holds_same_task(ranges_[outer], ranges_[k])) {
                return true;
            }
        }
        return false;
    }

    /// Gives each range on the host its step, partition and micro-batch.
    void number() {
        std::map<std::tuple<RangeRole, TaskKey>, std::int32_t> counts;
        for (std::size_t k = 0; k < ranges_.size(); ++k) {
            const NamedRange& named = ranges_[k];
            if (named.on_device || named.meaning.role == RangeRole::step || is_transport(named.meaning.role) ||
                named.range->open) {
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
                        meaning.partition.value_or(position_), micro_batch, -1};
            const bool outer = has_inner(k);
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

    /// The times of a range on the device, if the profiler shows all ranges of this name there; else on the host.
    /// Asynchronous devices run a range after the host, in the same order.
    const TraceRange& times_of(const NamedRange& named) {
        auto [found, fresh] = on_device_.try_emplace(named.range->name);
        if (fresh) {
            std::map<std::size_t, std::vector<const TraceRange*>> tracks;
            std::vector<const TraceRange*> host;
            for (const NamedRange& each : ranges_) {
                if (each.range->name == named.range->name) {
                    (each.on_device ? tracks[each.track] : host).push_back(each.range);
                }
            }
            Nanoseconds longest{-1};
            for (const auto& [track, device] : tracks) {
                Nanoseconds total{0};
                for (const TraceRange* range : device) {
                    total += range->duration();
                }
                if (device.size() == host.size() && total > longest) {
                    longest = total;
                    for (std::size_t k = 0; k < host.size(); ++k) {
                        found->second[host[k]] = device[k];
                    }
                }
            }
        }
        const auto device = found->second.find(named.range);
        return device == found->second.end() ? *named.range : *device->second;
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

    /// Messages start in the range of a task, or of the message itself.
    void read_messages() {
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
            bool any = false;
            for (auto at = first; at != transports.end() && (*at)->range->start <= range.end; ++at) {
                const auto copy =
                    (*at)->track == each.named->track ? copy_in(each.key, role, (*at)->meaning.role) : std::nullopt;
                if (copy && (*at)->meaning.role == RangeRole::send) {
                    add_sent(*copy, *(*at)->range);
                } else if (copy) {
                    add_arrived(*copy, *(*at)->range);
                }
                any = any || copy;
            }
            const TraceRange& times = times_of(*each.named);
            if (role == RangeRole::task || (any && &times == &range)) {
                continue;
            }
            if (const auto copy = copy_in(each.key, role, sends(role) ? RangeRole::send : RangeRole::receive)) {
                auto& ends = sends(role) ? found_.sent : found_.arrived;
                ends[*copy].time = sends(role) ? times.start : times.end;
            }
        }
    }

    bool has_role(const TraceRange& range, RangeRole role) const {
        const std::optional<RangeMeaning>& meaning = meanings_.at(range.name);
        return meaning && meaning->role == role;
    }

    /// Where the computation of a range on the host ends: at its first message, if the thread only sends from there on,
    /// as ScheduleGPipe does. Sending may block.
    Nanoseconds end_of_computation(const NamedRange& named) const {
        const TraceRange& task = *named.range;
        const std::vector<TraceRange>& ranges = trace_.tracks.at(named.track).ranges;
        std::optional<Nanoseconds> first_sent;
        Nanoseconds sending_until{0};
        for (auto at = std::ranges::upper_bound(ranges, task.start, {}, &TraceRange::start);
             at != ranges.end() && at->start < task.end; ++at) {
            const bool part_of_sending = first_sent && at->start < sending_until;
            if (part_of_sending || has_role(*at, RangeRole::receive)) {
                continue;
            }
            if (!has_role(*at, RangeRole::send)) {
                first_sent.reset();  // it computes again
                continue;
            }
            first_sent = first_sent.value_or(at->start);
            sending_until = at->end <= task.end ? at->end : at->start;  // others are sent while the thread goes on
        }
        return first_sent.value_or(task.end);
    }

    RangeArrow::End place_of(const NamedRange& named) const {
        const auto range = named.range - trace_.tracks.at(named.track).ranges.data();
        return {static_cast<std::uint32_t>(named.track), static_cast<std::uint32_t>(range)};
    }

    void take_tasks() {
        for (const Numbered& each : numbered_) {
            if (each.named->meaning.role != RangeRole::task || each.has_inner) {
                continue;
            }
            const TraceRange& times = times_of(*each.named);
            const bool on_host = &times == each.named->range;
            Slice slice{each.key, LaneId{0}, times.start, on_host ? end_of_computation(*each.named) : times.end, 0};
            const bool takes_input = each.key.kind == TaskKind::forward || each.key.kind == TaskKind::backward;
            if (takes_input && on_host) {
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

    /// Files give a range's start and its duration, each rounded, so that one may end 1 ns after the next one's start.
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

    /// An optimizer without a partition steps all those of its rank. It gets the first of them.
    void give_optimizer_a_partition() {
        std::optional<std::int32_t> first;
        for (const Slice& slice : found_.tasks) {
            first =
                is_compute(slice.key.kind) ? std::min(first.value_or(slice.key.partition), slice.key.partition) : first;
        }
        const auto give = [&](TaskKey& key) {
            if (key.kind == TaskKind::optimizer && key.partition == position_) {
                key.partition = first.value_or(-1);
            }
        };
        std::ranges::for_each(found_.tasks, [&](Slice& slice) { give(slice.key); });
        std::ranges::for_each(found_.ranges, [&](RecognisedRange& range) { give(range.task); });
        if (!first) {
            found_.tasks.clear();  // training without a pipeline has an optimizer too
        }
    }

    const OpenedTrace& trace_;
    const std::vector<std::optional<RangeMeaning>>& meanings_;  // by name
    std::vector<NamedRange> ranges_;                            // by start, longer ones first
    const std::int32_t position_;
    std::map<std::pair<Nanoseconds, std::uint32_t>, MessageEnd> sizes_;  // without times
    std::map<Nanoseconds, std::int32_t> steps_;                          // by start
    std::vector<Numbered> numbered_;
    std::map<std::uint32_t, std::map<const TraceRange*, const TraceRange*>> on_device_;  // by name
    std::vector<const NamedRange*> second_steps_;  // whose numbers are taken, by start
    std::size_t outside_ = 0;
    std::size_t in_second_steps_ = 0;
    std::size_t repeated_ = 0;
    std::size_t unsound_ = 0;
    std::string first_fault_;
    RankTasks found_;
};

/// Steps that names of ranges mark, as far as no rule takes them.
struct UnnamedSteps {
    std::set<std::int32_t> numbers;
    std::string prefix;  ///< of one of the names: all before its number, without characters that rules would read
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

/// The steps of the program's loop, if no rule finds them and so all tasks are in one step; else empty.
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
            const bool on_device = track.kind == RangeTrack::Kind::stream;
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
    int next = 0;
    for (const std::string& group : groups) {
        const int rank = trace.rank ? trace.rank->rank : next;
        const int position = trace.rank ? trace.rank->pipeline_position : next;
        RankTasks tasks =
            RankRecognition(trace, meanings, std::move(by_group[group]), rank, position).find(found.warnings);
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

std::vector<std::string> set_timeline(const std::vector<RankTasks>& ranks, OpenedTrace& trace) {
    std::vector<std::string> warnings;
    Timeline& timeline = trace.measured;
    std::map<TaskKey, int> owners;  // compute tasks, and the rank
    std::map<TaskKey, MessageEnd> arrived;
    std::vector<const RankTasks*> kept;
    for (const RankTasks& rank : ranks) {
        const auto repeated = std::ranges::find_if(
            rank.tasks, [&](const Slice& slice) { return is_compute(slice.key.kind) && owners.contains(slice.key); });
        if (repeated != rank.tasks.end()) {
            warnings.push_back(fmt::format(
                "rank {} has tasks of rank {} again, such as {}, as replicas of a pipeline have; the tasks of rank {} "
                "are left out; give the files of one pipeline",
                rank.rank, owners.at(repeated->key), to_string(repeated->key), rank.rank));
            continue;
        }
        for (const Slice& slice : rank.tasks) {
            owners.emplace(slice.key, rank.rank);
        }
        trace.task_ranges.insert(trace.task_ranges.end(), rank.ranges.begin(), rank.ranges.end());
        arrived.insert(rank.arrived.begin(), rank.arrived.end());
        kept.push_back(&rank);
    }
    std::int64_t samples = 0;
    std::map<std::int32_t, StepRecord> steps;
    const auto widen = [](StepRecord& step, bool fresh, Nanoseconds start, Nanoseconds end) {
        step.wall_start = fresh ? start : std::min(step.wall_start, start);
        step.wall_end = fresh ? end : std::max(step.wall_end, end);
    };
    for (const RankTasks* rank : kept) {
        const LaneId lane{static_cast<std::int32_t>(timeline.lanes.size())};
        timeline.lanes.push_back({fmt::format("rank {}", rank->rank), rank->device});
        for (Slice slice : rank->tasks) {
            slice.lane = lane;
            timeline.slices.push_back(slice);
        }
        for (const auto& [copy, sent] : rank->sent) {
            if (const auto end = arrived.find(copy); end != arrived.end()) {
                timeline.slices.push_back({copy, lane, sent.time, std::max(sent.time, end->second.time),
                                           std::max(sent.bytes, end->second.bytes)});
                if (copy.kind == TaskKind::copy_forward) {
                    samples = joined_samples(joined_samples(samples, sent.samples), end->second.samples);
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
    sort_slices(timeline);
    if (samples > 0) {
        trace.run.emplace(kMicroBatchKey, fmt::format("{{\"samples\": {}}}", samples));
    }
    for (auto& [number, step] : steps) {
        const StepStatistics statistics = step_statistics(timeline, number);
        if (statistics.end > statistics.start) {
            step.start = statistics.start;
            step.end = statistics.end;
            trace.steps.push_back(step);
        }
    }
    return warnings;
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
    warn(set_timeline(found.ranks, trace));
    if (trace.rank && trace.rank->size > 1) {
        ProcessFacts process;
        process.rank = trace.rank->rank;
        process.size = trace.rank->size;
        process.lanes = {LaneId{0}};
        trace.run.emplace("process", to_json(process));
    }
}
}  // namespace pipescope
