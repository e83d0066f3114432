#include "trace/device_work.h"
#include "trace/opened_trace.h"
#include "trace/sqlite_guard.h"
#include "trace/trace_file.h"
#include "trace/trace_migration.h"
#include "trace/trace_reader.h"
#include "trace/trace_schema.h"

#include <sqlite3.h>

namespace pipescope {
namespace {
bool was_closed(SQLite::Database& db) {
    SQLite::Statement query(db, "SELECT 1 FROM PIPESCOPE_RUN WHERE key = 'closed'");
    return query.executeStep();
}

std::int64_t count(SQLite::Database& db, const std::string& table) {
    return db.execAndGet("SELECT count(*) FROM " + table).getInt64();
}

void require_integrity(SQLite::Database& db, const std::filesystem::path& path) {
    const std::string verdict = db.execAndGet("PRAGMA integrity_check(1)").getString();
    if (verdict != "ok") {
        throw TraceFormatError("trace " + quoted(path) + " is damaged: " + verdict +
                               "; what was recorded cannot be trusted; record it again");
    }
}

/// Merging the write-ahead log needs exclusive access, so this fails while a writer has the file open.
void leave_wal_mode(SQLite::Database& db, const std::filesystem::path& path) {
    try {
        db.exec("PRAGMA journal_mode=DELETE");
    } catch (const SQLite::Exception& error) {
        if (error.getErrorCode() != SQLITE_BUSY && error.getErrorCode() != SQLITE_LOCKED) {
            throw;
        }
        throw TraceError("cannot recover trace " + quoted(path) +
                         ": another process has it open, so it may still be recording; wait until that one ends");
    }
}
}  // namespace

Recovery recover_trace(const std::filesystem::path& path) {
    require_sqlite_file(path);
    return guard_sqlite("recover", path, [&] {
        SQLite::Database db(path, SQLite::OPEN_READWRITE);
        Recovery recovery;
        recovery.from_version = require_trace_format(db, path);
        recovery.was_open = !was_closed(db);
        if (recovery.was_open) {
            require_integrity(db, path);
            leave_wal_mode(db, path);
            migrate_to_current(db, recovery.from_version);
            db.exec("BEGIN");
            db.exec(finish_tables_sql());
            attribute_device_work(db);
            db.exec("INSERT INTO PIPESCOPE_DIAGNOSTIC VALUES ('warning', 'trace', '" + std::string(kCutOff) +
                    "; what had not been written by then is missing, and dropped ranges may be uncounted')");
            db.exec("INSERT INTO PIPESCOPE_RUN VALUES ('closed', 'true')");
            db.exec("COMMIT");
        } else if (migrate_to_current(db, recovery.from_version)) {
            leave_wal_mode(db, path);
        } else if (std::filesystem::exists(beside(path, "-wal"))) {
            leave_wal_mode(db, path);  // closed while a reader had it open
        }
        recovery.tasks = count(db, "PIPESCOPE_TASK");
        recovery.steps = count(db, "PIPESCOPE_STEP");
        const auto number = [&](const char* sql) { return db.execAndGet(sql).getInt64(); };
        recovery.ranges = number("SELECT count(*) FROM NVTX_EVENTS WHERE eventType IN (34, 59, 60)");
        recovery.recorded_until_ns =
            number("SELECT coalesce(max(max(start), coalesce(max(end), 0)), 0) FROM NVTX_EVENTS");
        recovery.dropped = number("SELECT coalesce(sum(dropped), 0) FROM PIPESCOPE_DROPS");
        recovery.clock_drift_ns =
            number("SELECT coalesce(max(realtime - monotonic) - min(realtime - monotonic), 0) FROM PIPESCOPE_CLOCK");
        return recovery;
    });
}
}  // namespace pipescope
