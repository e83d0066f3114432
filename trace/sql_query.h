#pragma once

#include "trace/trace_records.h"

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
/// NULL, an integer, a real number, or text; a blob is told as text, by its size.
using SqlValue = std::variant<std::monostate, std::int64_t, double, std::string>;

struct SqlColumn {
    std::string name;    ///< as the query calls it
    std::string table;   ///< where its values come from; empty if they are computed
    std::string column;  ///< of that table

    friend bool operator==(const SqlColumn&, const SqlColumn&) = default;
};

struct SqlResult {
    std::vector<SqlColumn> columns;
    std::vector<std::vector<SqlValue>> rows;
    bool more = false;  ///< the query has more rows than were asked for
};

struct SqlOptions {
    std::size_t most_rows = 10'000;
    std::size_t most_bytes = 64 << 20;  ///< of texts; a result that would exceed it is cut too
    /// Asked every few thousand steps of SQLite's machine, in the calling thread; true ends the query.
    std::function<bool()> cancelled;
};

/// A query that SQLite refuses, or that was cancelled.
class SqlError : public TraceError {
public:
    SqlError(const std::string& what, std::optional<std::size_t> where) : TraceError(what), position(where) {}

    std::optional<std::size_t> position;  ///< byte of the query where SQLite stopped understanding it, if it says so
};

/// Runs one statement on any SQLite file, which cannot change it: the connection is opened for reading, PRAGMA
/// query_only is set, statements that write are refused, and no other file can be attached. A trace that is still being
/// written may be queried. Threading: no shared state; call it from any thread. Errors: SqlError for the query;
/// TraceError for the file.
SqlResult query_sql(const std::filesystem::path& path, std::string_view sql, const SqlOptions& options = {});
}  // namespace pipescope
