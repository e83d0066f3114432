#pragma once

#include "trace/foreign/chrome_json.h"
#include "trace/store/opened_trace.h"
#include "trace/store/range_tracks.h"

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace pipescope {
/// The GPU's name in a track's group: "NVIDIA H200" for "GPU 0 (NVIDIA H200)". Empty for other groups.
std::string gpu_name(std::string_view group);

/// Collects the events of a Chrome trace into tracks and counters.
class ChromeTracks {
public:
    void add(const ChromeEvent& event);
    /// Names of GPUs by number, which become part of their groups: "GPU 0 (NVIDIA H200)".
    void set_devices(std::map<std::int64_t, std::string> names) { devices_ = std::move(names); }
    /// Moves everything into the trace. Unless `exact`, shifts times so that the first is 0; returns the shift.
    Nanoseconds finish(OpenedTrace& trace, bool exact);

private:
    using TrackKey = std::pair<ChromeId, ChromeId>;
    struct Track;
    /// The begin or end of a range. Events may come out of order, so begins and ends are paired at the end.
    struct Mark {
        Nanoseconds time{0};
        Track* track = nullptr;  // where the range begins; null: a range ends
        std::size_t range = 0;   // the range's index; for an end: the number of its name, 0 without a name
    };
    struct Track {
        RangeTrack track;
        std::string name;         // as in the file
        std::vector<Mark> marks;  // in the file's order
        bool async = false;
    };
    /// One end of an arrow. It belongs to the range of an event, to the range around it, or to the next range of its
    /// track.
    struct ArrowPoint {
        Nanoseconds time{0};
        char phase = 's';  // starts, goes on (t), finishes (f), or ends there though others may follow (e)
        TrackKey track;
        bool next = false;
        std::uint32_t event = 0;  // as TraceRange::event; 0: find the range by time
    };
    struct Process {
        std::string name;
        std::string labels;
    };
    Track& track_of(const ChromeEvent& event);
    static TrackKey async_key_of(const ChromeEvent& event);
    Track& async_track_of(const ChromeEvent& event);
    TraceRange& add_range(Track& track, const ChromeEvent& event);
    void add_complete(const ChromeEvent& event);
    void add_begin(Track& track, std::vector<Mark>& marks, const ChromeEvent& event);
    void add_end(std::vector<Mark>& marks, const ChromeEvent& event);
    void pair_marks();
    void pair_marks(std::vector<Mark>& marks);
    void add_message_size(const ChromeEvent& event, const TraceRange& range);
    std::vector<Mark>& async_marks_of(const ChromeEvent& event) { return async_[{event.category, event.id}]; }
    void add_instant(const ChromeEvent& event);
    void add_counter(const ChromeEvent& event);
    void add_memory(const ChromeEvent& event);
    void add_point(const std::string& counter, const ChromeEvent& event, double value);
    void add_arrow_point(const ChromeEvent& event);
    /// For an event whose range is the last added to the track, unless the range was left out.
    void add_bound_arrow(const TrackKey& key, const ChromeEvent& event);
    /// `places` gives the index of each track by its first range.
    std::vector<RangeArrow> bind_arrows(const std::vector<RangeTrack>& tracks,
                                        const std::map<TrackKey, const TraceRange*>& firsts, Nanoseconds moved);
    void set_name(const ChromeEvent& event);
    std::string group_of(const ChromeId& process, bool exact) const;
    void finish_track(Track& track, const TrackKey& key, bool exact);

    std::map<TrackKey, Track> tracks_;
    std::map<TrackKey, Track>::iterator last_used_ = tracks_.end();  // successive events often belong to one thread
    std::map<std::pair<std::string, std::string>, std::vector<Mark>> async_;  // by category and id
    std::map<ChromeId, Process> processes_;
    std::map<std::int64_t, std::string> devices_;
    std::map<std::pair<ChromeId, std::string>, CounterTrack> counters_;  // by process
    // By category, name and id, in the file's order.
    std::map<std::tuple<std::string, std::string, std::string>, std::vector<ArrowPoint>> arrows_;
    std::map<std::string, std::vector<ArrowPoint>> bound_arrows_;  // by bind_id
    NameTable names_;
    FactTable facts_;
    std::vector<MessageSize> message_sizes_;
    Nanoseconds first_ = Nanoseconds::max();
    Nanoseconds last_ = Nanoseconds::min();
    std::size_t left_out_ = 0;
    std::size_t never_ended_ = 0;   // ranges without an end
    std::size_t other_ends_ = 0;    // ends that name no open range, and close another one
    std::size_t bad_counters_ = 0;  // counter events without a number
};
}  // namespace pipescope
