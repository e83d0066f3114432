#pragma once

#include "trace/sqlite_guard.h"
#include "trace/trace_records.h"
#include "trace/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace pipescope {
/// Executes the statement and resets it, also after a failure. SQLite refuses to bind a statement that is not reset,
/// and that second error would hide the first.
void run_once(SQLite::Statement& statement);

/// The file of a TraceWriter: its transaction, its string table, and the count of rows that could not be written.
/// Threading and errors: those of TraceWriter.
class TraceConnection {
public:
    TraceConnection(const std::filesystem::path& target, IfExists if_exists);

    /// All changes go through here. Opens the transaction and translates SQLite's errors.
    template <class Change>
    auto write(Change&& change) {
        begin();
        try {
            return guard_sqlite("write", path_, [&] {
                if (!in_transaction_) {
                    db.exec("BEGIN IMMEDIATE");  // detects another writer before any row is accepted
                    in_transaction_ = true;
                }
                ++rows_in_transaction_;
                return change();
            });
        } catch (const TraceError& error) {
            note_loss(error.what());
            throw;
        }
    }
    void commit();
    void close();

    // The functions below must be called inside a change.

    /// Number of a text in StringIds. Adds the text if it is new.
    std::int64_t intern(std::string_view text);
    void set_run(std::string_view key, const std::string& json);

    /// Prepared statements of the frequently written tables.
    struct Statements {
        explicit Statements(SQLite::Database& db)
            : task(db,
                   "INSERT INTO PIPESCOPE_TASK (step, kind, partition, microBatch, skip, lane, device, start, end, "
                   "source, nvtxId, bytes) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"),
              range(db,
                    "INSERT INTO NVTX_EVENTS (start, end, eventType, rangeId, category, color, text, globalTid, "
                    "endGlobalTid, textId, domainId, uint64Value, int64Value, doubleValue, uint32Value, int32Value, "
                    "floatValue) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"),
              string(db, "INSERT INTO StringIds (id, value) VALUES (?,?)"),
              json(db, "UPDATE NVTX_EVENTS SET jsonText = ? WHERE rowid = ?"),
              memory(
                  db,
                  "INSERT INTO PIPESCOPE_MEMORY (lane, time, allocated, peak, reserved, taskId, parameters, gradients, "
                  "optimizer, boundary, saved, skip, transient, copy, output) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"),
              step(db,
                   "INSERT INTO PIPESCOPE_STEP (step, start, end, wallStart, wallEnd, trainingLoss, warmup) "
                   "VALUES (?,?,?,?,?,?,?)") {}

        SQLite::Statement task;
        SQLite::Statement range;
        SQLite::Statement string;
        SQLite::Statement json;
        SQLite::Statement memory;
        SQLite::Statement step;
    };

private:
    struct StringHash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
    };

    /// Throws if the trace accepts no more rows.
    void begin() const;
    /// Rolls back after a failure and stops accepting rows. SQLite may have rolled back by itself, accepted rows
    /// included; a certain state lets the missing rows be counted.
    void note_loss(const std::string& what);
    void write_loss();

    std::filesystem::path path_;

public:
    SQLite::Database db;
    std::optional<Statements> statements;

private:
    std::unordered_map<std::string, std::int64_t, StringHash, std::equal_to<>> strings_;
    bool in_transaction_ = false;
    bool closed_ = false;
    std::int64_t rows_in_transaction_ = 0;
    std::int64_t lost_rows_ = 0;
    std::string loss_;     // message of the first failure
    bool broken_ = false;  // accepted rows were lost
};
}  // namespace pipescope
