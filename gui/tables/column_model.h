#pragma once

#include "gui/document/trace_document.h"
#include "gui/style/number_format.h"
#include "gui/tables/table_export.h"
#include "schedule/timeline.h"

#include <QAbstractTableModel>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace pipescope {
/// One column of a table whose rows are `Row`.
template <class Row>
struct TableColumn {
    using Value = std::function<QVariant(const Row&)>;

    TableColumn(QString title_, const char* key_, Qt::Alignment side_, Value text_, Value plain_ = nullptr)
        : title(std::move(title_)), key(key_), side(side_), text(std::move(text_)), plain(std::move(plain_)) {}

    QString title;
    const char* key;            ///< in exports
    Qt::Alignment side;         ///< left for text, right for numbers; none: the view decides
    Value text;                 ///< for people
    Value plain;                ///< for exports and sorting; empty: like `text`
    bool isDifference = false;  ///< its header says of what
};

/// The column's values are differences between measured and simulated.
template <class Row>
TableColumn<Row> asDifference(TableColumn<Row> column) {
    column.isDifference = true;
    return column;
}

/// A read-only table that is described by its columns.
template <class Row>
class ColumnModel : public QAbstractTableModel {
public:
    explicit ColumnModel(std::vector<TableColumn<Row>> columns, QObject* parent)
        : QAbstractTableModel(parent), columns_(std::move(columns)) {}

    /// Two runs are compared: headers and keys of exports say after and before, not measured and simulated.
    void setTwoRuns(bool twoRuns) {
        if (twoRuns != twoRuns_) {
            twoRuns_ = twoRuns;
            Q_EMIT this->headerDataChanged(Qt::Horizontal, 0, columnCount() - 1);
        }
    }

    int columnCount(const QModelIndex& parent = {}) const override {
        return parent.isValid() ? 0 : static_cast<int>(columns_.size());
    }

    QVariant data(const QModelIndex& index, int role = Qt::DisplayRole) const override {
        if (!index.isValid() || index.row() >= rowCount()) {
            return {};
        }
        const TableColumn<Row>& column = columns_[static_cast<std::size_t>(index.column())];
        switch (role) {
            case Qt::DisplayRole: return column.text(rowOf(index));
            case kExportRole: return (column.plain ? column.plain : column.text)(rowOf(index));
            case Qt::TextAlignmentRole: return alignmentOf(column);
            default: return {};
        }
    }

    QVariant headerData(int section, Qt::Orientation orientation, int role = Qt::DisplayRole) const override {
        if (orientation == Qt::Vertical || section < 0 || section >= columnCount()) {
            return {};
        }
        const TableColumn<Row>& column = columns_[static_cast<std::size_t>(section)];
        switch (role) {
            case Qt::DisplayRole: return inWords(column.title);
            case kExportRole: return inWords(QString::fromLatin1(column.key));
            case Qt::TextAlignmentRole: return alignmentOf(column);
            case Qt::ToolTipRole: return column.isDifference ? signOfDifferences(twoRuns_) : QVariant();
            default: return {};
        }
    }

protected:
    /// `index` is valid.
    virtual Row rowOf(const QModelIndex& index) const = 0;
    bool twoRuns() const { return twoRuns_; }
    QString inWords(const QString& text) const { return twoRuns_ ? inWordsOfRuns(text) : text; }

private:
    static QVariant alignmentOf(const TableColumn<Row>& column) {
        return column.side ? QVariant(static_cast<int>(column.side | Qt::AlignVCenter)) : QVariant();
    }

    std::vector<TableColumn<Row>> columns_;
    bool twoRuns_ = false;
};

/// A ColumnModel that holds its rows.
template <class Row>
class RowModel : public ColumnModel<Row> {
public:
    using ColumnModel<Row>::ColumnModel;

    void setRows(std::vector<Row> rows) {
        this->beginResetModel();
        rows_ = std::move(rows);
        this->endResetModel();
    }
    /// Empty beyond the last row.
    std::optional<Row> rowAt(int row) const {
        return row >= 0 && row < rowCount() ? std::optional(rows_[static_cast<std::size_t>(row)]) : std::nullopt;
    }
    int rowCount(const QModelIndex& parent = {}) const override {
        return parent.isValid() ? 0 : static_cast<int>(rows_.size());
    }

protected:
    Row rowOf(const QModelIndex& index) const override { return rows_[static_cast<std::size_t>(index.row())]; }

private:
    std::vector<Row> rows_;
};

/// A plain value for exports; null while it is unknown.
template <class Value>
QVariant plainOrNull(const std::optional<Value>& value) {
    return value ? QVariant(*value) : QVariant::fromValue(nullptr);
}
inline QVariant plainOrNull(const std::optional<std::int64_t>& value) {
    return value ? QVariant::fromValue<qlonglong>(*value) : QVariant::fromValue(nullptr);
}

/// A figure as a bare number: a time as its ns.
template <class Number>
Number bareNumber(Number number) {
    return number;
}
inline std::int64_t bareNumber(Nanoseconds time) {
    return time.count();
}
template <class Value>
auto bareNumber(const std::optional<Value>& value) {
    return value ? std::optional(bareNumber(*value)) : std::nullopt;
}

/// A column of numbers, in plain form in exports. `of`: a member of the row, or a function.
template <class Row, class Of, class Format>
TableColumn<Row> numberColumn(const QString& title, const char* key, Of of, Format format) {
    return {title, key, Qt::AlignRight,
            [of, format](const Row& row) { return format(bareNumber(std::invoke(of, row))); },
            [of](const Row& row) { return plainOrNull(std::optional(bareNumber(std::invoke(of, row)))); }};
}

/// A column of numbers that may be unknown.
template <class Row, class Of, class Format>
TableColumn<Row> optionalColumn(const QString& title, const char* key, Of of, Format format) {
    return {title, key, Qt::AlignRight,
            [of, format](const Row& row) {
                const auto value = bareNumber(std::invoke(of, row));
                return value ? format(*value) : unknownValue();
            },
            [of](const Row& row) { return plainOrNull(bareNumber(std::invoke(of, row))); }};
}
}  // namespace pipescope
