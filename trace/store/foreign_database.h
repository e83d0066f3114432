#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

struct sqlite3;

namespace pipescope {
// SQLite files of unknown origin, such as a trace from the web. Their schema is a program: a view, a trigger or a
// computed column runs SQL that we did not write, and a damaged B-tree may lead back to its own pages again and again.
// Every file that this process did not create is opened by these functions. Source: sqlite.org/security.html.

/// Restricts the connection: no triggers, no views except temporary ones, no functions with side effects in the schema,
/// no attached files, values of 100 MB at most.
void restrict_connection(sqlite3* db);

/// The name by which SQLite opens exactly this file: SQLite would give the names `file:a` and `:memory:` another
/// meaning.
std::filesystem::path sqlite_name(const std::filesystem::path& file);

/// A restricted connection. A statement ends with SQLITE_INTERRUPT if it takes more steps, or reads more pages, than
/// any of ours needs in a file of this size. guard_sqlite() translates that error. Threading: one thread.
class ForeignDatabase : public SQLite::Database {
public:
    /// `flags`: as in SQLite::Database. With OPEN_URI, `name` is a URI. Throws SQLite::Exception.
    ForeignDatabase(const std::filesystem::path& name, int flags, int busy_milliseconds = 0);
    ~ForeignDatabase();
    ForeignDatabase(ForeignDatabase&&) noexcept;
    ForeignDatabase& operator=(ForeignDatabase&&) noexcept;

private:
    struct Budget;
    std::unique_ptr<Budget> budget_;
};

/// Throws DamagedValue unless all tables with our names and nsys' are plain tables: not views, not virtual, without
/// computed columns, and with separate pages. Other objects of the file are never used.
void require_plain_tables(SQLite::Database& db);
}  // namespace pipescope
