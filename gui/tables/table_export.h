#pragma once

#include <QAbstractItemModel>
#include <QString>

namespace pipescope {
/// Role of a value as a file holds it: ns, bytes and shares as plain numbers, ids without words. Where a model does not
/// know it, what is shown is taken. As header data: the column's key, such as "measured_ns".
inline constexpr int kExportRole = Qt::UserRole + 100;

enum class TableFormat { csv, json };

/// By the ending of the file's name. Throws UsageError for another one.
TableFormat tableFormatOf(const QString& path);
/// All rows of the model, in its order: CSV with a line of keys (RFC 4180), or a JSON list of objects; numbers without
/// regard to the locale, an empty field or null where nothing is known.
QByteArray tableText(const QAbstractItemModel& model, TableFormat format);
/// Row by row into a file beside the target, which is then renamed; so that ten million rows take no memory.
/// Throws Error if it cannot be written.
void saveTable(const QAbstractItemModel& model, const QString& path);
}  // namespace pipescope
