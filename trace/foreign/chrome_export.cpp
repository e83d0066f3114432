#include "trace/foreign/chrome_export.h"

#include "schedule/backward_half.h"
#include "schedule/timeline.h"
#include "trace/foreign/chrome_import.h"
#include "trace/foreign/work_arguments.h"
#include "trace/store/process_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
/// Time in us, Chrome's unit, with three decimals. Keeps every ns, unlike a double, which loses them above 2^53 ns.
std::string chrome_microseconds(Nanoseconds time) {
    const std::int64_t ns = time.count();
    const std::uint64_t magnitude = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
    return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", magnitude / 1000, magnitude % 1000);
}

/// The text as a quoted JSON string. Invalid UTF-8 is replaced.
std::string json_string(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Writes events to the list one by one, so that a million slices are never in memory as JSON.
class ChromeEventList {
public:
    explicit ChromeEventList(std::ostream& out) : out_(out) {}

    void add(std::string_view event);
    /// Writes a "process_name" or "thread_name". `more`: further arguments, such as `,"kind":"stream"`.
    void name(std::string_view what, int process, int thread, std::string_view name, std::string_view more = {});
    void sort_index(int process, int thread, int index);
    /// Writes an arrow's start ("s"), step ("t") or end ("f"), bound to the slice that starts at that time.
    void flow(std::string_view phase, std::string_view category, std::int64_t id, int process, int thread,
              Nanoseconds start);
    std::int64_t next_flow() { return ++last_flow_; }

private:
    std::ostream& out_;
    bool first_ = true;
    std::int64_t last_flow_ = 0;
};

void ChromeEventList::add(std::string_view event) {
    out_ << (first_ ? "\n" : ",\n") << event;
    first_ = false;
}

void ChromeEventList::name(std::string_view what, int process, int thread, std::string_view name,
                           std::string_view more) {
    add(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}{}}}}})", what, process, thread,
                    json_string(name), more));
}

void ChromeEventList::sort_index(int process, int thread, int index) {
    add(fmt::format(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", process,
                    thread, index));
}

void ChromeEventList::flow(std::string_view phase, std::string_view category, std::int64_t id, int process, int thread,
                           Nanoseconds start) {
    add(fmt::format(R"({{"ph":"{}","cat":"{}","name":"{}","id":{},"bp":"e","pid":{},"tid":{},"ts":{}}})", phase,
                    category, category, id, process, thread, chrome_microseconds(start)));
}

/// Distributes slices over threads so that the slices of each thread nest, as a Chrome trace requires. Pass slices by
/// start, longer ones first.
class NestingThreads {
public:
    explicit NestingThreads(std::size_t most) : most_(most) {}

    /// Index of the first thread in which the slice nests, or of the last thread if there is none.
    std::size_t take(Nanoseconds start, Nanoseconds end);
    std::size_t used() const { return ends_.size(); }

private:
    std::size_t most_;
    std::vector<std::vector<Nanoseconds>> ends_;  // per thread, of the open slices
};

std::size_t NestingThreads::take(Nanoseconds start, Nanoseconds end) {
    for (std::size_t thread = 0;; ++thread) {
        if (thread == ends_.size()) {
            ends_.emplace_back();
        }
        std::vector<Nanoseconds>& open = ends_[thread];
        while (!open.empty() && open.back() <= start) {
            open.pop_back();
        }
        if (open.empty() || open.back() >= end || thread + 1 == most_) {
            open.push_back(end);
            return thread;
        }
    }
}

using nlohmann::json;

/// The Chrome processes of a timeline: one for each process of a merged trace, otherwise one for each source.
class LaneProcesses {
public:
    LaneProcesses(const OpenedTrace& trace, Source source) {
        if (source == Source::measured) {
            for (const MergedProcess& merged : merged_processes(trace.run)) {
                const int process = kFirstRankProcess + merged.rank;
                names_.emplace_back(process, merged.name());
                for (const LaneId lane : merged.lanes) {
                    by_lane_.emplace(lane, process);
                }
            }
        }
        if (names_.empty()) {
            names_.emplace_back(source == Source::measured ? 1 : 2, to_string(source));
        }
    }

    int of(LaneId lane) const {
        const auto found = by_lane_.find(lane);
        return found == by_lane_.end() ? first() : found->second;
    }
    int first() const { return names_.front().first; }
    /// The process numbers, with their names.
    const std::vector<std::pair<int, std::string>>& names() const { return names_; }

private:
    std::map<LaneId, int> by_lane_;
    std::vector<std::pair<int, std::string>> names_;
};
/// Process numbers of threads and streams: after the timelines, one process per group.
constexpr int kFirstGroupProcess = 10;

constexpr int kStepsThread = 0;
/// Threads per lane or track: one, and more for overlapping slices, since slices of one thread must nest.
constexpr int kThreadsEach = 16;
int compute_thread(LaneId lane) {
    return 1 + lane.value() * kThreadsEach;
}

/// Location of a slice, for arrows.
struct Place {
    int process = 0;
    int thread = 0;
    Nanoseconds start{0};
};

/// The task that produced a copy's data and the task that waits for the copy. Only the schedule knows who waits for a
/// skip.
std::pair<TaskKey, TaskKey> ends_of_copy(const TaskKey& copy) {
    TaskKey here{copy.step, TaskKind::forward, copy.partition, copy.micro_batch, -1};
    TaskKey next{copy.step, TaskKind::forward, copy.partition + 1, copy.micro_batch, -1};
    if (copy.kind == TaskKind::copy_forward) {
        return {here, next};
    }
    here.kind = next.kind = TaskKind::backward;
    return {next, here};
}

std::string arguments(const Slice& slice, std::optional<BackwardHalf> half) {
    std::string text = fmt::format(R"("step":{},"kind":"{}","partition":{},"micro_batch":{},"skip":{},"lane":{})",
                                   slice.key.step, to_string(slice.key.kind), slice.key.partition,
                                   slice.key.micro_batch, slice.key.skip, slice.lane.value());
    if (slice.bytes != 0) {
        text += fmt::format(R"(,"bytes":{})", slice.bytes);
    }
    if (half) {
        text += fmt::format(R"(,"half":"{}")", static_cast<char>(*half));
    }
    return text;
}

/// "forward (2, 1)": no step, since the slice's position shows it.
std::string slice_name(TaskKey key) {
    key.step = -1;
    return to_string(key);
}

class TimelineExport {
public:
    /// `are_streams`: makes readers of PyTorch traces treat the lanes as GPU streams.
    TimelineExport(const Timeline& timeline, LaneProcesses processes, bool are_streams, ChromeEventList& events)
        : timeline_(timeline),
          split_(timeline.slices),
          processes_(std::move(processes)),
          are_streams_(are_streams),
          events_(events),
          copies_(timeline.lanes.size(), NestingThreads(kThreadsEach - 1)) {}

    void write() {
        for (const auto& [process, name] : processes_.names()) {
            events_.name("process_name", process, 0, name);
        }
        places_.reserve(timeline_.slices.size());
        for (const Slice& slice : timeline_.slices) {
            write_slice(slice);
        }
        for (const Slice& slice : timeline_.slices) {
            if (slice.key.kind == TaskKind::copy_forward || slice.key.kind == TaskKind::copy_backward) {
                write_arrow(slice.key);
            }
        }
        name_threads();
    }

private:
    void write_slice(const Slice& slice) {
        int thread = compute_thread(slice.lane);
        if (is_copy(slice.key.kind)) {
            thread += 1 + static_cast<int>(copies_[slice.lane.index()].take(slice.start, slice.end));
        }
        const int process = processes_.of(slice.lane);
        places_.emplace(pack(slice.key), Place{process, thread, slice.start});
        const std::string stream = are_streams_ && !is_copy(slice.key.kind)
                                       ? fmt::format(R"(,"stream":{})", slice.lane.value())
                                       : std::string();
        events_.add(fmt::format(
            R"({{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}{}}}}})",
            to_string(slice.key.kind), slice_name(slice.key), process, thread, chrome_microseconds(slice.start),
            chrome_microseconds(slice.duration()), arguments(slice, split_.half_of(slice.key)), stream));
    }

    /// Arrow producer -> copy -> consumer, bound to the slices by their starts. Omitted if an end was not recorded,
    /// since viewers report half an arrow as an error.
    void write_arrow(const TaskKey& copy) {
        const auto [producer, consumer] = ends_of_copy(copy);
        const auto from = places_.find(pack(producer));
        const auto over = places_.find(pack(copy));
        const auto to = places_.find(pack(consumer));
        if (from == places_.end() || to == places_.end()) {
            return;
        }
        const std::int64_t id = events_.next_flow();
        flow("s", id, from->second);
        flow("t", id, over->second);
        flow("f", id, to->second);
    }

    void flow(std::string_view phase, std::int64_t id, const Place& place) {
        events_.flow(phase, "copy", id, place.process, place.thread, place.start);
    }

    void name_threads() {
        for (std::size_t lane = 0; lane < timeline_.lanes.size(); ++lane) {
            const LaneInfo& info = timeline_.lanes[lane];
            const int compute = compute_thread(LaneId{lane});
            const int process = processes_.of(LaneId{lane});
            const std::string device = info.device.empty() ? "" : " (" + info.device + ")";
            events_.name("thread_name", process, compute, info.name + device);
            events_.sort_index(process, compute, compute);
            for (std::size_t k = 0; k < copies_[lane].used(); ++k) {
                const int thread = compute + 1 + static_cast<int>(k);
                events_.name("thread_name", process, thread, "copies from " + info.name);
                events_.sort_index(process, thread, thread);
            }
        }
    }

    const Timeline& timeline_;
    const SplitBackwards split_;
    LaneProcesses processes_;
    bool are_streams_;
    ChromeEventList& events_;
    std::vector<NestingThreads> copies_;               // per lane
    std::unordered_map<std::uint64_t, Place> places_;  // by packed key
};

void write_steps(const std::vector<StepRecord>& steps, int process, ChromeEventList& events) {
    if (steps.empty()) {
        return;
    }
    events.name("thread_name", process, kStepsThread, "steps");
    for (const StepRecord& step : steps) {
        events.add(fmt::format(
            R"({{"ph":"X","cat":"step","name":"ProfilerStep#{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{"step":{},"warmup":{},"training_loss":{},"start_ns":{},"end_ns":{}{}}}}})",
            step.step, process, kStepsThread, chrome_microseconds(step.wall_start),
            chrome_microseconds(step.wall_end - step.wall_start), step.step, step.warmup,
            json(step.training_loss).dump(), step.start.count(), step.end.count(),
            step.samples > 0 ? fmt::format(R"(,"samples":{})", step.samples) : ""));
    }
}

/// `"name":bytes` of each known category.
std::string categories(const MemorySample& sample) {
    std::string text;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        const auto category = static_cast<MemoryCategory>(k);
        if (sample.composition[category] != MemoryBreakdown::kUnknown) {
            text +=
                fmt::format(R"({}"{}":{})", text.empty() ? "" : ",", to_string(category), sample.composition[category]);
        }
    }
    return text;
}

void write_counter(std::string_view name, int process, Nanoseconds time, std::string_view arguments,
                   std::string_view more, ChromeEventList& events) {
    events.add(fmt::format(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{{}}}{}}})", json_string(name), process,
                           chrome_microseconds(time), arguments, more));
}

/// Chrome stacks a counter's series, so the values of one counter must add up: the categories sum to the allocated
/// bytes. The first counter also carries the whole sample.
void write_memory(const std::vector<MemorySample>& samples, const std::vector<LaneInfo>& lanes,
                  const LaneProcesses& processes, ChromeEventList& events) {
    for (const MemorySample& sample : samples) {
        const int process = processes.of(sample.lane);
        const std::string lane = sample.lane.index() < lanes.size() ? lanes[sample.lane.index()].name
                                                                    : fmt::format("lane {}", sample.lane.value());
        const std::string parts = categories(sample);
        const std::string whole = fmt::format(
            R"(,"sample":{{"lane":{},"allocated":{},"peak":{},"reserved":{},"task":{}{}{}}})", sample.lane.value(),
            sample.allocated, sample.peak, sample.reserved, sample.task, parts.empty() ? "" : ",", parts);
        write_counter("memory of " + lane, process, sample.time,
                      parts.empty() ? fmt::format(R"("allocated":{})", sample.allocated) : parts, whole, events);
        write_counter("peak memory of " + lane, process, sample.time, fmt::format(R"("peak":{})", sample.peak), "",
                      events);
        if (sample.reserved != 0) {
            write_counter("reserved memory of " + lane, process, sample.time,
                          fmt::format(R"("reserved":{})", sample.reserved), "", events);
        }
    }
}

/// What is known about a kernel, copy or fill, with the names that PyTorch's profiler gives it.
std::string facts_arguments(const WorkFacts& facts, bool follows) {
    std::string text;
    const auto add = [&](std::string_view key, const std::string& value) {
        text += fmt::format(R"({}"{}":{})", follows || !text.empty() ? "," : "", key, value);
    };
    const auto add_number = [&](std::string_view key, std::int64_t value) {
        if (value != 0) {
            add(key, std::to_string(value));
        }
    };
    const auto add_text = [&](std::string_view key, const std::string& value) {
        if (!value.empty()) {
            add(key, json_string(value));
        }
    };
    if (facts.has_launch()) {
        add(work_arguments::kGrid, fmt::format("[{}]", fmt::join(facts.grid, ",")));
        add(work_arguments::kBlock, fmt::format("[{}]", fmt::join(facts.block, ",")));
    }
    add_number(work_arguments::kRegisters, facts.registers);
    add_number(work_arguments::kSharedMemory, facts.shared_memory);
    add_number(work_arguments::kBytes, facts.bytes);
    add_text(work_arguments::kCollective, facts.collective.type);
    add_text(work_arguments::kElementType, facts.collective.element_type);
    add_text(work_arguments::kGroupRanks, facts.collective.group);
    add_number(work_arguments::kGroupSize, facts.collective.group_size);
    return text;
}

/// Writes threads and streams, without ranges that are tasks, and arrows from calls to the kernels they launched.
class TracksExport {
public:
    TracksExport(const OpenedTrace& trace, ChromeEventList& events) : trace_(trace), events_(events) {}

    void write() {
        int next_thread = 1;
        for (const RangeTrack& track : trace_.tracks) {
            const auto [process, fresh] =
                processes_.try_emplace(track.group, kFirstGroupProcess + static_cast<int>(processes_.size()));
            if (fresh) {
                events_.name("process_name", process->second, 0, track.group);
            }
            write_track(track, process->second, next_thread);
            next_thread += kThreadsEach;
        }
        for (const auto& [correlation, work] : work_) {
            const auto call = calls_.find(correlation);
            if (call != calls_.end()) {
                const std::int64_t id = events_.next_flow();
                events_.flow("s", "launch", id, call->second.process, call->second.thread, call->second.start);
                events_.flow("f", "launch", id, work.process, work.thread, work.start);
            }
        }
    }

private:
    void write_track(const RangeTrack& track, int process, int first_thread) {
        NestingThreads threads(kThreadsEach);
        const bool is_stream = track.kind == RangeTrack::Kind::stream;
        for (const TraceRange& range : track.ranges) {
            if (range.is_task) {
                continue;
            }
            const int thread = first_thread + static_cast<int>(threads.take(range.start, range.end));
            std::string arguments = range.correlation == 0 ? "" : fmt::format(R"("correlation":{})", range.correlation);
            arguments += facts_arguments(trace_.facts.at(range.facts), !arguments.empty());
            if (range.open) {
                arguments += fmt::format(R"({}"open":true)", arguments.empty() ? "" : ",");
            }
            events_.add(fmt::format(
                R"({{"ph":"X","cat":{},"name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
                json_string(trace_.names[range.category]), json_string(trace_.names[range.name]), process, thread,
                chrome_microseconds(range.start), chrome_microseconds(range.duration()), arguments));
            if (range.correlation != 0) {
                (is_stream ? work_ : calls_).try_emplace(range.correlation, Place{process, thread, range.start});
            }
        }
        for (std::size_t k = 0; k < threads.used(); ++k) {
            const int thread = first_thread + static_cast<int>(k);
            events_.name("thread_name", process, thread, track.name + (k == 0 ? "" : " (overlapping)"),
                         fmt::format(R"(,"kind":"{}")", to_string(track.kind)));
            events_.sort_index(process, thread, thread);
        }
    }

    const OpenedTrace& trace_;
    ChromeEventList& events_;
    std::map<std::string, int> processes_;
    std::map<std::uint32_t, Place> calls_;  // by correlation
    std::map<std::uint32_t, Place> work_;
};

void write_counters(const std::vector<CounterTrack>& counters, ChromeEventList& events) {
    for (const CounterTrack& counter : counters) {
        for (const CounterTrack::Point& point : counter.points) {
            events.add(fmt::format(R"({{"ph":"C","name":{},"cat":{},"pid":{},"ts":{},"args":{{"value":{}}}}})",
                                   json_string(counter.name), json_string(counter.group), kFirstGroupProcess - 1,
                                   chrome_microseconds(point.time), json(point.value).dump()));
        }
    }
}

json lanes_json(const std::vector<LaneInfo>& lanes) {
    json list = json::array();
    for (const LaneInfo& lane : lanes) {
        list.push_back({lane.name, lane.device});
    }
    return list;
}

/// What a viewer must know (lost ranges, degraded features), and the tables without times, which an import needs to
/// restore the trace.
json other_data(const OpenedTrace& trace) {
    const std::optional<Nanoseconds> bound = clock_bound(merged_processes(trace.run));
    json other = {
        {"pipescope",
         {{"format", kChromeExportFormat}, {"version", bound ? kChromeExportVersion : kVersionOfOneProcess}}},
        {"made_from", to_string(trace.origin)},
        {"dropped_ranges", trace.dropped()},
        {"run", trace.run},
        {"lanes", {{"measured", lanes_json(trace.measured.lanes)}, {"simulated", lanes_json(trace.simulated.lanes)}}}};
    for (const char* list : {"diagnostics", "diagnostic_rows", "drops", "clocks", "overheads"}) {
        other[list] = json::array();
    }
    if (trace.profile_json) {
        other["profile"] = *trace.profile_json;
    }
    if (bound) {
        other["clock_bound_ns"] = bound->count();
    }
    if (trace.utc_epoch_ns) {
        other["utc_epoch_ns"] = *trace.utc_epoch_ns;
    }
    for (const DiagnosticRecord& row : trace.diagnostics) {
        other["diagnostics"].push_back(row.severity + ": " + row.source + ": " + row.text);
        other["diagnostic_rows"].push_back({row.severity, row.source, row.text});
    }
    for (const DropRecord& row : trace.drops) {
        other["drops"].push_back({row.source, row.thread, row.recorded, row.dropped, row.truncated, row.open_at_exit});
    }
    for (const ClockRecord& row : trace.clocks) {
        other["clocks"].push_back({row.realtime, row.monotonic, row.boottime, row.tsc});
    }
    for (const OverheadRecord& row : trace.overheads) {
        other["overheads"].push_back({row.source, row.what, row.value});
    }
    return other;
}
}  // namespace

void export_chrome(const OpenedTrace& trace, std::ostream& out) {
    // Holistic Trace Analysis needs a rank, and steps named as in PyTorch's profiler.
    out << R"({"displayTimeUnit":"ns","otherData":)"
        << other_data(trace).dump(-1, ' ', false, json::error_handler_t::replace)
        << R"(,"distributedInfo":{"rank": 0},"traceEvents":[)";
    ChromeEventList events(out);
    for (const Source source : {Source::measured, Source::simulated}) {
        if (!trace.timeline(source).slices.empty()) {
            const bool are_streams = source == Source::measured || trace.measured.slices.empty();
            TimelineExport(trace.timeline(source), LaneProcesses(trace, source), are_streams, events).write();
        }
    }
    const LaneProcesses measured(trace, Source::measured);
    write_steps(trace.steps, measured.first(), events);
    write_memory(trace.memory, trace.measured.lanes, measured, events);
    TracksExport(trace, events).write();
    write_counters(trace.counters, events);
    out << "\n]}\n";
    if (!out.flush()) {
        throw TraceError("cannot write the Chrome JSON: the stream failed; check the disk's free space");
    }
}
}  // namespace pipescope
