#include "gui/tables/table_export.h"

#include "base/error.h"
#include "gui/style/number_format.h"
#include "gui/style/save_file.h"

#include <nlohmann/json.hpp>

#include <QBuffer>
#include <QFileDialog>

#include <cmath>

namespace pipescope {
namespace {
QString keyOf(const QAbstractItemModel& model, int column) {
    const QVariant key = model.headerData(column, Qt::Horizontal, kExportRole);
    return key.isValid() ? key.toString() : model.headerData(column, Qt::Horizontal).toString().simplified();
}

QVariant valueOf(const QAbstractItemModel& model, int row, int column) {
    const QModelIndex index = model.index(row, column);
    const QVariant raw = index.data(kExportRole);
    return raw.isValid() ? raw : index.data(Qt::DisplayRole);
}

bool isReal(const QVariant& value) {
    return value.typeId() == QMetaType::Double;
}

QByteArray csvField(const QVariant& value) {
    if (isReal(value)) {
        return std::isfinite(value.toDouble()) ? QByteArray::number(value.toDouble(), 'g', 17) : QByteArray();
    }
    const QByteArray text = value.toString().toUtf8();
    if (text.indexOf(',') < 0 && text.indexOf('"') < 0 && text.indexOf('\n') < 0 && text.indexOf('\r') < 0) {
        return text;
    }
    return '"' + QByteArray(text).replace("\"", "\"\"") + '"';
}

QByteArray jsonText(const QString& text) {
    return QByteArray::fromStdString(
        nlohmann::json(text.toStdString()).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

QByteArray jsonValue(const QVariant& value) {
    if (!value.isValid() || value.isNull()) {
        return "null";
    }
    switch (value.typeId()) {
        case QMetaType::Int:
        case QMetaType::UInt:
        case QMetaType::LongLong:
        case QMetaType::ULongLong: return value.toString().toUtf8();
        case QMetaType::Double:
            return std::isfinite(value.toDouble()) ? QByteArray::number(value.toDouble(), 'g', 17) : "null";
        default: return jsonText(value.toString());
    }
}

void writeCsv(const QAbstractItemModel& model, QIODevice& out) {
    const int columns = model.columnCount();
    for (int column = 0; column < columns; ++column) {
        out.write((column > 0 ? "," : "") + csvField(keyOf(model, column)));
    }
    out.write("\n");
    for (int row = 0; row < model.rowCount(); ++row) {
        QByteArray line;
        for (int column = 0; column < columns; ++column) {
            line += (column > 0 ? "," : "") + csvField(valueOf(model, row, column));
        }
        out.write(line + '\n');
    }
}

void writeJson(const QAbstractItemModel& model, QIODevice& out) {
    const int columns = model.columnCount();
    QList<QByteArray> keys;
    for (int column = 0; column < columns; ++column) {
        keys << jsonText(keyOf(model, column));
    }
    out.write("[");
    for (int row = 0; row < model.rowCount(); ++row) {
        QByteArray line = row > 0 ? ",\n{" : "\n{";
        for (int column = 0; column < columns; ++column) {
            line += (column > 0 ? ", " : "") + keys[column] + ": " + jsonValue(valueOf(model, row, column));
        }
        out.write(line + '}');
    }
    out.write("\n]\n");
}

void write(const QAbstractItemModel& model, TableFormat format, QIODevice& out) {
    format == TableFormat::csv ? writeCsv(model, out) : writeJson(model, out);
}
}  // namespace

TableFormat tableFormatOf(const QString& path) {
    if (path.endsWith(QLatin1String(".csv"), Qt::CaseInsensitive)) {
        return TableFormat::csv;
    }
    if (path.endsWith(QLatin1String(".json"), Qt::CaseInsensitive)) {
        return TableFormat::json;
    }
    throw UsageError("'" + path.toStdString() + "' must end in .csv or .json, which selects the format");
}

QByteArray tableText(const QAbstractItemModel& model, TableFormat format) {
    QBuffer buffer;
    buffer.open(QIODevice::WriteOnly);
    write(model, format, buffer);
    return buffer.data();
}

void saveTable(const QAbstractItemModel& model, const QString& path) {
    const TableFormat format = tableFormatOf(path);
    saveFile(path, tableText(model, format));
}

QString askAndSaveTable(QWidget& parent, const QString& title, const QString& name, const QAbstractItemModel& model) {
    const QString path = QFileDialog::getSaveFileName(&parent, title, name, translated("Tables (*.csv *.json)"));
    try {
        if (!path.isEmpty()) {
            saveTable(model, path);
        }
    } catch (const Error& error) {
        return QString::fromUtf8(error.what());
    }
    return {};
}
}  // namespace pipescope
