#include "trace/foreign/chrome_tracks.h"

#include "base/number_text.h"
#include "base/quantities.h"
#include "trace/foreign/work_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using Kind = RangeTrack::Kind;

bool runs_on_a_stream(std::string_view category) {
    return category == "kernel" || category == "gpu_memcpy" || category == "gpu_memset" || category == "memcpy" ||
           category == "memset";
}

/// The number of an argument, or 0.
std::int64_t amount_of(const ChromeArgument& argument) {
    constexpr auto kMost = static_cast<double>(kMostExactInteger);
    const bool is_number =
        argument.type == ChromeArgument::Type::integer || argument.type == ChromeArgument::Type::real;
    return is_number && argument.real >= 0 && argument.real <= kMost ? argument.integer : 0;
}

/// What PyTorch's profiler and our own export say about a kernel, copy or fill.
WorkFacts facts_of(const ChromeEvent& event) {
    WorkFacts facts;
    facts.grid = event.grid;
    facts.block = event.block;
    std::int64_t elements = 0;
    std::string_view group_name;
    for (const ChromeArgument& argument : event.arguments) {
        if (argument.key == work_arguments::kRegisters) {
            facts.registers = amount_of(argument);
        } else if (argument.key == work_arguments::kSharedMemory) {
            facts.shared_memory = amount_of(argument);
        } else if (argument.key == work_arguments::kBytes) {
            facts.bytes = amount_of(argument);
        } else if (argument.key == work_arguments::kCollective) {
            facts.collective.type = collective_type(argument.text);
        } else if (argument.key == work_arguments::kInElements || argument.key == work_arguments::kOutElements) {
            elements = std::max(elements, amount_of(argument));
        } else if (argument.key == work_arguments::kElementType) {
            facts.collective.element_type = argument.text;
        } else if (argument.key == work_arguments::kGroupSize) {
            facts.collective.group_size = amount_of(argument);
        } else if (argument.key == work_arguments::kGroupRanks) {
            facts.collective.group = argument.text;
        } else if (argument.key == work_arguments::kGroupName) {
            group_name = argument.text;
        }
    }
    if (event.category != "kernel") {
        facts.collective = {};
        return facts;
    }
    if (facts.collective.type.empty() && event.name.starts_with("nccl")) {
        facts.collective.type = collective_type(event.name);
    }
    if (facts.collective.type.empty()) {
        facts.collective = {};
        return facts;
    }
    if (!event.group_ranks.empty()) {
        facts.collective.group = event.group_ranks;
    } else if (facts.collective.group.empty()) {
        facts.collective.group = group_name;
    }
    Bytes bytes = 0;
    if (facts.bytes == 0 && !__builtin_mul_overflow(elements, element_bytes(facts.collective.element_type), &bytes) &&
        bytes <= kMostExactInteger) {
        facts.bytes = bytes;
    }
    return facts;
}

/// Some writers quote their numbers.
std::optional<double> number_of(const ChromeArgument& argument) {
    switch (argument.type) {
        case ChromeArgument::Type::null: return std::nullopt;
        case ChromeArgument::Type::integer:
        case ChromeArgument::Type::real: return argument.real;
        case ChromeArgument::Type::text: break;
    }
    return number_in<double>(argument.text);
}

/// The name with numbers of equal width, so that c10 follows c9.
std::string with_wide_numbers(const std::string& name) {
    constexpr std::size_t kWidth = 20;
    std::string wide;
    for (std::size_t i = 0; i < name.size();) {
        const std::size_t end = std::min(name.find_first_not_of("0123456789", i), name.size());
        wide += end > i ? std::string(kWidth - std::min(kWidth, end - i), '0') + name.substr(i, end - i)
                        : std::string(1, name[i]);
        i = std::max(end, i + 1);
    }
    return wide;
}

std::string to_text(const ChromeId& id) {
    return id.text.empty() ? std::to_string(id.number) : id.text;
}

/// Finds ranges by time in a track after arrange(). Memory: 4 bytes per range.
class RangeSearch {
public:
    explicit RangeSearch(const RangeTrack& track) : ranges_(track.ranges), rows_(track.rows) {
        for (std::uint32_t k = 0; k < ranges_.size(); ++k) {
            rows_.at(ranges_[k].row).push_back(k);
        }
    }
    /// The innermost range around the time. Empty if there is none.
    std::optional<std::uint32_t> around(Nanoseconds time) const {
        for (auto row = rows_.rbegin(); row != rows_.rend(); ++row) {
            const auto after =
                std::ranges::upper_bound(*row, time, {}, [&](std::uint32_t k) { return ranges_[k].start; });
            if (after != row->begin() && ranges_[*(after - 1)].end >= time) {
                return *(after - 1);
            }
        }
        return std::nullopt;
    }
    /// The range made from the event, which begins at the time.
    std::optional<std::uint32_t> of_event(Nanoseconds time, std::uint32_t event) const {
        for (auto found = std::ranges::lower_bound(ranges_, time, {}, &TraceRange::start);
             found != ranges_.end() && found->start == time; ++found) {
            if (found->event == event) {
                return static_cast<std::uint32_t>(found - ranges_.begin());
            }
        }
        return std::nullopt;
    }
    /// The first range that starts at the time or later.
    std::optional<std::uint32_t> next(Nanoseconds time) const {
        const auto found = std::ranges::lower_bound(ranges_, time, {}, &TraceRange::start);
        return found == ranges_.end() ? std::nullopt
                                      : std::optional(static_cast<std::uint32_t>(found - ranges_.begin()));
    }

private:
    const std::vector<TraceRange>& ranges_;
    std::vector<std::vector<std::uint32_t>> rows_;
};
}  // namespace

std::string gpu_name(std::string_view group) {
    const std::size_t begin = group.find(" (");
    const bool has_name = group.starts_with("GPU ") && begin != std::string_view::npos && group.ends_with(')');
    return has_name ? std::string(group.substr(begin + 2, group.size() - begin - 3)) : std::string();
}

void ChromeTracks::add(const ChromeEvent& event) {
    if (event.has_bad_id) {
        ++left_out_;
        return;
    }
    switch (event.phase) {
        case 'X':
            add_complete(event);
            add_bound_arrow({event.process, event.thread}, event);
            break;
        case 'B': {
            Track& track = track_of(event);
            add_begin(track, track.marks, event);
            add_bound_arrow({event.process, event.thread}, event);
            break;
        }
        case 'E': add_end(track_of(event).marks, event); break;
        case 'b':
            add_begin(async_track_of(event), async_marks_of(event), event);
            add_bound_arrow(async_key_of(event), event);
            break;
        case 'e': add_end(async_marks_of(event), event); break;
        case 'i':
        case 'I':
        case 'R': add_instant(event); break;
        case 'C': add_counter(event); break;
        case 'M': set_name(event); break;
        case 's':
        case 't':
        case 'f': add_arrow_point(event); break;
        case 'n':  // an instant of an asynchronous range
            if (event.start) {
                add_range(async_track_of(event), event);
            } else {
                ++left_out_;
            }
            break;
        default: ++left_out_;
    }
}

ChromeTracks::Track& ChromeTracks::track_of(const ChromeEvent& event) {
    if (last_used_ == tracks_.end() || last_used_->first.first != event.process ||
        last_used_->first.second != event.thread) {
        last_used_ = tracks_.try_emplace({event.process, event.thread}).first;
    }
    return last_used_->second;
}

ChromeTracks::TrackKey ChromeTracks::async_key_of(const ChromeEvent& event) {
    return {event.process, ChromeId{0, "async " + event.category}};
}

ChromeTracks::Track& ChromeTracks::async_track_of(const ChromeEvent& event) {
    Track& track = tracks_[async_key_of(event)];
    track.async = true;
    return track;
}

TraceRange& ChromeTracks::add_range(Track& track, const ChromeEvent& event) {
    TraceRange range;
    range.start = Nanoseconds{*event.start};
    range.end = range.start;
    range.name = names_.number_of(event.name.empty() ? "(no name)" : std::string_view(event.name));
    range.category = names_.number_of(event.category);
    range.correlation = static_cast<std::uint32_t>(event.arguments.integer_or("correlation", 0));
    range.event = static_cast<std::uint32_t>(event.index + 1);
    if (runs_on_a_stream(event.category)) {
        track.track.kind = Kind::stream;
        range.facts = facts_.number_of(facts_of(event));
    }
    first_ = std::min(first_, range.start);
    last_ = std::max(last_, range.end);
    track.track.ranges.push_back(range);
    return track.track.ranges.back();
}

/// If PyTorch's profiler records shapes, it lists a message's tensors as inputs.
void ChromeTracks::add_message_size(const ChromeEvent& event, const TraceRange& range) {
    Bytes bytes = element_bytes(event.element_type);
    if (event.dimensions.empty() || bytes == 0) {
        return;
    }
    for (const std::int64_t length : event.dimensions) {
        if (length < 0 || __builtin_mul_overflow(bytes, length, &bytes)) {
            return;
        }
    }
    message_sizes_.push_back({range.start, range.name, bytes, event.dimensions.front()});
}

void ChromeTracks::add_complete(const ChromeEvent& event) {
    constexpr std::int64_t kMost = INT64_MAX / 4;  // so that sums of such values cannot overflow
    if (!event.start || event.has_bad_duration || *event.start > kMost || *event.start < -kMost ||
        event.duration.value_or(0) > kMost || event.duration.value_or(0) < 0) {
        ++left_out_;
        return;
    }
    TraceRange& range = add_range(track_of(event), event);
    range.end = range.start + Nanoseconds{event.duration.value_or(0)};
    range.open = event.arguments.integer_or("open", 0) != 0;  // from our export; such a range ends with the trace
    last_ = std::max(last_, range.end);
    if (event.name.starts_with("gloo:") || event.name.starts_with("nccl:")) {
        add_message_size(event, range);
    }
}

void ChromeTracks::add_begin(Track& track, std::vector<Mark>& marks, const ChromeEvent& event) {
    if (!event.start) {
        ++left_out_;
        return;
    }
    add_range(track, event).open = true;
    marks.push_back({Nanoseconds{*event.start}, &track, track.track.ranges.size() - 1});
}

void ChromeTracks::add_end(std::vector<Mark>& marks, const ChromeEvent& event) {
    if (!event.start) {
        ++left_out_;
        return;
    }
    marks.push_back(
        {Nanoseconds{*event.start}, nullptr, event.name.empty() ? std::size_t{0} : names_.number_of(event.name)});
}

void ChromeTracks::pair_marks() {
    for (auto& [key, track] : tracks_) {
        pair_marks(track.marks);
    }
    for (auto& [key, marks] : async_) {
        pair_marks(marks);
    }
}

/// An end closes the latest open range with its name. Without a name, or if no range with that name is open, it closes
/// the latest open range. Counts the ends without a range.
void ChromeTracks::pair_marks(std::vector<Mark>& marks) {
    std::ranges::stable_sort(marks, [](const Mark& a, const Mark& b) { return a.time < b.time; });
    const auto range_of = [](const Mark* begin) -> TraceRange& { return begin->track->track.ranges[begin->range]; };
    std::vector<const Mark*> open;                                 // also ranges that ended by name
    std::map<std::size_t, std::vector<const Mark*>> open_by_name;  // also ranges that ended without it
    const auto last_of = [&](std::vector<const Mark*>& begins) -> const Mark* {
        while (!begins.empty() && !range_of(begins.back()).open) {
            begins.pop_back();
        }
        return begins.empty() ? nullptr : begins.back();
    };
    for (const Mark& mark : marks) {
        if (mark.track != nullptr) {
            open.push_back(&mark);
            open_by_name[range_of(&mark).name].push_back(&mark);
            continue;
        }
        const Mark* begin = last_of(open);
        if (begin == nullptr) {
            ++left_out_;
            continue;
        }
        if (mark.range != 0 && range_of(begin).name != mark.range) {
            const auto of_name = open_by_name.find(mark.range);
            const Mark* const named = of_name != open_by_name.end() ? last_of(of_name->second) : nullptr;
            other_ends_ += named == nullptr ? 1 : 0;
            begin = named == nullptr ? begin : named;
        }
        TraceRange& range = range_of(begin);
        range.end = mark.time;
        range.open = false;
        last_ = std::max(last_, range.end);
    }
    never_ended_ +=
        static_cast<std::size_t>(std::ranges::count_if(open, [&](const Mark* begin) { return range_of(begin).open; }));
    marks = {};
}

void ChromeTracks::add_instant(const ChromeEvent& event) {
    if (!event.start) {
        ++left_out_;
    } else if (event.name == "[memory]") {
        add_memory(event);
    } else {
        add_range(track_of(event), event);
    }
}

void ChromeTracks::add_point(const std::string& counter, const ChromeEvent& event, double value) {
    const Nanoseconds time{*event.start};
    first_ = std::min(first_, time);
    last_ = std::max(last_, time);
    CounterTrack& track = counters_[{event.process, counter}];
    track.group = event.category;  // as in our export
    track.points.push_back({time, value});
}

void ChromeTracks::add_counter(const ChromeEvent& event) {
    if (!event.start) {
        ++left_out_;
        return;
    }
    const std::string name = event.id.empty() ? event.name : fmt::format("{} [{}]", event.name, event.id);
    bool any = false;
    for (const ChromeArgument& argument : event.arguments) {
        const std::optional<double> value = number_of(argument);
        if (value && std::isfinite(*value)) {
            any = true;
            add_point(argument.key == "value" ? name : name + ": " + argument.key, event, *value);
        }
    }
    bad_counters_ += any ? 0 : 1;
}

void ChromeTracks::add_arrow_point(const ChromeEvent& event) {
    if (!event.start) {
        ++left_out_;
        return;
    }
    arrows_[{event.category, event.name, event.id}].push_back({Nanoseconds{*event.start},
                                                               event.phase,
                                                               {event.process, event.thread},
                                                               event.phase == 'f' && !event.binds_enclosing,
                                                               0});
}

void ChromeTracks::add_bound_arrow(const TrackKey& key, const ChromeEvent& event) {
    if (event.bind_id.empty() || !(event.flow_in || event.flow_out)) {
        return;
    }
    const auto number = static_cast<std::uint32_t>(event.index + 1);
    const auto track = tracks_.find(key);
    if (track == tracks_.end() || track->second.track.ranges.empty() ||
        track->second.track.ranges.back().event != number) {
        return;  // the event was left out
    }
    const char phase = event.flow_in && event.flow_out ? 't' : event.flow_out ? 's' : 'e';
    bound_arrows_[event.bind_id].push_back({track->second.track.ranges.back().start, phase, key, false, number});
}

std::vector<RangeArrow> ChromeTracks::bind_arrows(const std::vector<RangeTrack>& tracks,
                                                  const std::map<TrackKey, const TraceRange*>& firsts,
                                                  Nanoseconds moved) {
    std::map<const TraceRange*, std::uint32_t> places;
    for (std::uint32_t track = 0; track < tracks.size(); ++track) {
        places.emplace(tracks[track].ranges.data(), track);
    }
    std::map<std::uint32_t, RangeSearch> searches;
    const auto end_of = [&](const ArrowPoint& point) -> std::optional<RangeArrow::End> {
        const auto first = firsts.find(point.track);
        const auto place = first == firsts.end() ? places.end() : places.find(first->second);
        if (place == places.end()) {
            return std::nullopt;
        }
        const auto [search, fresh] = searches.try_emplace(place->second, tracks[place->second]);
        const Nanoseconds time = point.time - moved;
        const auto range = point.event != 0 ? search->second.of_event(time, point.event)
                           : point.next     ? search->second.next(time)
                                            : search->second.around(time);
        return range ? std::optional(RangeArrow::End{place->second, *range}) : std::nullopt;
    };
    std::vector<RangeArrow> arrows;
    const auto connect = [&](std::vector<ArrowPoint>& points) {
        std::ranges::stable_sort(points, {}, &ArrowPoint::time);
        std::optional<RangeArrow::End> from;
        for (const ArrowPoint& point : points) {
            const std::optional<RangeArrow::End> end = end_of(point);
            if (point.phase != 's' && from && end && *from != *end) {
                arrows.push_back({*from, *end});
            }
            if (point.phase != 'e') {
                from = point.phase == 'f' ? std::nullopt : end;  // a number may be reused
            }
        }
        points = {};
    };
    for (auto& [key, points] : arrows_) {
        connect(points);
    }
    for (auto& [id, points] : bound_arrows_) {
        connect(points);
    }
    std::ranges::sort(arrows);
    arrows.erase(std::unique(arrows.begin(), arrows.end()), arrows.end());
    return arrows;
}

/// PyTorch's profiler reports each allocation with the totals after it.
void ChromeTracks::add_memory(const ChromeEvent& event) {
    const ChromeArguments& arguments = event.arguments;
    constexpr int kCpu = 0;
    const std::string device = arguments.integer_or("Device Type", kCpu) == kCpu
                                   ? "the CPU"
                                   : fmt::format("GPU {}", arguments.integer_or("Device Id", 0));
    add_point("memory of " + device, event, static_cast<double>(arguments.integer_or("Total Allocated", 0)));
    if (const std::int64_t reserved = arguments.integer_or("Total Reserved", 0); reserved > 0) {
        add_point("memory of " + device + ", reserved", event, static_cast<double>(reserved));
    }
}

void ChromeTracks::set_name(const ChromeEvent& event) {
    if (event.name == "process_name") {
        processes_[event.process].name = event.arguments.text_or_empty("name");
    } else if (event.name == "process_labels") {
        processes_[event.process].labels = event.arguments.text_or_empty("labels");
    } else if (event.name == "thread_name") {
        Track& track = track_of(event);
        track.name = event.arguments.text_or_empty("name");
        track.name.erase(track.name.find_last_not_of(' ') + 1);  // older profilers write "stream 7 "
        const std::string_view kind = event.arguments.text_or_empty("kind");
        for (const Kind each : {Kind::calls, Kind::stream, Kind::annotations, Kind::other}) {
            if (kind == to_string(each)) {
                track.track.kind = each;
            }
        }
    }
}

/// PyTorch's profiler names all processes "python"; its labels distinguish "GPU 0" from "CPU".
std::string ChromeTracks::group_of(const ChromeId& id, bool exact) const {
    const auto found = processes_.find(id);
    const Process process = found == processes_.end() ? Process{} : found->second;
    if (exact) {
        return process.name;
    }
    if (process.labels.starts_with("GPU")) {
        for (const auto& [number, name] : devices_) {
            if (process.labels == fmt::format("GPU {}", number)) {
                return fmt::format("{} ({})", process.labels, name);
            }
        }
        return process.labels;
    }
    const std::string number = id.text.empty() ? fmt::format("process {}", id.number) : id.text;
    return process.name.empty() ? number : number + " (" + process.name + ")";
}

void ChromeTracks::finish_track(Track& track, const TrackKey& key, bool exact) {
    for (TraceRange& range : track.track.ranges) {
        if (range.open && !exact) {  // in our export, such a range ends with the trace
            range.end = last_;
        }
    }
    track.track.group = group_of(key.first, exact);
    if (track.name.starts_with("stream ")) {
        track.track.kind = Kind::stream;
    }
    if (track.async) {
        track.track.kind = Kind::other;
        track.track.name = key.second.text;
    } else if (exact) {
        track.track.name = track.name;
    } else if (track.track.kind == Kind::stream) {
        track.track.name = track.name.empty() ? "stream " + to_text(key.second) : track.name;
    } else {
        const std::string number = "thread " + to_text(key.second);
        const bool has_number = track.name.starts_with(number);  // PyTorch's profiler names threads so
        track.track.name = track.name.empty() ? number : has_number ? track.name : number + " (" + track.name + ")";
    }
}

Nanoseconds ChromeTracks::finish(OpenedTrace& trace, bool exact) {
    pair_marks();
    const bool any = first_ <= last_;
    const Nanoseconds moved = exact || !any ? Nanoseconds{0} : first_;
    std::map<TrackKey, const TraceRange*> firsts;  // sorting tracks does not move their ranges in memory
    for (auto& [key, track] : tracks_) {
        finish_track(track, key, exact);
        for (TraceRange& range : track.track.ranges) {
            range.start -= moved;
            range.end -= moved;
            range.event = exact ? 0 : range.event;
        }
        firsts.emplace(key, track.track.ranges.data());
        trace.tracks.push_back(std::move(track.track));
    }
    arrange_tracks(trace, names_);
    if (!exact) {  // in our export, arrows repeat the correlation
        trace.arrows = bind_arrows(trace.tracks, firsts, moved);
    }
    std::vector<decltype(counters_)::value_type*> counters;
    for (auto& each : counters_) {
        counters.push_back(&each);
    }
    std::stable_sort(counters.begin(), counters.end(), [](const auto* a, const auto* b) {
        return std::pair(a->first.first, with_wide_numbers(a->first.second)) <
               std::pair(b->first.first, with_wide_numbers(b->first.second));
    });
    for (auto* each : counters) {
        auto& [key, counter] = *each;
        counter.name = key.second;
        counter.group = exact ? counter.group : group_of(key.first, exact);
        for (CounterTrack::Point& point : counter.points) {
            point.time -= moved;
        }
        std::ranges::stable_sort(counter.points, [](const auto& a, const auto& b) { return a.time < b.time; });
        trace.counters.push_back(std::move(counter));
    }
    trace.names = names_.take();
    trace.facts = facts_.take();
    for (MessageSize& size : message_sizes_) {
        size.start -= moved;
    }
    trace.message_sizes = std::move(message_sizes_);
    const auto warn = [&](std::string text) { trace.diagnostics.push_back({"warning", "import", std::move(text)}); };
    if (left_out_ > 0) {
        warn(fmt::format(
            "{} omitted: without a time or with one that is no number or beyond 2^61 ns, with an end and no start "
            "or before it, with a process or thread that is no number and no text, or of a kind that is not read",
            counted(left_out_, "event was", "events were")));
    }
    if (bad_counters_ > 0) {
        warn(fmt::format("{} omitted: no argument is a number",
                         counted(bad_counters_, "counter event was", "counter events were")));
    }
    if (never_ended_ > 0 && !exact) {
        warn(fmt::format("{} to the end of the trace, since the file does not say when",
                         counted(never_ended_, "range that began and never ended is drawn",
                                 "ranges that began and never ended are drawn")));
    }
    if (other_ends_ > 0) {
        warn(fmt::format("{} no open range, and ended the range that began last",
                         counted(other_ends_, "end names", "ends name")));
    }
    return moved;
}
}  // namespace pipescope
