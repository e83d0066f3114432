#pragma once

#include "trace/store/sqlite_guard.h"
#include "trace/store/sqlite_insert.h"
#include "trace/store/trace_records.h"
#include "trace/store/trace_writer.h"

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
/// The file of a TraceWriter: its transaction, its string table, and the count of rows that could not be written.
/// Threading and errors: as TraceWriter.
class TraceConnection {
public:
    TraceConnection(const std::filesystem::path& target, IfExists if_exists, WriteLog log);

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
    /// One change: PreparedStatements::insert().
    template <class... Values>
    void insert(const char* into, const Values&... values) {
        write([&] { statements->insert(into, values...); });
    }
    void commit();
    void close();

    // The functions below must be called inside a change.

    /// Number of a text in StringIds. Adds the text if it is new.
    std::int64_t intern(std::string_view text);
    void set_run(std::string_view key, const std::string& json);

private:
    struct StringHash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
    };

    /// Throws if the trace accepts no more rows.
    void begin() const;
    /// Rolls back after a failure and stops accepting rows. SQLite may already have rolled back, including accepted
    /// rows. Rolling back for certain allows the missing rows to be counted.
    void note_loss(const std::string& what);
    void write_loss();

    std::filesystem::path path_;

public:
    SQLite::Database db;
    std::optional<PreparedStatements> statements;  // empty once the file is closed

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
