#include "trace/store/sqlite_guard.h"

#include <sqlite3.h>

#include <cerrno>

namespace pipescope {
std::string quoted(const std::filesystem::path& path) {
    return "'" + path.string() + "'";
}

void refuse_damaged(const DamagedValue& damage, const std::filesystem::path& path) {
    throw TraceFormatError("trace " + quoted(path) + " is damaged: " + damage.what() + "; record it again");
}

bool is_locking_trouble(int extended_code) {
    switch (extended_code) {
        case SQLITE_PROTOCOL:
        case SQLITE_IOERR_LOCK:
        case SQLITE_IOERR_RDLOCK:
        case SQLITE_IOERR_UNLOCK:
        case SQLITE_IOERR_CHECKRESERVEDLOCK:
        case SQLITE_IOERR_SHMOPEN:
        case SQLITE_IOERR_SHMLOCK:
        case SQLITE_IOERR_SHMMAP: return true;
        default: return false;
    }
}

void rethrow_sqlite(const SQLite::Exception& error, std::string_view doing, const std::filesystem::path& path) {
    const int system_error = errno;  // from SQLite's last call, if it could not open a file
    const std::string what = "cannot " + std::string(doing) + " trace " + quoted(path) + ": " + error.what();
    const bool is_there = doing != "write" && doing != "create";
    if (error.getErrorCode() == SQLITE_ERROR && is_there) {  // in our queries: a table or a column is missing
        throw TraceFormatError(what + "; every trace has it; the file is damaged, or not a trace; record it again");
    }
    if (is_locking_trouble(error.getExtendedErrorCode())) {
        throw TraceError(what + (is_there ? std::string(kCopyToLocalDisk)
                                          : "; its disk cannot lock files, as some network disks cannot; write to a "
                                            "local disk"));
    }
    switch (error.getErrorCode()) {
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
            throw TraceFormatError(what + "; the file is damaged; record it again, or restore it from a copy");
        case SQLITE_CONSTRAINT:
            throw TraceFormatError(what + "; a trace numbers its rows once; the file is damaged; record it again");
        case SQLITE_INTERRUPT:  // from ForeignDatabase, the only one that sets a handler
            throw TraceFormatError(what +
                                   ": it took far more steps than a trace of this size needs; the file is damaged; "
                                   "record it again, or restore it from a copy");
        case SQLITE_TOOBIG:
            if (is_there) {
                throw TraceFormatError(what +
                                       "; no text of a trace is that long; the file is damaged; record it again, or "
                                       "restore it from a copy");
            }
            throw TraceError(what + "; the texts of a trace are shorter; use a smaller profile or shorter names");
        case SQLITE_NOMEM: throw TraceError(what + "; end other programs, or use a machine with more memory");
        case SQLITE_FULL: throw TraceError(what + "; free some space, or write to another disk");
        case SQLITE_BUSY:
        case SQLITE_LOCKED:  // also from NFS without its lock service
            throw TraceError(what + (is_there ? "; another process has it open, or its disk cannot lock files; wait "
                                                "until that process ends, or copy the file to a local disk"
                                              : "; another process has it open; wait until that one ends"));
        case SQLITE_CANTOPEN:
            if (system_error == EMFILE || system_error == ENFILE) {
                throw TraceError(what + ": too many files are open; close some, or raise the limit (ulimit -n)");
            }
            [[fallthrough]];
        case SQLITE_READONLY:
        case SQLITE_PERM: throw TraceError(what + "; check that the file and its folder may be written");
        default: throw TraceError(what + "; check the disk and the permissions of the folder");
    }
}
}  // namespace pipescope
