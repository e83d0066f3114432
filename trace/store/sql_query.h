#pragma once

#include "trace/store/trace_records.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pipescope {
/// NULL, an integer, a real number, or text. A blob becomes a text with its size.
using SqlValue = std::variant<std::monostate, std::int64_t, double, std::string>;

struct SqlColumn {
    std::string name;    ///< as in the query
    std::string table;   ///< source of its values; empty if computed
    std::string column;  ///< column of that table

    friend bool operator==(const SqlColumn&, const SqlColumn&) = default;
};

struct SqlResult {
    std::vector<SqlColumn> columns;
    std::vector<std::vector<SqlValue>> rows;
    bool more = false;  ///< the query has more rows than requested
};

/// A table that exists only for a query, beside the file's tables.
struct SqlTable {
    std::string name;
    std::vector<std::string> columns;  ///< "lane INTEGER"
    std::vector<std::vector<SqlValue>> rows;
};

struct SqlOptions {
    std::size_t most_rows = 10'000;
    std::size_t most_bytes = 64 << 20;  ///< limit for texts; a larger result is also cut
    /// Called every few thousand SQLite operations, in the calling thread; true cancels the query.
    std::function<bool()> cancelled;
    std::vector<SqlTable> tables = {};  ///< temporary; hide tables of the file with the same name
};

/// A query that SQLite rejects, or that was cancelled.
class SqlError : public TraceError {
public:
    SqlError(const std::string& what, std::optional<std::size_t> where) : TraceError(what), position(where) {}

    std::optional<std::size_t> position;  ///< byte of the query at which SQLite reports the error, if it does
};

/// Runs one statement on an SQLite file without changing it: the connection is read-only, PRAGMA query_only is set,
/// writing statements are refused, and no other file can be attached. Works on a trace that is still being written.
/// Threading: no shared state; call it from any thread. Errors: SqlError for the query, TraceError for the file.
SqlResult query_sql(const std::filesystem::path& path, std::string_view sql, const SqlOptions& options = {});
}  // namespace pipescope
