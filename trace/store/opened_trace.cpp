#include "trace/store/opened_trace.h"

#include <algorithm>

namespace pipescope {
std::string_view to_string(TraceOrigin origin) {
    switch (origin) {
        case TraceOrigin::pipescope: return "a PipeScope trace";
        case TraceOrigin::pipescope_chrome: return "a Chrome export of a PipeScope trace";
        case TraceOrigin::nsys: return "an export of nsys";
        case TraceOrigin::kineto: return "a trace of PyTorch's profiler";
        case TraceOrigin::chrome: return "a Chrome trace";
        case TraceOrigin::profile: return "a profile";
    }
    return "unknown";
}

bool is_of_another_program(TraceOrigin origin) {
    return origin == TraceOrigin::nsys || origin == TraceOrigin::kineto || origin == TraceOrigin::chrome;
}

std::string_view to_string(RangeTrack::Kind kind) {
    switch (kind) {
        case RangeTrack::Kind::thread: return "thread";
        case RangeTrack::Kind::calls: return "calls";
        case RangeTrack::Kind::stream: return "stream";
        case RangeTrack::Kind::annotations: return "annotations";
        case RangeTrack::Kind::other: return "other";
    }
    return "other";
}

bool is_of_device(RangeTrack::Kind kind) {
    return kind == RangeTrack::Kind::stream || kind == RangeTrack::Kind::annotations;
}

LostRecords lost_records(const std::vector<DropRecord>& drops) {
    LostRecords lost;
    for (const DropRecord& drop : drops) {
        (drop.source == "cupti"   ? lost.device_records
         : drop.source == "trace" ? lost.rows
                                  : lost.ranges) += std::max<std::int64_t>(drop.dropped, 0);
    }
    return lost;
}

bool recording_cut_off(const std::map<std::string, std::string>& run,
                       const std::vector<DiagnosticRecord>& diagnostics) {
    if (!run.contains("format")) {
        return false;
    }
    return !run.contains("closed") || std::ranges::any_of(diagnostics, [](const DiagnosticRecord& diagnostic) {
        return diagnostic.source == "trace" && diagnostic.text.starts_with(kCutOff);
    });
}

std::int64_t OpenedTrace::dropped() const {
    std::int64_t total = 0;
    for (const DropRecord& drop : drops) {
        total += drop.dropped;
    }
    return total;
}
}  // namespace pipescope
