#include "trace/store/foreign_database.h"

#include "base/printable.h"
#include "trace/store/sqlite_guard.h"
#include "trace/store/sqlite_rows.h"
#include "trace/store/trace_parts.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <system_error>

namespace pipescope {
namespace {
constexpr int kMostValueBytes = 100'000'000;  // the limit of every text that we read
constexpr int kMostSqlBytes = 100'000;        // for one statement; ours have 4,000

// Limits for a statement. In a trace of 160,000 tasks (28 MB), reading the tasks takes 0.1 steps for each byte of the
// file, and reading the memory samples by an index reads each page 35 times.
constexpr int kStepsPerLook = 1000;  // about 20 us, and a look takes 0.1 us
constexpr std::uint64_t kFreeSteps = 20'000'000;
constexpr std::uint64_t kStepsPerByte = 50;
constexpr std::uint64_t kFreePages = 200'000;
constexpr std::uint64_t kReadsPerByte = 1;  // 4,096 per page of 4 KiB

std::uint64_t pages_read(sqlite3* db) {
    std::uint64_t pages = 0;
    for (const int counter : {SQLITE_DBSTATUS_CACHE_HIT, SQLITE_DBSTATUS_CACHE_MISS}) {
        int count = 0;
        int ignored = 0;
        sqlite3_db_status(db, counter, &count, &ignored, 0);
        pages += static_cast<std::uint32_t>(count);
    }
    return pages;
}

bool is_name_of_ours(std::string name) {
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
    constexpr std::array<std::string_view, 12> kPrefixes{"PIPESCOPE_",  "NVTX_",       "CUPTI_",    "CUDA_",
                                                         "GPU_",        "TARGET_INFO", "ENUM_",     "STRINGIDS",
                                                         "THREADNAMES", "PROCESSES",   "ANALYSIS_", "META_DATA_"};
    return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

void require_plain_columns(SQLite::Database& db, const std::string& table) {
    Rows columns(db, "SELECT name, hidden FROM pragma_table_xinfo(?)");
    columns.bind(1, table);
    while (columns.next()) {
        if (columns.number(1) != 0) {
            throw DamagedValue(fmt::format("{}.{} is computed by the file; a trace holds values only", table,
                                           printable(columns.text(0))));
        }
    }
}
}  // namespace

void restrict_connection(sqlite3* db) {
    const auto set = [db](int option, int on) { sqlite3_db_config(db, option, on, nullptr); };
    set(SQLITE_DBCONFIG_DEFENSIVE, 1);
    set(SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0);
    set(SQLITE_DBCONFIG_ENABLE_VIEW, 0);
    set(SQLITE_DBCONFIG_ENABLE_TRIGGER, 0);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, kMostValueBytes);
    sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, kMostSqlBytes);
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
}

struct ForeignDatabase::Budget {
    sqlite3* db = nullptr;
    std::filesystem::path file;
    std::uint64_t steps = 0;  // of the latest statement
    std::uint64_t pages_before = 0;
    std::uint64_t allowed_steps = kFreeSteps;
    std::uint64_t allowed_pages = kFreePages;

    void begin_statement() {
        steps = 0;
        pages_before = pages_read(db);
    }
    bool is_exceeded() {
        steps += kStepsPerLook;
        const std::uint64_t pages = static_cast<std::uint32_t>(pages_read(db) - pages_before);  // the counters may wrap
        const auto exceeds = [&] { return steps > allowed_steps || pages > allowed_pages; };
        if (!exceeds()) {
            return false;
        }
        const std::uint64_t bytes = size();  // the file may have grown
        allowed_steps = kFreeSteps + kStepsPerByte * bytes;
        allowed_pages = kFreePages + kReadsPerByte * bytes;
        return exceeds();
    }
    std::uint64_t size() const {
        std::uint64_t bytes = 0;
        for (const std::filesystem::path& each : {file, beside(file, "-wal")}) {
            std::error_code error;
            const std::uintmax_t size = std::filesystem::file_size(each, error);
            bytes += error ? 0 : size;
        }
        return bytes;
    }
};

std::filesystem::path sqlite_name(const std::filesystem::path& file) {
    return file.is_absolute() ? file : "." / file;
}

ForeignDatabase::ForeignDatabase(const std::filesystem::path& name, int flags, int busy_milliseconds)
    : SQLite::Database((flags & SQLite::OPEN_URI) != 0 ? name : sqlite_name(name), flags, busy_milliseconds),
      budget_(std::make_unique<Budget>()) {
    sqlite3* const db = getHandle();
    restrict_connection(db);
    budget_->db = db;
    const char* const file = sqlite3_db_filename(db, "main");
    budget_->file = file == nullptr ? "" : file;
    sqlite3_progress_handler(
        db, kStepsPerLook, [](void* budget) { return static_cast<Budget*>(budget)->is_exceeded() ? 1 : 0; },
        budget_.get());
    sqlite3_trace_v2(
        db, SQLITE_TRACE_STMT,
        [](unsigned, void* budget, void*, void*) {
            static_cast<Budget*>(budget)->begin_statement();
            return 0;
        },
        budget_.get());
    exec("PRAGMA cell_size_check=ON; PRAGMA mmap_size=0");
}

ForeignDatabase::~ForeignDatabase() = default;
ForeignDatabase::ForeignDatabase(ForeignDatabase&&) noexcept = default;
ForeignDatabase& ForeignDatabase::operator=(ForeignDatabase&&) noexcept = default;

void require_plain_tables(SQLite::Database& db) {
    std::map<std::int64_t, std::string> roots;  // page to name
    std::vector<std::string> tables;
    Rows objects(db, "SELECT type, name, rootpage FROM sqlite_schema WHERE type IN ('table', 'view', 'index')");
    while (objects.next()) {
        const std::string type(objects.text(0));
        const std::string name(objects.text(1));
        const std::int64_t root = objects.number(2);
        const bool is_ours = is_name_of_ours(name);
        if (is_ours && (type == "view" || (type == "table" && root == 0))) {
            throw DamagedValue(fmt::format("{} is a {}, whose rows other SQL computes; a trace has a table there",
                                           printable(name), type == "view" ? "view" : "virtual table"));
        }
        if (root == 0) {
            continue;
        }
        if (const auto [other, is_new] = roots.emplace(root, name); !is_new) {
            throw DamagedValue(fmt::format("{} and {} have the same root page {}; each has its own", printable(name),
                                           printable(other->second), root));
        }
        if (is_ours && type == "table") {
            tables.push_back(name);
        }
    }
    for (const std::string& table : tables) {
        require_plain_columns(db, table);
    }
}
}  // namespace pipescope
