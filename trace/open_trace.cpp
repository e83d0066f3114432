#include "trace/open_trace.h"

#include "trace/chrome_import.h"
#include "trace/nsys_tables.h"
#include "trace/sqlite_guard.h"
#include "trace/trace_file.h"
#include "trace/trace_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <array>
#include <fstream>
#include <string_view>

namespace pipescope {
namespace {
OpenedTrace read_own(const std::filesystem::path& path, const OpenOptions& options) {
    const TraceReader reader(path);
    OpenedTrace trace = reader.head();
    if (options.tasks) {
        trace.measured = reader.timeline(Source::measured);
        trace.simulated = reader.timeline(Source::simulated);
        trace.memory = reader.memory();
    }
    if (options.tracks) {
        SQLite::Database db = open_to_read(path);
        read_nsys_tables(db, trace);
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

/// Distinguishes JSON from a database by the first bytes, gzipped or not.
bool looks_like_json(const std::filesystem::path& path) {
    std::array<char, 64> head{};
    std::ifstream file(path, std::ios::binary);
    file.read(head.data(), head.size());
    const std::string_view text(head.data(), static_cast<std::size_t>(file.gcount()));
    if (text.starts_with("\x1f\x8b")) {
        return true;  // gzip: nobody compresses a database with it
    }
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
}
}  // namespace

OpenedTrace open_trace(const std::filesystem::path& path, const OpenOptions& options) {
    if (std::filesystem::is_regular_file(path) && looks_like_json(path)) {
        return import_chrome(path);
    }
    require_sqlite_file(path);
    return guard_sqlite("read", path, [&] {
        SQLite::Database db = open_to_read(path);
        if (!db.tableExists("PIPESCOPE_RUN") && has_nsys_tables(db)) {
            return read_nsys(db, options);
        }
        return read_own(path, options);
    });
}
}  // namespace pipescope
