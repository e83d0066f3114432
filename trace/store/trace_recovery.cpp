#include "trace/store/device_work.h"
#include "trace/store/opened_trace.h"
#include "trace/store/sqlite_guard.h"
#include "trace/store/trace_file.h"
#include "trace/store/trace_migration.h"
#include "trace/store/trace_parts.h"
#include "trace/store/trace_reader.h"
#include "trace/store/trace_schema.h"

#include <sqlite3.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

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
/// The first bytes of a regular file, filled up with zeros.
template <std::size_t Size>
std::array<unsigned char, Size> first_bytes(const std::filesystem::path& path) {
    std::array<unsigned char, Size> bytes{};
    if (std::error_code ignored; !std::filesystem::is_regular_file(path, ignored)) {
        return bytes;  // opening a pipe would wait for its writer
    }
    std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(bytes.data()), Size);
    return bytes;
}

/// Describes what is wrong with the write-ahead log; empty if it is sound. Compares it with the file that uses it, and
/// with its index, the -shm file, if the index belongs to this log. Source: the file formats in
/// sqlite.org/fileformat2.html and walformat.html.
std::string log_trouble_of(const std::filesystem::path& path) {
    constexpr std::uintmax_t kLogHeader = 32;
    constexpr std::uintmax_t kFrameHeader = 24;
    const auto header = first_bytes<20>(path);
    if (header[19] != 2) {
        return "";  // it has no write-ahead log
    }
    std::error_code error;
    const std::filesystem::path log = beside(path, "-wal");
    const std::uintmax_t size = std::filesystem::file_size(log, error);
    if (error) {
        return "its -wal file is missing";
    }
    if (size == 0) {
        return "its -wal file is empty";  // a program that reads the file creates an empty log
    }
    const std::uintmax_t page = header[16] * 256U + header[17];
    const std::uintmax_t frame = kFrameHeader + (page == 1 ? 65536 : page);
    const std::uintmax_t frames = size < kLogHeader ? 0 : (size - kLogHeader) / frame;
    const auto log_header = first_bytes<kLogHeader>(log);
    const auto index = first_bytes<40>(beside(path, "-shm"));
    constexpr std::size_t kSalt = 16;
    constexpr std::size_t kIndexSalt = 32;
    std::uint32_t committed = 0;
    std::memcpy(&committed, &index[16], sizeof(committed));
    const bool is_indexed = size >= kLogHeader && std::memcmp(&log_header[kSalt], &index[kIndexSalt], 8) == 0;
    const bool is_cut = is_indexed ? frames < committed : size < kLogHeader || (size - kLogHeader) % frame != 0;
    return is_cut ? "its -wal file is cut off" : "";
}

/// Checks the file alone: opening it with the log would merge the log into the file.
void require_closed(const std::filesystem::path& path, const std::string& log_trouble) {
    std::string uri = "file:";
    for (const char c : std::filesystem::absolute(path).string()) {
        uri += c == '?' ? "%3f" : c == '#' ? "%23" : c == '%' ? "%25" : std::string(1, c);
    }
    guard_sqlite("recover", path, [&] {
        ForeignDatabase db(uri + "?immutable=1", SQLite::OPEN_READONLY | SQLite::OPEN_URI);
        require_plain_tables(db);
        require_trace_format(db, path);
        if (!was_closed(db)) {
            throw TraceError("trace " + quoted(path) + " was not closed, and " + log_trouble +
                             ": that file holds what the run wrote last, perhaps most of it; put it back next to the "
                             "trace, or close the trace for good with what is left (--without-wal)");
        }
    });
}
}  // namespace

Recovery recover_trace(const std::filesystem::path& path, IncompleteLog incomplete) {
    require_sqlite_file(path);
    const std::string log_trouble = log_trouble_of(path);
    if (!log_trouble.empty() && incomplete == IncompleteLog::refuse) {
        require_closed(path, log_trouble);
    }
    return guard_sqlite("recover", path, [&] {
        ForeignDatabase db(path, SQLite::OPEN_READWRITE);
        require_plain_tables(db);
        Recovery recovery;
        recovery.from_version = require_trace_format(db, path);
        recovery.was_open = !was_closed(db);
        if (recovery.was_open) {
            recovery.log_trouble = log_trouble;
            require_integrity(db, path);
            leave_wal_mode(db, path);
            migrate_to_current(db, recovery.from_version);
            db.exec("BEGIN");
            db.exec(finish_tables_sql());
            attribute_device_work(db);
            db.exec("INSERT INTO PIPESCOPE_DIAGNOSTIC VALUES ('warning', 'trace', '" + std::string(kCutOff) +
                    "; what had not been written by then is missing, and dropped ranges may be uncounted" +
                    (log_trouble.empty() ? "" : "; " + log_trouble + ", so more may be missing") + "')");
            db.exec("INSERT INTO PIPESCOPE_RUN VALUES ('closed', 'true')");
            db.exec("COMMIT");
        } else if (migrate_to_current(db, recovery.from_version)) {
            leave_wal_mode(db, path);
        } else if (std::filesystem::exists(beside(path, "-wal"))) {
            leave_wal_mode(db, path);  // the trace was closed while a reader had it open
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
