#include "trace/store/trace_parts.h"

#include "trace/store/trace_records.h"

#include <fstream>
#include <string>
#include <system_error>

namespace pipescope {
namespace fs = std::filesystem;

namespace {
std::optional<fs::path> first_existing(const std::vector<fs::path>& paths) {
    for (const fs::path& path : paths) {
        std::error_code ignored;
        if (fs::exists(fs::symlink_status(path, ignored))) {  // SQLite follows a link
            return path;
        }
    }
    return std::nullopt;
}
}  // namespace

fs::path beside(const fs::path& path, std::string_view ending) {
    fs::path other = path;
    other += ending;
    return other;
}

std::vector<fs::path> database_parts(const fs::path& trace) {
    std::vector<fs::path> parts;
    for (const std::string_view ending : kDatabaseParts) {
        parts.push_back(beside(trace, ending));
    }
    return parts;
}

bool has_database_parts(const fs::path& trace) {
    return first_existing(database_parts(trace)).has_value();
}

void require_no_database_parts(const fs::path& trace) {
    if (const auto part = first_existing(database_parts(trace))) {
        throw TraceError(part->string() + " exists without the trace " + trace.string() +
                         ", and a new trace would replace it; it may hold the last steps of a killed run; move it "
                         "to that run's trace, use another name, or --force to delete it");
    }
}

void remove_database_parts(const fs::path& trace) {
    for (const fs::path& part : database_parts(trace)) {
        std::error_code ignored;
        fs::remove(part, ignored);
    }
}

std::optional<fs::path> whole_of_part(const fs::path& path) {
    const auto without = [&](std::string_view ending) -> std::optional<fs::path> {
        const std::string name = path.filename().string();
        if (name.size() <= ending.size() || !name.ends_with(ending)) {
            return std::nullopt;
        }
        return fs::path(path).replace_filename(name.substr(0, name.size() - ending.size()));
    };
    for (const std::string_view ending : kDatabaseParts) {
        if (const auto whole = without(ending); whole && is_sqlite_file(*whole)) {
            return whole;
        }
    }
    std::error_code ignored;
    if (const auto whole = without(kNotesEnding); whole && fs::is_regular_file(*whole, ignored)) {
        return whole;
    }
    return std::nullopt;
}

void require_no_part(const fs::path& output) {
    if (const auto whole = whole_of_part(output)) {
        throw TraceError(
            output.string() + " is by its name a part of " + whole->string() + ", where " +
            (output.string().ends_with(kNotesEnding) ? "the viewer keeps notes" : "SQLite keeps its newest rows") +
            "; an output there would damage it; choose another name");
    }
}

bool is_sqlite_file(const fs::path& path) {
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) {
        return false;  // opening a pipe would wait for its writer
    }
    std::array<char, kSqliteHead.size()> head{};
    std::ifstream file(path, std::ios::binary);
    file.read(head.data(), head.size());
    return std::string_view(head.data(), static_cast<std::size_t>(file.gcount())) == kSqliteHead;
}
}  // namespace pipescope
