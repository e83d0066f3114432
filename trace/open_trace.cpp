#include "trace/open_trace.h"

#include "trace/chrome_import.h"
#include "trace/nsys_tables.h"
#include "trace/sqlite_guard.h"
#include "trace/trace_file.h"
#include "trace/trace_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>

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
    if (options.tracks) {
        read_nsys_tables(db, trace);
    }
    return trace;
}

}  // namespace

OpenedTrace open_trace(const std::filesystem::path& path, const OpenOptions& options) {
    if (looks_like_json(path)) {
        return import_chrome(path);
    }
    if (const std::optional<TraceReader> reader = TraceReader::open(path)) {
        return guard_sqlite("read", path, [&] { return read_own(*reader, options); });
    }
    return guard_sqlite("read", path, [&] {
        SQLite::Database db = open_to_read(path);
        return read_nsys(db, options);
    });
}
}  // namespace pipescope
