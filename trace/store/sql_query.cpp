#include "trace/store/sql_query.h"

#include "trace/store/foreign_database.h"
#include "trace/store/sqlite_guard.h"
#include "trace/store/trace_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sqlite3.h>

#include <memory>

namespace pipescope {
namespace {
constexpr int kQueryBusyMilliseconds = 2000;
constexpr int kStepsBetweenQuestions = 4000;  // takes well below a millisecond

struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Connection = std::unique_ptr<sqlite3, Close>;
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

[[noreturn]] void fail(sqlite3* db, std::size_t base) {
    if (sqlite3_errcode(db) == SQLITE_INTERRUPT) {
        throw SqlError("the query was cancelled; run it again, or ask for less", std::nullopt);
    }
    if (is_locking_trouble(sqlite3_extended_errcode(db))) {
        throw SqlError(std::string(sqlite3_errmsg(db)) + std::string(kCopyToLocalDisk), std::nullopt);
    }
    const std::string_view message = sqlite3_errmsg(db);
    if (message.find("attached databases") != std::string_view::npos) {
        throw SqlError(
            "a query reads one file, and no other can be attached; open the files of a run together, or "
            "attach them in the sqlite3 program",
            std::nullopt);
    }
    const int offset = sqlite3_error_offset(db);
    throw SqlError(sqlite3_errmsg(db),
                   offset < 0 ? std::nullopt : std::optional(base + static_cast<std::size_t>(offset)));
}

Connection open_for_reading(const std::filesystem::path& path) {
    require_sqlite_file(path);
    sqlite3* handle = nullptr;
    const int result =
        sqlite3_open_v2(sqlite_name(path).c_str(), &handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nullptr);
    Connection db(handle);
    if (result != SQLITE_OK) {
        throw TraceError("cannot read trace " + quoted(path) + ": " + sqlite3_errstr(result) +
                         "; check that the file may be read");
    }
    sqlite3_busy_timeout(handle, kQueryBusyMilliseconds);
    restrict_connection(handle);
    // Allows views that users added to their traces: a query must name a view, and can be cancelled.
    sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_VIEW, 1, nullptr);
    return db;
}

Statement prepare(sqlite3* db, std::string_view sql) {
    sqlite3_stmt* handle = nullptr;
    const char* rest = nullptr;
    if (sqlite3_prepare_v2(db, sql.data(), static_cast<int>(sql.size()), &handle, &rest) != SQLITE_OK) {
        fail(db, 0);
    }
    Statement statement(handle);
    if (!statement) {
        throw SqlError("the query is empty; write a SELECT", std::nullopt);
    }
    const auto used = static_cast<std::size_t>(rest - sql.data());
    sqlite3_stmt* second = nullptr;
    if (sqlite3_prepare_v2(db, rest, static_cast<int>(sql.size() - used), &second, nullptr) != SQLITE_OK) {
        fail(db, used);
    }
    if (const Statement next(second); next) {
        throw SqlError("there is more than one statement; run one at a time", used);
    }
    if (sqlite3_stmt_readonly(handle) == 0) {
        throw SqlError("the statement would write, but the trace is only read; use SELECT", std::nullopt);
    }
    return statement;
}

void execute(sqlite3* db, const std::string& sql) {
    if (sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
        fail(db, 0);
    }
}

void bind(sqlite3_stmt* statement, int place, const SqlValue& value) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
        sqlite3_bind_int64(statement, place, *integer);
    } else if (const auto* real = std::get_if<double>(&value)) {
        sqlite3_bind_double(statement, place, *real);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
        sqlite3_bind_text(statement, place, text->data(), static_cast<int>(text->size()), SQLITE_STATIC);
    } else {
        sqlite3_bind_null(statement, place);
    }
}

void create(sqlite3* db, const SqlTable& table) {
    execute(db, fmt::format("CREATE TEMP TABLE {} ({})", table.name, fmt::join(table.columns, ", ")));
    const std::vector<std::string> places(table.columns.size(), "?");
    const std::string sql = fmt::format("INSERT INTO temp.{} VALUES ({})", table.name, fmt::join(places, ", "));
    sqlite3_stmt* handle = nullptr;
    if (sqlite3_prepare_v2(db, sql.c_str(), -1, &handle, nullptr) != SQLITE_OK) {
        fail(db, 0);
    }
    const Statement statement(handle);
    for (const std::vector<SqlValue>& row : table.rows) {
        for (std::size_t k = 0; k < row.size(); ++k) {
            bind(handle, static_cast<int>(k) + 1, row[k]);
        }
        if (sqlite3_step(handle) != SQLITE_DONE) {
            fail(db, 0);
        }
        sqlite3_reset(handle);
    }
}

/// Creates the tables in memory, and in one transaction, so that no file is written.
void create(sqlite3* db, const std::vector<SqlTable>& tables) {
    if (tables.empty()) {
        return;
    }
    execute(db, "PRAGMA temp_store = MEMORY");
    execute(db, "BEGIN");
    for (const SqlTable& table : tables) {
        create(db, table);
    }
    execute(db, "COMMIT");
}

std::string text_or_empty(const char* text) {
    return text == nullptr ? std::string() : std::string(text);
}

std::vector<SqlColumn> columns_of(sqlite3_stmt* statement) {
    std::vector<SqlColumn> columns;
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
        columns.push_back({text_or_empty(sqlite3_column_name(statement, i)),
                           text_or_empty(sqlite3_column_table_name(statement, i)),
                           text_or_empty(sqlite3_column_origin_name(statement, i))});
    }
    return columns;
}

SqlValue value_of(sqlite3_stmt* statement, int column) {
    switch (sqlite3_column_type(statement, column)) {
        case SQLITE_INTEGER: return static_cast<std::int64_t>(sqlite3_column_int64(statement, column));
        case SQLITE_FLOAT: return sqlite3_column_double(statement, column);
        case SQLITE_TEXT: {
            const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
            return std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement, column)));
        }
        case SQLITE_BLOB: return "blob of " + std::to_string(sqlite3_column_bytes(statement, column)) + " bytes";
        default: return std::monostate{};
    }
}

std::size_t size_of(const SqlValue& value) {
    const auto* text = std::get_if<std::string>(&value);
    return sizeof(SqlValue) + (text != nullptr ? text->size() : 0);
}
}  // namespace

SqlResult query_sql(const std::filesystem::path& path, std::string_view sql, const SqlOptions& options) {
    const Connection db = open_for_reading(path);
    if (options.cancelled) {
        const auto ask = [](void* asked) { return (*static_cast<const std::function<bool()>*>(asked))() ? 1 : 0; };
        sqlite3_progress_handler(db.get(), kStepsBetweenQuestions, ask,
                                 const_cast<std::function<bool()>*>(&options.cancelled));
    }
    create(db.get(), options.tables);
    execute(db.get(), "PRAGMA query_only = ON");
    const Statement statement = prepare(db.get(), sql);
    SqlResult result;
    result.columns = columns_of(statement.get());
    std::size_t bytes = 0;
    while (true) {
        const int step = sqlite3_step(statement.get());
        if (step == SQLITE_DONE) {
            return result;
        }
        if (step != SQLITE_ROW) {
            fail(db.get(), 0);
        }
        if (result.rows.size() == options.most_rows || bytes > options.most_bytes) {
            result.more = true;
            return result;
        }
        std::vector<SqlValue>& row = result.rows.emplace_back();
        for (int i = 0; i < static_cast<int>(result.columns.size()); ++i) {
            bytes += size_of(row.emplace_back(value_of(statement.get(), i)));
        }
    }
}
}  // namespace pipescope
