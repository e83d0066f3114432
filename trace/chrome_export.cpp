#include "trace/chrome_export.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <ostream>
#include <string>
#include <unordered_map>
#include <utility>

namespace pipescope {
namespace {
/// Chrome counts in us; three decimals keep every ns, which a double above 2^53 ns would not.
std::string microseconds(Nanoseconds time) {
    const std::int64_t ns = time.count();
    const std::uint64_t magnitude = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
    return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", magnitude / 1000, magnitude % 1000);
}

std::string json_string(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Writes the events of the list one by one, so that a million slices never stand in memory as JSON.
class EventList {
public:
    explicit EventList(std::ostream& out) : out_(out) {}

    void add(std::string_view event) {
        out_ << (first_ ? "\n" : ",\n") << event;
        first_ = false;
    }
    void name(std::string_view what, int process, int thread, std::string_view name) {
        add(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what, process, thread,
                        json_string(name)));
    }
    void sort_index(int process, int thread, int index) {
        add(fmt::format(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
                        process, thread, index));
    }

private:
    std::ostream& out_;
    bool first_ = true;
};

int process_of(Source source) {
    return source == Source::measured ? 1 : 2;
}

constexpr int kStepsThread = 0;
/// Threads per lane: its compute, its copies, and more for copies that overlap, since slices of one thread must nest.
constexpr int kThreadsPerLane = 16;
int compute_thread(LaneId lane) {
    return 1 + lane.value() * kThreadsPerLane;
}

/// Gives each copy of a lane the first of the lane's copy threads that is free by then.
class CopyThreads {
public:
    explicit CopyThreads(std::size_t lanes) : busy_until_(lanes) {}

    int take(const Slice& copy) {
        auto& threads = busy_until_[copy.lane.index()];
        auto free =
            std::find_if(threads.begin(), threads.end(), [&](Nanoseconds until) { return until <= copy.start; });
        if (free == threads.end()) {
            if (threads.size() + 1 < kThreadsPerLane) {
                free = threads.insert(threads.end(), Nanoseconds::min());
            } else {
                free = std::min_element(threads.begin(), threads.end());
            }
        }
        *free = std::max(*free, copy.end);
        return compute_thread(copy.lane) + 1 + static_cast<int>(free - threads.begin());
    }
    std::size_t used(std::size_t lane) const { return busy_until_[lane].size(); }

private:
    std::vector<std::vector<Nanoseconds>> busy_until_;  // per lane and copy thread
};

/// Where a slice was put, for the arrows.
struct Place {
    int thread = 0;
    Nanoseconds start{0};
};

/// Which task's output a copy carries, and which task waits for it. A skip's taker is known to the schedule only.
std::pair<TaskKey, TaskKey> ends_of_copy(const TaskKey& copy) {
    TaskKey here{copy.step, TaskKind::forward, copy.partition, copy.micro_batch, -1};
    TaskKey next{copy.step, TaskKind::forward, copy.partition + 1, copy.micro_batch, -1};
    if (copy.kind == TaskKind::copy_forward) {
        return {here, next};
    }
    here.kind = next.kind = TaskKind::backward;
    return {next, here};
}

std::string arguments(const Slice& slice) {
    std::string text = fmt::format(R"("step":{},"kind":"{}","partition":{},"micro_batch":{},"skip":{},"lane":{})",
                                   slice.key.step, to_string(slice.key.kind), slice.key.partition,
                                   slice.key.micro_batch, slice.key.skip, slice.lane.value());
    if (slice.bytes != 0) {
        text += fmt::format(R"(,"bytes":{})", slice.bytes);
    }
    return text;
}

/// "forward (2, 1)": without the step, which the slice's place shows.
std::string slice_name(TaskKey key) {
    key.step = -1;
    return to_string(key);
}

class TimelineExport {
public:
    TimelineExport(const Timeline& timeline, EventList& events, std::int64_t& next_flow)
        : timeline_(timeline),
          events_(events),
          next_flow_(next_flow),
          process_(process_of(timeline.source)),
          copy_threads_(timeline.lanes.size()) {}

    void write() {
        events_.name("process_name", process_, 0, to_string(timeline_.source));
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
        const int thread = is_copy(slice.key.kind) ? copy_threads_.take(slice) : compute_thread(slice.lane);
        places_.emplace(pack(slice.key), Place{thread, slice.start});
        events_.add(
            fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
                        to_string(slice.key.kind), slice_name(slice.key), process_, thread, microseconds(slice.start),
                        microseconds(slice.duration()), arguments(slice)));
    }

    /// Arrow producer -> copy -> consumer, bound to the slices by their starts; left out where an end was not recorded,
    /// since half an arrow is an error to the viewers.
    void write_arrow(const TaskKey& copy) {
        const auto [producer, consumer] = ends_of_copy(copy);
        const auto from = places_.find(pack(producer));
        const auto over = places_.find(pack(copy));
        const auto to = places_.find(pack(consumer));
        if (from == places_.end() || to == places_.end()) {
            return;
        }
        const std::int64_t id = next_flow_++;
        write_flow("s", id, from->second);
        write_flow("t", id, over->second);
        write_flow("f", id, to->second);
    }

    void write_flow(std::string_view phase, std::int64_t id, const Place& place) {
        events_.add(
            fmt::format(R"({{"ph":"{}","cat":"copy","name":"copy","id":{},"bp":"e","pid":{},"tid":{},"ts":{}}})", phase,
                        id, process_, place.thread, microseconds(place.start)));
    }

    void name_threads() {
        for (std::size_t lane = 0; lane < timeline_.lanes.size(); ++lane) {
            const LaneInfo& info = timeline_.lanes[lane];
            const int compute = compute_thread(LaneId{static_cast<std::int64_t>(lane)});
            const std::string device = info.device.empty() ? "" : " (" + info.device + ")";
            events_.name("thread_name", process_, compute, info.name + device);
            events_.sort_index(process_, compute, compute);
            for (std::size_t k = 0; k < copy_threads_.used(lane); ++k) {
                const int thread = compute + 1 + static_cast<int>(k);
                events_.name("thread_name", process_, thread, "copies from " + info.name);
                events_.sort_index(process_, thread, thread);
            }
        }
    }

    const Timeline& timeline_;
    EventList& events_;
    std::int64_t& next_flow_;  // ids are unique over all processes
    int process_;
    CopyThreads copy_threads_;
    std::unordered_map<std::uint64_t, Place> places_;  // by packed key
};

void write_steps(const std::vector<StepRecord>& steps, EventList& events) {
    if (steps.empty()) {
        return;
    }
    events.name("thread_name", process_of(Source::measured), kStepsThread, "steps");
    for (const StepRecord& step : steps) {
        events.add(fmt::format(
            R"({{"ph":"X","cat":"step","name":"step {}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{"step":{},"warmup":{},"training_loss":{}}}}})",
            step.step, process_of(Source::measured), kStepsThread, microseconds(step.wall_start),
            microseconds(step.wall_end - step.wall_start), step.step, step.warmup,
            nlohmann::json(step.training_loss).dump()));
    }
}

void write_memory(const std::vector<MemorySample>& samples, const std::vector<LaneInfo>& lanes, EventList& events) {
    for (const MemorySample& sample : samples) {
        const std::string name = sample.lane.index() < lanes.size() ? lanes[sample.lane.index()].name
                                                                    : fmt::format("lane {}", sample.lane.value());
        events.add(fmt::format(R"({{"ph":"C","name":{},"pid":{},"ts":{},"args":{{"allocated":{},"reserved":{}}}}})",
                               json_string("memory of " + name), process_of(Source::measured),
                               microseconds(sample.time), sample.allocated, sample.reserved));
    }
}

/// What a reader of the picture must know: lost ranges and what was degraded.
nlohmann::json remarks(const TraceReader& trace) {
    nlohmann::json remarks = nlohmann::json::object();
    std::int64_t dropped = 0;
    for (const DropRecord& drop : trace.drops()) {
        dropped += drop.dropped;
    }
    remarks["dropped_ranges"] = dropped;
    remarks["diagnostics"] = nlohmann::json::array();
    for (const DiagnosticRecord& diagnostic : trace.diagnostics()) {
        remarks["diagnostics"].push_back(diagnostic.severity + ": " + diagnostic.source + ": " + diagnostic.text);
    }
    if (const auto start = trace.utc_epoch_ns()) {
        remarks["utc_epoch_ns"] = *start;
    }
    return remarks;
}
}  // namespace

void export_chrome(const TraceReader& trace, std::ostream& out) {
    out << R"({"displayTimeUnit":"ns","otherData":)"
        << remarks(trace).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << R"(,"traceEvents":[)";
    EventList events(out);
    std::int64_t next_flow = 1;
    for (const Source source : {Source::measured, Source::simulated}) {
        const Timeline timeline = trace.timeline(source);
        if (!timeline.slices.empty()) {
            TimelineExport(timeline, events, next_flow).write();
        }
    }
    write_steps(trace.steps(), events);
    write_memory(trace.memory(), trace.lanes(), events);
    out << "\n]}\n";
    if (!out.flush()) {
        throw TraceError("cannot write the Chrome JSON: the stream failed; check the disk's free space");
    }
}
}  // namespace pipescope
