#pragma once

#include <QTableView>
#include <QWidget>

class QLabel;

namespace pipescope {
class FilterLine;
class TableFilter;

/// A table with a filter line above it. Clicking a header sorts by it.
class FilteredTable : public QWidget {
    Q_OBJECT

public:
    /// `model` must outlive the table. `name` is for screen readers; `empty` is shown while the model has no rows.
    FilteredTable(QAbstractItemModel& model, const QString& name, const QString& empty, QWidget* parent = nullptr);

    QTableView& table() const { return *table_; }
    FilterLine& line() const { return *line_; }
    void setEmptyText(const QString& text);
    /// The text shown instead of rows, or empty if there are rows.
    QString hint() const;
    /// The visible rows in their order.
    TableFilter& rows() const { return *rows_; }

Q_SIGNALS:
    /// Emitted for a click or Return on a row. `index` belongs to the model.
    void picked(const QModelIndex& index);

private:
    void refreshHint();

    QString empty_;
    QLabel* hint_;
    TableFilter* rows_;
    QTableView* table_;
    FilterLine* line_;
};

/// Common look of all tables: compact striped rows without a grid, whole rows selected.
void makeCompact(QTableView& table);
/// makeCompact(), and the first column takes the remaining width; the others fit their contents.
void styleTable(QTableView& table);
/// Sorts once a header is clicked; before that, rows are in model order.
void makeSortable(QTableView& table);
}  // namespace pipescope
