#pragma once

#include <QTableView>
#include <QWidget>

class QLabel;

namespace pipescope {
class FilterLine;
class TableFilter;

/// A table of rows that are read and chosen, with a line above it to filter them. A click on a header sorts by it.
class FilteredTable : public QWidget {
    Q_OBJECT

public:
    /// `model` must outlive the table. `name` is for screen readers; `empty` is said while the model has no rows.
    FilteredTable(QAbstractItemModel& model, const QString& name, const QString& empty, QWidget* parent = nullptr);

    QTableView& table() const { return *table_; }
    FilterLine& line() const { return *line_; }
    /// Says something else while the model has no rows.
    void setEmptyText(const QString& text);
    /// What is said instead of rows; empty while there are some.
    QString hint() const;
    /// The rows shown, in their order.
    TableFilter& rows() const { return *rows_; }

Q_SIGNALS:
    /// A click or Return on a row; `index` is one of the model.
    void picked(const QModelIndex& index);

private:
    void refreshHint();

    QString empty_;
    QLabel* hint_;
    TableFilter* rows_;
    QTableView* table_;
    FilterLine* line_;
};

/// How all tables here look: dense rows, striped, no grid, chosen row by row. Numbers of all columns but the first,
/// which takes what is left, are as wide as they need.
void styleTable(QTableView& table);
/// Sorted once a header is clicked; until then in the model's own order.
void makeSortable(QTableView& table);
}  // namespace pipescope
