#include "trace/open_trace.h"

#include "base/quantities.h"
#include "trace/foreign/chrome_import.h"
#include "trace/foreign/task_recognition.h"
#include "trace/store/nsys_tables.h"
#include "trace/store/sqlite_guard.h"
#include "trace/store/trace_file.h"
#include "trace/store/trace_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace pipescope {
namespace {
OpenedTrace read_own(const TraceReader& reader, const OpenOptions& options) {
    OpenedTrace trace = reader.head();
    trace.measured = reader.timeline(Source::measured);
    trace.simulated = reader.timeline(Source::simulated);
    trace.memory = reader.memory();
    if (options.tracks) {
        reader.read_tracks(trace);
    }
    return trace;
}

OpenedTrace read_nsys(SQLite::Database& db, const OpenOptions& options) {
    OpenedTrace trace;
    trace.origin = TraceOrigin::nsys;
    read_nsys_tasks(db, trace);
    if (options.tracks || (options.find_tasks && !trace.has_tasks())) {
        read_nsys_tables(db, trace);
    }
    return trace;
}

/// A file of another program, with the tasks that the rules find.
OpenedTrace with_tasks(OpenedTrace trace, const OpenOptions& options) {
    if (is_of_another_program(trace.origin) && options.find_tasks) {
        add_recognized_tasks(trace, options.rules ? *options.rules : TaskRules());
        if (!options.tracks) {
            trace.tracks.clear();
        }
    }
    return trace;
}

}  // namespace

OpenedTrace open_trace(const std::filesystem::path& path, const OpenOptions& options) {
    if (looks_like_json(path)) {
        return with_tasks(import_chrome(path, options.progress), options);
    }
    if (const std::optional<TraceReader> reader = TraceReader::open(path)) {
        return guard_sqlite("read", path, [&] { return read_own(*reader, options); });
    }
    return guard_sqlite("read", path, [&] {
        ForeignDatabase db = open_to_read(path);
        return with_tasks(read_nsys(db, options), options);
    });
}

std::string missing_content(const OpenedTrace& trace) {
    const bool has_range =
        std::ranges::any_of(trace.tracks, [](const RangeTrack& track) { return !track.ranges.empty(); });
    if (trace.origin == TraceOrigin::profile || trace.has_tasks() || has_range) {
        return {};
    }
    std::string text = trace.counters.empty() ? "it holds no task and no range"
                                              : fmt::format("it holds {}, but no task and no range",
                                                            counted(trace.counters.size(), "counter", "counters"));
    for (const DiagnosticRecord& diagnostic : trace.diagnostics) {
        text += diagnostic.source == "import" ? fmt::format(" ({})", diagnostic.text) : "";
    }
    text += "; a timeline shows tasks and ranges; ";
    switch (trace.origin) {
        case TraceOrigin::nsys: return text + "record them with 'nsys profile --trace=cuda,nvtx'";
        case TraceOrigin::kineto:
            return text + "profile a part of the program that computes, such as a whole training step";
        case TraceOrigin::chrome:
            return text + "record ranges too: events of phase X, or B and E, with a numeric \"ts\" in us";
        default: return text + "record a run with 'pipescope run --trace'";
    }
}
}  // namespace pipescope
