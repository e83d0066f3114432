#include "trace/store/trace_migration.h"

#include "trace/store/sqlite_insert.h"
#include "trace/store/sqlite_rows.h"
#include "trace/store/trace_schema.h"

#include <nlohmann/json.hpp>

#include <array>
#include <string>

namespace pipescope {
namespace {
/// The changes of one version, in two forms: temporary views that hide the file's tables for one connection, and
/// statements that change the file.
struct Step {
    int from;
    const char* new_in;  ///< the table that gets the column `new_column`
    const char* new_column;
    const char* as_views;
    const char* in_place;
};

constexpr std::array kSteps = {
    // 1 -> 2: memory samples have a composition; the tables of CUDA device work are complete.
    Step{1, "PIPESCOPE_MEMORY", "parameters",
         "CREATE TEMP VIEW PIPESCOPE_MEMORY AS SELECT rowid AS rowid, lane, time, allocated, peak, reserved, taskId, "
         "NULL AS parameters, NULL AS gradients, NULL AS optimizer, NULL AS boundary, NULL AS saved, NULL AS skip, "
         "NULL AS transient, NULL AS copy, NULL AS output FROM main.PIPESCOPE_MEMORY",
         "ALTER TABLE PIPESCOPE_MEMORY ADD COLUMN parameters INTEGER;"
         "ALTER TABLE PIPESCOPE_MEMORY ADD COLUMN gradients INTEGER;"
         "ALTER TABLE PIPESCOPE_MEMORY ADD COLUMN optimizer INTEGER;"
         "ALTER TABLE PIPESCOPE_MEMORY ADD COLUMN boundary INTEGER;"
         "ALTER TABLE PIPESCOPE_MEMORY ADD COLUMN saved INTEGER;"
         "ALTER TABLE PIPESCOPE_MEMORY ADD COLUMN skip INTEGER;"
         "ALTER TABLE PIPESCOPE_MEMORY ADD COLUMN transient INTEGER;"
         "ALTER TABLE PIPESCOPE_MEMORY ADD COLUMN copy INTEGER;"
         "ALTER TABLE PIPESCOPE_MEMORY ADD COLUMN output INTEGER;"
         "ALTER TABLE PIPESCOPE_STEP ADD COLUMN samples INTEGER;"
         "ALTER TABLE PIPESCOPE_STEP ADD COLUMN loadOthers REAL;"
         "ALTER TABLE PIPESCOPE_STEP ADD COLUMN loadStolen REAL;"
         "ALTER TABLE PIPESCOPE_STEP ADD COLUMN loadPressure REAL;"
         "ALTER TABLE PIPESCOPE_STEP ADD COLUMN loadTime INTEGER;"
         "ALTER TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION ADD COLUMN eventSyncId INTEGER;"
         "DROP TABLE TARGET_INFO_GPU"},  // no recorder of version 1 filled it; recreated with all columns
};

/// Throws DamagedValue if the file has something that a later version added: its stamp is wrong.
void require_version(SQLite::Database& db, const Step& step) {
    Rows columns(db, "SELECT 1 FROM pragma_table_info(?) WHERE name = ?");
    columns.bind(1, step.new_in);
    columns.bind(2, step.new_column);
    if (columns.next()) {
        throw DamagedValue(std::string("its format version is ") + std::to_string(step.from) +
                           ", but it has the column " + step.new_in + "." + step.new_column + " of version " +
                           std::to_string(step.from + 1));
    }
}

void stamp(SQLite::Database& db) {
    SQLite::Statement format(db, "UPDATE PIPESCOPE_RUN SET value = ? WHERE key = 'format'");
    run(format, nlohmann::json{{"name", kTraceFormatName}, {"version", kTraceFormatVersion}}.dump());
    SQLite::Statement row(db, "UPDATE META_DATA_EXPORT SET value = ? WHERE name = 'PIPESCOPE_FORMAT_VERSION'");
    run(row, std::to_string(kTraceFormatVersion));
}
}  // namespace

void show_as_current(SQLite::Database& db, int version) {
    for (const Step& step : kSteps) {
        if (step.from >= version) {
            require_version(db, step);
            db.exec(step.as_views);
        }
    }
}

bool migrate_to_current(SQLite::Database& db, int version) {
    if (version == kTraceFormatVersion) {
        return false;
    }
    SQLite::Transaction transaction(db);
    for (const Step& step : kSteps) {
        if (step.from >= version) {
            require_version(db, step);
            db.exec(step.in_place);
        }
    }
    db.exec(create_tables_sql());
    db.exec(fill_enums_sql());
    stamp(db);
    transaction.commit();
    return true;
}
}  // namespace pipescope
