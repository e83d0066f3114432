#pragma once

#include "schedule/timeline.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
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
        const int result = sqlite3_step(get());
        if (result != SQLITE_DONE) {
            check(result, SQLITE_ROW);
        }
        return result == SQLITE_ROW;
    }

    bool is_null(int column) const { return sqlite3_column_type(get(), column) == SQLITE_NULL; }
    std::int64_t integer(int column) const { return sqlite3_column_int64(get(), column); }
    /// Converts NULL to -1: the field has no meaning.
    std::int32_t id(int column) const { return is_null(column) ? -1 : sqlite3_column_int(get(), column); }
    double real(int column) const {
        return is_null(column) ? std::numeric_limits<double>::quiet_NaN() : sqlite3_column_double(get(), column);
    }
    /// At most 2^62 ns (146 years) from zero: a damaged file may hold more, whose differences would overflow.
    Nanoseconds time(int column) const {
        constexpr std::int64_t kMost = std::int64_t{1} << 62;
        return Nanoseconds{std::clamp(integer(column), -kMost + 1, kMost - 1)};
    }
    /// Valid until next().
    std::string_view text(int column) const {
        const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(get(), column));
        const auto size = static_cast<std::size_t>(sqlite3_column_bytes(get(), column));
        return bytes == nullptr ? std::string_view{} : std::string_view(bytes, size);
    }

private:
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
}  // namespace pipescope
