#pragma once

#include <QAbstractItemModel>
#include <QString>

class QWidget;

namespace pipescope {
/// Role of a value for files: ns, bytes and shares as plain numbers, ids without text. If a model does not provide it,
/// the displayed text is used. In header data: the column's key, such as "measured_ns".
inline constexpr int kExportRole = Qt::UserRole + 100;

enum class TableFormat { csv, json };

/// Format by the suffix of the file's name. Throws UsageError for another suffix.
TableFormat tableFormatOf(const QString& path);
/// All rows of the model in order: CSV with a header of keys (RFC 4180), or a JSON list of objects. Numbers ignore the
/// locale; unknown values are an empty field or null.
QByteArray tableText(const QAbstractItemModel& model, TableFormat format);
/// Writes row by row into a file beside the target and renames it, so that ten million rows need no memory. Throws
/// Error if it cannot be written.
void saveTable(const QAbstractItemModel& model, const QString& path);
/// Asks where to write the table, and writes it. `name` is proposed. Returns why that failed; empty if it did not, or
/// if the user decided otherwise.
QString askAndSaveTable(QWidget& parent, const QString& title, const QString& name, const QAbstractItemModel& model);
}  // namespace pipescope
