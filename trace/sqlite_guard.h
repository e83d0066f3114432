#pragma once

#include "trace/trace_records.h"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <string>
#include <string_view>

namespace pipescope {
/// Turns what SQLite reports about `path` into our errors, with the way out: TraceFormatError where the file itself is
/// damaged, else TraceError. `doing` is the verb of the message, such as "write" in "cannot write trace 'x'".
[[noreturn]] void rethrow_sqlite(const SQLite::Exception& error, std::string_view doing,
                                 const std::filesystem::path& path);

/// Runs `body`; an SQLite failure inside it leaves as one of our errors.
template <class Body>
auto guard_sqlite(std::string_view doing, const std::filesystem::path& path, Body&& body) {
    try {
        return body();
    } catch (const SQLite::Exception& error) {
        rethrow_sqlite(error, doing, path);
    }
}

/// "'out.sqlite'", as paths stand in messages.
std::string quoted(const std::filesystem::path& path);
/// Files SQLite keeps beside a database: the log and its index, and a rollback journal.
std::filesystem::path beside(const std::filesystem::path& path, std::string_view suffix);
}  // namespace pipescope
