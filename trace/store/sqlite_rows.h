#pragma once

#include "base/stop_check.h"
#include "schedule/timeline.h"
#include "trace/store/sqlite_guard.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace pipescope {
/// A query and its current row, directly on SQLite's C interface. SQLite::Column allocates for every value, and a
/// million tasks have nine values each.
class Rows {
public:
    Rows(SQLite::Database& db, const std::string& sql) : db_(db.getHandle()) {
        sqlite3_stmt* statement = nullptr;
        check(sqlite3_prepare_v2(db_, sql.c_str(), -1, &statement, nullptr), SQLITE_OK);
        statement_.reset(statement);
    }

    /// `text` must outlive the query.
    void bind(int index, std::string_view text) {
        check(sqlite3_bind_text(get(), index, text.data(), static_cast<int>(text.size()), SQLITE_STATIC), SQLITE_OK);
    }
    bool next() {
        check_stop();
        const int result = sqlite3_step(get());
        if (result != SQLITE_DONE) {
            check(result, SQLITE_ROW);
        }
        return result == SQLITE_ROW;
    }

    /// SQLITE_INTEGER, ..
    int type(int column) const { return sqlite3_column_type(get(), column); }
    bool is_null(int column) const { return type(column) == SQLITE_NULL; }
    /// Any value, converted by SQLite: 0 for NULL and for a text without digits.
    std::int64_t number(int column) const { return sqlite3_column_int64(get(), column); }
    /// The functions below throw DamagedValue for a value of another type or outside the range. NULL is 0.
    std::int64_t integer(int column) const {
        const int type = sqlite3_column_type(get(), column);
        if (type != SQLITE_INTEGER && type != SQLITE_NULL) {
            refuse(column, "it must be a whole number");
        }
        return number(column);
    }
    /// Converts NULL to -1: the field has no meaning.
    std::int32_t id(int column) const {
        const std::int64_t value = is_null(column) ? -1 : integer(column);
        if (value < -1 || value > std::numeric_limits<std::int32_t>::max()) {
            refuse(column, "it must be from 0 to 2^31 - 1, or -1 for none");
        }
        return static_cast<std::int32_t>(value);
    }
    /// Converts NULL to NaN.
    double real(int column) const {
        const int type = sqlite3_column_type(get(), column);
        if (type == SQLITE_TEXT || type == SQLITE_BLOB) {
            refuse(column, "it must be a number");
        }
        return type == SQLITE_NULL ? std::numeric_limits<double>::quiet_NaN() : sqlite3_column_double(get(), column);
    }
    bool holds_time(int column) const {
        constexpr std::int64_t kMost = std::int64_t{1} << 62;
        const int type = sqlite3_column_type(get(), column);
        return (type == SQLITE_INTEGER || type == SQLITE_NULL) && number(column) > -kMost && number(column) < kMost;
    }
    Nanoseconds time(int column) const {
        if (!holds_time(column)) {
            refuse(column, "a time is a whole number of ns between -2^62 and 2^62, which is 146 years");
        }
        return Nanoseconds{number(column)};
    }
    /// Bytes, or a number of events.
    std::int64_t amount(int column) const {
        const std::int64_t value = integer(column);
        if (value < -kMostAmount || value > kMostAmount) {
            refuse(column, "it must be at most 2^53");
        }
        return value;
    }
    /// Valid until next().
    std::string_view text(int column) const {
        const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(get(), column));
        const auto size = static_cast<std::size_t>(sqlite3_column_bytes(get(), column));
        return bytes == nullptr ? std::string_view{} : std::string_view(bytes, size);
    }

    static constexpr std::int64_t kMostAmount = std::int64_t{1} << 53;  // as in profiles; sums do not overflow

private:
    /// "PIPESCOPE_TASK.start is 'late'; a time is ..". Finds the table behind the query's first FROM.
    [[noreturn]] void refuse(int column, const std::string& rule) const {
        const std::string_view sql = sqlite3_sql(get());
        const std::size_t from = sql.find(" FROM ");
        const std::string_view table = from == std::string_view::npos ? "" : sql.substr(from + 6);
        throw DamagedValue(std::string(table.substr(0, table.find(' '))) + "." + sqlite3_column_name(get(), column) +
                           " is '" + std::string(text(column).substr(0, 40)) + "'; " + rule);
    }

    struct Finalize {
        void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
    };

    sqlite3_stmt* get() const { return statement_.get(); }
    void check(int result, int expected) const {
        if (result != expected) {
            throw SQLite::Exception(db_, result);
        }
    }

    sqlite3* db_;  // the reader's connection, which outlives its queries
    std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

/// Names of the table's columns; empty if there is no such table.
inline std::set<std::string, std::less<>> columns_of_table(SQLite::Database& db, const std::string& table) {
    std::set<std::string, std::less<>> columns;
    Rows names(db, "SELECT name FROM pragma_table_info('" + table + "')");
    while (names.next()) {
        columns.emplace(names.text(0));
    }
    return columns;
}
}  // namespace pipescope
