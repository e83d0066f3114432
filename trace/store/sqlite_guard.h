#pragma once

#include "base/printable.h"
#include "trace/store/trace_records.h"

#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace pipescope {
/// A table value that no writer of traces produces. The message names value and rule; guard_sqlite() adds the file and
/// the remedy.
class DamagedValue : public std::runtime_error {
public:
    /// Escapes the message: a value from the file may hold any byte, and what() ends at a NUL.
    explicit DamagedValue(std::string_view what) : std::runtime_error(printable(what)) {}
};

/// True if SQLite's extended result code says that it could not lock the file, or share its log with other processes,
/// as on some network disks.
bool is_locking_trouble(int extended_code);
/// Ends a message to a reader of the file: the rule and the remedy.
inline constexpr std::string_view kCopyToLocalDisk =
    "; its disk cannot lock files, as some network disks cannot; copy the file to a local disk, and the file of its "
    "name with -wal at the end, if there is one";

/// Translates an SQLite error about `path` into an error with a remedy: TraceFormatError if the file is damaged,
/// otherwise TraceError. `doing` is the verb of the message, such as "write" in "cannot write trace 'x'".
[[noreturn]] void rethrow_sqlite(const SQLite::Exception& error, std::string_view doing,
                                 const std::filesystem::path& path);

[[noreturn]] void refuse_damaged(const DamagedValue& damage, const std::filesystem::path& path);

/// Runs `body` and translates SQLite errors and DamagedValue.
template <class Body>
auto guard_sqlite(std::string_view doing, const std::filesystem::path& path, Body&& body) {
    try {
        return body();
    } catch (const SQLite::Exception& error) {
        rethrow_sqlite(error, doing, path);
    } catch (const DamagedValue& damage) {
        refuse_damaged(damage, path);
    }
}

/// The path for messages: "'out.sqlite'".
std::string quoted(const std::filesystem::path& path);
}  // namespace pipescope
