#pragma once

#include "trace/trace_records.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// What kind of file it was, told by its content.
enum class TraceOrigin {
    pipescope,         ///< our own trace, an SQLite file
    pipescope_chrome,  ///< what `pipescope export --format chrome` made of one
    nsys,              ///< an SQLite export of Nsight Systems
    kineto,            ///< JSON of PyTorch's profiler
    chrome,            ///< any other Chrome trace
    profile,           ///< no trace: a profile file
};
/// "an export of nsys", as it stands in messages.
std::string_view to_string(TraceOrigin origin);

/// A named piece of time on a thread or a stream: an NVTX range, a call, a kernel, a copy.
struct TraceRange {
    Nanoseconds start{0};
    Nanoseconds end{0};             ///< the end of the trace where `open`
    std::uint32_t name = 0;         ///< index into OpenedTrace::names
    std::uint32_t category = 0;     ///< index into OpenedTrace::names: the NVTX domain, "kernel", "memcpy", "cuda_api"
    std::uint32_t correlation = 0;  ///< the same number on a kernel and on the call that launched it; 0: none
    std::uint16_t row = 0;          ///< within the track, from 0; see RangeTrack
    bool open = false;              ///< it never ended
    bool is_task = false;           ///< it is a slice of a timeline too

    Nanoseconds duration() const { return end - start; }
    friend bool operator==(const TraceRange&, const TraceRange&) = default;
};

/// One thread's or one stream's ranges. A range that lies inside another one has a greater row, so that for nested
/// ranges the row is the depth; ranges of one row never overlap (up to kMostRows rows, the last holds what is left).
struct RangeTrack {
    enum class Kind { thread, calls, stream, other };
    static constexpr std::uint16_t kMostRows = 256;

    Kind kind = Kind::thread;
    std::string group;  ///< "process 17 (python)", "GPU 0 (NVIDIA H200)": tracks of one group stand together
    std::string name;   ///< "thread 18 (main)", "stream 7"
    std::uint16_t rows = 0;
    std::vector<TraceRange> ranges;  ///< by start, the longer first

    friend bool operator==(const RangeTrack&, const RangeTrack&) = default;
};
std::string_view to_string(RangeTrack::Kind kind);

/// A quantity over time; each point holds until the next.
struct CounterTrack {
    struct Point {
        Nanoseconds time{0};
        double value = 0;
        friend bool operator==(const Point&, const Point&) = default;
    };
    std::string name;
    std::vector<Point> points;  ///< by time

    friend bool operator==(const CounterTrack&, const CounterTrack&) = default;
};

/// What is missing of a recording, by what lost it.
struct LostRecords {
    std::int64_t ranges = 0;          ///< full rings; of all sources but the two below
    std::int64_t device_records = 0;  ///< CUPTI's, for want of buffers
    std::int64_t rows = 0;            ///< that could not be written into the file

    bool any() const { return ranges > 0 || device_records > 0 || rows > 0; }
};
LostRecords lost_records(const std::vector<DropRecord>& drops);
/// Whether a recording of PipeScope's was not closed by itself: it runs still, or was killed (and maybe recovered
/// since). Of its steps only those that have a StepRecord are known to be whole. False for other programs' traces. How
/// recover_trace()'s diagnostic begins.
inline constexpr std::string_view kCutOff = "the recording was cut off before it was closed";
bool recording_cut_off(const std::map<std::string, std::string>& run, const std::vector<DiagnosticRecord>& diagnostics);

/// A trace in memory, whatever file it came from. What the file does not tell is empty. Times are ns since the start of
/// the recording, simulated ones since the start of the simulated step. A value; it holds no file open.
struct OpenedTrace {
    TraceOrigin origin = TraceOrigin::pipescope;

    // What ran: slices of the schedule's tasks. Only such a trace can be compared with a simulation.
    Timeline measured{Source::measured, {}, {}};
    Timeline simulated{Source::simulated, {}, {}};
    std::vector<StepRecord> steps;
    std::vector<MemorySample> memory;
    std::map<std::string, std::string> run;  ///< PIPESCOPE_RUN, values as JSON text
    std::optional<std::string> profile_json;

    // What else the process and its devices did.
    std::vector<RangeTrack> tracks;  ///< by group, threads before streams
    std::vector<CounterTrack> counters;
    std::vector<std::string> names;  ///< texts of the ranges; [0] is empty

    // How far it can be trusted.
    std::vector<DropRecord> drops;
    std::vector<DiagnosticRecord> diagnostics;  ///< the file's own, and what reading it had to leave out
    std::vector<ClockRecord> clocks;
    std::vector<OverheadRecord> overheads;
    std::optional<std::int64_t> utc_epoch_ns;  ///< wall clock at time 0

    const Timeline& timeline(Source source) const { return source == Source::measured ? measured : simulated; }
    bool has_tasks() const { return !measured.slices.empty() || !simulated.slices.empty(); }
    bool cut_off() const { return recording_cut_off(run, diagnostics); }
    /// Records of any kind that were lost. Not zero: figures about idle time are wrong.
    std::int64_t dropped() const;
};
}  // namespace pipescope
