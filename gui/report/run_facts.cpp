#include "gui/report/run_facts.h"

#include "trace/sql_query.h"

#include <nlohmann/json.hpp>

namespace pipescope {
namespace {
QString shownFact(const SqlValue& value) {
    if (const auto* text = std::get_if<std::string>(&value)) {
        return QString::fromStdString(*text);
    }
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
        return QString::number(*integer);
    }
    if (const auto* real = std::get_if<double>(&value)) {
        return QString::number(*real);
    }
    return {};
}

std::vector<QStringList> rowsOf(const QString& path, const char* sql) {
    std::vector<QStringList> rows;
    try {
        for (const std::vector<SqlValue>& row :
             query_sql(path.toStdString(), sql, {.most_rows = 100, .cancelled = {}}).rows) {
            QStringList cells;
            for (const SqlValue& value : row) {
                cells << shownFact(value);
            }
            rows.push_back(cells);
        }
    } catch (const Error&) {
        rows.clear();  // not a database, or no such table
    }
    return rows;
}

QString plain(const nlohmann::json& value) {
    const std::string text = value.is_string() ? value.get<std::string>()
                                               : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    return QString::fromStdString(text);
}

/// Flattens {"machine": {"cpu": "x"}} to ("machine.cpu", "x").
void flatten(const QString& name, const nlohmann::json& value, std::vector<QStringList>& rows, int depth = 0) {
    constexpr int kDeepest = 4;
    if (!value.is_object() || depth == kDeepest) {
        rows.push_back({name, plain(value)});
        return;
    }
    for (const auto& [key, each] : value.items()) {
        const QString own = QString::fromStdString(key);
        flatten(name.isEmpty() ? own : name + QLatin1Char('.') + own, each, rows, depth + 1);
    }
}
}  // namespace

RunFacts readRunFacts(const QString& path) {
    RunFacts facts;
    for (const QStringList& row : rowsOf(path,
                                         "SELECT key, value FROM PIPESCOPE_RUN WHERE key IN ('environment', "
                                         "'recording_start') ORDER BY key DESC")) {
        const nlohmann::json value = nlohmann::json::parse(row[1].toStdString(), nullptr, false);
        if (!value.is_discarded()) {
            flatten(row[0] == QLatin1String("environment") ? QString() : QStringLiteral("recorded"), value,
                    facts.environment);
        }
    }
    facts.losses = rowsOf(path,
                          "SELECT source, sum(recorded), sum(dropped), sum(truncated), sum(openAtExit) "
                          "FROM PIPESCOPE_DROPS GROUP BY source ORDER BY source");
    facts.diagnostics = rowsOf(path, "SELECT severity, source, text FROM PIPESCOPE_DIAGNOSTIC ORDER BY severity DESC");
    return facts;
}
}  // namespace pipescope
