#pragma once

#include "trace/store/lane_work.h"
#include "trace/store/trace_records.h"
#include "trace/store/work_facts.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// Type of a file, by its content.
enum class TraceOrigin {
    pipescope,         ///< PipeScope's trace, an SQLite file
    pipescope_chrome,  ///< from `pipescope export --format chrome`
    nsys,              ///< an SQLite export of Nsight Systems
    kineto,            ///< JSON of PyTorch's profiler
    chrome,            ///< any other Chrome trace
    profile,           ///< not a trace but a profile file
};
/// The type as in messages, such as "an export of nsys".
std::string_view to_string(TraceOrigin origin);
/// True for a trace that another program recorded.
bool is_of_another_program(TraceOrigin origin);

/// A named time range on a thread or stream: an NVTX range, a call, a kernel, a copy.
struct TraceRange {
    Nanoseconds start{0};
    Nanoseconds end{0};             ///< the end of the trace if `open`
    std::uint32_t name = 0;         ///< index into OpenedTrace::names
    std::uint32_t category = 0;     ///< index into OpenedTrace::names: the NVTX domain, "kernel", "memcpy", "cuda_api"
    std::uint32_t correlation = 0;  ///< equal for a kernel and the call that launched it; 0: none
    std::uint32_t facts = 0;        ///< of a kernel, copy or fill: index into OpenedTrace::facts; 0: none
    std::uint32_t event = 0;        ///< its event in a Chrome trace, counted from 1 (event_of_chrome()); 0: none
    std::uint16_t row = 0;          ///< within the track, from 0; see RangeTrack
    std::uint16_t file = 0;         ///< the file of `event` in a joined trace: index into OpenedTrace::event_files
    bool open = false;              ///< never ended
    bool is_task = false;           ///< also a slice of a timeline

    Nanoseconds duration() const { return end - start; }
    friend bool operator==(const TraceRange&, const TraceRange&) = default;
};

/// The ranges of one thread or stream. A range inside another has a greater row, so the row of nested ranges is their
/// depth. Ranges of one row never overlap, except in the last of kMostRows rows, which takes all deeper ranges.
struct RangeTrack {
    enum class Kind {
        thread,
        calls,
        stream,       ///< kernels, copies and fills
        annotations,  ///< beside a stream: host ranges, from their first work there to their last, and waits
        other,
    };
    static constexpr std::uint16_t kMostRows = 256;

    Kind kind = Kind::thread;
    std::string group;  ///< "process 17 (python)", "GPU 0 (NVIDIA H200)": shown together
    std::string name;   ///< "thread 18 (main)", "stream 7", "stream 7, annotations"
    std::uint16_t rows = 0;
    std::vector<TraceRange> ranges;  ///< by start, longer ones first
    std::int64_t process = 0;        ///< the owner's process id; 0: unknown

    friend bool operator==(const RangeTrack&, const RangeTrack&) = default;
};
std::string_view to_string(RangeTrack::Kind kind);
/// True for streams and their annotations.
bool is_of_device(RangeTrack::Kind kind);

/// A quantity over time. Each value holds until the next point.
struct CounterTrack {
    struct Point {
        Nanoseconds time{0};
        double value = 0;
        friend bool operator==(const Point&, const Point&) = default;
    };
    std::string name;
    std::vector<Point> points;  ///< by time
    std::string group = {};     ///< as in tracks of the process or device; empty: for the whole trace

    friend bool operator==(const CounterTrack&, const CounterTrack&) = default;
};

/// An arrow between two ranges, such as from sending an event to receiving it.
struct RangeArrow {
    struct End {
        std::uint32_t track = 0;  ///< index into OpenedTrace::tracks
        std::uint32_t range = 0;  ///< index into its ranges
        friend auto operator<=>(const End&, const End&) = default;
    };
    End from;
    End to;

    friend auto operator<=>(const RangeArrow&, const RangeArrow&) = default;
};

/// A range of another program that is a task of its pipeline. The task's times may differ from the range's: they may
/// come from a device, or exclude waits for messages.
struct RecognisedRange {
    RangeArrow::End range;
    TaskKey task;

    friend bool operator==(const RecognisedRange&, const RecognisedRange&) = default;
};

/// The rank that recorded another program's file, according to the file.
struct RecordingRank {
    int rank = 0;
    int size = 1;                    ///< ranks of the whole run
    int pipeline_position = 0;       ///< among the ranks of its pipeline; the rank itself if the file does not say
    std::vector<int> pipeline = {};  ///< the ranks of its pipeline; empty if the file does not say
    bool has_nccl = false;           ///< its backend is NCCL alone, so it computes on a GPU

    friend bool operator==(const RecordingRank&, const RecordingRank&) = default;
};

/// Bytes of the message that a range sends or receives.
struct MessageSize {
    Nanoseconds start{0};    ///< of the range
    std::uint32_t name = 0;  ///< of the range
    Bytes bytes = 0;
    std::int64_t samples = 0;  ///< the tensor's first dimension, along which pipelines cut batches; 0: unknown

    friend bool operator==(const MessageSize&, const MessageSize&) = default;
};

/// Number of lost records, by cause.
struct LostRecords {
    std::int64_t ranges = 0;          ///< lost to full rings; all sources except the two below
    std::int64_t device_records = 0;  ///< lost by CUPTI for lack of buffers
    std::int64_t rows = 0;            ///< could not be written to the file

    bool any() const { return ranges > 0 || device_records > 0 || rows > 0; }
};
LostRecords lost_records(const std::vector<DropRecord>& drops);
/// Key of OpenedTrace::run: {"samples": 32, "others": [{"samples": 20, "steps": [7]}]}, samples of a micro-batch of
/// another program's run. `others` names the steps with another number, or with null if micro-batches differ within
/// these steps. The first number is null if they differ within all steps.
inline constexpr std::string_view kMicroBatchKey = "micro_batch";
/// Key of OpenedTrace::run: {"ranks": [0, 1]}, the ranks whose ranges only launch tasks, whose own times are unknown.
inline constexpr std::string_view kLaunchesKey = "only_launches";
/// Key of OpenedTrace::run: {"lanes": [{"lane": 0, "busy_ns": 9000, "unattributed_ns": 90}]}, the time in which the
/// lane's device worked while the shown steps ran, and the part that belongs to no task, message, collective, optimizer
/// or loading of data.
inline constexpr std::string_view kDeviceTimeKey = "device_time";
/// The entry of OpenedTrace::run that says by how much messages between ranks arrive before they were sent, at most.
inline constexpr std::string_view kEarlyMessagesKey = "early_messages";
/// Key of OpenedTrace::run: {"ranks": [1], "size": 2}, the ranks of another program's run that the trace lacks although
/// its tasks wait for theirs, as far as is known. `size` is 0 if the ranks are unknown.
inline constexpr std::string_view kMissingRanksKey = "missing_ranks";
/// Key of OpenedTrace::run: {"lower_bound_ns": 25000}, facts that a simulation's tasks do not show.
inline constexpr std::string_view kSimulationKey = "simulation";
/// How recover_trace()'s diagnostic begins.
inline constexpr std::string_view kCutOff = "the recording was cut off before it was closed";
/// True if a PipeScope recording was not closed properly: it is still running, or it was killed, even if it was
/// recovered since. Only its steps with a StepRecord are known to be complete. False for traces of other programs.
bool recording_cut_off(const std::map<std::string, std::string>& run, const std::vector<DiagnosticRecord>& diagnostics);

/// A trace in memory, read from any type of file. Missing facts are empty. Times are in ns since the start of the
/// recording; simulated times since the start of the simulated step. A value; holds no open file.
struct OpenedTrace {
    TraceOrigin origin = TraceOrigin::pipescope;

    // Slices of the schedule's tasks. Only a trace with tasks can be compared with a simulation.
    Timeline measured{Source::measured, {}, {}};
    Timeline simulated{Source::simulated, {}, {}};
    std::vector<StepRecord> steps;
    std::vector<MemorySample> memory;
    std::map<std::string, std::string> run;  ///< PIPESCOPE_RUN, values as JSON text
    std::optional<std::string> profile_json;

    // Other activity of the process and its devices.
    std::vector<RangeTrack> tracks;  ///< by group, threads before streams
    std::vector<CounterTrack> counters;
    std::vector<RangeArrow> arrows;            ///< those listed in a file, besides equal correlations
    std::vector<RecognisedRange> task_ranges;  ///< of tasks that were recognised
    std::vector<TaskOnDevice> on_device;       ///< of another program's tasks, if their times are a device's
    std::vector<LaneWork> lane_work;           ///< joined_work(); only beside on_device
    std::vector<std::string> event_files;      ///< of a joined trace: the Chrome traces with its ranges' events
    std::vector<std::string> names;            ///< texts of the ranges; [0] is empty
    std::vector<WorkFacts> facts = std::vector<WorkFacts>(1);  ///< of device work; [0]: nothing is known
    std::optional<RecordingRank> rank;                         ///< of another program
    std::vector<MessageSize> message_sizes;

    // Reliability of the trace.
    std::vector<DropRecord> drops;
    std::vector<DiagnosticRecord> diagnostics;  ///< the file's, plus a list of unreadable parts
    std::vector<ClockRecord> clocks;
    std::vector<OverheadRecord> overheads;
    std::optional<std::int64_t> utc_epoch_ns;  ///< wall clock at time 0
    Nanoseconds first_time{0};                 ///< the value of time 0 in a Chrome trace

    const Timeline& timeline(Source source) const { return source == Source::measured ? measured : simulated; }
    bool has_tasks() const { return !measured.slices.empty() || !simulated.slices.empty(); }
    bool cut_off() const { return recording_cut_off(run, diagnostics); }
    /// Number of lost records of any kind. If not zero, figures about idle time are wrong.
    std::int64_t dropped() const;
};
}  // namespace pipescope
