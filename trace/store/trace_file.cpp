#include "trace/store/trace_file.h"

#include "base/printable.h"
#include "trace/store/json_nesting.h"
#include "trace/store/nsys_tables.h"
#include "trace/store/sqlite_guard.h"
#include "trace/store/sqlite_insert.h"
#include "trace/store/trace_parts.h"
#include "trace/store/trace_schema.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

[[noreturn]] void refuse_existing(const fs::path& path) {
    throw TraceError("cannot create trace " + quoted(path) +
                     ": the file exists; an existing file is kept; use --force, or another name");
}

std::string way_out(int error_number) {
    switch (error_number) {
        case ENOENT: return "its folder does not exist; create it first";
        case ENOTDIR: return "a part of the path is a file, not a folder; choose another one";
        case EACCES:
        case EPERM:
        case EROFS: return "its folder may not be written; choose another one";
        default: return "choose another place";
    }
}

/// Creates an empty file and fails if it exists, so that two runs cannot get the same file.
void create_exclusively(const fs::path& path) {
    const int descriptor = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    if (descriptor < 0) {
        if (errno == EEXIST) {
            refuse_existing(path);
        }
        throw TraceError("cannot create trace " + quoted(path) + ": " + std::strerror(errno) + "; " + way_out(errno));
    }
    ::close(descriptor);
}

/// Removes a file on destruction unless keep() was called, so that a failure leaves no partial file.
class Unfinished {
public:
    explicit Unfinished(fs::path path) : path_(std::move(path)) {}
    Unfinished(const Unfinished&) = delete;
    Unfinished& operator=(const Unfinished&) = delete;
    ~Unfinished() {
        if (!path_.empty()) {
            std::error_code ignored;
            fs::remove(path_, ignored);
            remove_database_parts(path_);
        }
    }
    void keep() { path_.clear(); }

private:
    fs::path path_;
};

constexpr int kMigrationBusyMilliseconds = 5000;

void fill_new_file(const fs::path& path) {
    guard_sqlite("create", path, [&] {
        // Another process may already have the file open; both sides wait.
        SQLite::Database db(sqlite_name(path), SQLite::OPEN_READWRITE, kMigrationBusyMilliseconds);
        db.exec("BEGIN EXCLUSIVE");
        db.exec("PRAGMA application_id = " + std::to_string(kTraceApplicationId));
        db.exec(create_tables_sql());
        db.exec(fill_enums_sql());
        PreparedStatements rows(db);
        const nlohmann::json format = {{"name", kTraceFormatName}, {"version", kTraceFormatVersion}};
        rows.insert("PIPESCOPE_RUN", "format", format.dump());
        rows.insert("META_DATA_CAPTURE", "PRODUCER", "PipeScope");
        const auto add_export = [&](const char* name, const std::string& value) {
            rows.insert("META_DATA_EXPORT", name, value);
        };
        add_export("EXPORT_PRODUCER", "PipeScope");
        add_export("PIPESCOPE_FORMAT_VERSION", std::to_string(kTraceFormatVersion));
        add_export("EXPORT_SCHEMA_VERSION", std::string(kNsysSchemaVersion));
        add_export("EXPORT_SCHEMA_VERSION_MAJOR", "3");
        add_export("EXPORT_SCHEMA_VERSION_MINOR", "16");
        add_export("EXPORT_SCHEMA_VERSION_MICRO", "1");
        db.exec("COMMIT");
    });
}
}  // namespace

void require_not_being_written(const fs::path& path) {
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored) || !fs::exists(beside(path, "-wal"))) {
        return;
    }
    try {
        ForeignDatabase db(path, SQLite::OPEN_READWRITE);
        db.exec("PRAGMA journal_mode=DELETE");  // SQLite does not let a file that is being written leave WAL mode
    } catch (const SQLite::Exception& error) {
        if (error.getErrorCode() == SQLITE_BUSY || error.getErrorCode() == SQLITE_LOCKED) {
            throw TraceError("cannot replace trace " + quoted(path) +
                             ": another process has it open; wait until that one ends, or use another name");
        }
        // Damaged, or not a database: it is going to be replaced anyway.
    }
}

namespace {
/// Replaces a file or a link. A link's target stays.
void replace_file(const fs::path& path) {
    if (!fs::is_symlink(path)) {
        if (!fs::is_regular_file(path)) {
            throw TraceError("cannot replace " + quoted(path) + ": it is not a regular file; use another name");
        }
        require_not_being_written(path);
    }
    const fs::path fresh = beside(path, "." + std::to_string(getpid()) + ".new");
    std::error_code ignored;
    fs::remove(fresh, ignored);  // left by a killed process with the same process id
    create_exclusively(fresh);
    Unfinished unfinished(fresh);
    fill_new_file(fresh);
    // Gives up the old trace here. Its log must go first, or SQLite would replay it into the new file.
    remove_database_parts(path);
    std::error_code failure;
    fs::rename(fresh, path, failure);
    if (failure) {
        throw TraceError("cannot replace trace " + quoted(path) + ": " + failure.message() + "; use another name");
    }
    unfinished.keep();
}

[[noreturn]] void refuse(const fs::path& path, const std::string& why,
                         const std::string& remedy = "give a file that --trace of run or simulate wrote") {
    throw TraceFormatError(quoted(path) + " is not a PipeScope trace: " + why + "; " + remedy);
}

bool begins_like_json(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
}

/// Reports a file that does not start like an SQLite database. `head` may be empty.
[[noreturn]] void refuse_by_head(const fs::path& path, std::string_view head) {
    const std::string ending = path.extension().string();
    if (head.starts_with("QDSTRM") || head.starts_with("NSYS") || ending == ".nsys-rep" || ending == ".qdrep" ||
        ending == ".qdstrm") {
        refuse(path, "it seems to be a report of nsys, which only nsys can read",
               "convert it with 'nsys export -t sqlite " + path.string() + "' and give the .sqlite file");
    }
    if (head.empty()) {
        throw TraceFormatError(quoted(path) +
                               " is empty, not a trace; give a file that --trace of run or simulate wrote, or one that "
                               "another program's profiler wrote to its end");
    }
    if (begins_like_json(head)) {
        refuse(path, "it seems to be JSON, such as a profile");
    }
    if (head.starts_with("\x1f\x8b") || head.starts_with("PK") || head.starts_with("\x28\xb5\x2f\xfd")) {
        refuse(path, "it seems to be compressed; unpack it first");
    }
    if (head.starts_with("\x7f"
                         "ELF")) {
        refuse(path, "it seems to be a program");
    }
    const bool is_utf16 = head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff");
    refuse(
        path, is_utf16 ? "it is not an SQLite file, but text in UTF-16" : "it is not an SQLite file",
        "give a trace of PipeScope, an SQLite export of nsys, or JSON of PyTorch's profiler or another Chrome trace");
}
}  // namespace

fs::path create_trace_file(const fs::path& target, IfExists if_exists) {
    if (target.empty()) {
        throw TraceError("the trace's path is empty; a trace needs a file name; give one, such as out.sqlite");
    }
    require_no_part(target);
    std::error_code ignored;
    const fs::file_status there = fs::symlink_status(target, ignored);
    if (!fs::exists(there)) {
        if (if_exists == IfExists::refuse) {
            require_no_database_parts(target);
        } else {
            remove_database_parts(target);  // SQLite would replay a log into the new file
        }
        create_exclusively(target);
        Unfinished unfinished(target);
        fill_new_file(target);
        unfinished.keep();
        return target;
    }
    if (if_exists == IfExists::refuse) {
        refuse_existing(target);
    }
    replace_file(target);
    return target;
}

void make_plain_file(SQLite::Database& db) {
    try {
        db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
        db.exec("PRAGMA journal_mode=DELETE");
    } catch (const SQLite::Exception& error) {
        if (error.getErrorCode() != SQLITE_BUSY && error.getErrorCode() != SQLITE_LOCKED) {
            throw;
        }
    }
}

namespace {
/// SQLite would only report that the trace cannot be opened, or follow a link to another user's file.
void require_plain_log(const fs::path& trace) {
    for (const char* suffix : {"-wal", "-shm"}) {
        std::error_code ignored;
        const fs::path log = beside(trace, suffix);
        const fs::file_status status = fs::symlink_status(log, ignored);
        if (fs::exists(status) && !fs::is_regular_file(status)) {
            throw TraceError("trace " + quoted(trace) + " has " + quoted(log) +
                             " beside it, which is no plain file; SQLite keeps the last part of a trace in files of "
                             "such names; move it away");
        }
    }
}
}  // namespace

ForeignDatabase open_to_read(const fs::path& path) {
    require_plain_log(path);
    ForeignDatabase db = guard_sqlite("open", path, [&] {
        return ForeignDatabase(path, SQLite::OPEN_READONLY | SQLite::OPEN_NOMUTEX, kMigrationBusyMilliseconds);
    });
    guard_sqlite("read", path, [&] { require_plain_tables(db); });
    return db;
}

void keep_snapshot(SQLite::Database& db) {
    db.exec("BEGIN");
    db.execAndGet("SELECT count(*) FROM sqlite_master");  // the first query takes the snapshot
}

void require_sqlite_file(const fs::path& path) {
    std::error_code ignored;
    const fs::file_status status = fs::status(path, ignored);
    if (!fs::exists(status)) {
        throw TraceFormatError("trace " + quoted(path) + " does not exist; check the name");
    }
    if (fs::is_directory(status)) {
        refuse(path, "it is a folder");
    }
    if (!fs::is_regular_file(status)) {
        refuse(path, "it is not a regular file");
    }
    std::array<char, kSqliteHead.size()> head{};
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw TraceError("cannot read trace " + quoted(path) + ": " + std::strerror(errno) + "; check its permissions");
    }
    file.read(head.data(), head.size());
    const auto size = static_cast<std::size_t>(file.gcount());
    if (const std::string_view text(head.data(), size); text != kSqliteHead) {
        refuse_by_head(path, text);
    }
}

void require_whole_file(const fs::path& path) {
    std::array<char, 96> head{};  // https://sqlite.org/fileformat.html#the_database_header
    std::ifstream(path, std::ios::binary).read(head.data(), head.size());
    const auto number = [&head](std::size_t at, std::size_t bytes) {
        std::uint64_t value = 0;
        for (std::size_t k = at; k < at + bytes; ++k) {
            value = value << 8U | static_cast<unsigned char>(head[k]);
        }
        return value;
    };
    const bool counts_pages = number(24, 4) == number(92, 4);
    // In this order: a writer that meanwhile copied its log removes it once the file is complete.
    if (!counts_pages || fs::exists(beside(path, "-wal"))) {
        return;
    }
    const std::uint64_t page = number(16, 2) == 1 ? 65536 : number(16, 2);
    const std::uint64_t wanted = page * number(28, 4);
    if (const std::uint64_t size = fs::file_size(path); size < wanted) {
        throw TraceFormatError("trace " + quoted(path) + " was cut off: it has " + std::to_string(size) + " of " +
                               std::to_string(wanted) + " bytes; copy it again, or record it again");
    }
}

int require_trace_format(SQLite::Database& db, const fs::path& path) {
    if (!db.tableExists("PIPESCOPE_RUN")) {
        if (db.tableExists("PIPESCOPE_TASK")) {
            throw TraceFormatError(
                "trace " + quoted(path) +
                " has no table PIPESCOPE_RUN; every trace has it; the file is damaged; record it again");
        }
        if (has_nsys_tables(db)) {
            refuse(path, "it seems to be an export of nsys, which has no pipeline tasks");
        }
        refuse(path, "it is another program's SQLite database");
    }
    SQLite::Statement query(db, "SELECT value FROM PIPESCOPE_RUN WHERE key = 'format'");
    if (!query.executeStep()) {
        throw TraceFormatError("trace " + quoted(path) + " has no format stamp; it is damaged; record it again");
    }
    const std::string stamp = query.getColumn(0).getString();
    const auto format = nests_too_deep(stamp) ? nlohmann::json() : nlohmann::json::parse(stamp, nullptr, false);
    if (!format.is_object() || format.value("name", nlohmann::json()) != kTraceFormatName ||
        !format.value("version", nlohmann::json()).is_number_integer()) {
        throw TraceFormatError("trace " + quoted(path) + " has the format stamp " + printable(shortened(stamp, 80)) +
                               "; it must name " + std::string(kTraceFormatName) + " and a version; record it again");
    }
    const auto version = format.at("version").get<std::int64_t>();
    if (version > kTraceFormatVersion) {
        throw TraceFormatError("trace " + quoted(path) + " has format version " + std::to_string(version) +
                               "; this PipeScope reads up to version " + std::to_string(kTraceFormatVersion) +
                               "; use the newer PipeScope that wrote it");
    }
    if (version < kOldestTraceFormatVersion) {
        throw TraceFormatError("trace " + quoted(path) + " has format version " + std::to_string(version) +
                               "; versions begin with " + std::to_string(kOldestTraceFormatVersion) +
                               "; the stamp is damaged; record it again");
    }
    return static_cast<int>(version);
}

bool looks_like_json(const std::filesystem::path& path) {
    std::error_code unknown;
    if (!std::filesystem::is_regular_file(path, unknown)) {
        return false;
    }
    std::array<char, 64> head{};
    std::ifstream file(path, std::ios::binary);
    file.read(head.data(), head.size());
    std::string_view text(head.data(), static_cast<std::size_t>(file.gcount()));
    if (text.starts_with("\x1f\x8b")) {
        return true;  // gzip, so not a database
    }
    constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // some editors write one before UTF-8
    if (text.starts_with(kByteOrderMark)) {
        text.remove_prefix(kByteOrderMark.size());
    }
    return begins_like_json(text);
}
}  // namespace pipescope
