#pragma once

#include <SQLiteCpp/Database.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

struct sqlite3;

namespace pipescope {
// SQLite files of unknown origin, such as a trace from the web. Their schema is a program: a view, a trigger or a
// computed column runs SQL that we did not write, and a damaged B-tree may lead to its own pages again and again. Every
// file that this process did not create is opened by these functions. Source: sqlite.org/security.html.

/// Restricts the connection: no triggers and no views but temporary ones, no functions with side effects in the schema,
/// no attached files, values of 100 MB at most.
void restrict_connection(sqlite3* db);

/// The name by which SQLite opens exactly this file: `file:a` and `:memory:` would be something else than the file of
/// that name.
std::filesystem::path sqlite_name(const std::filesystem::path& file);

/// A restricted connection. A statement that takes more steps, or reads more pages, than any of ours needs in a file of
/// this size ends with SQLITE_INTERRUPT, which guard_sqlite() translates. Threading: one thread.
class ForeignDatabase : public SQLite::Database {
public:
    /// `flags` as of SQLite::Database. With OPEN_URI, `name` is a URI. Throws SQLite::Exception.
    ForeignDatabase(const std::filesystem::path& name, int flags, int busy_milliseconds = 0);
    ~ForeignDatabase();
    ForeignDatabase(ForeignDatabase&&) noexcept;
    ForeignDatabase& operator=(ForeignDatabase&&) noexcept;

private:
    struct Budget;
    std::unique_ptr<Budget> budget_;
};

/// Throws DamagedValue unless the tables of our names, and of nsys', are tables: neither views nor virtual, without
/// computed columns, and each on pages of its own. Other objects of the file are never used.
void require_plain_tables(SQLite::Database& db);
}  // namespace pipescope
