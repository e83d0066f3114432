#include "trace/store/trace_connection.h"

#include "base/quantities.h"
#include "trace/store/foreign_database.h"
#include "trace/store/trace_file.h"
#include "trace/store/trace_schema.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kBusyMilliseconds = 2000;
}  // namespace

TraceConnection::TraceConnection(const std::filesystem::path& target, IfExists if_exists, WriteLog log)
    : path_(create_trace_file(target, if_exists)),
      // The connection has one owner, so it omits SQLite's locks around every bind: they cost a fifth of the write
      // rate.
      db(guard_sqlite("create", path_, [&] {
          return SQLite::Database(sqlite_name(path_), SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX);
      })) {
    guard_sqlite("create", path_, [&] {
        db.setBusyTimeout(kBusyMilliseconds);
        // Checkpoints a log of 8,000 pages (32 MB) at once, so that each page is copied about once.
        db.exec(log == WriteLog::on_disk
                    ? "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=8000"
                    : "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16000");
        statements.emplace(db);
    });
}

void TraceConnection::begin() const {
    if (closed_) {
        throw TraceError("trace " + quoted(path_) + " is closed; nothing can be added; open another one");
    }
    if (broken_) {
        throw TraceError(loss_ + "; nothing more is written to it");
    }
}

void TraceConnection::commit() {
    if (!in_transaction_) {
        return;
    }
    try {
        guard_sqlite("write", path_, [&] { db.exec("COMMIT"); });
    } catch (const TraceError& error) {
        note_loss(error.what());
        throw;
    }
    in_transaction_ = false;
    rows_in_transaction_ = 0;
}

void TraceConnection::note_loss(const std::string& what) {
    loss_ = loss_.empty() ? what : loss_;
    lost_rows_ += std::max<std::int64_t>(rows_in_transaction_, 1);
    rows_in_transaction_ = 0;
    if (in_transaction_) {
        broken_ = true;
        in_transaction_ = false;
        db.tryExec("ROLLBACK");  // fails if SQLite has already rolled back
    }
}

std::int64_t TraceConnection::intern(std::string_view text) {
    const auto found = strings_.find(text);
    if (found != strings_.end()) {
        return found->second;
    }
    const auto id = static_cast<std::int64_t>(strings_.size());
    const auto inserted = strings_.emplace(text, id).first;
    statements->insert("StringIds (id, value)", id, inserted->first);
    return id;
}

void TraceConnection::set_run(std::string_view key, const std::string& json) {
    SQLite::Statement statement(db, "INSERT OR REPLACE INTO PIPESCOPE_RUN (key, value) VALUES (?,?)");
    run(statement, std::string(key), json);
}

// Records the loss in PIPESCOPE_DROPS, so that tools that compute idle time can refuse the trace.
void TraceConnection::write_loss() {
    SQLite::Statement drop(db, "INSERT OR REPLACE INTO PIPESCOPE_DROPS VALUES ('trace', 0, 0, ?, 0, 0)");
    run(drop, lost_rows_);
    statements->insert("PIPESCOPE_DIAGNOSTIC", "warning", "trace",
                       fmt::format("at least {} could not be written: {}", counted(lost_rows_, "row", "rows"), loss_));
}

void TraceConnection::close() {
    if (closed_) {
        return;
    }
    const bool was_broken = broken_;
    broken_ = false;  // the end is still written, if there is space
    try {
        write([&] {
            if (lost_rows_ > 0) {
                write_loss();
            }
            db.exec(finish_tables_sql());
            set_run("closed", "true");
        });
        commit();
    } catch (const TraceError&) {
        if (!was_broken) {
            throw;
        }
    }
    closed_ = true;
    statements.reset();
    guard_sqlite("write", path_, [&] { make_plain_file(db); });
    if (was_broken) {
        throw TraceError(fmt::format("the trace is incomplete, at least {} missing: {}",
                                     counted(lost_rows_, "row is", "rows are"), loss_));
    }
}
}  // namespace pipescope
