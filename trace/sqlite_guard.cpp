#include "trace/sqlite_guard.h"

#include <sqlite3.h>

namespace pipescope {
std::string quoted(const std::filesystem::path& path) {
    return "'" + path.string() + "'";
}

std::filesystem::path beside(const std::filesystem::path& path, std::string_view suffix) {
    std::filesystem::path other = path;
    other += suffix;
    return other;
}

void refuse_damaged(const DamagedValue& damage, const std::filesystem::path& path) {
    throw TraceFormatError("trace " + quoted(path) + " is damaged: " + damage.what() + "; record it again");
}

void rethrow_sqlite(const SQLite::Exception& error, std::string_view doing, const std::filesystem::path& path) {
    const std::string what = "cannot " + std::string(doing) + " trace " + quoted(path) + ": " + error.what();
    if (error.getErrorCode() == SQLITE_ERROR &&
        doing == "read") {  // in a query of ours: a table or a column is missing
        throw TraceFormatError(what + "; every trace has it; the file is damaged, or not a trace; record it again");
    }
    switch (error.getErrorCode()) {
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
            throw TraceFormatError(what + "; the file is damaged; record it again, or restore it from a copy");
        case SQLITE_CONSTRAINT:
            throw TraceFormatError(what + "; a trace numbers its rows once; the file is damaged; record it again");
        case SQLITE_INTERRUPT:  // by ForeignDatabase, which alone sets a handler
            throw TraceFormatError(what +
                                   ": it took far more steps than a trace of this size needs; the file is damaged; "
                                   "record it again, or restore it from a copy");
        case SQLITE_FULL: throw TraceError(what + "; free some space, or write to another disk");
        case SQLITE_BUSY:
        case SQLITE_LOCKED: throw TraceError(what + "; another process has it open; wait until that one ends");
        case SQLITE_READONLY:
        case SQLITE_CANTOPEN:
        case SQLITE_PERM: throw TraceError(what + "; check that the file and its folder may be written");
        default: throw TraceError(what + "; check the disk and the permissions of the folder");
    }
}
}  // namespace pipescope
