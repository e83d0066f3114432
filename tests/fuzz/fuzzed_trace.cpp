#include "tests/fuzz/fuzzed_trace.h"

#include "tests/temporary_folder.h"
#include "tests/trace/one_step_trace.h"
#include "trace/foreign/chrome_export.h"
#include "trace/open_trace.h"
#include "trace/store/csv_export.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fuzzer/FuzzedDataProvider.h>
#include <sqlite3.h>

#include <cstdlib>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using SQLite::Database;
using SQLite::Statement;

const TemporaryFolder& folder() {
    static const TemporaryFolder one;
    return one;
}

std::vector<std::string> texts(Database& db, const std::string& sql) {
    std::vector<std::string> found;
    Statement rows(db, sql);
    while (rows.executeStep()) {
        found.push_back(rows.getColumn(0).getString());
    }
    return found;
}

std::vector<std::string> tables_of(Database& db) {
    return texts(db, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name");
}

/// A sample with small pages for short inputs, without indexes and constraints, like those of other programs.
std::string plain_sample(bool ours) {
    const auto path = folder() / "sample.sqlite";
    write_sample_trace(path);
    {
        Database db(path, SQLite::OPEN_READWRITE);
        for (const std::string& table : tables_of(db)) {
            if (ours || !table.starts_with("PIPESCOPE_")) {
                db.exec("CREATE TABLE plain AS SELECT * FROM \"" + table + "\"");
                db.exec("DROP TABLE \"" + table + "\"");
                db.exec("ALTER TABLE plain RENAME TO \"" + table + "\"");
            } else {
                db.exec("DROP TABLE \"" + table + "\"");
            }
        }
        db.exec("PRAGMA page_size = 512");
        db.exec("VACUUM");
    }
    std::string bytes = read_text(path);
    std::filesystem::remove(path);
    return bytes;
}

struct Column {
    std::string table;
    std::string name;
};

std::vector<Column> columns_of(Database& db) {
    std::vector<Column> columns;
    for (const std::string& table : tables_of(db)) {
        for (std::string& name : texts(db, "SELECT name FROM pragma_table_info('" + table + "')")) {
            columns.push_back({table, std::move(name)});
        }
    }
    return columns;
}

void load(Database& db, const std::string& bytes) {
    auto* const copy = static_cast<unsigned char*>(sqlite3_malloc64(bytes.size()));
    std::copy(bytes.begin(), bytes.end(), copy);
    sqlite3_deserialize(db.getHandle(), "main", copy, static_cast<sqlite3_int64>(bytes.size()),
                        static_cast<sqlite3_int64>(bytes.size()),
                        SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE);
}

void change_value(Database& db, const Column& column, FuzzedDataProvider& input) {
    Statement update(db, "UPDATE \"" + column.table + "\" SET \"" + column.name +
                             "\" = ? WHERE rowid = (SELECT rowid FROM \"" + column.table + "\" LIMIT 1 OFFSET ?)");
    switch (input.ConsumeIntegralInRange(0, 4)) {
        case 0: update.bind(1); break;
        case 1: update.bind(1, input.ConsumeIntegral<std::int64_t>()); break;
        case 2: update.bind(1, std::int64_t{input.ConsumeIntegral<std::int8_t>()}); break;
        case 3: update.bind(1, input.ConsumeFloatingPoint<double>()); break;
        default: update.bind(1, input.ConsumeRandomLengthString(64));
    }
    update.bind(2, input.ConsumeIntegralInRange(0, 15));
    update.exec();
}

void change(Database& db, const std::vector<Column>& columns, FuzzedDataProvider& input) {
    const Column& column = columns[input.ConsumeIntegralInRange<std::size_t>(0, columns.size() - 1)];
    switch (input.ConsumeIntegralInRange(0, 15)) {
        case 0: db.exec("DROP TABLE IF EXISTS \"" + column.table + "\""); break;
        case 1: db.exec("ALTER TABLE \"" + column.table + "\" RENAME COLUMN \"" + column.name + "\" TO other"); break;
        case 2:  // repeated, it must not double the rows
            db.exec("INSERT INTO \"" + column.table + "\" SELECT * FROM \"" + column.table + "\" LIMIT 16");
            break;
        default: change_value(db, column, input);
    }
}
}  // namespace

std::string sample_trace_bytes() {
    return plain_sample(true);
}

std::string sample_nsys_bytes() {
    return plain_sample(false);
}

void open_bytes(std::span<const std::uint8_t> bytes, const std::string& name) {
    const auto path = folder() / name;
    write_text(path, std::string(bytes.begin(), bytes.end()));
    try {
        const OpenedTrace trace = open_trace(path);
        std::ostringstream out;
        export_chrome(trace, out);
        for (const CsvTable table : {CsvTable::tasks, CsvTable::steps, CsvTable::memory, CsvTable::ranges}) {
            export_csv(trace, table, out);
        }
        for (const RangeTrack& track : trace.tracks) {
            for (const TraceRange& range : track.ranges) {
                if (range.name >= trace.names.size() || range.category >= trace.names.size() ||
                    range.row >= track.rows) {
                    std::abort();
                }
            }
        }
    } catch (const TraceError&) {
        return;
    }
}

void open_with_changed_values(const std::string& sample, const std::uint8_t* data, std::size_t size) {
    Database db(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    load(db, sample);
    static const std::vector<Column> columns = columns_of(db);
    FuzzedDataProvider input(data, size);
    for (int k = 0; k < 32 && input.remaining_bytes() > 0; ++k) {
        try {
            change(db, columns, input);
        } catch (const SQLite::Exception&) {
            continue;  // of a table that an earlier change dropped
        }
    }
    sqlite3_int64 length = 0;
    const std::unique_ptr<unsigned char, void (*)(void*)> bytes(sqlite3_serialize(db.getHandle(), "main", &length, 0),
                                                                sqlite3_free);
    open_bytes({bytes.get(), static_cast<std::size_t>(length)}, "t.sqlite");
}
}  // namespace pipescope
