#pragma once

#include "schedule/timeline.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace pipescope {
// Values of a statement's parameters. Texts are borrowed until the statement has run; a null text is NULL.

inline void bind_value(SQLite::Statement& statement, int index, const char* text) {
    statement.bindNoCopy(index, text);
}
inline void bind_value(SQLite::Statement& statement, int index, const std::string& text) {
    statement.bindNoCopy(index, text);
}
inline void bind_value(SQLite::Statement& statement, int index, Nanoseconds time) {
    statement.bind(index, std::int64_t{time.count()});
}
template <std::floating_point Number>
void bind_value(SQLite::Statement& statement, int index, Number value) {
    statement.bind(index, static_cast<double>(value));
}
/// SQLite has no unsigned 64-bit integers; the bits are kept.
template <std::integral Number>
void bind_value(SQLite::Statement& statement, int index, Number value) {
    statement.bind(index, static_cast<std::int64_t>(value));
}
template <class Value>
void bind_value(SQLite::Statement& statement, int index, const std::optional<Value>& value) {
    if (value) {
        bind_value(statement, index, *value);
    } else {
        statement.bind(index);
    }
}

/// Runs the statement with these values and resets it, also after a failure. SQLite refuses to bind a statement that
/// was not reset, and that second error would hide the first.
template <class... Values>
void run(SQLite::Statement& statement, const Values&... values) {
    int index = 0;
    (bind_value(statement, ++index, values), ...);
    try {
        statement.exec();
    } catch (...) {
        statement.tryReset();
        throw;
    }
    statement.reset();
}

/// Statements of one connection, prepared on first use. The connection must outlive them.
class PreparedStatements {
public:
    explicit PreparedStatements(SQLite::Database& db) : db_(db) {}

    /// `sql` is a literal: its address identifies the statement.
    template <class... Values>
    void run(const char* sql, const Values&... values) {
        pipescope::run(known_.try_emplace(sql, db_, sql).first->second, values...);
    }
    /// Inserts a row. `into` is a literal "TABLE (column, column)", or a table name for all its columns.
    template <class... Values>
    void insert(const char* into, const Values&... values) {
        auto found = known_.find(into);
        if (found == known_.end()) {
            std::string sql = std::string("INSERT INTO ") + into + " VALUES (?";
            for (std::size_t k = 1; k < sizeof...(values); ++k) {
                sql += ",?";
            }
            found = known_.try_emplace(into, db_, sql + ")").first;
        }
        pipescope::run(found->second, values...);
    }

private:
    SQLite::Database& db_;
    std::unordered_map<const char*, SQLite::Statement> known_;
};
}  // namespace pipescope
